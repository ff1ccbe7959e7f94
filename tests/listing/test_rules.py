"""``manage.py mcp_listing``: each refusal is named, and a site that keeps the rules is told so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from django.core.management import CommandError
from pydantic import Field

from django_mcp import APIKeyAuthentication, MCPServer, SessionAuthentication, tool, ui
from django_mcp.listing.rules import DIRECTORIES, RULES, findings
from tests.listing.conftest import With
from tests.listing.schemas import SERVER_JSON

Make = Callable[..., MCPServer]
Run = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("with_settings")


def refused(directory: str, server: MCPServer) -> dict[str, list[str]]:
    """What breaks the rules of a directory, by rule."""
    return {each.rule.id: list(each.where) for each in findings(directory, server) if each.rule.refuses}


def advised(directory: str, server: MCPServer) -> dict[str, list[str]]:
    """What a directory advises, by rule."""
    return {each.rule.id: list(each.where) for each in findings(directory, server) if not each.rule.refuses}


@pytest.fixture
def good(make_server: Make) -> MCPServer:
    """An endpoint that every directory takes."""
    good = make_server("good", title="Good", description="Finds things.", instructions="Find things.")

    @tool(server=good, title="Find things", read_only=True, open_world=False)
    def find(words: str) -> str:
        """Find the things that have these words."""
        return words

    return good


@pytest.fixture
def bad(make_server: Make) -> MCPServer:
    """An endpoint that breaks the rules for tools."""
    bad = make_server("bad", instructions="x" * 3000)

    @tool(server=bad)
    def request(method: Literal["GET", "POST"], size: Annotated[float, Field(gt=0)]) -> str:
        return method

    @tool(server=bad, title="Same", read_only=True)
    def one() -> str:
        """One."""
        return ""

    @tool(server=bad, title="Same", read_only=False, destructive=False, open_world=True)
    def two(value: int) -> str:
        """Two."""
        return ""

    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": ["string", "null"]}},
        "$defs": {"A": {"type": "string"}},
    }

    @tool(server=bad, title="Three", input_schema=schema, read_only=True)
    def three(a: str = "", b: str = "") -> str:
        """Three."""
        return a + b

    return bad


def test_a_site_that_keeps_the_rules_is_refused_nowhere(good: MCPServer, subtests: pytest.Subtests) -> None:
    for directory in DIRECTORIES:
        with subtests.test(directory=directory):
            assert (refused(directory, good), advised(directory, good)) == ({}, {})


def test_claude_wants_titles_hints_and_tools_that_either_read_or_write(bad: MCPServer) -> None:
    assert refused("claude", bad) == {
        "tool-title": ["request"],
        "tool-description": ["request"],
        "tool-hints": ["request"],
        "tool-methods": ["request.method"],
    }
    advice = advised("claude", bad)
    assert advice["tool-destructive"] == ["two"]
    assert advice["same-title"] == ["'Same': one, two"]
    assert advice["instructions"][0].startswith("3,000 characters; the first 2,048 end with")


def test_chatgpt_wants_three_hints_of_every_tool(bad: MCPServer) -> None:
    assert refused("chatgpt", bad) == {
        "tool-description": ["request"],
        "tool-hints": [
            "request: readOnlyHint, destructiveHint, openWorldHint",
            "one: openWorldHint",
            "three: openWorldHint",
        ],
    }
    assert advised("chatgpt", bad)["instructions"][0].startswith("3,000 characters; the first 512 end with")


def test_chatgpt_wants_an_origin_of_its_own_for_each_page_of_an_app(good: MCPServer) -> None:
    for name, domain in (("here", None), ("there", "https://there.example.com")):
        page = ui(f"ui://{name}", template="django_mcp/apps/card.html", domain=domain)
        tool(server=good, name=name, title=name.title(), read_only=True, open_world=False, app=page)(lambda: "x")
    assert advised("chatgpt", good)["app-domain"] == ["ui://here"]
    assert "app-domain" not in advised("claude", good)


def test_copilot_reads_less_of_json_schema(bad: MCPServer) -> None:
    assert refused("copilot", bad) == {
        "schema-reference": ["three.a"],
        "schema-types": ["three.b"],
        "schema-minimum": ["request.size"],
    }
    advice = advised("copilot", bad)
    assert advice["tool-hints"] == ["request"]
    assert "server-description" in advice


def test_the_registry_wants_a_name_a_description_and_a_version(
    make_server: Make, with_settings: With, subtests: pytest.Subtests
) -> None:
    assert refused("registry", make_server("plain")) == {"server-description": ["no description"]}
    wrong = make_server("wrong", registry_name="wrong", title="t" * 101, description="d" * 101, version="^1.2")
    assert refused("registry", wrong) == {
        "server-name": ["'wrong'"],
        "server-title": ["101 characters"],
        "server-description": ["101 characters"],
        "server-version": ["'^1.2'"],
    }
    for version, is_right in [("latest", False), ("1.x", False), (">=1", False), ("2026.11", True), ("1.0-beta", True)]:
        with subtests.test(version=version):
            made = make_server(f"v{abs(hash(version))}", description="d", version=version)
            assert ("server-version" not in refused("registry", made)) is is_right
    with_settings(VERSION="0.1.0.dev0")
    assert "server-version" in advised("registry", make_server("packages", description="d"))


def test_nobody_lists_what_is_not_on_the_internet(
    good: MCPServer, with_settings: With, subtests: pytest.Subtests
) -> None:
    local = ["http://travel.example.com", "https://localhost", "https://10.0.0.7:8000", "https://mcp.internal", None]
    for base in local:
        for directory in DIRECTORIES:
            with subtests.test(base=base, directory=directory):
                with_settings(BASE_URL=base)
                assert "public-url" in refused(directory, good)


def test_a_privacy_policy_is_required_at_an_https_address(
    good: MCPServer, with_settings: With, subtests: pytest.Subtests
) -> None:
    for url in (None, "http://travel.example.com/privacy/", "/privacy/"):
        with_settings(PRIVACY_POLICY_URL=url)
        for directory in DIRECTORIES:
            with subtests.test(url=url, directory=directory):
                assert ("privacy-policy" in refused(directory, good)) is (directory != "registry")


def test_keys_are_enough_for_copilot_and_a_session_for_nobody(make_server: Make) -> None:
    keys = make_server("keys", authentication=[APIKeyAuthentication()])
    session = make_server("session", authentication=[SessionAuthentication()])
    assert refused("claude", keys)["authentication"] == ["APIKeyAuthentication"]
    assert "authentication" in refused("chatgpt", keys)
    assert "authentication" not in refused("copilot", keys)
    assert "authentication" in refused("copilot", session)


def test_an_agent_of_copilot_takes_128_tools(make_server: Make) -> None:
    many = make_server("many")
    for number in range(129):
        tool(server=many, name=f"t{number}", description="x")(lambda: "")
    assert advised("copilot", many)["tool-count"] == ["129 tools"]


def test_every_rule_names_a_source_and_a_correction() -> None:
    for rule in RULES:
        assert rule.source.keys() <= DIRECTORIES.keys()
        assert rule.source
        assert all("." in each for each in rule.source.values())
        assert rule.what.endswith(".")
        assert rule.correction.endswith(".")


def test_the_command_tells_of_each_directory_and_fails_if_one_refuses(
    run: Run, bad: MCPServer, good: MCPServer
) -> None:
    told = run("mcp_listing", "--server", "bad")
    assert told.code == 1
    assert "Claude's connectors directory (claude)\n  Would be refused:\n    Every tool needs a title." in told.out
    assert "      * request\n      -> Set title='…' where the tool is declared: @tool," in told.out
    assert "Source: claude.com/docs/connectors/building/review-criteria" in told.out
    fine = run("mcp_listing", "claude", "--server", "good")
    assert fine.code == 0
    assert "Nothing would be refused." in fine.out
    assert "ChatGPT" not in fine.out


def test_the_findings_as_json(run: Run, bad: MCPServer) -> None:
    told = run("mcp_listing", "claude", "--server", "bad", "--json")
    assert told.code == 1
    assert (told.json["server"], told.json["refused"]) == ("bad", True)
    first = next(each for each in told.json["directories"]["claude"] if each["rule"] == "tool-title")
    assert (first["severity"], first["where"]) == ("refused", ["request"])


def test_server_json_is_written_once_nothing_would_be_refused(
    run: Run, bad: MCPServer, good: MCPServer, tmp_path: Path
) -> None:
    file = tmp_path / "server.json"
    assert run("mcp_listing", "registry", "--server", "bad", "--write", str(file)).code == 1
    assert not file.exists()
    assert run("mcp_listing", "registry", "--server", "good", "--write", str(file)).code == 0
    jsonschema.validate(written := json.loads(file.read_text()), SERVER_JSON)
    assert run("mcp_listing", "registry", "--server", "good", "--write", "-").json == written


def test_server_json_is_for_the_registry_only(run: Run, good: MCPServer) -> None:
    for arguments in (["claude"], [], ["registry", "--json"]):
        with pytest.raises(CommandError, match="mcp_listing registry --write"):
            run("mcp_listing", *arguments, "--write", "x.json")
    with pytest.raises(CommandError, match="Cannot write"):
        run("mcp_listing", "registry", "--server", "good", "--write", "/nowhere/server.json")
