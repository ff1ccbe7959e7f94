"""Settings that connect MCP clients to an endpoint: what ``mcp_config`` prints, and the page of a new API key shows.

Based on the clients' documentation of November 2026.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.conf import settings as django_settings

from django_mcp.core.server import MCPServer
from django_mcp.core.server import server as default_server


class Target(NamedTuple):
    """An endpoint as one client reaches it.

    Attributes:
        name: its name in the client.
        url: its URL, or "" if the client starts the site with ``command``.
        auth: ``"oauth"``, ``"key"`` or ``"none"``.
        key: the API key, if given.
        variable: name of the environment variable for the key, if not.
    """

    name: str
    url: str = ""
    command: Sequence[str] = ()
    auth: str = "none"
    key: str = ""
    variable: str = ""

    @property
    def is_local(self) -> bool:
        return bool(self.command)

    def bearer(self, placeholder: str) -> str:
        """Return the value of the ``Authorization`` header.

        Args:
            placeholder: the client's syntax for a variable, with ``{}`` for its name.
        """
        return f"Bearer {self.key or placeholder.format(self.variable)}"

    def headers(self, placeholder: str) -> dict[str, Any]:
        return {"headers": {"Authorization": self.bearer(placeholder)}} if self.auth == "key" else {}

    @property
    def stdio(self) -> dict[str, Any]:
        return {"command": self.command[0], "args": list(self.command[1:])}

    @property
    def export(self) -> str:
        if self.auth != "key" or self.key:
            return ""
        return f"Set the environment variable {self.variable} to the key before you start the client."


class Setting(NamedTuple):
    """A configuration step.

    Attributes:
        where: a file, or an instruction.
        text: text to paste, or "" if there is none.
        kind: ``"json"``, ``"toml"``, ``"shell"`` or ``"steps"``.
    """

    where: str
    text: str
    kind: str


class Unsupported(Exception):
    """The client does not support this configuration. The message says what it supports."""


def as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def shell(*parts: str) -> str:
    return shlex.join(parts)


BRIDGE = "mcp-remote"
"""npm package that connects to a remote endpoint, for clients whose configuration file only lists local servers."""


def claude_code(target: Target) -> Iterator[Setting]:
    """Anthropic's Claude Code: a command, or the project's ``.mcp.json``."""
    entry = {"type": "http", "url": target.url, **target.headers("${{{}}}")}
    if target.is_local:
        yield Setting(
            "Run this in your project", shell("claude", "mcp", "add", target.name, "--", *target.command), "shell"
        )
        entry = {"type": "stdio", **target.stdio}
    elif target.auth != "key":
        yield Setting(
            "Run this in your project",
            shell("claude", "mcp", "add", "--transport", "http", target.name, target.url),
            "shell",
        )
    else:
        # Single quotes: Claude Code expands the variable, so that the key is in no shell history and no file.
        made = json.dumps(entry)
        yield Setting("Run this in your project", shell("claude", "mcp", "add-json", target.name, made), "shell")
    yield Setting(
        "or share it with your team: .mcp.json in the project's folder, which each member approves once",
        as_json({"mcpServers": {target.name: entry}}),
        "json",
    )
    if target.auth == "oauth":
        yield Setting("Then type /mcp in Claude Code and sign in", "", "steps")


def claude_desktop(target: Target) -> Iterator[Setting]:
    """Anthropic's desktop app: a file for local servers, connectors for remote ones."""
    file = (
        "claude_desktop_config.json, which Settings > Developer > Edit Config opens; then restart the app\n"
        "    macOS:    ~/Library/Application Support/Claude/claude_desktop_config.json\n"
        "    Windows:  %APPDATA%\\Claude\\claude_desktop_config.json"
    )
    if target.is_local:
        yield Setting(file, as_json({"mcpServers": {target.name: target.stdio}}), "json")
        return
    if target.auth != "key" and target.url.startswith("https://"):
        yield from claude_ai(target)
        return
    if target.auth != "key":
        raise Unsupported(
            "Claude Desktop connects over the internet by https only: pass the public address with --url "
            "https://…, or use --stdio to let the app start the site on this machine."
        )
    # No spaces in the argument: the app on Windows drops them.
    entry = {"command": "npx", "args": ["-y", BRIDGE, target.url, "--header", "Authorization:${AUTH_HEADER}"]}
    value = target.bearer("PASTE-THE-KEY-HERE")
    yield Setting(file, as_json({"mcpServers": {target.name: {**entry, "env": {"AUTH_HEADER": value}}}}), "json")


