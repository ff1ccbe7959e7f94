"""Catalogs of translations: complete, true to the sources, and compiled."""

import gettext
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.translations.catalogs import LANGUAGES, PACKAGE, catalog_file, read

PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[a-z%]|\{\w*\}|</?[a-z]+[^>]*>")

pytestmark = pytest.mark.parametrize("language", LANGUAGES)


def test_every_message_is_translated_and_somebody_looked_at_it(language: str) -> None:
    entries = read(catalog_file(language))
    assert len(entries) > 700
    assert [each.key for each in entries if not each.translations or not all(each.translations)] == []
    assert [each.key for each in entries if "fuzzy" in each.flags] == []


def test_a_translation_has_the_placeholders_and_the_tags_of_its_message(language: str) -> None:
    different = [
        (each.key, text)
        for each in read(catalog_file(language))
        for text in each.translations
        if sorted(PLACEHOLDER.findall(each.plural or each.key[1])) != sorted(PLACEHOLDER.findall(text))
    ]
    assert different == []


def test_what_is_compiled_is_what_was_translated(language: str) -> None:
    expected: dict[object, str] = {}
    for each in read(catalog_file(language)):
        key = "\x04".join(filter(None, each.key))
        expected |= {(key, form): text for form, text in enumerate(each.translations)} if each.plural else {}
        expected |= {} if each.plural else {key: each.translations[0]}
    with catalog_file(language).with_suffix(".mo").open("rb") as file:
        compiled = dict(gettext.GNUTranslations(file)._catalog)  # type: ignore[attr-defined]
    compiled.pop("")  # the header
    assert compiled == expected


@pytest.mark.slow
def test_a_catalog_has_the_messages_that_the_sources_have(language: str, tmp_path: Path) -> None:
    if shutil.which("xgettext") is None or shutil.which("msgmerge") is None:
        pytest.skip("GNU gettext is not installed: apt install gettext, or brew install gettext")
    copy = tmp_path / "django_mcp"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "static"))
    command = [sys.executable, "-m", "django", "makemessages", "-l", language, "--no-location", "--no-wrap"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr
    now, then = read(catalog_file(language, copy)), read(catalog_file(language))
    assert sorted((*each.key, each.plural) for each in now) == sorted((*each.key, each.plural) for each in then)
