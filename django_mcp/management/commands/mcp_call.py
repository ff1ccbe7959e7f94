"""``mcp_call``: call a tool of an endpoint from the command line."""

import base64
import binascii
import json
import logging
import mimetypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.client.in_process import permission_context, refresh_server
from django_mcp.client.schema_form import InvalidValue, convert_text
from django_mcp.client.session import ClientSession, with_tasks
from django_mcp.core.failures import crash_listener, traceback_of
from django_mcp.core.permissions import Right, right
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.management.base import accept_intermixed_arguments, caller_principal, find_server
from django_mcp.primitives.tool import Tool
from django_mcp.protocol import versions
from django_mcp.protocol.json_schema import Schema, alternatives, choices_of, plain
from django_mcp.protocol.meta import APP_HTML, APPROVAL, APPS, APPS_SETTINGS
from django_mcp.transports.stdio import django_request
from django_mcp.version import __version__

WIDTH = 30
LEAST = 0.1
"""Minimum progress, as a part of the total, between two lines if there is no terminal."""


class ProgressLine:
    """Prints progress and log messages. *is_terminal* allows a progress bar."""

    def __init__(self, out: Callable[[str], object], *, is_terminal: bool) -> None:
        self._out, self._is_terminal = out, is_terminal
        self._drawn = 0
        self._told: tuple[float, str] = (-1.0, "")

    def listen(self, notification: Mapping[str, Any]) -> None:
        method, params = notification["method"], notification["params"]
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/message":
            logger = f" {params['logger']}" if params.get("logger") else ""
            self.write(f"[{params.get('level', 'info')}{logger}] {params.get('data')}")

    def write(self, line: str) -> None:
        self.clear()
        self._out(f"{line}\n")

    def clear(self) -> None:
        if self._drawn:
            self._out(f"\r{' ' * self._drawn}\r")
            self._drawn = 0

    def _progress(self, params: Mapping[str, Any]) -> None:
        done, total, message = params.get("progress", 0), params.get("total"), str(params.get("message") or "")
        part = min(max(done / total, 0.0), 1.0) if total else None
        if self._is_terminal:
            self._draw(f"[{_bar(part)}] {part:4.0%} {message}" if part is not None else f"{done:g} {message}")
            return
        before, last_message = self._told
        if message == last_message and part is not None and part - before < LEAST and part < 1:
            return
        self._told = (-1.0 if part is None else part, message)
        self.write(f"{f'{done:g}/{total:g}' if total else f'{done:g}'} {message}".rstrip())

    def _draw(self, text: str) -> None:
        self._out(f"\r{text}{' ' * max(self._drawn - len(text), 0)}")
        self._drawn = len(text)


def _bar(part: float) -> str:
    full = round(part * WIDTH)
    return "#" * full + "." * (WIDTH - full)


def content_lines(result: Mapping[str, Any], folder: Path | None) -> Iterator[str]:
    """Yield the content of a result as text. Images, audio and files are saved in *folder* if it is given."""
    for number, block in enumerate(result.get("content", ()), start=1):
        match block.get("type"):
            case "text":
                yield _readable(block["text"]) if "structuredContent" in result else block["text"]
            case "image" | "audio":
                yield _binary(block["data"], block["mimeType"], f"{block['type']}-{number}", folder)
            case "resource":
                inner = block["resource"]
                name = Path(str(inner.get("uri", ""))).name or f"resource-{number}"
                yield (
                    inner["text"]
                    if "text" in inner
                    else _binary(inner.get("blob", ""), inner.get("mimeType", "application/octet-stream"), name, folder)
                )
            case "resource_link":
                yield f"[{block.get('title') or block.get('name')}: {block.get('uri')}]"
            case kind:
                yield f"[{kind}]"


