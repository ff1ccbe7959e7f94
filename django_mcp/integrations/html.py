"""HTML pages as Markdown: markdownify and Beautiful Soup do it; this module chooses what of a page a model reads."""

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
"""Characters of a page that are read, and of the text that is made of an element."""
MAX_TAGS = 100_000
"""Start and end tags of a page that are read."""
MAX_DEPTH = 100
"""Levels of elements: converting calls itself four times for each. Of deeper elements the text remains."""

UNREADABLE = frozenset({"script", "style", "template", "svg", "iframe", "object", "canvas", "title"})
AROUND = frozenset({"nav", "noscript", "select", "button", "textarea", "header", "footer"})
"""Left out, unless nothing else has text."""
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
"""Elements for which the converter is asked. It would take others, like ``<soup>``, for names of its methods."""

# Elements whose end tag may be left out: by which start tags they end, and in which elements that are around them.
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
    **{each: (frozenset({"tr", "thead", "tbody", "tfoot"}), _TABLE) for each in ("thead", "tbody", "tfoot")},
    **{
        each: (frozenset({"p"}), frozenset({"table", "td", "th", "li", "div", "section", "blockquote"}))
        for each in ("p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "form", "section", "article", "main")
    },
    **{
        each: (frozenset({"p"}), frozenset({"table", "td", "th", "li", "div", "section", "blockquote"}))
        for each in ("h1", "h2", "h3", "h4", "h5", "h6", "header", "footer", "nav", "fieldset", "hr", "figure")
    },
}
_LOOKED_BACK = 8
"""Open elements among which one is looked for that ends."""


@dataclass(frozen=True)
class Page:
    """What a page says.

    Attributes:
        text: the main part as Markdown.
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
    try:
        soup = _Soup(_bounded(html), "html.parser")
    except ParserRejectedMarkup:
        return Page("", [])
    # A navigation that was opened and never closed has swallowed the rest.
    text = _markdown(soup, base, UNREADABLE | AROUND)
    if not text and _text(soup):
        text = _markdown(soup, base, UNREADABLE)
    titles = [_text(each, frozenset()) for each in _outermost(soup, lambda tag: tag.name == "title")]
    if text and titles and titles[0] and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {titles[0]}\n\n{text}"
    return Page(text, list(_errors(soup)))


def _bounded(html: str) -> str:
    """As much of a page as is read, without what takes ``html.parser`` of older Pythons quadratic time.

    That is whatever is opened and never closed: comments, and tags. Sections (``<![CDATA[``) are comments in HTML.
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
    # Something before the page, else Beautiful Soup warns of what looks like the name of a file.
    return f"<html>{html[:closed]}{html[closed:].replace('<', '&lt;')}"


def _markdown(soup: Tag, base: str, left_out: frozenset[str]) -> str:
    converter = _Converter(base, left_out)
    main = list(_outermost(soup, lambda tag: tag.name in MAIN or tag.get("role") == "main", left_out))
    text = "\n\n".join(filter(None, (converter.process_tag(each, {"main"}).strip() for each in main)))
    text = text or converter.process_tag(soup, set())
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def _is_left_out(tag: Tag, names: frozenset[str]) -> bool:
    return tag.name in names or "hidden" in tag.attrs or tag.get("role") == "navigation"


def _outermost(root: Tag, is_wanted: Callable[[Tag], bool], left_out: frozenset[str] = frozenset()) -> Iterator[Tag]:
    """The elements that are wanted, in their order, but for those inside of another one or of what is left out."""
    waiting: list[PageElement] = [root]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Tag):
            continue
        if is_wanted(each):
            yield each
        elif not _is_left_out(each, left_out):
            waiting.extend(reversed(each.contents))


def _text(root: Tag, left_out: frozenset[str] = UNREADABLE) -> str:
    """The words of an element, however deep they are."""
    found: list[str] = []
    waiting: list[PageElement] = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Tag):
            waiting.extend(() if _is_left_out(each, left_out) else reversed(each.contents))
        elif isinstance(each, NavigableString) and not isinstance(each, PreformattedString):
            found.append(each)
    return " ".join("".join(found).split())


def _errors(soup: Tag) -> Iterator[str]:
    for each in _outermost(soup, _is_errors, UNREADABLE):
        field = re.sub(r"^id_|_error$", "", str(each.get("id", "")))
        items = [item for item in each.children if isinstance(item, Tag) and item.name == "li"]
        for text in filter(None, map(_text, items or [each])):
            yield f"{field}: {text}" if field else text


def _is_errors(tag: Tag) -> bool:
    return "errorlist" in tag.get_attribute_list("class")