def claude_ai(target: Target) -> Iterator[Setting]:
    """Connectors of claude.ai and its apps."""
    _only_remote(target, "claude.ai")
    yield Setting(
        "In claude.ai or the desktop app (Anthropic's servers call your site, so it must be public)",
        f"1. Open Customize > Connectors (https://claude.ai/customize/connectors)\n"
        f"2. + > Add custom connector\n"
        f"3. Name: {target.name}\n"
        f"4. Remote MCP server URL: {target.url}\n"
        f"5. Add{', then Connect and sign in to your site' if target.auth == 'oauth' else ''}",
        "steps",
    )


def chatgpt(target: Target) -> Iterator[Setting]:
    """OpenAI's ChatGPT, on the web."""
    _only_remote(target, "ChatGPT")
    sign_in = "OAuth; leave client ID and secret empty" if target.auth == "oauth" else "No authentication"
    yield Setting(
        "In ChatGPT on the web (OpenAI's servers call your site, so it must be public)",
        f"1. Open ChatGPT Plugins (https://chatgpt.com/plugins)\n"
        f"2. + > Add custom MCP server\n"
        f"3. Name: {target.name}\n"
        f"4. Server URL: {target.url}\n"
        f"5. Authentication: {sign_in}\n"
        f"6. Accept the warning and choose Create; if asked, sign in to your site to connect {target.name}",
        "steps",
    )


def vscode(target: Target) -> Iterator[Setting]:
    """Visual Studio Code, which prompts for secrets and stores them."""
    where = ".vscode/mcp.json in the project's folder; for all projects, the command 'MCP: Open User Configuration'"
    if target.is_local:
        yield Setting(where, as_json({"servers": {target.name: {"type": "stdio", **target.stdio}}}), "json")
        return
    asks = target.auth == "key" and not target.key
    prompt = {"type": "promptString", "id": f"{target.name}-key", "description": "API key", "password": True}
    entry = {"type": "http", "url": target.url, **target.headers(f"${{{{input:{target.name}-key}}}}")}
    yield Setting(where, as_json({**({"inputs": [prompt]} if asks else {}), "servers": {target.name: entry}}), "json")


def cursor(target: Target) -> Iterator[Setting]:
    """Cursor."""
    entry = target.stdio if target.is_local else {"url": target.url, **target.headers("${{env:{}}}")}
    where = ".cursor/mcp.json in the project's folder; for all projects, ~/.cursor/mcp.json"
    yield Setting(where, as_json({"mcpServers": {target.name: entry}}), "json")


def zed(target: Target) -> Iterator[Setting]:
    """Zed, whose settings have no variables."""
    entry = target.stdio if target.is_local else {"url": target.url, **target.headers("PASTE-THE-KEY-HERE")}
    where = "settings.json; open it with the command 'zed: open settings file'"
    yield Setting(where, as_json({"context_servers": {target.name: entry}}), "json")


def gemini_cli(target: Target) -> Iterator[Setting]:
    """Google's Gemini CLI. Its key ``url`` would select the older transport."""
    entry = target.stdio if target.is_local else {"httpUrl": target.url, **target.headers("${}")}
    where = (
        ".gemini/settings.json in the project's folder; for all projects, ~/.gemini/settings.json. "
        "Gemini CLI ignores both in untrusted folders (see /permissions)"
    )
    yield Setting(where, as_json({"mcpServers": {target.name: entry}}), "json")
    if target.auth == "oauth":
        yield Setting(f"Then type /mcp auth {target.name} in Gemini CLI and sign in", "", "steps")