def _readable(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text


def _binary(data: str, mime_type: str, name: str, folder: Path | None) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{mime_type}, unreadable]"
    if folder is None:
        return f"[{mime_type}, {len(content)} bytes]"
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "" if Path(name).suffix else mimetypes.guess_extension(mime_type) or ".bin"
    path = _free(folder / f"{name}{suffix}")
    path.write_bytes(content)
    return f"[{mime_type}, {len(content)} bytes: {path}]"


def _free(path: Path) -> Path:
    found, number = path, 1
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


_KINDS = {"boolean": "yes|no"}


def kind_name(schema: Any, root: Schema) -> str:
    found = []
    for alternative in alternatives(schema, root):
        allowed, kind = choices_of(alternative), str(alternative.get("type", "any"))
        found.append("|".join(str(value) for value, _ in allowed) if allowed else _KINDS.get(kind, kind))
    return " or ".join(dict.fromkeys(kind for kind in found if kind != "null")) or "null"


def read_arguments(given: Sequence[str], source: str | None, schema: Schema, tool: str) -> dict[str, Any]:
    """Return the arguments of a call.

    Args:
        given: ``name=text``, converted by the schema, or ``name:=JSON``.
        source: a file with a JSON object to start from; ``"-"`` for standard input.
        schema: input schema of the tool, or {} if unknown.
    """
    arguments = {} if source is None else _from_file(source)
    for argument in given:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise CommandError(
                f"{argument!r}: write arguments as name=text or name:=JSON.{arguments_help(schema, tool)}"
            )
        raw = name.endswith(":")
        _put(arguments, name.removesuffix(":"), text, schema, tool, raw=raw)
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise CommandError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.{arguments_help(schema, tool)}"
        )
    strange = [name for name in arguments if name not in properties]
    if strange and schema.get("additionalProperties") is False:
        raise CommandError(f"{tool} has no argument {strange[0]!r}.{arguments_help(schema, tool)}")
    return arguments


def arguments_help(schema: Schema, tool: str) -> str:
    properties = schema.get("properties", {})
    if not schema:
        return ""
    if not properties:
        return f"\n{tool} has no arguments."
    lines = [f"\nArguments of {tool}:"]
    for name, field in properties.items():
        is_needed = name in schema.get("required", ())
        shown = plain(field, schema)
        default = f", default: {json.dumps(shown['default'], ensure_ascii=False)}" if "default" in shown else ""
        words = f"  {shown['description']}" if shown.get("description") else ""
        lines.append(f"  {name}=<{kind_name(field, schema)}>{'' if is_needed else f' (optional{default})'}{words}")
    return "\n".join(lines)


