"""Prompts, from the decorator to the messages."""

from typing import Annotated, Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from pydantic import Field

from django_mcp import (
    Context,
    EmbeddedResource,
    ImageContent,
    MCPServer,
    PromptMessage,
    ResourceContents,
    TextContent,
    ToolError,
    prompt,
    resource,
)
from tests.behaviour.afresh import afresh
from tests.clients import Client


def test_a_prompt_is_listed_with_its_arguments(server: MCPServer, client: Client) -> None:
    @prompt(server=server, name="plan-vacation", title="Plan a vacation")
    def plan(destination: str, budget: Annotated[int, Field(title="Budget", description="In euros.")] = 500) -> str:
        """Plan it.

        Args:
            destination: Where to.
        """
        return f"{destination} for {budget + 1}"

    assert client.list("prompts/list") == [
        {
            "name": "plan-vacation",
            "title": "Plan a vacation",
            "description": "Plan it.",
            "arguments": [
                {"name": "destination", "description": "Where to.", "required": True},
                {"name": "budget", "title": "Budget", "description": "In euros.", "required": False},
            ],
        }
    ]
    result = client.request(
        "prompts/get", {"name": "plan-vacation", "arguments": {"destination": "Oslo", "budget": "700"}}
    ).result
    assert result["description"] == "Plan it."
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "Oslo for 701"}}]


def test_an_empty_argument_of_a_prompt_was_not_given(server: MCPServer, client: Client) -> None:
    """Forms of clients send all fields, also those that nobody filled in."""

    @prompt(server=server)
    def plan(destination: str, budget: int = 500) -> str:
        return f"{destination} for {budget}"

    answer = client.request("prompts/get", {"name": "plan", "arguments": {"destination": "Oslo", "budget": ""}})
    assert answer.result["messages"][0]["content"]["text"] == "Oslo for 500"
    answer = client.request("prompts/get", {"name": "plan", "arguments": {"destination": ""}})
    assert answer.code == -32602
    assert "Missing argument 'destination'" in answer.error["message"]


def test_messages_may_be_of_either_role_and_any_content(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for colour in ["sync", "async"]:
        with subtests.test(colour=colour), afresh():

            def talk(ctx: Context) -> list[Any]:
                return [
                    "plain words",
                    PromptMessage("And now?", role="assistant"),
                    TextContent("more"),
                    ImageContent(b"x", "image/png"),
                    PromptMessage(EmbeddedResource(ResourceContents("t", "file:///t"))),
                    ctx.method,
                ]

            async def atalk(ctx: Context) -> list[Any]:
                return talk(ctx)

            prompt(server=server, name="talk")(talk if colour == "sync" else atalk)
            messages = client.request("prompts/get", {"name": "talk"}).result["messages"]
            assert [message["role"] for message in messages] == ["user", "assistant", "user", "user", "user", "user"]
            assert [message["content"]["type"] for message in messages] == [
                "text",
                "text",
                "text",
                "image",
                "resource",
                "text",
            ]


def test_a_wrong_request_is_invalid_params_in_words(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    @prompt(server=server)
    def plan(days: int) -> str:
        if days == 13:
            raise ToolError("Thirteen is unlucky.")
        return "x"

    prompt(server=server, name="hidden", permission="auth.view_user")(lambda: "never")
    cases = [
        ({"name": "nope"}, "Unknown prompt: 'nope'"),
        ({"name": "hidden"}, "Unknown prompt: 'hidden'"),
        ({}, '"params.name" must be a string'),
        ({"name": "plan"}, "Missing argument 'days'"),
        ({"name": "plan", "arguments": {"days": "many"}}, "'days'"),
        ({"name": "plan", "arguments": {"days": 3}}, "Arguments of a prompt must be strings. Not a string: 'days'."),
        ({"name": "plan", "arguments": {"days": "3", "dais": "3"}}, "Did you mean 'days'?"),
        ({"name": "plan", "arguments": ["3"]}, "must be an object"),
        ({"name": "plan", "arguments": {"days": "13"}}, "Thirteen is unlucky."),
    ]
    for params, says in cases:
        with subtests.test(params=params, says=says):
            answer = client.request("prompts/get", params)
            assert answer.code == -32602
            assert answer.status == (400 if client.is_modern else 200)
            assert says in answer.error["message"]
            assert [listed["name"] for listed in client.list("prompts/list")] == ["plan"]


def test_a_prompt_that_returns_something_else_is_our_fault(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    prompt(server=server, name="odd")(lambda: 5)
    assert client.request("prompts/get", {"name": "odd"}).code == -32603
    assert "a prompt must return str" in caplog.text


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionDenied("because hunter2"), "Unknown prompt: 'plan'."),
        (ValidationError({"days": ["Too many."]}), "days: Too many."),
        (ToolError("Ask for fewer days."), "Ask for fewer days."),
    ],
)
def test_errors_of_a_prompt_are_told_as_those_of_a_tool(
    server: MCPServer, client: Client, error: Exception, says: str
) -> None:
    @prompt(server=server)
    def plan() -> str:
        raise error

    answer = client.request("prompts/get", {"name": "plan"})
    assert (answer.code, answer.error["message"]) == (-32602, says)


def test_a_prompt_embeds_resources_as_the_caller_reads_them(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for colour in ["sync", "async"]:
        with subtests.test(colour=colour), afresh():

            @resource("test://{city}/guide", server=server, mime_type="text/markdown")
            def guide(city: str) -> str:
                return f"All of {city}."

            @resource("test://now", server=server)
            async def now(ctx: Context) -> dict[str, str]:
                return {"method": ctx.method}

            def plan(ctx: Context) -> list[Any]:
                return ["Read this:", *map(EmbeddedResource, ctx.read("test://Köln/guide") + ctx.read("test://now"))]

            async def aplan(ctx: Context) -> list[Any]:
                found = [*await ctx.aread("test://Köln/guide"), *await ctx.aread("test://now")]
                return ["Read this:", *map(EmbeddedResource, found)]

            prompt(server=server, name="plan")(plan if colour == "sync" else aplan)
            messages = client.request("prompts/get", {"name": "plan"}).result["messages"]
            assert [message["content"].get("resource") for message in messages] == [
                None,
                {"uri": "test://K%C3%B6ln/guide", "mimeType": "text/markdown", "text": "All of Köln."},
                {"uri": "test://now", "mimeType": "application/json", "text": '{"method":"prompts/get"}'},
            ]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("uri", ["test://secret", "test://nowhere", "test://gone", "%"])
def test_a_resource_that_the_caller_may_not_read_cannot_be_embedded(
    server: MCPServer, client: Client, colour: str, uri: str
) -> None:
    resource("test://secret", server=server, name="secret", permission="auth.view_user")(lambda: "hunter2")

    @resource("test://gone", server=server)
    def gone() -> str:
        raise Http404("hunter2")

    def plan(ctx: Context) -> EmbeddedResource:
        return EmbeddedResource(ctx.read(uri)[0])

    async def aplan(ctx: Context) -> EmbeddedResource:
        return EmbeddedResource((await ctx.aread(uri))[0])

    prompt(server=server, name="plan")(plan if colour == "sync" else aplan)
    error = client.request("prompts/get", {"name": "plan"}).error
    assert (error["message"], error["data"]) == ("Resource not found", {"uri": "%" if uri == "%" else uri})


def test_reading_on_the_event_loop_is_refused_in_words(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @prompt(server=server)
    async def plan(ctx: Context) -> str:
        return str(ctx.read("test://x"))

    assert client.request("prompts/get", {"name": "plan"}).code == -32603
    assert "await ctx.aread" in caplog.text
