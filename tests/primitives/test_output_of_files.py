"""Bytes, images and files that a tool gives back."""

import base64
import io
import subprocess
import sys
import tempfile
import typing
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models.fields.files import FieldFile
from PIL import Image

from django_mcp import ImageContent, TextContent, ToolError, ToolResult
from django_mcp.primitives import output
from tests.model_resources.library.models import Book
from tests.primitives.makers import giving
from tests.primitives.test_output import shown

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
PDF = b"%PDF-1.7\n"


def block(returns: Any, value: Any) -> dict[str, Any]:
    """The one block of a result, which has nothing else; of a tool that promises no structure."""
    tool = giving(returns)
    assert "outputSchema" not in tool.definition
    wire = shown(tool, value)
    assert set(wire) == {"content"}
    (found,) = wire["content"]
    return found


def embedded(media_type: str, data: bytes, name: str = "result") -> dict[str, Any]:
    blob = base64.b64encode(data).decode()
    return {"type": "resource", "resource": {"uri": f"attachment:///{name}", "mimeType": media_type, "blob": blob}}


def test_bytes_are_an_embedded_resource(subtests: pytest.Subtests) -> None:
    for returns, make in product(
        [bytes, bytes | None, Any, ..., bytearray, memoryview], [bytes, bytearray, memoryview]
    ):
        with subtests.test(returns=returns, make=make):
            annotation = Any if returns is ... else returns
            assert block(annotation, make(b"\0\xff")) == embedded("application/octet-stream", b"\0\xff")
            assert block(annotation, make(PDF)) == embedded("application/pdf", PDF)


def test_bytes_of_an_image_are_one(subtests: pytest.Subtests) -> None:
    for data, media_type in [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ]:
        with subtests.test(data=data, media_type=media_type):
            assert block(bytes, data) == {
                "type": "image",
                "mimeType": media_type,
                "data": base64.b64encode(data).decode(),
            }


def test_nothing_is_no_block() -> None:
    (block,) = shown(giving(bytes | None), None)["content"]
    assert block == {"type": "text", "text": "The tool returned nothing."}


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def picture(mode: str = "RGB", kind: str | None = None) -> Image.Image:
    """A picture of a mode; with a *kind*, as it is read from such a file."""
    made = Image.new(mode, (3, 2))
    if kind is None:
        return made
    buffer = io.BytesIO()
    made.save(buffer, kind)
    return opened(buffer.getvalue())


def test_an_image_of_pillow_is_shown_in_a_format_that_clients_know(subtests: pytest.Subtests) -> None:
    for image, media_type in [
        (picture(), "image/png"),
        (picture(kind="JPEG"), "image/jpeg"),
        (picture(kind="PNG"), "image/png"),
        (picture("P", kind="GIF"), "image/gif"),
        (picture(kind="WEBP"), "image/webp"),
        (picture(kind="BMP"), "image/png"),
        (picture("CMYK", kind="TIFF"), "image/png"),
        *(
            (picture(mode), "image/png")
            for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV", "F", "I", "PA")
        ),
    ]:
        with subtests.test(image=image, media_type=media_type):
            found = block(Image.Image, image)
            assert (found["type"], found["mimeType"]) == ("image", media_type)
            back = opened(base64.b64decode(found["data"]))
            assert (back.size, back.get_format_mimetype()) == ((3, 2), media_type)