def codex(target: Target) -> Iterator[Setting]:
    """OpenAI's Codex, in the terminal and in editors."""
    where = "or ~/.codex/config.toml, for the command line, the app and editors"
    lines = [f"[mcp_servers.{target.name}]"]
    add = ["codex", "mcp", "add", target.name]
    if target.is_local:
        yield Setting("Run this", shell(*add, "--", *target.command), "shell")
        lines += [f"command = {json.dumps(target.command[0])}", f"args = {json.dumps(list(target.command[1:]))}"]
    else:
        lines += [f"url = {json.dumps(target.url)}"]
        given = ["--url", target.url]
        if target.auth == "key" and target.key:
            lines += [f'http_headers = {{ "Authorization" = {json.dumps(target.bearer(""))} }}']
            where = where.removeprefix("or ")
        else:
            if target.auth == "key":
                lines += [f"bearer_token_env_var = {json.dumps(target.variable)}"]
                given += ["--bearer-token-env-var", target.variable]
            yield Setting("Run this", shell(*add, *given), "shell")
    yield Setting(where, "\n".join(lines), "toml")
    if target.auth == "oauth":
        yield Setting("Sign in", shell("codex", "mcp", "login", target.name), "shell")


def inspector(target: Target) -> Iterator[Setting]:
    """The MCP Inspector, in the browser and in the terminal. Requires Node.js 22.19 or newer."""
    run = "npx @modelcontextprotocol/inspector"
    if target.is_local:
        yield Setting("In the browser", f"{run} {shell(*target.command)}", "shell")
        yield Setting("or in the terminal", f"{run} --cli {shell(*target.command)} --method tools/list", "shell")
        return
    header = ""
    if target.auth == "key" and not target.key:
        header = f' --header "Authorization: {target.bearer("${}")}"'  # double quotes: the shell expands the key
    elif target.auth == "key":
        value = shell(f"Authorization: {target.bearer('')}")
        header = f" --header {value}"
    yield Setting("In the browser", f"{run} --server-url {shell(target.url)} --transport http{header}", "shell")
    yield Setting(
        "or in the terminal",
        f"{run} --cli {shell(target.url)} --transport http{header} --method tools/list",
        "shell",
    )


def _only_remote(target: Target, client: str) -> None:
    if target.is_local:
        raise Unsupported(f"{client} does not start programs: use --url with the site's address instead of --stdio.")
    if target.auth == "key":
        raise Unsupported(f"{client} sends no API keys: use --oauth, or a public endpoint.")
    if not target.url.startswith("https://"):
        raise Unsupported(
            f"{client} connects over the internet by https only: pass the site's public address with --url https://…"
        )


CLIENTS: dict[str, tuple[str, Callable[[Target], Iterator[Setting]]]] = {
    "claude-code": ("Claude Code", claude_code),
    "claude-desktop": ("Claude Desktop", claude_desktop),
    "claude-ai": ("claude.ai", claude_ai),
    "chatgpt": ("ChatGPT", chatgpt),
    "vscode": ("Visual Studio Code", vscode),
    "cursor": ("Cursor", cursor),
    "zed": ("Zed", zed),
    "gemini-cli": ("Gemini CLI", gemini_cli),
    "codex": ("Codex", codex),
    "inspector": ("MCP Inspector", inspector),
}
"""Clients by name on the command line: their title, and the function that returns their settings."""


def name_for(server: MCPServer) -> str:
    """Return the name of an endpoint in clients, which prefix tool names with it."""
    if server is not default_server:
        return server.name
    named = str(server.implementation["name"])
    if named != server.name:
        return re.sub(r"[^a-zA-Z0-9_-]+", "-", named).strip("-") or "django"
    return str(django_settings.ROOT_URLCONF).partition(".")[0].replace("_", "-") or "django"
