"""Previews of tools that were made of forms and views, and of methods."""

from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse

from django_mcp import MCPServer, ModelResource, form_tool, register, tool, view_tool
from django_mcp.core import server as registry
from django_mcp.core.redaction import HIDDEN
from django_mcp.model_resources import registry as registration
from django_mcp.primitives.schema import ArgumentError
from tests.model_resources.looking import look

NOBODY: Any = AnonymousUser()


class Order(forms.Form):
    """An order."""

    seats = forms.IntegerField()
    note = forms.CharField(required=False)


class Profile(forms.ModelForm):
    """A profile."""

    api_token = forms.CharField(required=False)

    class Meta:
        model = User
        fields = ("email", "first_name")


def never(ctx: Any, form: Any) -> None:
    raise AssertionError


def test_that_of_a_form_takes_its_fields_as_they_came(server: MCPServer, db: None) -> None:
    form_tool(Order, server=server, handle=never, preview=lambda seats, note="": {"seats": seats, "note": note})
    assert look(server, NOBODY, "order", seats=3) == {"seats": 3, "note": ""}
    with pytest.raises(ImproperlyConfigured, match="preview takes seat, which the tool does not"):
        form_tool(Order, name="other", server=server, handle=never, preview=lambda seat: seat)


def test_that_of_a_form_is_by_default_what_was_filled_in(server: MCPServer, db: None) -> None:
    form_tool(Order, server=server, handle=never)
    assert look(server, NOBODY, "order", seats=3, note="By the window") == {
        "verb": "submit",
        "object": "Order",
        "changes": [
            {"field": "seats", "label": "Seats", "after": 3},
            {"field": "note", "label": "Note", "after": "By the window"},
        ],
    }


def test_nobody_is_asked_about_what_the_form_refuses(server: MCPServer, db: None) -> None:
    form_tool(Order, server=server, handle=never)
    with pytest.raises(ArgumentError, match="seats"):
        look(server, NOBODY, "order", seats="many")


def test_that_of_a_form_hides_secrets_and_what_was_there_before(server: MCPServer, db: None) -> None:
    ada = User.objects.create_user("ada", email="ada@before.example", first_name="Ada")
    form_tool(Profile, server=server, lookup="pk", queryset=lambda ctx: User.objects.all(), permission=None)
    shown = look(server, NOBODY, "update_profile", pk=ada.pk, email="ada@after.example", api_token="hush")
    assert shown == {
        "verb": "update",
        "object": f"User {ada.pk}",
        "changes": [
            {"field": "email", "label": "Email address", "after": "ada@after.example", "hidden": True},
            {"field": "api_token", "label": "Api token", "after": HIDDEN, "hidden": True},
        ],
    }
    ada.refresh_from_db()
    assert ada.email == "ada@before.example"


def test_that_of_a_form_shows_what_was_there_where_the_declaration_of_the_model_does(
    server: MCPServer, db: None
) -> None:
    @register(User, server=server)
    class Users(ModelResource):
        fields = ("email",)
        view_permission = None

    assert Users
    ada = User.objects.create_user("ada", email="ada@before.example", first_name="Ada")
    form_tool(Profile, server=server, lookup="pk", permission=None)
    given = {"email": "ada@after.example", "first_name": "Ada", "api_token": "hush"}
    shown = look(server, NOBODY, "update_profile", pk=ada.pk, **given)
    assert shown["changes"] == [
        {
            "field": "email",
            "label": "Email address",
            "before": "ada@before.example",
            "after": "ada@after.example",
        },
        {"field": "first_name", "label": "First name", "after": "Ada", "hidden": True},
        {"field": "api_token", "label": "Api token", "after": HIDDEN, "hidden": True},
    ]


def test_that_of_a_set_of_forms_numbers_them(server: MCPServer, db: None) -> None:
    form_tool(forms.formset_factory(Order), server=server, handle=never)
    shown = look(server, NOBODY, "orders", orders=[{"seats": 1}, {"seats": 2, "note": "x"}])
    assert [(each["label"], each["after"]) for each in shown["changes"]] == [
        ("Seats (1)", 1),
        ("Seats (2)", 2),
        ("Note (2)", "x"),
    ]


def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    raise AssertionError


def test_that_of_a_view_takes_the_variables_of_its_path(server: MCPServer, db: None) -> None:
    def offer(name: str, preview: Callable[..., Any]) -> None:
        view_tool(cancel, name=name, server=server, method="POST", path="orders/<int:pk>/cancel/", preview=preview)

    offer("cancel", lambda pk: f"Order {pk} would be cancelled.")
    assert look(server, NOBODY, "cancel", pk=7) == {"text": "Order 7 would be cancelled."}
    offer("wrong", lambda key: key)
    tools: Any = server.tools
    assert "preview takes key, which the tool does not" in str(tools["wrong"].find_failure())
    assert tools["cancel"].find_failure() is None


class Desk:
    """Whose methods are tools."""

    def name(self) -> str:
        return "desk"

    def preview_close(self, hour: int) -> str:
        return f"The {self.name()} would close at {hour}."

    def preview_wrong(self, hur: int) -> str:
        raise AssertionError


def start(server: MCPServer, monkeypatch: pytest.MonkeyPatch, preview: Any) -> None:
    """Decorate a method as in the body of the class, before the start, but for an endpoint that a test has."""
    monkeypatch.setattr(registry, "is_started", False)

    def close(self: Desk, hour: int) -> str:
        raise AssertionError

    close.__qualname__ = "Desk.close"
    close.__module__ = __name__
    tool(server=server, preview=preview)(close)
    monkeypatch.setattr(Desk, "close", close, raising=False)
    registration.build(server)


def test_that_of_a_method_may_be_a_method(server: MCPServer, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    start(server, monkeypatch, Desk.preview_close)
    assert look(server, NOBODY, "close", hour=5) == {"text": "The desk would close at 5."}


def test_a_name_that_a_method_does_not_have_is_refused_at_the_start(
    make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for kind, preview in {"function": lambda hur: hur, "method": Desk.preview_wrong}.items():
        with (
            subtests.test(kind),
            pytest.raises(ImproperlyConfigured, match="preview takes hur, which the tool does not"),
        ):
            start(make_server(kind), monkeypatch, preview)
