"""The virtual environment: made once, and again only when what it was made from has changed."""

from pathlib import Path

import pytest

from scripts import environment


class Recorder:
    """Stands in for the two slow steps, and remembers which were taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[str] = []
        self.pip_exit_code = 0

    def create(self, folder: Path, **options: bool) -> None:
        self.steps.append("venv")
        folder.mkdir(exist_ok=True)
        (folder / "pyvenv.cfg").touch()

    def install(self, python: Path, requirement: str) -> int:
        self.steps.append(f"pip {requirement.partition('[')[2].rstrip(']')}")
        return self.pip_exit_code

    def since(self) -> list[str]:
        """The steps since the last time of asking."""
        steps, self.steps = self.steps, []
        return steps


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


@pytest.fixture
def ran(checkout, monkeypatch) -> Recorder:
    recorder = Recorder(checkout / ".venv")
    monkeypatch.setattr(environment.venv, "create", recorder.create)
    monkeypatch.setattr(environment, "install", recorder.install)
    return recorder


def provide(ran: Recorder, extra: str = "demo") -> str | None:
    return environment.main([str(ran.folder), extra])


def test_the_first_start_makes_it_and_installs_the_extra(ran):
    assert provide(ran) is None

    assert ran.since() == ["venv", "pip demo"]


def test_the_second_start_does_nothing_at_all(ran):
    provide(ran)
    ran.since()

    assert provide(ran) is None
    assert ran.since() == []


def test_a_changed_pyproject_installs_again(ran, checkout):
    provide(ran)
    ran.since()
    (checkout / "pyproject.toml").write_text("[project]\ndependencies = []\n")

    provide(ran)

    assert ran.since() == ["pip demo"]


def test_the_tests_add_to_what_the_demo_installed_and_the_demo_takes_nothing_away(ran, checkout):
    provide(ran, "demo")
    ran.since()

    provide(ran, "dev")
    assert ran.since() == ["pip demo,dev"]

    provide(ran, "demo")
    assert ran.since() == []

    (checkout / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    provide(ran, "demo")
    assert ran.since() == ["pip demo,dev"]


def test_another_python_begins_from_nothing(ran, monkeypatch):
    provide(ran)
    ran.since()
    monkeypatch.setattr(environment.sys, "version", "3.99.0")

    provide(ran)

    assert ran.since() == ["venv", "pip demo"]


def test_a_checkout_that_has_moved_begins_from_nothing(ran, checkout, monkeypatch):
    provide(ran)
    ran.since()
    moved = checkout / "moved"
    moved.mkdir()
    (checkout / "pyproject.toml").rename(moved / "pyproject.toml")
    monkeypatch.setattr(environment, "ROOT", moved)

    provide(ran)

    assert ran.since() == ["venv", "pip demo"]


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_stamp_that_was_cut_short_begins_from_nothing(ran, content):
    provide(ran)
    ran.since()
    (ran.folder / "installed.json").write_text(content)

    provide(ran)

    assert ran.since() == ["venv", "pip demo"]


def test_a_failed_installation_is_said_and_tried_again(ran):
    ran.pip_exit_code = 1
    assert "The installation failed" in provide(ran)

    ran.pip_exit_code = 0
    ran.since()
    assert provide(ran) is None
    assert ran.since() == ["venv", "pip demo"]


def test_a_folder_that_cannot_be_written_is_said_in_words(ran, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", ".venv")

    monkeypatch.setattr(environment.venv, "create", refuse)

    assert provide(ran).startswith("The virtual environment could not be made: [Errno 13] Permission denied")


def test_a_folder_with_something_else_in_it_is_left_alone(ran):
    ran.folder.mkdir()
    (ran.folder / "letters.txt").touch()

    assert "is no virtual environment" in provide(ran)
    assert ran.since() == []
