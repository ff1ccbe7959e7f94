"""The tables of the reference are complete and up to date."""

import re

import pytest

from tests.reference import write

SLOW = "messages"
"""The page for which the whole package is parsed."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == SLOW else ()) for name in write.PAGES]
)
def test_the_tables_are_what_the_code_gives(name: str) -> None:
    page = (write.DOCS / f"{name}.md").read_text()
    assert page == write.written(page, write.tables()), "run: python -m tests.reference.write"


def test_every_table_is_on_a_page() -> None:
    pages = "\n".join((write.DOCS / f"{name}.md").read_text() for name in write.PAGES)
    assert set(re.findall(r"<!-- begin: ([\w-]+) -->", pages)) == set(write.tables())


def test_every_option_is_described() -> None:
    missing = [
        f"{name}: {row}"
        for name, make in write.tables().items()
        if name != SLOW
        for row in make().splitlines()
        if row.rstrip().endswith("|  |")
    ]
    assert missing == []


def test_every_command_has_a_table() -> None:
    commands = {path.stem for path in (write.DOCS.parent / "django_mcp/management/commands").glob("[!_]*.py")}
    assert commands == set(write.COMMANDS)
