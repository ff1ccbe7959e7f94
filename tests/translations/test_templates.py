"""Whatever a template shows is marked for translation."""

import re

import pytest

from tests.translations.catalogs import PACKAGE

TEMPLATES = sorted(
    each for each in PACKAGE.glob("templates/**/*") if each.is_file() and each.suffix not in {".js", ".css"}
)
NO_TEXT = re.compile(
    r"\{% comment %\}.*?\{% endcomment %\}"
    r"|\{% blocktranslate.*?\{% endblocktranslate %\}"
    r"|\{% block (?:bodyclass|extra_style) %\}.*?\{% endblock %\}"
    r"|<style.*?</style>"
    r'|<(?P<name>\w+)[^>]* translate="no"[^>]*>.*?</(?P=name)>'
    r"|\{[%{#].*?[%}#]\}",
    re.DOTALL,
)
SHOWN_ATTRIBUTE = re.compile(r'\b(?:title|alt|placeholder|aria-label|data-label|data-lost|data-gone)="([^"]*)"')
NO_WORD = re.compile(r"<[^>]*>|&\w+;", re.DOTALL)
WORD = re.compile(r"[A-Za-z]{2,}")


def test_every_text_of_a_template_is_marked_for_translation(subtests: pytest.Subtests) -> None:
    for template in TEMPLATES:
        with subtests.test(template=template):
            rest = NO_TEXT.sub(" ", template.read_text())
            shown = [*SHOWN_ATTRIBUTE.findall(rest), NO_WORD.sub(" ", rest)]
            assert [word for text in shown for word in WORD.findall(text)] == []
