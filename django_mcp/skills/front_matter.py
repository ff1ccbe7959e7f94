"""The front matter of ``SKILL.md``: a subset of YAML that every reader of YAML reads alike.

A map of scalars, of lists of scalars and of maps of scalars; text over several lines after ``|`` or ``>``. What is
beyond that is refused, not guessed at: hosts compare what they read themselves with what they are told.
"""

import re
from collections.abc import Sequence
from typing import Any

from django_mcp.skills.scalars import CONTROL, Scalar, read_list, read_scalar

KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_./-]*):(?:[ ]+(.*)|)")
BLOCK = re.compile(r"([|>])([-+]?)[ ]*(?:[ ]#.*)?")
COMMENT = re.compile(r"[ ]*(#.*)?")

FrontMatter = dict[str, Any]


class FrontMatterError(ValueError):
    """Front matter that cannot be read; its words say where and why."""


def read_front_matter(text: str) -> FrontMatter:
    """The map at the beginning of *text*.

    Raises:
        FrontMatterError: there is none, or it is not of the subset.
    """
    lines = re.split(r"\r?\n", text)
    if lines[0].rstrip(" ") != "---":
        raise FrontMatterError("it must begin with a line '---', and name and description on the lines after it")
    ends = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip(" ") == "---"), None)
    if ends is None:
        raise FrontMatterError("its front matter has no end: a second line '---'")
    return _Reader(lines[1:ends]).read()


class _Reader:
    """Reads lines from the first to the last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> FrontMatter:
        for number, line in enumerate(self._lines):
            if found := CONTROL.search(line):
                raise FrontMatterError(f"line {number + 2} has a character {found[0]!r}, which does not belong there")
        return self._map(0)

    def _map(self, indent: int) -> dict[str, Any]:
        """Keys that begin in column *indent*."""
        found: dict[str, Any] = {}
        while (line := self._next()) is not None and _indent(line) >= indent:
            if _indent(line) > indent:
                raise self._error("is indented more than the keys it follows; text over several lines begins with |")
            match = KEY.fullmatch(line.strip(" "))
            if match is None:
                raise self._error("is no 'key: value'; a key has letters, digits, '_', '-', '.' and '/'")
            if match[1].lower() in {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}:
                raise self._error(f"has a key {match[1]!r}, which is no text to every reader of YAML")
            if match[1] in found:
                raise self._error(f"has the key {match[1]!r} a second time")
            found[match[1]] = self._value(match[2] or "", indent)
        return found

    def _value(self, text: str, indent: int) -> Any:
        """What stands behind a key in column *indent*, on its line or below."""
        text = text.strip(" ")
        if COMMENT.fullmatch(text):
            self._at += 1
            return self._below(indent)
        if (block := BLOCK.fullmatch(text)) is not None:
            self._at += 1
            return self._text(block[1] == ">", block[2], indent)
        value = self._checked(read_list if text.startswith("[") else read_scalar, text)
        self._at += 1
        return value

    def _below(self, indent: int) -> Any:
        line = self._next()
        if line is not None and line.strip(" ").startswith("- ") and _indent(line) >= indent:
            return self._list(_indent(line))
        if line is None or _indent(line) <= indent:
            return None
        if indent:
            raise self._error("nests deeper than one map in another")
        return self._map(_indent(line))

    def _list(self, indent: int) -> list[Scalar]:
        found: list[Scalar] = []
        while (line := self._next()) is not None and _indent(line) == indent and line[indent:].startswith("- "):
            text = line[indent + 2 :].strip(" ")
            if text.startswith(("- ", "[")) or BLOCK.fullmatch(text):
                raise self._error("puts more than plain and quoted values into a list")
            found.append(self._checked(read_scalar, text))
            self._at += 1
        return found

    def _text(self, folds: bool, chomping: str, indent: int) -> str:
        """A block scalar: all lines that are empty or indented more than *indent*."""
        lines: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip(" ") and _indent(line) <= indent:
                break
            lines.append(line)
            self._at += 1
        filled = [line for line in lines if line.strip(" ")]
        margin = _indent(filled[0]) if filled else 0
        for back, line in enumerate(reversed(lines), 1):
            if (line.strip(" ") and _indent(line) < margin) or (not line.strip(" ") and len(line) > margin):
                raise self._error("is not indented like the first line of its text", self._at - back)
            if folds and line[margin:].startswith(" "):
                raise self._error("is indented in text after '>'; use '|'", self._at - back)
        text = "\n".join(line[margin:] for line in lines)
        body, end = text.rstrip("\n"), text[len(text.rstrip("\n")) :]
        if folds:  # but for empty lines at the beginning
            body = re.sub(r"(?<=[^\n])\n+", lambda ends: ends[0][1:] or " ", body)
        if not body:
            return end + "\n" if chomping == "+" and lines else ""
        return body + {"-": "", "+": end + "\n"}.get(chomping, "\n")

    def _next(self) -> str | None:
        """The next line that is neither empty nor a comment."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not COMMENT.fullmatch(line):
                return line
            self._at += 1
        return None

    def _checked(self, read: Any, text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise self._error(f"cannot be read: {error}") from None

    def _error(self, words: str, at: int | None = None) -> FrontMatterError:
        return FrontMatterError(f"line {(self._at if at is None else at) + 2} {words}")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
