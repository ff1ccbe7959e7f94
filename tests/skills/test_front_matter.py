"""Front matter: what is read, what is refused and in which words, and that nobody reads it otherwise."""

import random

import pytest
import yaml

from django_mcp.skills.front_matter import FrontMatterError, read_front_matter


def between(lines: str) -> str:
    return f"---\n{lines}\n---\n\n# Title\n"


def test_what_skills_are_written_with_is_read(subtests: pytest.Subtests) -> None:
    for lines, value in [
        ("name: plan-a-trip", "plan-a-trip"),
        ("name:   much room   ", "much room"),
        ("name: a # comment", "a"),
        ("name: a#b", "a#b"),
        ("name: http://example.com/?a=b", "http://example.com/?a=b"),
        ("name: 'it''s: so'", "it's: so"),
        (r'name: "a\n\"b\" \u00e9"', 'a\n"b" é'),
        ("name: Zürich, 東京 🛫", "Zürich, 東京 🛫"),
        ("name: 12", 12),
        ("name: -1.5", -1.5),
        ("name: true", True),
        ("name:", None),
        ("name: null", None),
        ('name: "1.0"', "1.0"),
        ("name: [Read, 'a, b', \"c\", 3]", ["Read", "a, b", "c", 3]),
        ("name: []", []),
        ("name:\n  - Read\n  - 'b'", ["Read", "b"]),
        ("name:\n- Read\n- 2", ["Read", 2]),
        ('name:\n  author: me\n  version: "1"', {"author": "me", "version": "1"}),
        ("name: |\n  one\n\n    two\n  three\n", "one\n\n  two\nthree\n"),
        ("name: |-\n  one\n  two", "one\ntwo"),
        ("name: >\n  one\n  two\n\n  three", "one two\nthree\n"),
        ("name: >-\n  one\n  two", "one two"),
        ("# first\n\nname: a\n", "a"),
        ("name: a\r", "a"),
    ]:
        with subtests.test(lines=lines, value=value):
            found = read_front_matter(between(lines))

            assert found == {"name": value}
            assert type(found["name"]) is type(value)


def test_the_rest_of_yaml_is_refused_with_the_line_and_what_to_write(subtests: pytest.Subtests) -> None:
    for text, words in [
        ("# Title", "must begin with a line '---'"),
        ("", "must begin with a line '---'"),
        ("\ufeff---\nname: a\n---\n", "must begin with a line '---'"),
        ("---\nname: a\n", "has no end"),
        (between("name: Use when: it rains"), "line 2 cannot be read: put it into quotes"),
        (between("x: a\nname: @home"), "line 3 cannot be read: put it into quotes"),
        (between("name: yes"), "readers of YAML do not agree on what 'yes' is"),
        (between("name: 1e3"), "do not agree"),
        (between("name: 2026-07-28"), "do not agree"),
        (between("name: 0x1f"), "do not agree"),
        (between("name: 12:30:45"), "do not agree"),
        (between("name: &anchor a"), "put it into quotes"),
        (between("name: *anchor"), "put it into quotes"),
        (between("name: !tag a"), "put it into quotes"),
        (between("name: {a: b}"), "put it into quotes"),
        (between("name: 'open"), "quotes have to end on their line"),
        (between('name: "a" b'), "quotes have to end on their line"),
        (between(r'name: "\q"'), "a backslash begins"),
        (between(r'name: "\ud83d\ude00"'), "write the character itself"),
        (between("name: [a, [b]]"), "no lists"),
        (between("name: [a"), "has to end on its line"),
        (between("name: a\n  b"), "is indented more than the keys"),
        (between("name: a\nname: b"), "line 3 has the key 'name' a second time"),
        (between("just words"), "line 2 is no 'key: value'"),
        (between("name:a"), "is no 'key: value'"),
        (between("yes: a"), "has a key 'yes'"),
        (between("a:\n  b:\n    c: d"), "nests deeper"),
        (between("a:\n  - - b"), "puts more than plain and quoted values into a list"),
        (between("name: |\n    a\n  b"), "line 4 is not indented like the first line"),
        (between("name: >\n  a\n    b"), "line 4 is indented in text after '>'"),
        (between("name: |2\n  a"), "put it into quotes"),
        (between("name:\ta"), "has a character '\\t'"),
        (between("name: a\x07"), "has a character '\\x07'"),
        (between("name: a\u2028b"), "has a character"),
    ]:
        with subtests.test(text=text, words=words):
            with pytest.raises(FrontMatterError) as refused:
                read_front_matter(text)

            assert words in str(refused.value)


VALUES = """a|a b|'x'|"y"|"a\\n"|1|1.0|true|yes|-1|~||[a, b]|[]|['a, b', c]|# c|a # c|a: b|- x|2024-01-01|1e5|x:y|:x|-x
?x|a:|0o7|1_0|.5|+1|<<|=|[a,]|[,a]|[a: b]|@x|{a: b}|*a|!t|[#a]|a #|a#b|"a" # c|1:30|0x1f|.inf|null|Null|TRUE|-
--|...|-0|00|1.|[a # b]|[?a]|[- a]|[a:b]|[:a]|é|'it''s'|"\\u00e9"|http://a/b|[a b, "c]"]""".replace("\n", "|").split(
    "|"
)
VALUES += ["|", ">", "|-", ">-", "|+", ">+", "---x"]


def some_lines(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randint(1, 6)):
        indent = " " * chance.choice([0, 0, 0, 0, 1, 2, 2, 4])
        key = f"{chance.choice(['name', 'a-b', 'x/y.z', 'k'])}:{chance.choice([' ', ' ', ' ', ''])}"
        lines.append(indent + chance.choice([key, key, key, "- ", ""]) + chance.choice([*VALUES, ""]))
    return "\n".join(lines)


def test_whatever_is_read_any_reader_of_yaml_reads_alike() -> None:
    """Hosts compare the front matter they are told with what their own reader makes of the file."""
    chance = random.Random(2640)
    read = 0
    for _ in range(20_000):
        lines = some_lines(chance)
        try:
            found = read_front_matter(between(lines))
        except FrontMatterError:
            continue
        read += 1
        assert repr(found) == repr(yaml.safe_load(f"{lines}\n") or {}), lines
    assert read > 500
