"""Content blocks, judged by the models of ``mcp_types``."""

import base64
from itertools import product
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from django_mcp import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from django_mcp.protocol.content import Content
from tests.protocol.strategies import TEXT

HINTS = Annotations(audience=["user", "assistant"], priority=0.5, last_modified="2026-07-28T10:00:00Z")
META = {"example.com/shown": True}
EXTRAS: dict[str, Any] = {"annotations": HINTS, "meta": META}
SOUND = b"\x00\xff\xfeRIFF"


def judged(model: type[BaseModel], wire: dict[str, Any]) -> dict[str, Any]:
    """What *model* understood of *wire*; all of it, or the test fails."""
    understood = model.model_validate(wire).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert understood == wire
    return understood


BLOCKS: list[tuple[type[BaseModel], Content, dict[str, Any]]] = [
    (mcp_types.TextContent, TextContent("hello"), {"type": "text", "text": "hello"}),
    (mcp_types.TextContent, TextContent(""), {"type": "text", "text": ""}),
    (
        mcp_types.ImageContent,
        ImageContent(b"\x89PNG", "image/png"),
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
    ),
    (
        mcp_types.AudioContent,
        AudioContent(b"", "audio/wav"),
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
    ),
    (
        mcp_types.ResourceLink,
        ResourceLink("travel://cities/Porto", "porto"),
        {"type": "resource_link", "uri": "travel://cities/Porto", "name": "porto"},
    ),
    (
        mcp_types.ResourceLink,
        ResourceLink("x:y", "y", title="Y", description="why", mime_type="text/plain", size=0),
        {
            "type": "resource_link",
            "uri": "x:y",
            "name": "y",
            "title": "Y",
            "description": "why",
            "mimeType": "text/plain",
            "size": 0,
        },
    ),
    (
        mcp_types.EmbeddedResource,
        EmbeddedResource(ResourceContents("words", uri="x:y", mime_type="text/plain")),
        {"type": "resource", "resource": {"uri": "x:y", "mimeType": "text/plain", "text": "words"}},
    ),
    (
        mcp_types.EmbeddedResource,
        EmbeddedResource(ResourceContents(SOUND, uri="x:y", meta=META)),
        {"type": "resource", "resource": {"uri": "x:y", "blob": base64.b64encode(SOUND).decode(), "_meta": META}},
    ),
]


def test_a_block_has_the_shape_clients_know(subtests: pytest.Subtests) -> None:
    for model, block, expected in BLOCKS:
        with subtests.test(block=block):
            assert judged(model, block.to_wire()) == expected


def test_every_block_carries_annotations_and_meta(subtests: pytest.Subtests) -> None:
    for model, block in [
        (mcp_types.TextContent, TextContent("a", **EXTRAS)),
        (mcp_types.ImageContent, ImageContent(b"a", "image/png", **EXTRAS)),
        (mcp_types.AudioContent, AudioContent(b"a", "audio/wav", **EXTRAS)),
        (mcp_types.ResourceLink, ResourceLink("x:y", "y", **EXTRAS)),
        (mcp_types.EmbeddedResource, EmbeddedResource(ResourceContents("a", uri="x:y"), **EXTRAS)),
    ]:
        with subtests.test(model=model, block=block):
            wire = judged(model, block.to_wire())
            assert wire["annotations"] == {
                "audience": ["user", "assistant"],
                "priority": 0.5,
                "lastModified": "2026-07-28T10:00:00Z",
            }
            assert wire["_meta"] == META


@given(st.binary(max_size=100))
def test_bytes_come_back_from_base64_as_they_were(data: bytes) -> None:
    blocks = ImageContent(data, "image/png"), AudioContent(data, "audio/wav")
    for block in blocks:
        assert base64.b64decode(block.to_wire()["data"], validate=True) == data
    assert base64.b64decode(ResourceContents(data).to_wire("x:y")["blob"], validate=True) == data


@given(TEXT)
def test_text_is_left_as_it_is(text: str) -> None:
    assert TextContent(text).to_wire()["text"] == text
    assert ResourceContents(text).to_wire("x:y")["text"] == text


