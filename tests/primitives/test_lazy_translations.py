"""Lazy translations in what functions return: they are words, wherever they stand."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy
from pydantic import BaseModel
from typing_extensions import TypedDict

from django_mcp import Context, MCPServer, PromptMessage, TextContent, ToolResult, prompt, resource, tool
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db
YES = gettext_lazy("Yes")


class Label(BaseModel):
    label: str = ""
    more: Any = None


class Outer(BaseModel):
    inner: Label
    every: list[Label] = []


@dataclasses.dataclass
class Data:
    label: str


class Typed(TypedDict):
    label: str


def labelled() -> Label:
    return Label.model_construct(label=YES)


SHOWN = {"label": "Yes", "more": None}
RETURNED: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "dict": (lambda: {"a": YES}, {"a": "Yes"}, None),
    "key": (lambda: {YES: 1}, {"Yes": 1}, None),
    "nested": (lambda: {"a": [{"b": (YES,)}]}, {"a": [{"b": ["Yes"]}]}, None),
    "set": (lambda: {"a": {YES}}, {"a": ["Yes"]}, None),
    "formatted": (lambda: {"a": format_lazy("{}!", YES)}, {"a": "Yes!"}, None),
    "model": (labelled, SHOWN, Label),
    "any": (lambda: Label(more={"a": [YES]}), {"label": "", "more": {"a": ["Yes"]}}, Label),
    "outer": (
        lambda: Outer.model_construct(inner=labelled(), every=[labelled()]),
        {"inner": SHOWN, "every": [SHOWN]},
        Outer,
    ),
    "models in a dict": (lambda: {"m": labelled()}, {"m": SHOWN}, dict[str, Label]),
    "models in a list": (lambda: [labelled()], [SHOWN], list[Label]),
    "dataclass": (lambda: Data(YES), {"label": "Yes"}, Data),
    "typed dict": (lambda: Typed(label=YES), {"label": "Yes"}, Typed),
}


def returning(make: Callable[[], Any], annotation: Any = None) -> Callable[..., Any]:
    def call(ctx: Context) -> Any:
        return make()

    call.__annotations__["return"] = annotation or Any
    return call


@pytest.mark.parametrize("name", RETURNED)
def test_a_result_and_a_resource_have_the_words(server: MCPServer, name: str) -> None:
    make, expected, annotation = RETURNED[name]
    tool(returning(make), name="plain", server=server)
    tool(returning(lambda: ToolResult(make())), name="result", server=server)
    resource("test://words", server=server)(returning(make))
    client = MCPClient(AnonymousUser(), server=server, protocol_version="modern")
    assert json.loads(client.call("plain").text) == expected
    assert client.call("result").structured == expected
    assert client.read("test://words").json == expected
    if annotation is not None:
        tool(returning(make, annotation), name="annotated", server=server)
        assert client.call("annotated").structured == expected


def test_messages_of_a_prompt_and_of_a_question_have_the_words(server: MCPServer) -> None:
    @prompt(server=server)
    def greet() -> list[Any]:
        """Greet."""
        return [PromptMessage(YES), PromptMessage(TextContent(YES)), YES]  # type: ignore[arg-type]

    @tool(server=server)
    def ask(ctx: Context) -> str:
        """Ask."""
        properties = {"a": {"type": "string", "title": YES}}
        ctx.sample([PromptMessage(YES)], system_prompt=YES)  # type: ignore[arg-type]
        return str(ctx.elicit(YES, {"type": "object", "properties": properties}).data["a"])  # type: ignore[arg-type]

    client = MCPClient(AnonymousUser(), server=server, protocol_version="modern")
    assert client.prompt("greet").text == "Yes\nYes\nYes"
    assert client.call("ask", answers=["Hello.", "x"]).text == "x"


@pytest.mark.parametrize(
    ("value", "place"),
    [({"rows": [{"a": 1.5, "b": float("nan")}], "s": "NaN"}, "rows[0].b is nan"), ([float("inf")], "[0] is inf")],
)
def test_a_number_that_json_does_not_have_is_named_where_it_stands(server: MCPServer, value: Any, place: str) -> None:
    tool(returning(lambda: value), name="count", server=server)
    result = MCPClient(AnonymousUser(), server=server, protocol_version="modern").call("count")
    assert f"{place}, which JSON cannot express; return None instead" in str(result.raised)