def test_pillow_is_not_imported_for_a_look() -> None:
    code = (
        "import sys; from django.conf import settings; settings.configure()\n"
        "from django_mcp.primitives.output import is_block; assert not is_block(object())\n"
        "assert 'PIL' not in sys.modules and 'PIL.Image' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_is_shown_by_its_type(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def check(name: str, data: bytes, expected: Any, source: str) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        named: Any = tempfile.NamedTemporaryFile(suffix=".x")  # noqa: SIM115 - the tool's result closes it
        named.write(data)
        named.name = str(path)
        files: dict[str, Callable[[], Any]] = {
            "path": lambda: path,
            "open file": lambda: path.open("rb"),
            "Django's file": lambda: File(path.open("rb"), name=str(path)),
            "content file": lambda: ContentFile(data, name=name),
            "temporary": lambda: named,
        }
        annotations = {"path": Path, "open file": typing.BinaryIO, "Django's file": File, "content file": Any}
        assert block(annotations.get(source, typing.IO[bytes]), files[source]()) == expected
        named.close()

    for (name, data, expected), source in product(
        [
            ("a.png", PNG, {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}),
            ("a.mp3", b"ID3", {"type": "audio", "mimeType": "audio/mpeg", "data": "SUQz"}),
            ("a b.pdf", PDF, embedded("application/pdf", PDF, "a%20b.pdf")),
            ("none", b"\0", embedded("application/octet-stream", b"\0", "none")),
            ("none", PNG, {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}),
            ("latin.txt", b"\xe4", embedded("text/plain", b"\xe4", "latin.txt")),
            *(
                (
                    name,
                    "ä".encode(),
                    {
                        "type": "resource",
                        "resource": {"uri": f"attachment:///{name}", "mimeType": media_type, "text": "ä"},
                    },
                )
                for name, media_type in (
                    ("a.csv", "text/csv"),
                    ("a.json", "application/json"),
                    ("a.svg", "image/svg+xml"),
                )
            ),
        ],
        ["path", "open file", "Django's file", "content file", "temporary"],
    ):
        with subtests.test(name=name, data=data, expected=expected, source=source):
            check(name, data, expected, source)


def test_a_file_in_memory_is_read_from_its_beginning_and_closed() -> None:
    buffer = io.BytesIO()
    buffer.write(PDF)
    assert block(io.BytesIO, buffer) == embedded("application/pdf", PDF)
    assert buffer.closed
    text = io.StringIO("a,b\n")
    assert block(io.StringIO, text)["resource"] == {
        "uri": "attachment:///result",
        "mimeType": "text/plain",
        "text": "a,b\n",
    }


def test_a_file_of_a_model_is_shown_without_its_place_in_the_storage() -> None:
    name = default_storage.save("secret-place/terms.txt", ContentFile(b"Bring it back."))
    try:
        book = Book(cover=name)
        found = block(FieldFile, book.cover)
        assert found["resource"] == {
            "uri": "attachment:///terms.txt",
            "mimeType": "text/plain",
            "text": "Bring it back.",
        }
    finally:
        default_storage.delete(name)


def test_a_file_that_is_not_there_is_told_without_its_place(subtests: pytest.Subtests) -> None:
    for value in [Book().cover, Path("/nowhere/at/all.txt"), Path("/")]:
        with (
            subtests.test(value=value),
            pytest.raises(ToolError, match=r"^The (file does not exist|field has no file)\.$"),
        ):
            giving(Any).output.fields(value)


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for source in ["path", "file", "picture"]:
        with subtests.test(source=source):
            monkeypatch.setattr(output, "MAX_BYTES", 20)
            path = tmp_path / "a.pdf"
            path.write_bytes(PDF * 3)
            value = {"path": path, "file": io.BytesIO(PDF * 3), "picture": picture()}[source]
            with pytest.raises(ToolError, match=r"^The file is too large for a result: more than 20 bytes\.$"):
                giving(Any).output.fields(value)


def test_several_of_them_in_a_list(subtests: pytest.Subtests) -> None:
    for returns in [list[bytes | str], Any, list[Image.Image | bytes | str | TextContent]]:
        with subtests.test(returns=returns):
            wire = shown(giving(returns), ["Here:", PNG, TextContent("and"), b"\0", picture()])
            assert [each["type"] for each in wire["content"]] == ["text", "image", "text", "resource", "image"]


def test_they_stand_beside_words_and_data() -> None:
    wire = shown(
        giving(ToolResult[int]), ToolResult(3, text="Three.", content=[PNG, picture(), ImageContent(PNG, "image/png")])
    )  # type: ignore[list-item]
    assert [each["type"] for each in wire["content"]] == ["text", "image", "image", "image"]
    assert wire["structuredContent"] == 3
