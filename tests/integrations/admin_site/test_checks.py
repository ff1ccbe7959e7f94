"""System checks of ``admin_tools``: each finds its mistake, and the back office as it is has none."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import User
from django.core import checks
from django.test import override_settings

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.auth.api_keys import APIKeyAuthentication
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.session import SessionAuthentication
from tests.integrations.admin_site.office import own_site

Make = Callable[..., Any]
IDS = ("django_mcp.E078", "django_mcp.E079", "django_mcp.W065", "django_mcp.W066", "django_mcp.W067")


def found(**options: Any) -> list[checks.CheckMessage]:
    return [message for message in checks.run_checks(**options) if message.id in IDS]


def only(**options: Any) -> checks.CheckMessage:
    (message,) = found(**options)
    return message


class Plain(ModelAdmin):
    """Has nothing to hide."""

    search_fields = ("name", "city__name")
    list_filter = ("stars",)


@pytest.mark.django_db
def test_an_admin_as_it_should_be_has_no_messages(make_server: Make) -> None:
    with own_site({Hotel: Plain, City: ModelAdmin}) as own:
        admin_tools(own, server=make_server("office", authentication=[OAuth2Authentication()]))
        assert not found(databases=["default"], include_deployment_checks=True)


def test_an_admin_without_urls_is_reported(make_server: Make) -> None:
    own = AdminSite("nowhere")
    own.register(City)
    admin_tools(own, server=make_server("office"))
    message = only()
    assert message.id == "django_mcp.E078"
    assert "'nowhere'" in message.msg


@pytest.mark.parametrize(
    ("options", "path", "words"),
    [
        ({"search_fields": ["name", "=bookings__user__password"]}, "=bookings__user__password", "no 'query'"),
        ({"list_filter": ["stars", "bookings__user__password"]}, "bookings__user__password", "not have this filter"),
    ],
)
def test_a_search_or_filter_that_reaches_a_hidden_field_is_reported(
    make_server: Make, options: Any, path: str, words: str
) -> None:
    with own_site({Hotel: type("HotelAdmin", (ModelAdmin,), options)}) as own:
        admin_tools(own, server=make_server("office"))
        message = only()
        assert message.id == "django_mcp.W065"
        assert repr(path) in message.msg
        assert words in message.msg
        assert "show=['travel.hotel.bookings__user__password']" in str(message.hint)


def test_a_field_that_the_site_opened_may_be_searched(make_server: Make) -> None:
    options = {"search_fields": ["bookings__user__password"], "list_filter": ["bookings__user__password"]}
    with own_site({Hotel: type("HotelAdmin", (ModelAdmin,), options)}) as own:
        server = make_server("office")
        admin_tools(own, server=server, show=["auth.user.password"])
        assert not found()
        assert {"query", "filters"} <= server.tools["search_hotels"].definition["inputSchema"]["properties"].keys()


class Attached(ModelAdmin):
    """Its form asks the row for what only a saved one has."""

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None and obj.pk is None:
            raise ValueError("which hotel?")
        return super().get_form(request, obj, change, **kwargs)


@pytest.mark.django_db
def test_a_form_that_needs_a_row_is_reported_where_the_database_may_be_asked(make_server: Make) -> None:
    with own_site({Hotel: Attached}) as own:
        admin_tools(own, server=make_server("office"))
        assert not found()
        message = only(databases=["default"])
        assert message.id == "django_mcp.W066"
        assert "Attached cannot be made without a row (ValueError: which hotel?)" in message.msg


@pytest.mark.django_db
def test_a_form_is_not_asked_for_where_nothing_writes(make_server: Make) -> None:
    with own_site({Hotel: Attached}) as own:
        admin_tools(own, server=make_server("office"), write=False)
        assert not found(databases=["default"])


@pytest.mark.parametrize("kinds", [[APIKeyAuthentication], [SessionAuthentication, APIKeyAuthentication]])
def test_requesters_who_decide_and_whose_clients_never_sign_in_are_reported(make_server: Make, kinds: Any) -> None:
    with own_site({City: ModelAdmin}) as own:
        server: MCPServer = make_server("office", authentication=[kind() for kind in kinds])
        admin_tools(own, server=server)
        assert not found()
        message = only(include_deployment_checks=True)
        assert message.id == "django_mcp.W067"
        assert "APIKeyAuthentication" in message.msg


@pytest.mark.parametrize("options", [{"approval": "other"}, {"write": False, "exclude": []}])
def test_keys_are_fine_where_another_person_decides_or_nothing_is_written(make_server: Make, options: Any) -> None:
    with own_site({City: ModelAdmin}) as own:
        server: MCPServer = make_server("office", authentication=[APIKeyAuthentication()])
        admin_tools(own, server=server, **options)
        assert not found(include_deployment_checks=True)


@pytest.mark.django_db
def test_a_user_model_is_not_written_by_a_check(make_server: Make) -> None:
    with own_site({Hotel: Plain}) as own, override_settings():
        admin_tools(own, server=make_server("office"))
        found(databases=["default"])
    assert not User.objects.exists()
