"""HTML as text that a model reads: headings, lists, tables and links of the main part of a page."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from django_mcp.adapters.html_tokens import End, Start, Text, tokens

MOST_CHARACTERS = 2**20
"""How much of a page is read: what is longer is no text for a model."""

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
UNREADABLE = frozenset({"script", "style", "template", "svg", "iframe", "object", "canvas"})
AROUND = frozenset({"nav", "noscript", "select", "button", "textarea"})
HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
PARAGRAPHS = {
    *HEADINGS,
    "p",
    "dl",
    "table",
    "pre",
    "blockquote",
    "section",
    "article",
    "main",
    "form",
    "fieldset",
    "figure",
}
LINES = {
    *PARAGRAPHS,
    "ul",
    "ol",
    "li",
    "div",
    "dt",
    "dd",
    "tr",
    "caption",
    "label",
    "legend",
    "summary",
    "header",
    "footer",
}


@dataclass(frozen=True)
class Page:
    """What a page says.

    Attributes:
        text: of the main part.
        errors: what its forms say is wrong (``class="errorlist"``), with the field where that is known.
    """

    text: str
    errors: list[str]


def read_page(html: str, base: str = "") -> Page:
    """Read HTML, however it is written, in a time that grows as its length does.

    Args:
        html: the page.
        base: its URL; links to the same host are shown without it.
    """
    page = _read(html, base, UNREADABLE | AROUND)
    # A navigation that was opened and never closed has swallowed the rest.
    return page if page.text else _read(html, base, UNREADABLE)


def _read(html: str, base: str, left_out: frozenset[str]) -> Page:
    reader = _Reader(base, left_out)
    for token in tokens(html[:MOST_CHARACTERS]):
        match token:
            case Text():
                reader.text(token.text)
            case Start():
                reader.start(token.tag, token.attributes)
            case End():
                reader.end(token.tag)
    return reader.page()


class _Element(NamedTuple):
    tag: str
    is_left_out: bool
    is_main: bool
    errors_of: str | None
    href: str | None
    start: int


class _Reader:
    def __init__(self, base: str, left_out: frozenset[str]) -> None:
        self._base, self._host, self._unwanted = base, urlsplit(base).netloc, left_out
        self._open: list[_Element] = []
        self._tags: Counter[str] = Counter()
        self._left_out = self._main = 0
        self._lists: list[int | None] = []
        self._errors_of: list[str] = []
        self._error: list[str] = []
        self._errors: list[str] = []
        self._lines: list[tuple[str, bool]] = []
        self._words: list[str] = []
        self._mark = ""
        self._row: list[str] | None = None
        self._in_cell = self._is_head = False
        self._title: list[str] = []

    def page(self) -> Page:
        """What was read."""
        while self._open:
            self._close(self._open.pop())
        self._end_line()
        main = [text for text, is_main in self._lines if is_main]
        lines = main if any(main) else [text for text, _ in self._lines]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        title = _joined(self._title)
        if title and text and not any(line.startswith("# ") for line in lines):
            text = f"# {title}\n\n{text}"
        return Page(text, self._errors)

    def start(self, tag: str, given: Mapping[str, str]) -> None:
        """Begin an element."""
        if tag in VOID:
            if tag in ("br", "hr"):
                self._end_line()
            elif tag == "img" and not self._left_out:
                self._words.append(f" {given.get('alt', '')} ")
            return
        if tag == "a":  # there is none in another
            self.end(tag)
        if tag in LINES:
            self._begin_line(tag)
        elif tag in ("td", "th") and self._tags["table"] == 1:
            self._begin_cell(tag)
        element = self._element(tag, given)
        self._open.append(element)
        self._tags[tag] += 1
        self._left_out += element.is_left_out
        self._main += element.is_main
        if element.errors_of is not None:
            self._errors_of.append(element.errors_of)
        if tag in ("ul", "ol"):
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._begin_item()

    def _element(self, tag: str, given: Mapping[str, str]) -> _Element:
        role = given.get("role")
        is_around = tag in ("header", "footer") and not (self._main or self._tags["section"])
        is_hidden = "hidden" in given or role == "navigation" or (is_around and self._unwanted >= AROUND)
        errors_of = None
        if "errorlist" in given.get("class", "").split():
            errors_of = re.sub(r"^id_|_error$", "", given.get("id", ""))
        href = given.get("href") if tag == "a" else None
        is_main = tag in ("main", "article") or role == "main"
        return _Element(tag, tag in self._unwanted or is_hidden, is_main, errors_of, href, len(self._words))

    def end(self, tag: str) -> None:
        """End an element, and what was left open in it."""
        while self._tags[tag]:
            element = self._open.pop()
            self._close(element)
            if element.tag == tag:
                return

    def _close(self, element: _Element) -> None:
        tag = element.tag
        if element.href is not None:
            self._link(element.href, element.start)
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr" or (tag == "table" and self._tags["table"] == 1):
            self._end_row()
        if tag in LINES:
            self._end_line()
        if tag in PARAGRAPHS or (tag in ("ul", "ol") and len(self._lists) == 1):
            self._blank()
        if tag in ("ul", "ol"):
            self._lists.pop()
        self._end_error(tag)
        if element.errors_of is not None:
            self._errors_of.pop()
        self._tags[tag] -= 1
        self._left_out -= element.is_left_out
        self._main -= element.is_main

    def text(self, data: str) -> None:
        """Text."""
        if self._tags["title"] and not self._tags["svg"]:
            self._title.append(data)
        elif not self._left_out:
            if self._tags["pre"] and not self._in_cell:
                first, *others = data.split("\n")
                self._words.append(first)
                for each in others:
                    self._end_line()
                    self._words.append(each)
                return
            self._words.append(data)
            if self._errors_of:
                self._error.append(data)

    # Lines

    def _begin_line(self, tag: str) -> None:
        self._end_line()
        if tag in PARAGRAPHS or (tag in ("ul", "ol") and not self._lists):
            self._blank()
        if tag in HEADINGS and not self._in_cell:
            self._mark = HEADINGS[tag]
        elif tag == "tr":
            self._end_row()

    def _begin_item(self) -> None:
        self._end_error("li")
        if self._lists and not self._in_cell:
            if (number := self._lists[-1]) is not None:
                self._lists[-1] = number + 1
            mark = "- " if number is None else f"{number + 1}. "
            self._mark = "  " * min(len(self._lists) - 1, 6) + mark
        if self._errors_of and not self._left_out:
            self._words.append("Error: ")

    def _end_line(self) -> None:
        if self._in_cell:
            self._words.append(" ")
            return
        is_verbatim = self._tags["pre"] > 0
        text = "".join(self._words).rstrip() if is_verbatim else _joined(self._words)
        self._words.clear()
        if text:
            self._lines.append((self._mark + text, self._main > 0))
            self._mark = ""

    def _blank(self) -> None:
        if not self._in_cell:
            self._lines.append(("", self._main > 0))

    def _link(self, href: str, start: int) -> None:
        text = _joined(self._words[start:])
        target = self._target(href.strip())
        if text and target and not self._left_out:
            self._words[start:] = [f"[{text}]({target})"]

    def _target(self, href: str) -> str:
        try:
            parts = urlsplit(urljoin(self._base, href))
        except ValueError:  # as of "http://["
            return ""
        if href.startswith("#") or parts.scheme not in ("http", "https", "mailto", "tel", ""):
            return ""
        is_here = parts.netloc == self._host and parts.scheme in ("http", "https")
        whole = parts._replace(scheme="", netloc="") if is_here else parts
        return re.sub(r"[\s()]", lambda found: f"%{ord(found[0]):02X}", whole.geturl())

    # Tables, of which an inner one is text of its cell

    def _begin_cell(self, tag: str) -> None:
        self._end_cell()
        if self._row is None:
            self._end_line()
            self._row, self._is_head = [], True
        self._in_cell = True
        self._is_head = self._is_head and tag == "th"

    def _end_cell(self) -> None:
        if self._in_cell and self._row is not None and self._tags["table"] == 1:
            self._row.append(_joined(self._words).replace("|", "\\|"))
            self._words.clear()
            self._in_cell = False

    def _end_row(self) -> None:
        self._end_cell()
        if self._row is None or self._in_cell:
            return
        self._lines.append((f"| {' | '.join(self._row)} |", self._main > 0))
        if self._is_head:
            self._lines.append((f"|{' --- |' * len(self._row)}", self._main > 0))
        self._row = None

    # What forms say

    def _end_error(self, tag: str) -> None:
        if self._errors_of and tag in ("li", "ul", "ol") and (text := _joined(self._error)):
            field = self._errors_of[-1]
            self._errors.append(f"{field}: {text}" if field else text)
            self._error.clear()


def _joined(words: list[str]) -> str:
    return " ".join("".join(words).split())
