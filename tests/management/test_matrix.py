"""``make matrix``: which Pythons and Djangos go together, what is installed for them, and what is told of it."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from django_mcp.auth.oauth import MIN_TOOLKIT
from scripts import matrix, matrix_steps
from scripts.matrix import DJANGOS, PYTHONS, Cell
from tests.management.checkout import ROOT

REPORT = '<testsuites><testsuite tests="9" failures="{failures}" errors="0" skipped="2"/></testsuites>'
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Machine:
    """Stands in for a machine with two Pythons, one of them broken."""

    def __init__(self) -> None:
        self.installed: list[tuple[str, str]] = []
        self.tested: list[str] = []
        self.failures: dict[str, int] = {}
        self.complaints: dict[str, str] = {}

    def interpreter(self, version: str) -> tuple[Path | None, str]:
        return (Path("/python"), "") if version != "3.12" else (None, "python3.12 is a shim that leads nowhere")

    def install(self, python: Path, folder: Path, checkout: Path, wanted: Sequence[str], constraints: Path) -> str:
        self.installed.append((folder.name, constraints.read_text()))
        return self.complaints.get(folder.name, "")

    def run_pytest(self, folder: Path, checkout: Path, tests: Sequence[str]) -> int:
        self.tested.append(folder.name)
        failures = self.failures.get(folder.name, 0)
        (folder / "tests.xml").write_text(REPORT.format(failures=failures))
        return int(failures > 0)

    def versions_in(self, folder: Path, names: Sequence[str]) -> dict[str, str]:
        return {"Python": "3.13.99", "Django": "6.1.99", "pydantic": "2.99"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(matrix, "WHERE", tmp_path / "matrix")
    for name in ("interpreter", "install", "run_pytest", "versions_in"):
        monkeypatch.setattr(matrix, name, getattr(machine, name))
    return machine


def test_django_6_is_not_tried_on_a_python_it_does_not_run_on() -> None:
    found = [cell.name for cell in matrix.cells(PYTHONS, DJANGOS, "with")]
    assert found == [
        "3.11-5.2",
        *["3.12-5.2", "3.12-6.0", "3.12-6.1"],
        *["3.13-5.2", "3.13-6.0", "3.13-6.1"],
        "3.11-5.2-lowest",
    ]


def test_the_lowest_versions_are_those_of_pyproject_for_all_that_a_site_may_install() -> None:
    found = dict(line.split("==") for line in matrix.lowest_versions(PROJECT))
    assert found["Django"] == DJANGOS[0]
    for name in ("channels", "pydantic", "djangorestframework", "django-ninja", "psycopg", "jsonschema"):
        assert any(line.startswith(f"{name}>={found[name]},") for line in all_requirements()), name
    assert "pytest" not in found
    assert found["django-oauth-toolkit"] == MIN_TOOLKIT, "most tests need OAuth, most sites need not"


def all_requirements() -> list[str]:
    return [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]


def test_a_requirement_without_a_lower_bound_is_said() -> None:
    project = {"name": "x", "dependencies": ["y"], "optional-dependencies": {}}
    with pytest.raises(ValueError, match=r"'y' in pyproject.toml has no lower bound"):
        matrix.lowest_versions(project)


def test_the_first_python_and_django_are_the_lowest_that_pyproject_names() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert f"Django>={DJANGOS[0]}" in PROJECT["dependencies"]


def test_versions_that_pyproject_claims_are_in_the_matrix() -> None:
    ours = {f"Framework :: Django :: {each}" for each in DJANGOS}
    ours |= {f"Programming Language :: Python :: {each}" for each in PYTHONS}
    claimed = {each for each in PROJECT["classifiers"] if each[-1].isdigit() and "." in each}
    assert claimed <= ours


def test_each_cell_has_its_django_and_one_without_a_python_is_left_out(machine: Machine, capsys: Any) -> None:
    assert matrix.main(["--django", "6.1", "--lowest", "without", "tests/core"]) == 0
    assert machine.installed == [("3.13-6.1", "Django==6.1.*\n")]
    told = capsys.readouterr().out
    assert "| 3.12 | 6.1 | newest | not run |  |  |  |  | python3.12 is a shim that leads nowhere |" in told
    assert "| 3.13.99 | 6.1.99 | newest | passed | 7 | 0 | 2 | 0 | pydantic 2.99 |" in told
    assert (matrix.WHERE / "report.md").read_text() in told


def test_the_lowest_leg_is_held_to_all_lower_bounds(machine: Machine) -> None:
    assert matrix.main(["--lowest", "only"]) == 0
    ((name, constraints),) = machine.installed
    assert name == "3.11-5.2-lowest"
    assert constraints.splitlines() == matrix.lowest_versions(PROJECT)


def test_one_cell_that_fails_fails_the_command_and_the_others_are_run(machine: Machine, tmp_path: Path) -> None:
    machine.failures["3.13-5.2"] = 3
    file = tmp_path / "all.json"
    assert matrix.main(["--python", "3.13", "--lowest", "without", "--json", str(file), "tests/core"]) == 1
    assert machine.tested == ["3.13-5.2", "3.13-6.0", "3.13-6.1"]
    told = json.loads(file.read_text())
    assert told["tests"] == ["tests/core"]
    assert [(each["state"], each["failed"]) for each in told["cells"]] == [("failed", 3), ("passed", 0), ("passed", 0)]


def test_a_django_that_is_not_published_is_not_run_and_another_complaint_of_pip_is_a_failure(machine: Machine) -> None:
    none = "ERROR: No matching distribution found for Django==6.1.*"
    machine.complaints = {"3.13-6.1": none, "3.13-6.0": "ERROR: these versions have conflicting dependencies."}
    found = [matrix.run(Cell("3.13", django), ["tests"], again=False) for django in DJANGOS]
    assert [each.state for each in found] == ["passed", "failed", "not run"]
    assert found[2].reason == none


def test_a_machine_that_ran_nothing_has_not_passed(machine: Machine) -> None:
    assert matrix.main(["--python", "3.12", "--lowest", "without"]) == 1


def test_what_does_not_go_together_is_said(machine: Machine, capsys: Any) -> None:
    assert matrix.main(["--python", "3.11", "--django", "6.1", "--lowest", "without"]) == 2
    assert "No Django of ['6.1'] runs on a Python of ['3.11']." in capsys.readouterr().err


def test_environments_of_the_last_run_are_used_again_where_that_is_asked(machine: Machine) -> None:
    assert matrix.main(["--python", "3.11", "--lowest", "without", "--again"]) == 0
    assert (machine.installed, machine.tested) == ([], ["3.11-5.2"])


def test_a_run_of_pytest_without_a_report_has_failed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "run_pytest", lambda *_: 4)
    found = matrix.run(Cell("3.13", "6.1"), ["tests/nowhere"], again=False)
    assert (found.state, found.reason) == ("failed", "pytest ended with 4 and wrote no report")


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_python_is_found_by_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    put(tmp_path, "python3.98", "echo /opt/python3.98")
    put(tmp_path, "python3.97", "echo 'pyenv: python3.97: command not found' >&2; exit 127")
    put(tmp_path, "python3.96", "exit 3")
    assert matrix_steps.interpreter("3.98") == (Path("/opt/python3.98"), "")
    assert matrix_steps.interpreter("3.97")[1].endswith("python3.97: pyenv: python3.97: command not found")
    assert matrix_steps.interpreter("3.96")[1].endswith("python3.96: ended with 3")
    assert matrix_steps.interpreter("3.95") == (None, "python3.95 is not in PATH")


def test_a_cell_knows_nothing_of_the_run_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = matrix_steps.clean()
    assert found["TEST_ON"] == "sqlite"
    assert not {"DATABASE_URL", "PYTHONPATH"} & set(found)
