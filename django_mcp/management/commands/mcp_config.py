"""``mcp_config``: settings of an endpoint for each client, ready to paste.

Looked up in the clients' own documentation in November 2026.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.server import MCPServer
from django_mcp.core.server import server as default_server
from django_mcp.management.base import caller_of, find_server, url_of


class Target(NamedTuple):
    """An endpoint as one client is to reach it.

    Attributes:
        name: what the client calls it.
        url: its address; empty where the client starts the site itself.
        command: what starts the site, for clients on the same machine.
        auth: ``"oauth"``, ``"key"`` or ``"none"``.
        key: the API key, where it was given.
        variable: name of the environment variable that holds it where it was not.
    """

    name: str
    url: str = ""
    command: Sequence[str] = ()
    auth: str = "none"
    key: str = ""
    variable: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the client starts the site."""
        return bool(self.command)

    def bearer(self, placeholder: str) -> str:
        """The value of the ``Authorization`` header.

        Args:
            placeholder: how the client writes the value of a variable, with ``{}`` for its name.
        """
        return f"Bearer {self.key or placeholder.format(self.variable)}"

    def headers(self, placeholder: str) -> dict[str, Any]:
        """``{"headers": ...}`` where a key is sent, else nothing."""
        return {"headers": {"Authorization": self.bearer(placeholder)}} if self.auth == "key" else {}

    @property
    def stdio(self) -> dict[str, Any]:
        """``command`` and ``args``, as most clients have them."""
        return {"command": self.command[0], "args": list(self.command[1:])}

    @property
    def export(self) -> str:
        """What to do about the variable; empty where there is nothing."""
        if self.auth != "key" or self.key:
            return ""
        return f"Put the key into the environment variable {self.variable} of the program, before it starts."


class Setting(NamedTuple):
    """One thing to do.

    Attributes:
        where: a file, or what to do with the text.
        text: to be pasted; empty for what is only to be done.
        kind: ``"json"``, ``"toml"``, ``"shell"`` or ``"steps"``.
    """

    where: str
    text: str
    kind: str


class Unsupported(Exception):
    """The client cannot be told that; the text says what it can."""


def as_json(value: Mapping[str, Any]) -> str:
    """JSON as people write it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def shell(*parts: str) -> str:
    """A command line."""
    return shlex.join(parts)


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


class Command(BaseCommand):
    """See ``help``."""

    help = "Prints the settings with which a client finds an endpoint, ready to paste; without CLIENT, which there are."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which client, which endpoint, and how it is let in."""
        parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"one of {', '.join(CLIENTS)}")
        parser.add_argument("--server", default="default", help="name of the endpoint; 'default' if left out")
        parser.add_argument("--url", help="the site's address; DJANGO_MCP['BASE_URL'] if left out")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--key", nargs="?", const="", help="with an API key; without the key itself, where to put it")
        how.add_argument("--oauth", action="store_true", help="people sign in through the client")
        how.add_argument("--stdio", action="store_true", help="the client starts the site on this machine itself")
        parser.add_argument("--user", help="with --stdio: user in whose name the client calls")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print them.

        Raises:
            CommandError: the client, or the endpoint, cannot be used like this.
        """
        if options["client"] is None:
            self._list(as_json=options["json"])
            return
        if options["client"] not in CLIENTS:
            raise CommandError(f"There is no client {options['client']!r}; choose one of {', '.join(CLIENTS)}.")
        title, make = CLIENTS[options["client"]]
        target = self._target(find_server(options["server"]), options)
        try:
            found = list(make(target))
        except Unsupported as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            told = {
                "client": options["client"],
                "server": options["server"],
                "url": target.url,
                "authentication": "stdio" if target.is_local else target.auth,
                "settings": [each._asdict() for each in found],
            }
            self.stdout.write(json.dumps(told, indent=2, ensure_ascii=False))
            return
        self.stdout.write(self.style.MIGRATE_HEADING(f"{title}: {target.name}"))
        for each in found:
            self.stdout.write(f"\n{each.where}{':' if each.text else '.'}\n")
            if each.text:
                self.stdout.write(f"\n{each.text}")
        if target.variable and any(target.variable in each.text for each in found):
            self.stdout.write(f"\n{target.export}")
        if target.is_local:
            self.stdout.write(
                "\nThe client starts the site without the variables of your shell: those that its settings need have "
                "to be\nin the client's own environment, or beside the command as its documentation says."
            )
        if target.auth == "key" and not target.key:
            self.stdout.write("\n'manage.py mcp_key create --user USERNAME --name NAME' makes a key.")

    def _list(self, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"clients": list(CLIENTS)}, indent=2))
            return
        for name, (title, _) in CLIENTS.items():
            self.stdout.write(f"{name:16}{title}")
        self.stdout.write("\nmanage.py mcp_config CLIENT prints what to paste.")

    @staticmethod
    def _target(server: MCPServer, options: dict[str, Any]) -> Target:
        name = name_for(server)
        if options["stdio"]:
            caller_of(server, options["user"])
            return Target(name, command=_command(server, options["user"]))
        if options["user"] is not None:
            raise CommandError("--user is for --stdio; otherwise the client's credential says who calls.")
        auth = _auth(server, options)
        url = _url(server, options["url"])
        return Target(name, url, (), auth, options["key"] or "", f"{re.sub(r'[^A-Z0-9]+', '_', name.upper())}_MCP_KEY")


def name_for(server: MCPServer) -> str:
    """What clients call an endpoint: their names of tools begin with it."""
    if server is not default_server:
        return server.name
    named = str(server.implementation["name"])
    if named != server.name:
        return re.sub(r"[^a-zA-Z0-9_-]+", "-", named).strip("-") or "django"
    return str(django_settings.ROOT_URLCONF).partition(".")[0].replace("_", "-") or "django"


def _auth(server: MCPServer, options: dict[str, Any]) -> str:
    found = authenticators(server)
    has_oauth = any(isinstance(each, OAuth2Authentication) for each in found)
    is_public = any(isinstance(each, AllowAny) for each in found)
    if options["key"] is not None:
        if not takes_keys(server):
            raise CommandError(
                f"The endpoint {server.name!r} takes no API keys: add 'django_mcp.APIKeyAuthentication' to its "
                "authentication."
            )
        return "key"
    if options["oauth"]:
        if not has_oauth:
            raise CommandError(
                f"The endpoint {server.name!r} has no OAuth: add 'django_mcp.OAuth2Authentication' to "
                f"its authentication."
            )
        return "oauth"
    if has_oauth:
        return "oauth"
    return "none" if is_public or not takes_keys(server) else "key"


def _url(server: MCPServer, given: str | None) -> str:
    if given is None:
        if url := url_of(server):
            return url
        raise CommandError(
            "The site's address is not known: give it with --url https://…, or set DJANGO_MCP['BASE_URL']."
        )
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(f"--url {given!r}: it looks like https://site.example.")
    path = path_of(server)
    return given.rstrip("/") if parts.path.rstrip("/").endswith(path) else given.rstrip("/") + path


def _command(server: MCPServer, user: str | None) -> tuple[str, ...]:
    """What starts the site, from any folder."""
    script = Path(sys.argv[0]).resolve()
    if script.name != "manage.py" or not script.is_file():
        script = Path(str(getattr(django_settings, "BASE_DIR", "."))).resolve() / "manage.py"
    started = (str(script),) if script.is_file() else ("-m", "django")
    named = () if server.name == "default" else ("--server", server.name)
    return (sys.executable, *started, "mcp_stdio", *named, *(() if user is None else ("--user", user)))
