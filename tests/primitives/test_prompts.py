"""Prompts."""

import datetime
from typing import Annotated, Any, Literal

import mcp_types
import pytest
from pydantic import Field

from django_mcp import Context, Icon, ImageContent, PromptMessage, TextContent
from django_mcp.primitives.prompt import strings_only
from django_mcp.primitives.schema import ArgumentError
from tests.primitives.makers import make_prompt


def plan(
    ctx: Context,
    city: str,
    nights: Annotated[int, Field(ge=1)] = 3,
    start: datetime.date | None = None,
    board: Literal["none", "half"] = "none",
) -> str:
    """Plan a trip.

    Args:
        city: Where to.
        nights: How long.
    """
    return f"{nights} nights in {city}"


def test_a_prompt_is_listed_with_its_arguments() -> None:
    definition = make_prompt(plan, name="plan-trip", title="Plan", icons=[Icon("https://example.com/a.png")]).definition
    mcp_types.Prompt.model_validate(definition)
    assert definition == {
        "name": "plan-trip",
        "title": "Plan",
        "description": "Plan a trip.",
        "icons": [{"src": "https://example.com/a.png"}],
        "arguments": [
            {"name": "city", "description": "Where to.", "required": True},
            {"name": "nights", "description": "How long.", "required": False},
            {"name": "start", "required": False},
            {"name": "board", "required": False},
        ],
    }


def test_a_prompt_without_arguments_lists_none() -> None:
    def hello() -> str: ...

    assert make_prompt(hello).definition == {"name": "hello"}


def test_the_title_of_an_argument_is_listed() -> None:
    def hello(city: Annotated[str, Field(title="City", description="Where.")]) -> str: ...

    assert make_prompt(hello).definition["arguments"] == [
        {"name": "city", "title": "City", "description": "Where.", "required": True}
    ]


def test_strings_become_what_the_function_is_annotated_with() -> None:
    arguments = make_prompt(plan).arguments.validate({"city": "Porto", "nights": "5", "start": "2026-05-01"})
    assert arguments == {"city": "Porto", "nights": 5, "start": datetime.date(2026, 5, 1), "board": "none"}


def test_strings_that_do_not_convert_are_refused_by_name(subtests: pytest.Subtests) -> None:
    for arguments, word in [
        ({}, "city"),
        ({"city": "a", "nights": "many"}, "nights"),
        ({"city": "a", "nights": "0"}, "nights"),
        ({"city": "a", "x": ""}, "x"),
    ]:
        with subtests.test(arguments=arguments, word=word), pytest.raises(ArgumentError, match=f"'{word}'"):
            make_prompt(plan).arguments.validate(arguments)


def test_an_argument_that_is_no_string_is_found(subtests: pytest.Subtests) -> None:
    for value in [1, 1.5, True, None, [], {}, ["a"]]:
        with subtests.test(value=value):
            assert strings_only({"a": "x", "b": value, "c": ""}) == ["b"]


IMAGE = ImageContent(b"\x89PNG", "image/png")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


def test_what_a_prompt_returns_becomes_messages(subtests: pytest.Subtests) -> None:
    for value, messages in [
        ("words", [user("words")]),
        (TextContent("words"), [user("words")]),
        (IMAGE, [{"role": "user", "content": IMAGE.to_wire()}]),
        (PromptMessage("words"), [user("words")]),
        (PromptMessage("words", "assistant"), [{**user("words"), "role": "assistant"}]),
        (["one", PromptMessage("two", "assistant")], [user("one"), {**user("two"), "role": "assistant"}]),
        (("one", "two"), [user("one"), user("two")]),
        ([], []),
    ]:
        with subtests.test(value=value, messages=messages):
            fields = make_prompt(plan).fields(value)
            mcp_types.GetPromptResult.model_validate(fields)
            assert fields == {"messages": messages, "description": "Plan a trip."}


def test_a_prompt_without_description_gives_none() -> None:
    def hello() -> str: ...

    assert make_prompt(hello).fields("a") == {"messages": [user("a")]}


def test_anything_else_is_refused_with_what_a_prompt_returns(subtests: pytest.Subtests) -> None:
    for value in [None, 3, {"role": "user"}, b"a", [None], ["a", 3]]:
        with subtests.test(value=value), pytest.raises(TypeError, match="str, PromptMessage or content blocks, not "):
            make_prompt(plan).fields(value)
