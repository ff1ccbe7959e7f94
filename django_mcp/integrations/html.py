"""Conversion of HTML pages to Markdown with Beautiful Soup and markdownify, and extraction of form errors."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from bs4 import BeautifulSoup, ParserRejectedMarkup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag
from markdownify import MarkdownConverter

MAX_CHARACTERS = 2**20
"""Limit of characters read from a page, and of the text of one element."""
MAX_TAGS = 100_000
"""Limit of tags read from a page."""
MAX_DEPTH = 100
"""Limit of nesting: converting uses four stack frames per level. Deeper elements are reduced to their text."""

UNREADABLE = frozenset({"script", "style", "template", "svg", "iframe", "object", "canvas", "title"})
AROUND = frozenset({"nav", "noscript", "select", "button", "textarea", "header", "footer"})
"""Elements left out, unless the page has no other text."""
SIDEBARS = frozenset({"navbar", "sidebar", "main-sidebar"})
"""Classes of an ``<aside>`` that is a menu, as of Bootstrap and AdminLTE, in pages that say so only by that."""
MAIN = frozenset({"main", "article"})
BLOCKS = frozenset({
    *("address", "aside", "caption", "dd", "details", "fieldset", "figcaption", "figure", "footer", "form", "header"),
    *("label", "legend", "main", "nav", "option", "summary"),
})  # fmt: skip
CONVERTED = frozenset({
    *("[document]", "a", "article", "b", "blockquote", "br", "code", "del", "div", "dl", "dt", "em", "h1", "h2", "h3"),
    *("h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "q", "s", "samp", "section", "strong", "sub"),
    *("sup", "table", "td", "th", "tr", "ul"),
})  # fmt: skip
"""Elements passed to the converter. It would look up others, such as ``<soup>``, as names of its methods."""

# Start tags that imply end tags: the open elements they end, and the ancestors at which the search stops.
_CELLS, _TABLE = frozenset({"td", "th"}), frozenset({"table"})
_ENDED_BY: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "a": (frozenset({"a"}), _TABLE),
    "li": (frozenset({"li"}), frozenset({"ul", "ol"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
    "td": (_CELLS, frozenset({"tr", "table"})),
    "th": (_CELLS, frozenset({"tr", "table"})),
    "tr": (frozenset({"tr"}), _TABLE),
    **{name: (frozenset({"tr", "thead", "tbody", "tfoot"}), _TABLE) for name in ("thead", "tbody", "tfoot")},
    **{
        name: (frozenset({"p"}), frozenset({"table", "td", "th", "li", "div", "section", "blockquote"}))
        for name in ("p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "form", "section", "article", "main")
    },
    **{
        name: (frozenset({"p"}), frozenset({"table", "td", "th", "li", "div", "section", "blockquote"}))
        for name in ("h1", "h2", "h3", "h4", "h5", "h6", "header", "footer", "nav", "fieldset", "hr", "figure")
    },
}
_LOOKED_BACK = 8
"""Number of open elements searched for one to end."""


@dataclass(frozen=True)
class Page:
    """The readable content of a page.

    Attributes:
        text: the main part as Markdown.
        errors: form errors (``class="errorlist"``), with the field if known.
    """

    text: str
    errors: list[str]


def read_page(html: str, base: str = "", site: str = "") -> Page:
    """Read HTML, well-formed or not, in linear time.

    Args:
        html: the page.
        base: its URL.
        site: the public address of its site, which links to the same host get. Default: such links are shown without
            scheme and host, which may be those of a proxy's upstream.
    """
    try:
        soup = _Soup(_bounded(html), "html.parser")
    except ParserRejectedMarkup:
        return Page("", [])
    # An unclosed <nav> contains the rest of the page.
    text = _markdown(soup, base, site, UNREADABLE | AROUND)
    if not text and _text(soup):
        text = _markdown(soup, base, site, UNREADABLE)
    titles = [_text(title, frozenset()) for title in _outermost(soup, lambda tag: tag.name == "title")]
    if text and titles and titles[0] and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {titles[0]}\n\n{text}"
    return Page(text, list(_errors(soup)))


def _bounded(html: str) -> str:
    """Limit a page, and remove what takes ``html.parser`` of older Pythons quadratic time.

    That is unclosed comments and tags. Sections (``<![CDATA[``) are comments in HTML.
    """
    html = html[:MAX_CHARACTERS]
    for number, tag in enumerate(re.finditer("<", html)):
        if number == MAX_TAGS:
            html = html[: tag.start()]
            break
    html = re.sub(r"&#(?=x?[0-9a-f]{8})", "&amp;#", html.replace("<![", "<!x["), flags=re.IGNORECASE)
    opened = html.find("<!--", html.rfind("-->") + 1)
    html = html if opened < 0 else html[:opened]
    closed = html.rfind(">") + 1
    # The <html> prefix: Beautiful Soup warns about short texts that look like a file name.
    return f"<html>{html[:closed]}{html[closed:].replace('<', '&lt;')}"


def _markdown(soup: Tag, base: str, site: str, left_out: frozenset[str]) -> str:
    converter = _Converter(base, site, left_out)
    main = list(_outermost(soup, lambda tag: tag.name in MAIN or tag.get("role") == "main", left_out))
    text = "\n\n".join(filter(None, (converter.process_tag(part, {"main"}).strip() for part in main)))
    text = text or converter.process_tag(soup, set())
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def _is_left_out(tag: Tag, names: frozenset[str]) -> bool:
    if tag.name == "aside" and "nav" in names and not SIDEBARS.isdisjoint(tag.get("class") or ()):
        return True
    return tag.name in names or "hidden" in tag.attrs or tag.get("role") == "navigation"


def _outermost(root: Tag, is_wanted: Callable[[Tag], bool], left_out: frozenset[str] = frozenset()) -> Iterator[Tag]:
    waiting: list[PageElement] = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Tag):
            continue
        if is_wanted(node):
            yield node
        elif not _is_left_out(node, left_out):
            waiting.extend(reversed(node.contents))


def _text(root: Tag, left_out: frozenset[str] = UNREADABLE) -> str:
    found: list[str] = []
    waiting: list[PageElement] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Tag):
            waiting.extend(() if _is_left_out(node, left_out) else reversed(node.contents))
        elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
            found.append(node)
    return " ".join("".join(found).split())


def _errors(soup: Tag) -> Iterator[str]:
    for element in _outermost(soup, _is_errors, UNREADABLE):
        field = re.sub(r"^id_|_error$", "", str(element.get("id", "")))
        items = [item for item in element.children if isinstance(item, Tag) and item.name == "li"]
        for text in filter(None, map(_text, items or [element])):
            yield f"{field}: {text}" if field else text


def _is_errors(tag: Tag) -> bool:
    return "errorlist" in tag.get_attribute_list("class")


class _Soup(BeautifulSoup):
    """A tree of limited depth, with implied end tags of HTML."""

    def reset(self) -> None:
        super().reset()
        self._deeper: list[bool] = []  # open elements below MAX_DEPTH; True if left out
        self._hiding = 0

    def handle_starttag(self, name: str, namespace: Any, nsprefix: Any, attrs: Any, *args: Any, **rest: Any) -> Any:
        if len(self.tagStack) > MAX_DEPTH or self._deeper:
            if name not in (self.builder.empty_element_tags or ()):
                self._deeper.append(name in UNREADABLE | AROUND or "hidden" in attrs)
                self._hiding += self._deeper[-1]
            return None
        if name in _ENDED_BY:
            ended, around = _ENDED_BY[name]
            for element in self.tagStack[: -_LOOKED_BACK - 1 : -1]:
                if element.name in ended:
                    self.handle_endtag(element.name)
                if element.name in around:
                    break
        return super().handle_starttag(name, namespace, nsprefix, attrs, *args, **rest)

    def handle_endtag(self, name: str, nsprefix: str | None = None) -> None:
        if self._deeper:
            self._hiding -= self._deeper.pop()
        else:
            super().handle_endtag(name, nsprefix)

    def handle_data(self, data: str) -> None:
        if not self._hiding:
            super().handle_data(data)


_Base: Any = MarkdownConverter  # its stub leaves out the methods to override


class _Converter(_Base):  # type: ignore[misc]
    """Converts to Markdown in linear time: the overridden methods search siblings or repeat work."""

    def __init__(self, base: str, site: str, left_out: frozenset[str]) -> None:
        # wrap without a width normalizes white space.
        super().__init__(
            heading_style="ATX",
            escape_asterisks=False,
            escape_underscores=False,
            strip_pre=None,
            wrap=True,
            wrap_width=None,
        )
        self._base, self._host, self._left_out = base, urlsplit(base).netloc, left_out
        self._site = urlsplit(site)
        self._numbers: Counter[int] = Counter()

    def process_tag(self, node: Any, parent_tags: Any = None) -> str:
        is_part = node.name in ("header", "footer") and not parent_tags.isdisjoint({*MAIN, "section"})
        if _is_left_out(node, self._left_out - {node.name} if is_part else self._left_out):
            return ""
        return str(super().process_tag(node, parent_tags))[:MAX_CHARACTERS]

    def process_text(self, el: Any, parent_tags: Any = None) -> str:
        return "" if isinstance(el, PreformattedString) else str(super().process_text(el, parent_tags))

    def get_conv_fn_cached(self, tag_name: str) -> Any:
        if tag_name in BLOCKS:
            return self.convert_div
        return super().get_conv_fn_cached(tag_name) if tag_name in CONVERTED else None

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        words, target = " ".join(text.split()), self._target(str(el.get("href", "")).strip())
        return text if not words or not target else text.replace(text.strip(), f"[{words}]({target})", 1)

    def _target(self, href: str) -> str:
        try:
            parts = urlsplit(urljoin(self._base, href))
        except ValueError:  # such as "http://["
            return ""
        if not href or href.startswith("#") or parts.scheme not in ("http", "https", "mailto", "tel", ""):
            return ""
        is_here = parts.netloc == self._host and parts.scheme in ("http", "https")
        whole = parts._replace(scheme=self._site.scheme, netloc=self._site.netloc) if is_here else parts
        return re.sub(r"[\s()]", lambda found: f"%{ord(found[0]):02X}", whole.geturl())

    def convert_blockquote(self, el: Any, text: str, parent_tags: Any) -> str:
        if "blockquote" in parent_tags:
            return str(self.convert_div(el, text, parent_tags))
        return str(super().convert_blockquote(el, text, parent_tags))

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        return f" {el.get('alt', '')} "

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        self._numbers[id(el.parent)] += 1
        mark = f"{self._numbers[id(el.parent)]}. " if el.parent.name == "ol" else "- "
        mark += "Error: " if _is_errors(el.parent) else ""
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {mark if mark.endswith(': ') else ''}{text} "
        indented = text.replace("\n", "\n  ")
        return f"{mark}{indented}\n" if text else ""

    def convert_td(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        words = " ".join(text.split())
        return f" {words} " if "_inline" in parent_tags else " " + words.replace("|", "\\|") + " |"

    convert_th = convert_td

    def convert_tr(self, el: Any, text: str, parent_tags: Any) -> str:
        if "_inline" in parent_tags:
            return text
        cells = [child.name for child in el.children if isinstance(child, Tag)]
        is_head = cells and set(cells) == {"th"} and el.find_previous_sibling("tr") is None
        return f"|{text}\n" + (f"|{' --- |' * len(cells)}\n" if is_head else "")
