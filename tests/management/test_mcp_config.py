"""``manage.py mcp_config``: what it prints is what each client reads."""

import json
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.test import override_settings
from django.urls import get_resolver

from django_mcp import MCPServer
from django_mcp.client.configuration import CLIENTS
from django_mcp.management.commands.mcp_doctor import find_url

Run = Callable[..., Any]
URL = "https://shop.example/shop/mcp"
KEY = "mcp_key_secret"
FILES = ("claude-code", "claude-desktop", "vscode", "cursor", "zed", "gemini-cli", "codex")
SITE = {"AUTHENTICATION": [], "BASE_URL": "https://shop.example"}


@pytest.fixture(autouse=True)
def shop(make_server: Callable[..., MCPServer]) -> Any:
    get_resolver().url_patterns  # noqa: B018 - read before nobody says any more who may call the site's own endpoint
    server = make_server("shop", authentication=["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"])
    make_server("porch")
    with override_settings(DJANGO_MCP=SITE):
        yield server


def settings_of(run: Run, client: str, *arguments: str, server: str = "shop") -> dict[str, str]:
    """Kind of setting -> its text."""
    told = run("mcp_config", client, "--server", server, *arguments, "--json").json
    return {each["kind"]: each["text"] for each in reversed(told["settings"]) if each["text"]}


def entry(run: Run, client: str, *arguments: str, server: str = "shop") -> dict[str, Any]:
    """What its file says of the endpoint."""
    found = settings_of(run, client, *arguments, server=server)
    read = tomllib.loads(found["toml"]) if "toml" in found else json.loads(found["json"])
    key = {"vscode": "servers", "zed": "context_servers", "codex": "mcp_servers"}.get(client, "mcpServers")
    return read[key][server]


def test_clients_are_listed(run: Run) -> None:
    text = run("mcp_config").out
    assert all(name in text for name in CLIENTS)
    assert run("mcp_config", "--json").json == {"clients": list(CLIENTS)}


@pytest.mark.parametrize("client", [each for each in FILES if each != "claude-desktop"])
def test_people_sign_in_with_nothing_but_the_address(run: Run, client: str) -> None:
    told = entry(run, client)
    assert {told.pop("url", None), told.pop("httpUrl", None)} == {URL, None}
    assert told in ({}, {"type": "http"})


def test_gemini_is_given_the_name_of_the_newer_transport(run: Run) -> None:
    assert entry(run, "gemini-cli") == {"httpUrl": URL}


HEADERS = {
    "claude-code": "Bearer ${SHOP_MCP_KEY}",
    "vscode": "Bearer ${input:shop-key}",
    "cursor": "Bearer ${env:SHOP_MCP_KEY}",
    "zed": "Bearer PASTE-THE-KEY-HERE",
    "gemini-cli": "Bearer $SHOP_MCP_KEY",
}


@pytest.mark.parametrize(("client", "header"), HEADERS.items())
def test_a_key_is_a_placeholder_until_it_is_given(run: Run, client: str, header: str) -> None:
    assert entry(run, client, "--key")["headers"] == {"Authorization": header}
    assert entry(run, client, "--key", KEY)["headers"] == {"Authorization": f"Bearer {KEY}"}


def test_codex_reads_the_key_from_a_variable(run: Run) -> None:
    assert entry(run, "codex", "--key") == {"url": URL, "bearer_token_env_var": "SHOP_MCP_KEY"}
    added = shlex.split(settings_of(run, "codex", "--key")["shell"])
    assert added == ["codex", "mcp", "add", "shop", "--url", URL, "--bearer-token-env-var", "SHOP_MCP_KEY"]
    assert entry(run, "codex", "--key", KEY)["http_headers"] == {"Authorization": f"Bearer {KEY}"}


def test_vscode_asks_for_the_key_and_hides_it(run: Run) -> None:
    (asked,) = json.loads(settings_of(run, "vscode", "--key")["json"])["inputs"]
    assert (asked["type"], asked["id"], asked["password"]) == ("promptString", "shop-key", True)


