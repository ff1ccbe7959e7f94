"""``mcp.py`` of every installed app is found like ``admin.py``; one that fails stops the start."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.core import server

REGISTERS = """
from django_mcp import MCPServer, AllowAny, prompt, resource, tool

@tool
def found_by_discovery() -> str:
    return "found"

@prompt
def found_by_discovery_too() -> str:
    return "found"

@resource("discovery:found")
def found() -> str:
    return "found"

own = MCPServer("discovered", authentication=[AllowAny()])

@tool(server=own)
def on_its_own() -> str:
    return "found"
"""


@pytest.fixture
def make_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_server: Callable[..., MCPServer]
) -> Iterator[Callable[..., override_settings]]:
    """Makes app packages; what comes back installs them. All of it is undone after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)

    def make(**sources: str | None) -> override_settings:
        for name, source in sources.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
            if source is not None:
                (tmp_path / name / "mcp.py").write_text(source)
        return override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, *sources])

    yield make
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def everything() -> set[str]:
    return {
        f"{name}:{key}" for name, kinds in server.snapshots().items() for kind in kinds for key in kind
    } | server.snapshots().keys()


def test_what_an_app_registers_in_its_mcp_module_is_there(make_app: Callable[..., override_settings]) -> None:
    with make_app(holiday=REGISTERS):
        assert everything() >= {
            "default:found_by_discovery",
            "default:found_by_discovery_too",
            "default:discovery:found",
            "discovered:on_its_own",
        }


def test_an_app_without_mcp_module_is_fine(make_app: Callable[..., override_settings]) -> None:
    before = everything()
    with make_app(holiday=None):
        assert everything() == before


def test_an_mcp_module_that_fails_stops_the_start_and_leaves_nothing_behind(
    make_app: Callable[..., override_settings],
) -> None:
    before = everything()
    failures: tuple[tuple[str, type[Exception], str], ...] = (
        ("raise ValueError('half-way')", ValueError, "half-way"),
        ("import a_module_nobody_installed", ModuleNotFoundError, "a_module_nobody_installed"),
        ("from django_mcp import a_name_nobody_exports", ImportError, "a_name_nobody_exports"),
        ("def broken(:", SyntaxError, "."),
    )
    for at, (failure, error, words) in enumerate(failures):
        with pytest.raises(error, match=words), make_app(**{f"holiday_{at}": f"{REGISTERS}\n{failure}\n"}):
            pytest.fail("it started")
        assert everything() == before, failure


def test_a_duplicate_name_in_two_apps_stops_the_start_and_names_both(
    make_app: Callable[..., override_settings],
) -> None:
    tool = "from django_mcp import tool\n\n@tool\ndef found_by_discovery() -> str: ...\n"
    with pytest.raises(Exception, match=r"stay\.mcp\.found.*holiday\.mcp\.found"), make_app(holiday=tool, stay=tool):
        pytest.fail("it started")


def test_after_a_failure_was_mended_the_app_registers_all_of_it(
    make_app: Callable[..., override_settings], tmp_path: Path
) -> None:
    installed = make_app(holiday=f"{REGISTERS}\nraise ValueError\n")
    with pytest.raises(ValueError), installed:  # noqa: PT011 - it has no words
        pytest.fail("it started")
    sys.modules.pop("holiday.mcp", None)
    (tmp_path / "holiday" / "mcp.py").write_text(REGISTERS + "\n# mended, and of another length\n")
    with installed:
        assert "default:found_by_discovery" in everything()