class _Soup(BeautifulSoup):
    """A tree that is not too deep, and in which elements end whose end tag HTML allows to leave out."""

    def reset(self) -> None:
        """Begin a page."""
        super().reset()
        self._deeper: list[bool] = []  # open elements that are not in the tree; whether they are left out
        self._hiding = 0

    def handle_starttag(self, name: str, namespace: Any, nsprefix: Any, attrs: Any, *args: Any, **rest: Any) -> Any:
        """Begin an element."""
        if len(self.tagStack) > MAX_DEPTH or self._deeper:
            if name not in (self.builder.empty_element_tags or ()):
                self._deeper.append(name in UNREADABLE | AROUND or "hidden" in attrs)
                self._hiding += self._deeper[-1]
            return None
        if name in _ENDED_BY:
            ended, around = _ENDED_BY[name]
            for each in self.tagStack[: -_LOOKED_BACK - 1 : -1]:
                if each.name in ended:
                    self.handle_endtag(each.name)
                if each.name in around:
                    break
        return super().handle_starttag(name, namespace, nsprefix, attrs, *args, **rest)

    def handle_endtag(self, name: str, nsprefix: str | None = None) -> None:
        """End an element."""
        if self._deeper:
            self._hiding -= self._deeper.pop()
        else:
            super().handle_endtag(name, nsprefix)

    def handle_data(self, data: str) -> None:
        """Add a text."""
        if not self._hiding:
            super().handle_data(data)


_Base: Any = MarkdownConverter  # its stub leaves out the methods to override


class _Converter(_Base):  # type: ignore[misc]
    """Markdown in a time that grows as the page does. What is overridden looks through siblings or repeats itself."""

    def __init__(self, base: str, left_out: frozenset[str]) -> None:
        # "wrap" without a width is what makes spaces of all white space.
        super().__init__(
            heading_style="ATX",
            escape_asterisks=False,
            escape_underscores=False,
            strip_pre=None,
            wrap=True,
            wrap_width=None,
        )
        self._base, self._host, self._left_out = base, urlsplit(base).netloc, left_out
        self._numbers: Counter[int] = Counter()

    def process_tag(self, node: Any, parent_tags: Any = None) -> str:
        """Convert an element."""
        is_part = node.name in ("header", "footer") and not parent_tags.isdisjoint({*MAIN, "section"})
        if _is_left_out(node, self._left_out - {node.name} if is_part else self._left_out):
            return ""
        return str(super().process_tag(node, parent_tags))[:MAX_CHARACTERS]

    def process_text(self, el: Any, parent_tags: Any = None) -> str:
        """Convert a text. Comments, declarations and the like are none."""
        return "" if isinstance(el, PreformattedString) else str(super().process_text(el, parent_tags))

    def get_conv_fn_cached(self, tag_name: str) -> Any:
        """Find the method for an element."""
        if tag_name in BLOCKS:
            return self.convert_div
        return super().get_conv_fn_cached(tag_name) if tag_name in CONVERTED else None

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        """Show where a link leads."""
        words, target = " ".join(text.split()), self._target(str(el.get("href", "")).strip())
        return text if not words or not target else text.replace(text.strip(), f"[{words}]({target})", 1)

    def _target(self, href: str) -> str:
        try:
            parts = urlsplit(urljoin(self._base, href))
        except ValueError:  # as of "http://["
            return ""
        if not href or href.startswith("#") or parts.scheme not in ("http", "https", "mailto", "tel", ""):
            return ""
        is_here = parts.netloc == self._host and parts.scheme in ("http", "https")
        whole = parts._replace(scheme="", netloc="") if is_here else parts
        return re.sub(r"[\s()]", lambda found: f"%{ord(found[0]):02X}", whole.geturl())

    def convert_blockquote(self, el: Any, text: str, parent_tags: Any) -> str:
        """Quote. One in another is not quoted twice."""
        if "blockquote" in parent_tags:
            return str(self.convert_div(el, text, parent_tags))
        return str(super().convert_blockquote(el, text, parent_tags))

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        """Say what a picture shows."""
        return f" {el.get('alt', '')} "

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        """Begin an item of a list, with its number if it has one."""
        self._numbers[id(el.parent)] += 1
        mark = f"{self._numbers[id(el.parent)]}. " if el.parent.name == "ol" else "- "
        mark += "Error: " if _is_errors(el.parent) else ""
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {mark if mark.endswith(': ') else ''}{text} "
        indented = text.replace("\n", "\n  ")
        return f"{mark}{indented}\n" if text else ""

    def convert_td(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ARG002
        """Show a cell. A table in another one is words of its cell."""
        words = " ".join(text.split())
        return f" {words} " if "_inline" in parent_tags else " " + words.replace("|", "\\|") + " |"

    convert_th = convert_td

    def convert_tr(self, el: Any, text: str, parent_tags: Any) -> str:
        """Show a row, and a line below it if it is the head."""
        if "_inline" in parent_tags:
            return text
        cells = [each.name for each in el.children if isinstance(each, Tag)]
        is_head = cells and set(cells) == {"th"} and el.find_previous_sibling("tr") is None
        return f"|{text}\n" + (f"|{' --- |' * len(cells)}\n" if is_head else "")