def test_annotations_say_only_what_was_said(subtests: pytest.Subtests) -> None:
    for annotations, expected in [
        (Annotations(), {}),
        (Annotations(priority=0.0), {"priority": 0.0}),
        (Annotations(audience=("user",)), {"audience": ["user"]}),
        (Annotations(last_modified="2026-01-01"), {"lastModified": "2026-01-01"}),
    ]:
        with subtests.test(annotations=annotations, expected=expected):
            assert judged(mcp_types.Annotations, annotations.to_wire()) == expected


def test_an_icon_has_the_shape_clients_know(subtests: pytest.Subtests) -> None:
    for icon, expected in [
        (Icon("https://example.com/a.png"), {"src": "https://example.com/a.png"}),
        (
            Icon("data:image/svg+xml;base64,AA==", "image/svg+xml", ["any"], "dark"),
            {"src": "data:image/svg+xml;base64,AA==", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "dark"},
        ),
        (Icon("http://localhost/a.png", sizes=("48x48", "96x96")), None),
    ]:
        with subtests.test(icon=icon, expected=expected):
            wire = judged(mcp_types.Icon, icon.to_wire())
            assert expected is None or wire == expected


def test_an_icon_of_a_scheme_clients_must_refuse_is_refused_here(subtests: pytest.Subtests) -> None:
    for src in ["javascript:alert(1)", "file:///etc/passwd", "ftp://x/y", "/static/a.png", "a.png", ""]:
        with subtests.test(src=src), pytest.raises(ValueError, match="https: or data:"):
            Icon(src)


def test_the_refusal_of_an_icon_shows_its_src_but_not_all_of_a_long_one(subtests: pytest.Subtests) -> None:
    for src in ["javascript:alert(1)", "x" * 10_000]:
        with subtests.test(src=src):
            with pytest.raises(ValueError, match=src[:10].replace("(", r"\(")) as caught:
                Icon(src)
            assert len(str(caught.value)) < 200


def test_an_embedded_resource_has_to_say_what_it_is(subtests: pytest.Subtests) -> None:
    for uri in [None, ""]:
        with subtests.test(uri=uri), pytest.raises(ValueError, match=r"(?i)uri"):
            EmbeddedResource(ResourceContents("words", uri=uri))


def test_contents_take_uri_and_type_from_the_resource_that_was_asked_for() -> None:
    assert ResourceContents("a").to_wire("x:y", "text/csv") == {"uri": "x:y", "mimeType": "text/csv", "text": "a"}


def test_contents_keep_a_uri_and_type_of_their_own() -> None:
    contents = ResourceContents("a", uri="x:own", mime_type="text/html")
    assert contents.to_wire("x:y", "text/csv") == {"uri": "x:own", "mimeType": "text/html", "text": "a"}


def test_empty_contents_are_contents(subtests: pytest.Subtests) -> None:
    for data in ["", b""]:
        with subtests.test(data=data):
            model = mcp_types.TextResourceContents if data == "" else mcp_types.BlobResourceContents
            wire = judged(model, ResourceContents(data).to_wire("x:y"))
            assert wire == {"uri": "x:y", "text" if data == "" else "blob": ""}


def test_a_prompt_message_of_a_str_is_one_of_text(subtests: pytest.Subtests) -> None:
    for role, content in product(["user", "assistant"], ["words", TextContent("words")]):
        with subtests.test(role=role, content=content):
            wire = judged(mcp_types.PromptMessage, PromptMessage(content, role).to_wire())
            assert wire == {"role": role, "content": {"type": "text", "text": "words"}}


def test_a_prompt_message_takes_any_block(subtests: pytest.Subtests) -> None:
    for _, block, _ in BLOCKS:
        with subtests.test(block=block):
            wire = judged(mcp_types.PromptMessage, PromptMessage(block, "assistant").to_wire())
            assert wire["content"] == block.to_wire()


def test_bulky_data_is_not_shown_in_a_repr(subtests: pytest.Subtests) -> None:
    for value in [ImageContent(SOUND * 99, "image/png"), ResourceContents("secret" * 99)]:
        with subtests.test(value=value):
            assert len(repr(value)) < 200