def test_claude_code_gets_a_command_that_leaves_the_key_out_of_the_history(run: Run) -> None:
    *command, made = shlex.split(settings_of(run, "claude-code", "--key")["shell"])
    assert command == ["claude", "mcp", "add-json", "shop"]
    assert json.loads(made) == entry(run, "claude-code", "--key")
    plain = shlex.split(settings_of(run, "claude-code")["shell"])
    assert plain == ["claude", "mcp", "add", "--transport", "http", "shop", URL]


def test_claude_desktop_reaches_a_key_endpoint_through_a_bridge(run: Run) -> None:
    told = entry(run, "claude-desktop", "--key")
    assert told["args"] == ["-y", "mcp-remote", URL, "--header", "Authorization:${AUTH_HEADER}"]
    assert told["env"] == {"AUTH_HEADER": "Bearer PASTE-THE-KEY-HERE"}


def test_the_inspector_is_given_the_header_by_the_shell(run: Run) -> None:
    command = settings_of(run, "inspector", "--key")["shell"]
    assert command.endswith(f'--server-url {URL} --transport http --header "Authorization: Bearer $SHOP_MCP_KEY"')


@pytest.mark.parametrize("client", ["claude-ai", "chatgpt", "claude-desktop"])
def test_connectors_are_clicks_with_the_address(run: Run, client: str) -> None:
    assert URL in settings_of(run, client)["steps"]


@pytest.mark.parametrize("client", FILES)
def test_a_client_on_this_machine_starts_the_site_from_any_folder(run: Run, client: str) -> None:
    told = entry(run, client, "--stdio", server="porch")
    assert told["command"] == sys.executable
    script, *rest = told["args"]
    assert Path(script).is_absolute()
    assert Path(script).name == "manage.py"
    assert rest == ["mcp_stdio", "--server", "porch"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", [["--key"], ["--oauth"], []])
def test_no_key_is_ever_made_up(run: Run, client: str, how: list[str]) -> None:
    try:
        text = run("mcp_config", client, "--server", "shop", *how).out
    except CommandError as error:
        text = str(error)
    assert "mcp_key_" not in text


@pytest.mark.parametrize("given", ["https://other.example", "https://other.example/", "https://other.example/shop/mcp"])
def test_the_address_can_be_given(run: Run, given: str) -> None:
    assert entry(run, "cursor", "--url", given)["url"] == "https://other.example/shop/mcp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("emacs",), "There is no client 'emacs'; choose one of claude-code,"),
        (("chatgpt", "--key"), "ChatGPT sends no API keys: use --oauth"),
        (("claude-ai", "--url", "http://localhost:8000"), "pass the site's public address with --url https://…"),
        (("claude-desktop", "--url", "http://localhost:8000"), "use --stdio to let the app start the site"),
        (("cursor", "--url", "shop.example"), "--url 'shop.example' is not a URL such as https://site.example."),
        (("cursor", "--stdio"), "requires a user: use --user USERNAME"),
        (("cursor", "--user", "ann"), "--user requires --stdio"),
        (("cursor", "--server", "porch", "--key"), "does not accept API keys: add 'django_mcp.APIKeyAuthentication'"),
        (("cursor", "--server", "porch", "--oauth"), "The endpoint 'porch' does not use OAuth"),
    ],
)
def test_what_cannot_be_is_said(run: Run, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("mcp_config", "--server", "shop", *arguments)
    assert words in str(caught.value)


def test_a_site_that_has_not_said_its_address_is_asked_for_it(run: Run) -> None:
    with override_settings(DJANGO_MCP={"AUTHENTICATION": []}), pytest.raises(CommandError, match="pass --url"):
        run("mcp_config", "cursor", "--server", "shop")


@pytest.mark.parametrize("site", ["https://other.example", "https://other.example/", "https://other.example/shop/mcp"])
def test_the_doctor_takes_the_address_of_the_site_as_well(shop: MCPServer, site: str) -> None:
    assert find_url(None, site, shop) == "https://other.example/shop/mcp"
    assert find_url("https://other.example/at/a/proxy", None, shop) == "https://other.example/at/a/proxy"
    assert find_url(None, None, shop) == URL
