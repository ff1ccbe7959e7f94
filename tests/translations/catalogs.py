"""Catalogs of translations, as gettext's files have them."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "django_mcp"
LANGUAGES = sorted(each.parent.parent.name for each in PACKAGE.glob("locale/*/LC_MESSAGES/django.po"))


class Entry(NamedTuple):
    """A message.

    Attributes:
        key: its context and its text.
        plural: its text for many; empty for none.
        translations: one, or one for each plural form.
        flags: like ``fuzzy``.
    """

    key: tuple[str, str]
    plural: str
    translations: tuple[str, ...]
    flags: frozenset[str]


def catalog_file(language: str, package: Path = PACKAGE) -> Path:
    return package / "locale" / language / "LC_MESSAGES" / "django.po"


def read(path: Path) -> list[Entry]:
    """The entries of a ``.po`` file, without its header, and without what is out of use."""
    return [each for each in map(_entry, path.read_text().split("\n\n")) if each.key != ("", "")]


def _entry(block: str) -> Entry:
    strings = re.findall(r'^(msg\w+(?:\[\d+\])?) ((?:".*"\n?)+)', block, re.MULTILINE)
    found = {name: "".join(map(ast.literal_eval, lines.splitlines())) for name, lines in strings}
    flags = re.findall(r"^#,(.*)", block, re.MULTILINE)
    return Entry(
        (found.get("msgctxt", ""), found.get("msgid", "")),
        found.get("msgid_plural", ""),
        tuple(text for name, text in found.items() if name.startswith("msgstr")),
        frozenset(flag.strip() for line in flags for flag in line.split(",")),
    )
