"""Files that callers send: their names and media types are those of a form's upload."""

import base64
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from django_mcp.model_resources.form_schema import read_file

CONTENT = base64.b64encode(b"x").decode()


def read(**told: Any) -> tuple[str | None, str]:
    file = read_file({"content": CONTENT, **told})
    return file.name, str(file.content_type)


def test_a_name_is_its_last_part_as_djangos_parser_leaves_it() -> None:
    names = {
        "a.png": "a.png",
        "C:\\Users\\anna\\a.png": "a.png",
        "..\\evil.txt": "evil.txt",
        "../../etc/passwd": "passwd",
        "/etc/passwd": "passwd",
        " a.txt ": "a.txt",
        "a\r\nX: y.txt": "aX: y.txt",
    }
    assert {name: read(filename=name)[0] for name in names} == names


def test_what_leaves_no_name_is_refused(subtests: pytest.Subtests) -> None:
    for name in (" ", "", "..", "a/", "\\", "\r\n"):
        with subtests.test(name=name), pytest.raises(ValidationError):
            read(filename=name)


def test_a_media_type_that_is_none_is_guessed_from_the_name() -> None:
    given = {
        "text/plain; charset=utf-8": "text/plain; charset=utf-8",
        "text/plain\r\nX: y": "image/png",
        "x": "image/png",
    }
    assert {told: read(filename="a.png", content_type=told)[1] for told in given} == given
