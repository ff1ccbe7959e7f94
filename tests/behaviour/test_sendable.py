"""What a tool gives back can be sent, or else nothing of what it did stays. Translations are text like any other."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from django_mcp import (
    AudioContent,
    Context,
    EmbeddedResource,
    ImageContent,
    MCPServer,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolError,
    ToolResult,
    prompt,
    resource,
    tool,
)
from tests.conversation import Conversation, accept

HALF = "half of a pair: \ud800"
TEXT = _("Monday")

UNSENDABLE: Mapping[str, Any] = {
    "a text": HALF,
    "the text of a result": ToolResult(text=HALF),
    "the data of a result": ToolResult({"a": HALF}),
    "meta": ToolResult(text="x", meta={"a": HALF}),
    "meta that is no JSON": ToolResult(text="x", meta={"a": object()}),
    "a block": TextContent(HALF),
    "a block among others": ["x", TextContent(HALF)],
    "a further block": ToolResult(text="x", content=[TextContent(HALF)]),
    "the name of a link": ResourceLink("x://y", name=HALF),
    "a resource": EmbeddedResource(ResourceContents(HALF, "x://y")),
    "a media type": ImageContent(b"x", HALF),
    "a sound": AudioContent(b"x", HALF),
    "a value": {"a": [HALF]},
    "not a number": {"a": float("nan")},
    "an infinity in a list": [1, float("inf")],
    "an object of a class": {"a": object()},
}
LAZY: Mapping[str, Any] = {
    "a text": TEXT,
    "the text of a result": ToolResult(text=TEXT),  # type: ignore[arg-type]
    "the data of a result": ToolResult({"day": TEXT}),
    "meta": ToolResult(text="Monday", meta={"day": TEXT}),
    "a block": TextContent(TEXT),  # type: ignore[arg-type]
    "a block among others": ["x", TextContent(TEXT)],  # type: ignore[arg-type]
    "a text among blocks": [TEXT, TextContent("x")],
    "a further block": ToolResult(text="x", content=[TextContent(TEXT)]),  # type: ignore[arg-type]
    "the name of a link": ResourceLink("x://y", name=TEXT),  # type: ignore[arg-type]
    "a value": {"day": [TEXT]},
    "a list": [TEXT],
}
ANNOTATIONS = (None, str, dict, list, Any, dict[str, Any], list[Any], list[str], dict[str, str], dict[str, list[str]])


def giving(value: Any, returns: Any, act: Callable[[], None] = lambda: None) -> Callable[[], Any]:
    """A function that acts, and returns *value*."""

    def give():  # type: ignore[no-untyped-def]
        act()
        return value

    if returns is not None:
        give.__annotations__["return"] = returns
    return give


def test_nothing_stays_of_a_call_whose_result_cannot_be_sent(server: MCPServer, talk: Conversation, rows: Any) -> None:
    names = {}
    for what, value in UNSENDABLE.items():
        for returns in ANNOTATIONS:
            name = f"make_{len(names)}"
            names[name] = f"{what} ({returns})"
            tool(server=server, name=name, description="Make.")(giving(value, returns, lambda: rows("x")))
    wrong = []
    for name, what in names.items():
        outcome = talk.call(name)
        if "result" not in outcome.response or not outcome.failed:
            wrong.append(f"{what} was sent: {outcome.response}")
        elif rows.written():
            wrong.append(f"{what} left a row")
            rows.forget()
    assert wrong == []


def test_a_translation_is_text_in_every_result(server: MCPServer, talk: Conversation) -> None:
    fitting = {str: TEXT, list[str]: [TEXT], dict[str, str]: {"day": TEXT}, dict[str, Any]: {"day": TEXT}, Any: TEXT}
    given = [*((None, value, what) for what, value in LAZY.items()), *((each, fitting[each], each) for each in fitting)]
    for number, (returns, value, _what) in enumerate(given):
        tool(server=server, name=f"tell_{number}", description="Tell.")(giving(value, returns))
    wrong = []
    for number, (_returns, _value, what) in enumerate(given):
        outcome = talk.call(f"tell_{number}")
        if "result" not in outcome.response or outcome.failed or "Monday" not in str(outcome.result):
            wrong.append(f"{what}: {outcome.response}")
    assert wrong == []


def test_a_translation_is_text_in_all_else_that_is_said(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server, description="Say.")
    def say(ctx: Context) -> str:
        ctx.report_progress(1, 2, TEXT)  # type: ignore[arg-type]
        ctx.log("info", {"day": TEXT})
        return "said"

    @tool(server=server, description="Ask.")
    def ask(ctx: Context) -> str:
        return str(ctx.confirm(TEXT))  # type: ignore[arg-type]

    @tool(server=server, description="Refuse.")
    def refuse() -> str:
        raise ToolError(TEXT)  # type: ignore[arg-type]

    @prompt(server=server, description="Plan.")
    def plan() -> list[PromptMessage]:
        return [PromptMessage(TextContent(TEXT))]  # type: ignore[arg-type]

    @prompt(server=server, description="Plan.")
    def outline() -> str:
        return TEXT  # type: ignore[return-value]

    @resource("days://today", server=server, description="Today.")
    def today() -> str:
        return TEXT  # type: ignore[return-value]

    said = {
        "progress": str(
            talk.request("tools/call", {"name": "say", "arguments": {}, "_meta": {"progressToken": 1}}).messages
        ),
        "an error": str(talk.call("refuse").response),
        "a prompt": str(talk.request("prompts/get", {"name": "plan"}).response),
        "a text for a prompt": str(talk.request("prompts/get", {"name": "outline"}).response),
        "a resource": str(talk.request("resources/read", {"uri": "days://today"}).response),
    }
    asked = talk.request("tools/call", {"name": "ask", "arguments": {}}, [accept(confirm=True)])
    said["a question"] = str(asked.asked)
    assert [what for what, text in said.items() if "Monday" not in text] == [], said
