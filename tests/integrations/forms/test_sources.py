"""Sources of form tools of other packages: here a wizard, whose steps are the forms of one call."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User

from django_mcp import Context, MCPServer
from django_mcp.core.decorators import register_at
from django_mcp.integrations.forms import DeclaredForm
from django_mcp.model_resources.form_sources import FormSource, FormValues, ToolSource
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import unknown_argument
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author
from tests.model_resources.looking import call_of, look

pytestmark = pytest.mark.usefixtures("people")
Made = Callable[..., Reader]


class GuestForm(forms.Form):
    name = forms.CharField(max_length=10)


class WishForm(forms.Form):
    author = forms.ModelChoiceField(
        Author.objects.all(), label="Favourite author", to_field_name="name", required=False
    )
    copies = forms.IntegerField(min_value=1, initial=1)


class Order:
    """Order books of an author."""

    steps: Mapping[str, type[forms.Form]] = {"guest": GuestForm, "wish": WishForm}

    def __init__(self, filled: Mapping[str, Any]) -> None:
        self.filled = filled

    def done(self) -> str:
        guest, wish = (form.cleaned_data for form in self.filled.values())
        return f"{wish['copies']} of {wish['author']} for {guest['name']}"


class WizardSource(ToolSource):
    """The steps of a wizard, each an object with the fields of its form."""

    noun = "order"

    def __init__(self, wizard: Any, label: str) -> None:
        self._made = wizard
        self._steps = {
            name: FormSource(step, None, MAX_BYTES, label, changes=False) for name, step in wizard.steps.items()
        }

    def schema(self, server: Any) -> dict[str, Any]:
        steps = {name: step.schema(server) for name, step in self._steps.items()}
        return {"type": "object", "properties": steps, "required": [*steps], "additionalProperties": False}

    def _given(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: given[name] for name in self._steps if isinstance(given.get(name), dict)}

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> Order:
        wrong = [unknown_argument([name], [*self._steps]) for name in given.keys() - self._steps.keys()]
        wrong += [f"Argument {name!r} must be an object." for name in self._steps if name not in self._given(given)]
        if wrong:
            raise ArgumentError(wrong)
        made: Order = self._made({name: step.bind_form(ctx, given[name], None) for name, step in self._steps.items()})
        return made

    def resolve_choices(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        values = self._given(given)
        return {name: self._steps[name].resolve_choices(ctx, values[name], None) for name in values}

    def forms(self, form: Any) -> list[forms.BaseForm]:
        return [*form.filled.values()]

    def field_names(self, form: Any) -> list[str]:
        return [*form.fields]

    def form_values(self, form: Any, given: Mapping[str, Any]) -> FormValues:
        return [(step, given[name]) for name, step in form.filled.items()]


def wizard_tool(server: MCPServer, **options: Any) -> None:
    """A function as a package for wizards would offer it, like ``form_tool``."""

    def make(target: Any) -> Any:
        source = WizardSource(Order, "wizard_tool(Order)")
        return DeclaredForm(Order, target, source, handle="done", **options).tools

    register_at(server, make)


@pytest.fixture
def hermits(people: Any) -> Author:
    return Author.objects.create(name="Hermit")


def test_a_package_offers_its_own_kind_of_form_as_a_tool(server: MCPServer, reader: Made, hermits: Author) -> None:
    wizard_tool(server)
    ann = reader("ann")
    (tool,) = ann.list("tools/list")
    assert (tool["name"], tool["description"]) == ("order", "Order books of an author.")
    assert tool["inputSchema"]["required"] == ["guest", "wish"]
    assert tool["inputSchema"]["properties"]["guest"]["required"] == ["name"]
    called = ann.call("order", guest={"name": "Ann"}, wish={"author": hermits.name, "copies": 2})
    assert called.text == "2 of Hermit <author@example.com> for Ann"


def test_its_errors_are_those_of_forms(server: MCPServer, reader: Made) -> None:
    wizard_tool(server)
    ann = reader("ann")
    assert ann.problem("order", guest={"name": "Ann"}) == "Argument 'wish' must be an object."
    assert ann.problem("order", guest={"name": "Ann"}, wish={}, pay={}) == (
        "Unknown argument 'pay'. It takes 'guest', 'wish'."
    )
    assert "at most 10 characters" in ann.problem("order", guest={"name": "A" * 11}, wish={})
    assert "'author'" in ann.problem("order", guest={"name": "Ann"}, wish={"author": "Nobody"})


def test_approvers_see_the_values_of_all_its_forms(server: MCPServer, hermits: Author) -> None:
    wizard_tool(server)
    shown = look(
        server, User.objects.get(username="ann"), "order", guest={"name": "Ann"}, wish={"author": hermits.name}
    )
    assert shown == {
        "verb": "submit",
        "object": "Order",
        "changes": [
            {"field": "name", "label": "Name (1)", "after": "Ann"},
            {"field": "author", "label": "Favourite author (2)", "after": hermits.pk},
        ],
    }


def test_an_approval_names_the_rows_that_its_forms_choose(server: MCPServer, hermits: Author) -> None:
    wizard_tool(server)
    tool = server.tools["order"]
    assert tool.rows_of is not None
    context = call_of(server, User.objects.get(username="ann"))
    rows = tool.rows_of(context, {"given": {"guest": {"name": "Ann"}, "wish": {"author": hermits.name}}})
    assert rows == {"guest": {}, "wish": {"author": {hermits}}}
