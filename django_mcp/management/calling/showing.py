"""What a call says, for people: its progress and log on the side, its content at last."""

import base64
import binascii
import json
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

WIDTH = 30
LEAST = 0.1
"""Of the whole, between two lines of progress where there is no terminal."""


class Aside:
    """Progress and log messages.

    Args:
        out: takes text, and shows it at once.
        is_terminal: on a terminal, where a bar can be drawn.
    """

    def __init__(self, out: Callable[[str], object], *, is_terminal: bool) -> None:
        self._out, self._is_terminal = out, is_terminal
        self._drawn = 0
        self._told: tuple[float, str] = (-1.0, "")

    def listen(self, method: str, params: Mapping[str, Any]) -> None:
        """Show what a notification says."""
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/message":
            logger = f" {params['logger']}" if params.get("logger") else ""
            self.write(f"[{params.get('level', 'info')}{logger}] {params.get('data')}")

    def write(self, line: str) -> None:
        """A line of its own."""
        self.clear()
        self._out(f"{line}\n")

    def clear(self) -> None:
        """Take the bar away."""
        if self._drawn:
            self._out(f"\r{' ' * self._drawn}\r")
            self._drawn = 0

    def _progress(self, params: Mapping[str, Any]) -> None:
        done, total, message = params.get("progress", 0), params.get("total"), str(params.get("message") or "")
        part = min(max(done / total, 0.0), 1.0) if total else None
        if self._is_terminal:
            self._draw(f"[{_bar(part)}] {part:4.0%} {message}" if part is not None else f"{done:g} {message}")
            return
        before, said = self._told
        if message == said and part is not None and part - before < LEAST and part < 1:
            return
        self._told = (-1.0 if part is None else part, message)
        self.write(f"{f'{done:g}/{total:g}' if total else f'{done:g}'} {message}".rstrip())

    def _draw(self, text: str) -> None:
        self._out(f"\r{text}{' ' * max(self._drawn - len(text), 0)}")
        self._drawn = len(text)


def _bar(part: float) -> str:
    full = round(part * WIDTH)
    return "#" * full + "." * (WIDTH - full)


def content_lines(result: Mapping[str, Any], folder: Path | None) -> Iterator[str]:
    """The content of a result.

    Args:
        result: of a call.
        folder: where images, sound and files are saved; None to save none.
    """
    for number, block in enumerate(result.get("content", ()), start=1):
        match block.get("type"):
            case "text":
                yield _readable(block["text"]) if "structuredContent" in result else block["text"]
            case "image" | "audio":
                yield _binary(block["data"], block["mimeType"], f"{block['type']}-{number}", folder)
            case "resource":
                inner = block["resource"]
                name = Path(str(inner.get("uri", ""))).name or f"resource-{number}"
                yield (
                    inner["text"]
                    if "text" in inner
                    else _binary(inner.get("blob", ""), inner.get("mimeType", "application/octet-stream"), name, folder)
                )
            case "resource_link":
                yield f"[{block.get('title') or block.get('name')}: {block.get('uri')}]"
            case kind:
                yield f"[{kind}]"


def _readable(text: str) -> str:
    """Data that was written in one line for programs, in many."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text


def _binary(data: str, mime_type: str, name: str, folder: Path | None) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{mime_type}, unreadable]"
    if folder is None:
        return f"[{mime_type}, {len(content)} bytes]"
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "" if Path(name).suffix else mimetypes.guess_extension(mime_type) or ".bin"
    path = _free(folder / f"{name}{suffix}")
    path.write_bytes(content)
    return f"[{mime_type}, {len(content)} bytes: {path}]"


def _free(path: Path) -> Path:
    """A path where no file is yet."""
    found, number = path, 1
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found
