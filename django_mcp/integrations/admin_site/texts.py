"""Texts of the admin without the markup that a page shows them with."""

import re
from html import unescape
from typing import Any

from django.utils.html import strip_tags

_BREAKS = re.compile(r"<(?:br|hr)\b[^<>]*>|</(?:p|div|li|tr|td|h\d)>", re.IGNORECASE)

_IMAGES = re.compile(r"""<img\b[^>]*?\balt=(?P<quote>["'])(?P<text>.*?)(?P=quote)[^>]*>""", re.IGNORECASE | re.DOTALL)


def plain(value: Any) -> str:
    """Return a text; one that is marked as safe is HTML, of which the words are left, with the texts of images."""
    text = str(value)
    if not hasattr(value, "__html__"):
        return text
    text = _IMAGES.sub(lambda image: image["text"], text)
    return " ".join(unescape(strip_tags(_BREAKS.sub(" ", text))).split())
