"""Front matter: valid YAML is read; what is refused is named with its line where that is known."""

import re

import pytest

from django_mcp.skills.skill import read_front_matter


def between(lines: str) -> str:
    return f"---\n{lines}\n---\n\n# Title\n"


def test_valid_yaml_is_read(subtests: pytest.Subtests) -> None:
    for lines, value in [
        ("name: plan-a-trip", "plan-a-trip"),
        ("name: a # comment", "a"),
        ("name: http://example.com/?a=b", "http://example.com/?a=b"),
        ("name: 'it''s: so'", "it's: so"),
        ("name: plain text\n  over two lines", "plain text over two lines"),
        ('name: "quoted text\n  over two lines"', "quoted text over two lines"),
        ("name: 2026-07-28", "2026-07-28"),
        ("name: {a: b}", {"a": "b"}),
        ("name:\n  - a: b\n    c: 1\n  - d: [e, [f]]", [{"a": "b", "c": 1}, {"d": ["e", ["f"]]}]),
        ("name: >\n  one\n    two\n  three\n", "one\n  two\nthree\n"),
        ("name: |-\n  one\n  two", "one\ntwo"),
        ("name: Zürich, 東京 🛫", "Zürich, 東京 🛫"),
        ("name: 12", 12),
        ("name: -1.5", -1.5),
        ("name: true", True),
        ("name:", None),
        ("name:\n  a:\n    b:\n      c: d", {"a": {"b": {"c": "d"}}}),
        ("# first\n\nname: a\n", "a"),
        ("name: a\r", "a"),
    ]:
        with subtests.test(lines=lines, value=value):
            found = read_front_matter(between(lines))

            assert found == {"name": value}
            assert type(found["name"]) is type(value)


def test_what_is_no_yaml_or_no_json_is_refused_with_where_and_why(subtests: pytest.Subtests) -> None:
    for text, words in [
        ("# Title", "must begin with a line '---'"),
        ("", "must begin with a line '---'"),
        ("---\nname: a\n", "a second line '---'"),
        (between("x: a\nname: Use when: it rains"), "line 3: mapping values are not allowed here"),
        (between("x: a\nname: @home"), "line 3: "),
        (between("name: 'open"), "line 3: "),
        (between("name: [a"), "line "),
        (between("just words"), "must be a mapping"),
        (between("- a"), "must be a mapping"),
        (between(""), "must be a mapping"),
        (between("name: &a [*a]"), "JSON cannot represent"),
        (between("name: !tag a"), "line 2: could not determine a constructor"),
        (between("name: !!python/name:os.system x"), "line 2: could not determine a constructor"),
        (between("name: .nan"), "JSON cannot represent"),
        (between("name: !!binary aGk="), "JSON cannot represent"),
        (between("2026-07-28: a"), "JSON cannot represent"),
        (between("? [a]\n: b"), "line 2: found unhashable key"),
        (between(r'name: "\ud83d"'), "JSON cannot represent"),
        (between("name: a\x07"), "it is not valid YAML"),
        (between("name: 2026-13-01"), "month must be in 1..12"),
    ]:
        with subtests.test(text=text, words=words), pytest.raises(ValueError, match=re.escape(words)):
            read_front_matter(text)
