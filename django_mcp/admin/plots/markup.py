"""Elements of SVG. Whatever is put in is escaped, and numbers are written as SVG wants them in every language."""

from collections.abc import Iterable

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

NOTHING = mark_safe("")


def tag(name: str, *children: str, **attributes: float | str) -> SafeString:
    """An element: ``tag("text", "12", x=percent(3), class_="mcp-tick")``. Underlines in names become hyphens."""
    written = format_html_join("", ' {}="{}"', ((_attribute(key), _number(value)) for key, value in attributes.items()))
    return format_html("<{0}{1}>{2}</{0}>", mark_safe(name), written, joined(children))  # noqa: S308 - a literal


def joined(parts: Iterable[str]) -> SafeString:
    """One after the other."""
    return format_html_join("", "{}", ((part,) for part in parts))


def percent(share: float) -> str:
    """A share of the width."""
    return f"{_number(100 * share)}%"


def _attribute(name: str) -> str:
    return name if name in CAMELS else name.rstrip("_").replace("_", "-")


CAMELS = {"viewBox", "preserveAspectRatio"}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
