"""HTML in pieces: tags and text.

``html.parser`` takes quadratic time over tags and comments that do not end, in releases of Python that are in use.
"""

import html
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

# Outside of quotes a "<" ends the attempt, so what does not end is looked at a few times only, however often it begins.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/<>]*+)((?:[^'"<>]++|"[^"]*+"|'[^']*+')*+)>""")
_LOOSE_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*+)([^<>]*+)>")
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]++))?""")
_ENDS = {tag: re.compile(rf"</{tag}\b", re.IGNORECASE) for tag in ("script", "style", "textarea", "title", "iframe")}


class Start(NamedTuple):
    """A start tag, in lower case, as are the names of its attributes."""

    tag: str
    attributes: Mapping[str, str]


class End(NamedTuple):
    """An end tag."""

    tag: str


class Text(NamedTuple):
    """Text with its character references resolved."""

    text: str


def tokens(page: str) -> Iterator[Start | End | Text]:
    """What *page* consists of, without comments and declarations, in a time that grows as its length does."""
    at = 0
    while at < len(page):
        begin = page.find("<", at)
        until = len(page) if begin < 0 else begin
        if until > at:
            yield Text(html.unescape(page[at:until]))
        at = until
        if page.startswith("<!--", at):
            at = _after("-->", page, at + 4)
        elif page.startswith(("<!", "<?"), at):
            at = _after(">", page, at + 2)
        elif found := _TAG.match(page, at) or _LOOSE_TAG.match(page, at):
            at = found.end()
            tag = found[2].lower()
            if found[1]:
                yield End(tag)
                continue
            yield Start(tag, _attributes(found[3]))
            if tag in _ENDS:  # in which there are no tags
                end = _ENDS[tag].search(page, at)
                until = end.start() if end else len(page)
                yield Text(html.unescape(page[at:until]))
                at = until
        elif at < len(page):
            yield Text("<")
            at += 1


def _after(mark: str, page: str, at: int) -> int:
    found = page.find(mark, at)
    return len(page) if found < 0 else found + len(mark)


def _attributes(text: str) -> dict[str, str]:
    pairs = ((found[1].lower(), found[2] or "") for found in _ATTRIBUTE.finditer(text))
    return {name: html.unescape(value[1:-1] if value[:1] in "\"'" else value) for name, value in pairs}
