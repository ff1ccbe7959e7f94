"""A completer lists a folder: it gets no text that the resource of its variable would refuse."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from django_mcp import MCPServer, resource
from tests.clients import Client


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder with a report of its own, beside one with a secret."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key.pem").touch()
    (tmp_path / "reports" / "2026").mkdir(parents=True)
    (tmp_path / "reports" / "2026" / "may.txt").touch()
    return tmp_path / "reports"


def offered(client: Client, uri: str, name: str, value: str, **chosen: str) -> list[str]:
    params = {
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": name, "value": value},
        "context": {"arguments": chosen},
    }
    return client.request("completion/complete", params).result["completion"]["values"]


@pytest.mark.parametrize("uri", ["report://{+file}", "report://all{?file}", "report://{file}"])
def test_what_is_typed_leads_a_completer_out_of_no_folder(
    server: MCPServer, client: Client, reports: Path, uri: str
) -> None:
    def complete(value: str) -> Iterable[str]:
        folder = reports / value.rpartition("/")[0]
        return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]

    @resource(uri, completions={"file": complete}, server=server)
    def report(file: str = "") -> str:
        return file

    assert offered(client, uri, "file", "") == ["2026/may.txt"]
    for value in ("../secrets/", "2026/../../secrets/", f"{reports.parent}/secrets/", "a\0/"):
        assert offered(client, uri, "file", value) == []


def test_neither_do_the_values_chosen_for_other_variables(server: MCPServer, client: Client, reports: Path) -> None:
    def complete(value: str, arguments: Mapping[str, str]) -> Iterable[str]:
        return [path.name for path in (reports / arguments.get("folder", "")).iterdir()]

    @resource("report://{+folder}{?file}", completions={"file": complete}, server=server)
    def report(folder: str, file: str = "") -> str:
        return file

    assert offered(client, "report://{+folder}{?file}", "file", "", folder="2026") == ["may.txt"]
    assert offered(client, "report://{+folder}{?file}", "file", "", folder="../secrets") == []
    assert offered(client, "report://{+folder}{?file}", "file", "", folder=str(reports.parent)) == []


def test_a_completer_of_an_unchecked_variable_gets_any_text(server: MCPServer, client: Client) -> None:
    @resource("search://{?q}", completions={"q": lambda value: [f"{value}!"]}, unchecked=["q"], server=server)
    def search(q: str = "") -> str:
        return q

    assert offered(client, "search://{?q}", "q", "/etc ../x") == ["/etc ../x!"]
