"""Lazy translations in what is told of tools, resources and prompts: in the language of the request."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.test import override_settings
from django.utils.translation import get_language, gettext, gettext_lazy
from pydantic import Field

from django_mcp import Context, MCPServer, prompt, resource, tool
from tests.clients import MODERN, Client

YES, NO, MONDAY = gettext_lazy("Yes"), gettext_lazy("No"), gettext_lazy("Monday")  # words that Django has catalogues of


def offer(server: MCPServer) -> None:
    def answer(day: Annotated[str, Field(title=NO, description=MONDAY)]) -> str:
        return f"{gettext('Yes')}, {day}"

    tool(server=server, name="answer", title=YES, description=NO)(answer)
    prompt(server=server, name="answer", title=YES, description=NO)(answer)
    resource("test://answer", server=server, name="answer", title=YES, description=NO)(lambda: "x")
    resource("test://{day}", server=server, name="of_day", title=YES, description=NO)(lambda day: day)


def listed(client: Client, method: str, language: str | None) -> dict[str, Any]:
    """The first entry of a list, asked for in a language."""
    result = client.request(method, headers={"accept-language": language}).result
    return next(iter(each for each in result.values() if isinstance(each, list)))[0]


LISTS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
PREFERENCES = [
    ("de", "Ja", "Nein"),
    ("fr-CA, de;q=0.5", "Oui", "Non"),
    ("tlh, es;q=0.9", "Sí", "No"),
    (None, "Yes", "No"),
]


@pytest.mark.parametrize("method", LISTS)
def test_a_list_is_told_in_the_language_of_each_request(server: MCPServer, client: Client, method: str) -> None:
    offer(server)
    for _ in range(2):  # the second time from what was kept of the first
        for language, yes, no in PREFERENCES:
            entry = listed(client, method, language)
            assert (entry["title"], entry["description"]) == (yes, no)


def test_arguments_are_described_in_the_language_of_the_request(server: MCPServer, client: Client) -> None:
    offer(server)
    day = {"title": "Nein", "description": "Montag"}
    assert listed(client, "tools/list", "de")["inputSchema"]["properties"]["day"] == {**day, "type": "string"}
    assert listed(client, "prompts/list", "de")["arguments"] == [{"name": "day", **day, "required": True}]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_prompt_is_written_in_the_language_of_the_request(server: MCPServer, client: Client, colour: str) -> None:
    def answer(day: str) -> str:
        return f"{gettext('Yes')}, {day}"

    async def aanswer(day: str) -> str:
        return answer(day)

    prompt(server=server, name="answer", description=NO)(answer if colour == "sync" else aanswer)
    params = {"name": "answer", "arguments": {"day": "x"}}
    for language, yes, no in PREFERENCES:
        result = client.request("prompts/get", params, headers={"accept-language": language}).result
        assert (result["messages"][0]["content"]["text"], result["description"]) == (f"{yes}, x", no)
    assert get_language() == "en"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_tool_can_ask_for_the_language(server: MCPServer, client: Client, colour: str) -> None:
    def tell(ctx: Context) -> str:
        return ctx.language

    async def atell(ctx: Context) -> str:
        return ctx.language

    tool(server=server, name="tell")(tell if colour == "sync" else atell)
    answer = client.request("tools/call", {"name": "tell"}, headers={"accept-language": "pt-br"})
    assert answer.text == "pt-br"


def test_a_list_with_translated_words_is_not_for_shared_caches(
    make_server: Callable[..., MCPServer], edge: str, open_database: None
) -> None:
    translated, plain = make_server("translated"), make_server("plain")
    offer(translated)
    tool(server=plain, name="answer")(lambda: "x")
    scopes = [Client(each, MODERN, edge).request("tools/list").result["cacheScope"] for each in (translated, plain)]
    assert scopes == ["private", "public"]


def test_a_page_is_kept_for_each_language_of_the_site_and_no_other(server: MCPServer, client: Client) -> None:
    offer(server)
    with override_settings(LANGUAGES=[("en", "English"), ("de", "German")]):
        for language in ("de", "de-at", "fr", "xx", "en", None, "de;q=0.1"):
            listed(client, "tools/list", language)
        assert sorted(server.pages) == [("tools", -1, "de", False), ("tools", -1, "en", False)]
