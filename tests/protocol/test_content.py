"""Content blocks, judged by the models of ``mcp_types``."""

import base64
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
IDS = [f"{type(block).__name__}{number}" for number, (_, block, _) in enumerate(BLOCKS)]


@pytest.mark.parametrize(("model", "block", "expected"), BLOCKS, ids=IDS)
def test_a_block_has_the_shape_clients_know(model: type[BaseModel], block: Content, expected: dict[str, Any]) -> None:
    assert judged(model, block.to_wire()) == expected


@pytest.mark.parametrize(
    ("model", "block"),
    [
        (mcp_types.TextContent, TextContent("a", **EXTRAS)),
        (mcp_types.ImageContent, ImageContent(b"a", "image/png", **EXTRAS)),
        (mcp_types.AudioContent, AudioContent(b"a", "audio/wav", **EXTRAS)),
        (mcp_types.ResourceLink, ResourceLink("x:y", "y", **EXTRAS)),
        (mcp_types.EmbeddedResource, EmbeddedResource(ResourceContents("a", uri="x:y"), **EXTRAS)),
    ],
)
def test_every_block_carries_annotations_and_meta(model: type[BaseModel], block: Content) -> None:
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


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (Annotations(), {}),
        (Annotations(priority=0.0), {"priority": 0.0}),
        (Annotations(audience=("user",)), {"audience": ["user"]}),
        (Annotations(last_modified="2026-01-01"), {"lastModified": "2026-01-01"}),
    ],
)
def test_annotations_say_only_what_was_said(annotations: Annotations, expected: dict[str, Any]) -> None:
    assert judged(mcp_types.Annotations, annotations.to_wire()) == expected


@pytest.mark.parametrize(
    ("icon", "expected"),
    [
        (Icon("https://example.com/a.png"), {"src": "https://example.com/a.png"}),
        (
            Icon("data:image/svg+xml;base64,AA==", "image/svg+xml", ["any"], "dark"),
            {"src": "data:image/svg+xml;base64,AA==", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "dark"},
        ),
        (Icon("http://localhost/a.png", sizes=("48x48", "96x96")), None),
    ],
)
def test_an_icon_has_the_shape_clients_know(icon: Icon, expected: dict[str, Any] | None) -> None:
    wire = judged(mcp_types.Icon, icon.to_wire())
    assert expected is None or wire == expected


@pytest.mark.parametrize(
    "src", ["javascript:alert(1)", "file:///etc/passwd", "ftp://x/y", "/static/a.png", "a.png", ""]
)
def test_an_icon_of_a_scheme_clients_must_refuse_is_refused_here(src: str) -> None:
    with pytest.raises(ValueError, match="https: or data:"):
        Icon(src)


@pytest.mark.parametrize("src", ["javascript:alert(1)", "x" * 10_000])
def test_the_refusal_of_an_icon_shows_its_src_but_not_all_of_a_long_one(src: str) -> None:
    with pytest.raises(ValueError, match=src[:10].replace("(", r"\(")) as caught:
        Icon(src)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("uri", [None, ""])
def test_an_embedded_resource_has_to_say_what_it_is(uri: str | None) -> None:
    with pytest.raises(ValueError, match=r"(?i)uri"):
        EmbeddedResource(ResourceContents("words", uri=uri))


def test_contents_take_uri_and_type_from_the_resource_that_was_asked_for() -> None:
    assert ResourceContents("a").to_wire("x:y", "text/csv") == {"uri": "x:y", "mimeType": "text/csv", "text": "a"}


def test_contents_keep_a_uri_and_type_of_their_own() -> None:
    contents = ResourceContents("a", uri="x:own", mime_type="text/html")
    assert contents.to_wire("x:y", "text/csv") == {"uri": "x:own", "mimeType": "text/html", "text": "a"}


@pytest.mark.parametrize("data", ["", b""])
def test_empty_contents_are_contents(data: str | bytes) -> None:
    model = mcp_types.TextResourceContents if data == "" else mcp_types.BlobResourceContents
    wire = judged(model, ResourceContents(data).to_wire("x:y"))
    assert wire == {"uri": "x:y", "text" if data == "" else "blob": ""}


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("content", ["words", TextContent("words")])
def test_a_prompt_message_of_a_str_is_one_of_text(role: Any, content: Any) -> None:
    wire = judged(mcp_types.PromptMessage, PromptMessage(content, role).to_wire())
    assert wire == {"role": role, "content": {"type": "text", "text": "words"}}


@pytest.mark.parametrize("block", [block for _, block, _ in BLOCKS], ids=IDS)
def test_a_prompt_message_takes_any_block(block: Content) -> None:
    wire = judged(mcp_types.PromptMessage, PromptMessage(block, "assistant").to_wire())
    assert wire["content"] == block.to_wire()


@pytest.mark.parametrize("value", [ImageContent(SOUND * 99, "image/png"), ResourceContents("secret" * 99)])
def test_bulky_data_is_not_shown_in_a_repr(value: object) -> None:
    assert len(repr(value)) < 200
