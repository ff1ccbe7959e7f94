"""Each promise of the security page names tests, and they exist."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.design.sources import ROOT

SITE = ROOT.parent
PAGE = SITE / "docs" / "security.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def rows(section: str) -> list[list[str]]:
    """Return the cells of all table rows in a section of the page, without heads."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| threat |")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of the tests in a file, in a class as ``Class::test_name``."""
    found: set[str] = set()
    if path.is_file():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [(f"{node.name}::", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
        for prefix, body in [("", tree.body), *classes]:
            functions = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{prefix}{each.name}" for each in functions if each.name.startswith("test_")}
    return frozenset(found)


def test_each_threat_has_one_row_in_the_table_of_tests_and_nothing_else_has() -> None:
    threats = [row[0] for row in rows("Threats and answers")]
    tested = [row[0] for row in rows("Where each promise is tested")]
    assert threats
    wrong = [f"has {tested.count(each)} rows: {each}" for each in threats if tested.count(each) != 1]
    wrong += [f"is no threat of the page: {each}" for each in tested if each not in threats]
    assert not wrong, "\n".join(wrong)


def test_each_row_of_that_table_names_tests_that_exist() -> None:
    wrong: list[str] = []
    for threat, *cells in rows("Where each promise is tested"):
        tests = " | ".join(cells)
        named = TEST.findall(tests)
        if ", ".join(f"`{file}::{name}`" for file, name in named) != tests:
            wrong.append(f"{threat}: {tests!r} is no list of tests")
        missing = [f"{file}::{name}" for file, name in named if name not in names_in(SITE / file)]
        wrong += [f"{threat}: there is no {each}" for each in missing]
    assert not wrong, "\n".join(wrong)