def _from_file(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--input {source}: {error}") from None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--input {source} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise CommandError(f'--input {source} must contain a JSON object, such as {{"name": "value"}}.')
    return value


def _put(arguments: dict[str, Any], name: str, text: str, schema: Schema, tool: str, *, raw: bool) -> None:
    """Set one value, inside nested objects if its name contains dots."""
    place, inner = arguments, schema
    path = [name] if name in schema.get("properties", {}) else name.split(".")
    for depth, part in enumerate(path):
        properties = inner.get("properties", {})
        if part not in properties and (inner.get("additionalProperties") is False or (depth == 0 and properties)):
            raise CommandError(f"{tool} has no argument {'.'.join(path[: depth + 1])!r}.{arguments_help(schema, tool)}")
        below = properties.get(part, {})
        if depth == len(path) - 1:
            place[part] = _value(place.get(part), name, text, below, schema, raw=raw)
            return
        inner = next(
            (alternative for alternative in alternatives(below, schema) if alternative.get("type") == "object"), {}
        )
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise CommandError(f"{name!r}: {part!r} already has a value that is not an object.")


def _value(before: Any, name: str, text: str, schema: Mapping[str, Any], root: Schema, *, raw: bool) -> Any:
    if raw:
        try:
            return json.loads(text)
        except ValueError:
            raise CommandError(f"{name}:={text} is not valid JSON. For text, write {name}={text}.") from None
    try:
        value = convert_text(schema, text, root)
    except InvalidValue as error:
        raise CommandError(f"{name}={text}: {name} must be {error}.") from None
    # A repeated array argument extends the list.
    return [*before, *value] if isinstance(before, list) and isinstance(value, list) else value


DECLINED = {"action": "decline"}
Write = Callable[[str], object]


def read_answers(given: Sequence[str]) -> dict[str, str]:
    answers = {}
    for argument in given:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise CommandError(f"--answer {argument!r}: write answers as --answer confirm=yes.")
        answers[name] = text
    return answers


class Responder:
    """Answers elicitation requests from options or the terminal.

    Args:
        answers: given answers by field name.
        yes: confirm questions and use defaults, unless an answer was given.
        is_there: True if a person is at the terminal.
        ask: reads a line; raises ``EOFError`` at the end of input.
    """

    def __init__(
        self, answers: Mapping[str, str], write: Write, ask: Callable[[str], str] = input, *, yes: bool, is_there: bool
    ) -> None:
        self._answers, self._yes, self._is_there = answers, yes, is_there
        self._write, self._ask = write, ask

    @property
    def can_open_pages(self) -> bool:
        return self._is_there or self._yes

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        params = request.get("params", {})
        self._write(f"\n{params.get('message', '')}")
        if params.get("mode") == "url":
            return self._page(str(params.get("url", "")))
        schema = params.get("requestedSchema") or {}
        fields = schema.get("properties", {})
        if not self._is_there and (missing := [name for name in fields if self._is_missing(name, schema)]):
            raise CommandError(_missing(missing, schema))
        try:
            content = {name: self._field(name, schema) for name in fields}
        except EOFError:
            self._write("Declined.")
            return DECLINED
        return {"action": "accept", "content": {name: value for name, value in content.items() if value is not None}}

    def _page(self, url: str) -> dict[str, Any]:
        self._write(f"Open this page in a browser: {url}")
        if self._yes:
            return {"action": "accept"}
        try:
            self._ask("Press Enter to continue, or Ctrl-D to decline: ")
        except EOFError:
            return DECLINED
        return {"action": "accept"}

    def _is_missing(self, name: str, schema: Schema) -> bool:
        if name in self._answers:
            return False
        field = plain(schema["properties"][name], schema)
        return name in schema.get("required", ()) and not (self._yes and ("default" in field or _confirms(field)))

    def _field(self, name: str, schema: Schema) -> Any:
        field = plain(schema["properties"][name], schema)
        if name in self._answers:
            return self._given(name, field, schema)
        if self._yes and (_confirms(field) or "default" in field):
            value = field.get("default", True) if not _confirms(field) else True
            self._write(f"{field.get('title', name)}: {value}")
            return value
        if not self._is_there:
            return field.get("default")
        return self._asked(name, field, schema)

    def _given(self, name: str, field: Schema, schema: Schema) -> Any:
        text = self._answers[name]
        try:
            value = convert_text(field, text, schema)
        except InvalidValue as error:
            raise CommandError(f"--answer {name}={text}: {name} must be {error}.") from None
        self._write(f"{field.get('title', name)}: {text}")
        return value

    def _asked(self, name: str, field: Schema, schema: Schema) -> Any:
        is_needed = name in schema.get("required", ())
        options = choices_of(_items(field, schema)) or []
        if words := field.get("description"):
            self._write(str(words))
        for value, title in options:
            self._write(f"  {value}{'' if title == str(value) else f'  {title}'}")
        hint = "choose one" if options and field.get("type") != "array" else kind_name(field, schema)
        if field.get("type") == "array":
            hint = "comma-separated"
        default = f" [{_text(field['default'])}]" if "default" in field else "" if is_needed else " [optional]"
        while True:
            text = self._ask(f"{field.get('title', name)} ({hint}){default}: ").strip()
            if not text and ("default" in field or not is_needed):
                return field.get("default")
            try:
                return convert_text(field, text, schema)
            except InvalidValue as error:
                self._write(f"This must be {error}.")


def _items(field: Schema, schema: Schema) -> Schema:
    return plain(field.get("items", {}), schema) if field.get("type") == "array" else field


def _confirms(field: Schema) -> bool:
    return field.get("type") == "boolean"


def _text(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else str(value)


def _missing(names: Sequence[str], schema: Schema) -> str:
    lines = []
    for name in names:
        field = plain(schema["properties"][name], schema)
        options = " or ".join(
            kind_name(_items(alternative, schema), schema) for alternative in alternatives(field, schema)
        )
        example = "yes" if _confirms(field) else f"<{options}>"
        lines.append(f"  --answer {name}={example}  {field.get('title', '')}".rstrip())
    listed = "\n".join(lines)
    return f"The tool asks for input, but there is no terminal. Repeat the command with\n{listed}"


class Command(BaseCommand):
    """See ``help``."""

    help = (
        "Calls a tool as a client does: with a user's permissions, policies, approvals and the request log. "
        "Exits with status 1 if the tool fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        accept_intermixed_arguments(parser)
        parser.add_argument("tool", metavar="TOOL", help="name of the tool; 'manage.py mcp_inspect' lists them")
        parser.add_argument(
            "arguments", nargs="*", metavar="name=text", help="an argument; name:=JSON for other values"
        )
        parser.add_argument("--as", dest="user", metavar="USERNAME", help="username of the user to call as")
        parser.add_argument("--server", default="default", help="name of the endpoint (default: 'default')")
        parser.add_argument("--input", metavar="FILE", help="JSON object with arguments; '-' for standard input")
        parser.add_argument(
            "--answer", action="append", default=[], metavar="name=text", help="answer to a question of the tool"
        )
        parser.add_argument("--yes", action="store_true", help="confirm questions and use defaults")
        printed = parser.add_mutually_exclusive_group()
        printed.add_argument("--json", action="store_true", help="print the whole result")
        printed.add_argument("--html", action="store_true", help="print the HTML that the tool's app shows")
        parser.add_argument("--save", metavar="DIR", type=Path, help="save images, audio and files there")
        parser.add_argument(
            "--protocol-version",
            metavar="VERSION",
            default=versions.SUPPORTED[0],
            choices=versions.SUPPORTED,
            help="protocol version to use: %(choices)s (default: the newest)",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Call the tool and print its result. Exits with 1 if the tool failed."""
        server = find_server(options["server"])
        principal = caller_principal(server, options["user"], "--as")
        tool, schema = self._visible(server, principal, options["tool"])
        if options["html"] and tool is not None:
            _require_view(tool)
        arguments = read_arguments(options["arguments"], options["input"], schema, options["tool"])
        is_there = options["input"] != "-" and sys.stdin.isatty()
        aside = ProgressLine(self._say, is_terminal=self.stderr.isatty())
        person = Responder(read_answers(options["answer"]), aside.write, yes=options["yes"], is_there=is_there)
        result = self._call(server, principal, tool, schema, arguments, person, aside, options)
        aside.clear()
        self._show(result, options)

    def _say(self, text: str) -> None:
        self.stderr.write(text, str, ending="")
        self.stderr.flush()

    @staticmethod
    def _visible(server: MCPServer, principal: Principal, name: str) -> tuple[Tool | None, Schema]:
        """Return the tool with the schema of its arguments for the caller, or None and {}."""
        refresh_server(server)
        tool, context = server.tools.get(name), permission_context(server, principal, django_request(server))
        # If the caller may not see it, the call itself reports the error.
        if tool is None or right(context, tool) is not Right.USE:
            return None, {}
        return tool, tool.schema_for(context) or tool.definition.get("inputSchema", {})

    @staticmethod
    def _call(
        server: MCPServer,
        principal: Principal,
        tool: Tool | None,
        schema: Schema,
        arguments: dict[str, Any],
        person: Responder,
        aside: ProgressLine,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"elicitation": {"form": {}, **({"url": {}} if person.can_open_pages else {})}}
        if options["html"]:
            capabilities["extensions"] = {APPS: APPS_SETTINGS}
        if tool is not None and tool.task == "required":
            capabilities = with_tasks(capabilities)
        session = ClientSession(
            server,
            options["protocol_version"],
            principal,
            capabilities=capabilities,
            client={"name": "manage.py mcp_call", "version": __version__},
            level="debug" if options["verbosity"] > 1 else "info",
            request=django_request(server),
            listen=aside.listen,
            waits=True,
        )
        crashes: list[BaseException] = []  # of a task too, which ends after the request that started it
        listening = crash_listener.set(crashes.append)
        try:
            ended = session.call(
                "tools/call", {"name": options["tool"], "arguments": arguments}, person.answer, schema or None
            )
            if ended.result.get("resultType") == "task":
                ended = session.follow_task(ended.result["taskId"], person.answer)
        finally:
            crash_listener.reset(listening)
            session.close()
            if not _is_logged_here():
                for crash in crashes:
                    aside.write(traceback_of(crash).rstrip())
        if error := ended.error:
            aside.clear()
            hint = "" if tool is not None else f" {_why(options)}"
            raise CommandError(f"{error.get('message', '')}{hint}")
        return ended.result

    def _show(self, result: dict[str, Any], options: dict[str, Any]) -> None:
        failed = bool(result.get("isError"))
        meta = result.get("_meta", {})
        approval = meta.get(APPROVAL)
        if options["json"]:
            self.stdout.write(json.dumps(result, indent=2, ensure_ascii=False))
        elif options["html"] and APP_HTML in meta:
            self.stdout.write(meta[APP_HTML])
        elif options["html"] and not failed:
            raise CommandError(f"{options['tool']} was called, but its view could not be rendered. See the log.")
        else:
            for line in content_lines(result, options["save"]):
                self.stdout.write(self.style.ERROR(line) if failed else line)
        if approval is not None and approval.get("kind") in {"approval_required", "pending"}:
            self.stderr.write(f"The call requires approval and did not run yet. {_where_to_approve(approval)}")
        if failed:
            sys.exit(1)


def _is_logged_here() -> bool:
    record = logging.makeLogRecord({"name": "django_mcp", "levelno": logging.ERROR})
    logger: logging.Logger | None = logging.getLogger(record.name)
    handlers: list[logging.Handler] = []
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    if not handlers and logging.lastResort is not None:
        handlers = [logging.lastResort]
    # Then the terminal already shows the traceback.
    return any(
        getattr(handler, "stream", None) in {sys.stderr, sys.stdout}
        and handler.level <= record.levelno
        and handler.filter(record)
        for handler in handlers
    )


def _require_view(tool: Tool) -> None:
    if tool.app is None:
        raise CommandError(f"{tool.name} has no app, so there is no HTML to print.")
    if not tool.app.shows_results:
        raise CommandError(
            f"The app of {tool.name}, {tool.app.template_name!r}, is a whole page whose scripts show the result, so "
            "there is no HTML to print. To render results on the server, extend 'django_mcp/app.html'."
        )


def _why(options: dict[str, Any]) -> str:
    seen_by = f" --as {options['user']}" if options["user"] else ""
    asking = f"manage.py mcp_inspect --server {options['server']}{seen_by}"
    return f"Run '{asking}' to see what exists and why something is hidden."


def _where_to_approve(approval: Mapping[str, Any]) -> str:
    if not apps.is_installed("django.contrib.admin"):
        return "Nobody can approve it: add django.contrib.admin to INSTALLED_APPS, and its URLs, for the page to do so."
    page = approval.get("url") or "the admin, under Approvals"
    return f"It can be approved here: {page}\nThen run the same command again."
