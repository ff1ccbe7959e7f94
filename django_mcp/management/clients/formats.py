"""How each client is told of an endpoint, in the form it reads today.

Looked up in the clients' own documentation in November 2026.
"""

import json
from collections.abc import Callable, Iterator

from django_mcp.management.clients.target import Setting, Target, Unsupported, as_json, shell

BRIDGE = "mcp-remote"
"""The npm package that makes a remote endpoint a local one, for clients that read local ones from a file only."""


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
        # Single quotes: the variable is looked up by Claude Code, and the key is in no history and no file.
        made = json.dumps(entry)
        yield Setting("Run this in your project", shell("claude", "mcp", "add-json", target.name, made), "shell")
    yield Setting(
        "or share it with your team: .mcp.json, in the project's folder, which each of them is asked about once",
        as_json({"mcpServers": {target.name: entry}}),
        "json",
    )
    if target.auth == "oauth":
        yield Setting("Then type /mcp in Claude Code and sign in", "", "steps")


def claude_desktop(target: Target) -> Iterator[Setting]:
    """Anthropic's desktop app: a file for local servers; connectors, called from the internet, for others."""
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
            "Claude Desktop reaches sites through the internet, with https only: give the public address with --url "
            "https://…, or have the app start the site on this machine with --stdio."
        )
    # Without spaces in the argument: the app on Windows loses them.
    entry = {"command": "npx", "args": ["-y", BRIDGE, target.url, "--header", "Authorization:${AUTH_HEADER}"]}
    value = target.bearer("PASTE-THE-KEY-HERE")
    yield Setting(file, as_json({"mcpServers": {target.name: {**entry, "env": {"AUTH_HEADER": value}}}}), "json")


def claude_ai(target: Target) -> Iterator[Setting]:
    """Connectors of claude.ai, of its apps too."""
    _only_remote(target, "claude.ai")
    yield Setting(
        "In claude.ai or the desktop app (which calls from the internet: the site must be reachable from there)",
        f"1. Open Customize > Connectors (https://claude.ai/customize/connectors)\n"
        f"2. + > Add custom connector\n"
        f"3. Name: {target.name}\n"
        f"4. Remote MCP server URL: {target.url}\n"
        f"5. Add{', then Connect, and sign in to the site' if target.auth == 'oauth' else ''}",
        "steps",
    )


def chatgpt(target: Target) -> Iterator[Setting]:
    """OpenAI's ChatGPT, on the web."""
    _only_remote(target, "ChatGPT")
    sign_in = "OAuth, then sign in to the site" if target.auth == "oauth" else "No authentication"
    yield Setting(
        "In ChatGPT on the web (which calls from the internet: the site must be reachable from there)",
        f"1. Settings > Apps & Connectors > Advanced settings: turn on Developer mode; in a workspace its admins do\n"
        f"2. Settings > Apps & Connectors > Create\n"
        f"3. Name: {target.name}\n"
        f"4. MCP server URL: {target.url}\n"
        f"5. Authentication: {sign_in}\n"
        f"6. Create. In a chat: + > More > {target.name}",
        "steps",
    )


def vscode(target: Target) -> Iterator[Setting]:
    """Visual Studio Code, which asks for secrets and keeps them."""
    where = ".vscode/mcp.json, in the project's folder; or the command 'MCP: Open User Configuration', for all projects"
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
    where = ".cursor/mcp.json, in the project's folder; or ~/.cursor/mcp.json, for all projects"
    yield Setting(where, as_json({"mcpServers": {target.name: entry}}), "json")


def zed(target: Target) -> Iterator[Setting]:
    """Zed, whose settings know no variables."""
    entry = target.stdio if target.is_local else {"url": target.url, **target.headers("PASTE-THE-KEY-HERE")}
    where = "settings.json, which the command 'zed: open settings file' opens"
    yield Setting(where, as_json({"context_servers": {target.name: entry}}), "json")


def gemini_cli(target: Target) -> Iterator[Setting]:
    """Google's Gemini CLI. ``url`` would be the older transport."""
    entry = target.stdio if target.is_local else {"httpUrl": target.url, **target.headers("${}")}
    where = (
        ".gemini/settings.json, in the project's folder; or ~/.gemini/settings.json, for all projects. "
        "In folders that you do not trust (/permissions) Gemini CLI uses neither"
    )
    yield Setting(where, as_json({"mcpServers": {target.name: entry}}), "json")
    if target.auth == "oauth":
        yield Setting(f"Then type /mcp auth {target.name} in Gemini CLI and sign in", "", "steps")


def codex(target: Target) -> Iterator[Setting]:
    """OpenAI's Codex, in the terminal and in editors."""
    where = "or ~/.codex/config.toml, which the command line, the app and the editors read"
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
    """The MCP Inspector, in the browser and in the terminal. It needs Node.js 22.19 or newer."""
    run = "npx @modelcontextprotocol/inspector"
    if target.is_local:
        yield Setting("In the browser", f"{run} {shell(*target.command)}", "shell")
        yield Setting("or in the terminal", f"{run} --cli {shell(*target.command)} --method tools/list", "shell")
        return
    header = ""
    if target.auth == "key" and not target.key:
        header = f' --header "Authorization: {target.bearer("${}")}"'  # in double quotes: the shell puts the key in
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
        raise Unsupported(f"{client} starts no programs: leave out --stdio and give the site's address with --url.")
    if target.auth == "key":
        raise Unsupported(f"{client} sends no API keys: use --oauth, or an endpoint that is open to everybody.")
    if not target.url.startswith("https://"):
        raise Unsupported(
            f"{client} calls from the internet, with https only: give the site's public address with --url https://…"
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
"""Name on the command line -> name for people, and what makes its settings."""
