"""Blocks that only sampling knows, and reading what a client's model said."""

import json

import pytest

from django_mcp import AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent
from django_mcp.protocol.content import Content, read_content

BLOCKS: list[Content] = [
    TextContent("words"),
    TextContent(""),
    ImageContent(b"\x89PNG", "image/png"),
    AudioContent(b"wave", "audio/wav"),
    ToolUseContent("u1", "add", {"of": [1, 2]}),
]


def test_a_block_is_read_as_it_was_sent(subtests: pytest.Subtests) -> None:
    for block in BLOCKS:
        with subtests.test(block=block):
            assert read_content(json.loads(json.dumps(block.to_wire()))) == block


def test_what_a_block_says_besides_is_left_aside() -> None:
    block = {"type": "text", "text": "words", "_meta": {"a": 1}, "annotations": {"priority": 1}, "more": True}
    assert read_content(block) == TextContent("words")


def test_what_is_no_block_is_named(subtests: pytest.Subtests) -> None:
    for block in [
        None,
        "words",
        [],
        {},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "image", "data": "aGk="},
        {"type": "audio", "mimeType": "audio/wav"},
        {"type": "tool_use", "id": "u1", "name": "add"},
        {"type": "tool_use", "id": 1, "name": "add", "input": {}},
        {"type": "tool_use", "id": "u1", "name": "add", "input": [1]},
        {"type": "hologram", "data": "aGk=", "mimeType": "x/y"},
        {"text": "words"},
    ]:
        with (
            subtests.test(block=block),
            pytest.raises(ValueError, match="is not a complete content block of a known type"),
        ):
            read_content(block)


def test_data_that_is_not_base64_is_refused(subtests: pytest.Subtests) -> None:
    for data in ["%", "a", "aGk", "aGk=\n", "é"]:
        with subtests.test(data=data), pytest.raises(ValueError, match="Base64"):
            read_content({"type": "image", "data": data, "mimeType": "image/png"})


def test_a_refusal_quotes_little_of_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="is not a complete content block") as raised:
        read_content({"type": "x" * 1000})
    assert len(str(raised.value)) < 150


def test_a_tools_result_goes_back_under_the_id_of_its_use() -> None:
    result = ToolResultContent("u1", [TextContent("3"), ImageContent(b"x", "image/png")])
    assert result.to_wire() == {
        "type": "tool_result",
        "toolUseId": "u1",
        "content": [{"type": "text", "text": "3"}, {"type": "image", "data": "eA==", "mimeType": "image/png"}],
    }


def test_a_tools_failure_says_so() -> None:
    assert ToolResultContent("u1", [], is_error=True).to_wire()["isError"] is True


def test_a_tools_use_keeps_nothing_of_what_it_was_made_of() -> None:
    given = {"of": 1}
    wire = ToolUseContent("u1", "add", given).to_wire()
    wire["input"]["of"] = 2
    assert given == {"of": 1}
