"""Calls of the playground, made in this process, and the rendering of their results."""

import base64
import binascii
import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_mcp.admin.display import NONE, cut, duration, shown_value, without_view
from django_mcp.client.session import ClientSession, Ended, with_tasks
from django_mcp.core.principal import Principal
from django_mcp.core.redaction import bounded, visible
from django_mcp.core.request import StandInRequest
from django_mcp.core.server import MCPServer
from django_mcp.models import Approval
from django_mcp.primitives.tool import Tool
from django_mcp.protocol import versions
from django_mcp.protocol.jsonrpc import encode
from django_mcp.protocol.meta import APPROVAL, APPS, APPS_SETTINGS

CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "extensions": {APPS: APPS_SETTINGS}}
"""Elicitation and apps only: there is no language model for sampling and there are no roots."""
MAX_MESSAGES = 200
"""Maximum messages and progress notifications shown."""
_KEPT = ("REMOTE_ADDR", "SCRIPT_NAME", "SERVER_NAME", "SERVER_PORT")
_NOT_KEPT = ("HTTP_REFERER", "HTTP_X_CSRFTOKEN")


def request_of_page(request: HttpRequest) -> StandInRequest:
    # Tools see the host and the credentials of the page, not the form that was submitted.
    meta = {name: value for name, value in request.META.items() if _is_kept(name)}
    return StandInRequest(request.path, meta, path_info=request.path_info, scheme=request.scheme or "")


def _is_kept(name: str) -> bool:
    return name in _KEPT or (name.startswith("HTTP_") and name not in _NOT_KEPT)


def principal_of(user: Any) -> Principal:
    # As with session authentication.
    return Principal(kind="session", id=str(user.pk), user=user)


class Outcome(NamedTuple):
    """The result or error of a call, and its duration."""

    ended: Ended
    milliseconds: float

    @property
    def questions(self) -> Mapping[str, Any]:
        return self.ended.result.get("inputRequests", {}) if self._kind == "input_required" else {}

    @property
    def task(self) -> str:
        return str(self.ended.result["taskId"]) if self._kind == "task" else ""

    @property
    def size(self) -> int:
        # Without _meta, which no model reads.
        seen = {name: value for name, value in self.ended.result.items() if name != "_meta"}
        return len(encode(seen)) if seen else 0

    @property
    def took(self) -> str:
        return duration(self.milliseconds)

    @property
    def _kind(self) -> Any:
        return self.ended.result.get("resultType")


def call(request: HttpRequest, server: MCPServer, method: str, params: Mapping[str, Any], tool: Any) -> Outcome:
    has_tasks = getattr(tool, "task", None) is not None
    session = ClientSession(
        server,
        versions.MODERN[0],
        principal_of(request.user),
        capabilities=with_tasks(CAPABILITIES) if has_tasks else CAPABILITIES,
        client={"name": "Django admin"},
        request=request_of_page(request),
        waits=has_tasks,  # returns the task at once; the page shows it
    )
    schema = tool.definition.get("inputSchema") if isinstance(tool, Tool) else None
    began = time.perf_counter()
    ended = session.round(method, params, schema)
    return Outcome(ended, (time.perf_counter() - began) * 1000)


def security_policy(csp: Mapping[str, Any]) -> str:
    """Return the ``Content-Security-Policy`` of an app's page, which blocks what is not declared.

    The rules are those of MCP Apps (2026-01-26), Host Behavior.

    Args:
        csp: the ``_meta.ui.csp`` of the page.
    """

    def declared(name: str) -> str:
        # Anything else than an origin could add a directive.
        return " ".join(source for source in csp.get(name, ()) if _ORIGIN.fullmatch(source))

    resources = declared("resourceDomains")
    return "; ".join(
        [
            # The page has the address of the site, so the sandbox must hold if it is opened without its frame.
            "sandbox allow-scripts; default-src 'none'; form-action 'none'; frame-ancestors 'self'",
            f"script-src 'unsafe-inline' {resources}",
            f"style-src 'unsafe-inline' {resources}",
            f"img-src data: {resources}",
            f"media-src data: {resources}",
            f"font-src data: {resources}",
            f"connect-src {declared('connectDomains') or _NOTHING}",
            f"frame-src {declared('frameDomains') or _NOTHING}",
            f"base-uri {declared('baseUriDomains') or _NOTHING}",
        ]
    )


_ORIGIN = re.compile(r"(https?|wss?)://[\w.*:\[\]-]+", re.ASCII)
_NOTHING = "'none'"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that are shown. Others may contain scripts or lack browser support."""
MAX_IMAGE = 2_000_000
"""Maximum bytes of an image that is shown."""
MAX_BLOCKS = 100
"""Maximum content blocks, messages or contents shown."""
MAX_WORDS = 300
"""Maximum characters shown of a name or description."""
WAITING = frozenset({"approval_required", "pending"})

Block = dict[str, Any]
Reader = Callable[[str], str]
"""Returns the URL of the page that reads a resource."""


class ResultView:
    """A result or error for the template; one of *fields* and *error* is empty."""

    def __init__(self, fields: Mapping[str, Any], error: Mapping[str, Any], reads: Reader) -> None:
        self.fields, self.error = fields, error
        self._reads = reads

    @property
    def is_error(self) -> bool:
        return self.fields.get("isError") is True

    @property
    def error_text(self) -> SafeString:
        return render_text(str(self.error.get("message", "")))

    @property
    def approval(self) -> Mapping[str, Any] | None:
        found = (self.fields.get("_meta") or {}).get(APPROVAL)
        if not isinstance(found, Mapping) or found.get("kind") not in WAITING:
            return None
        approval = Approval.objects.filter(public_id=str(found.get("approval_id") or "")).first()
        return {**found, "pk": None if approval is None else approval.pk}

    @property
    def blocks(self) -> list[Block]:
        # Text that repeats structuredContent is left out: that is shown as a table.
        found = [block for block in _dicts(self.fields.get("content")) if not self._repeats(block)] + [
            {"type": "resource", "resource": content} for content in _dicts(self.fields.get("contents"))
        ]
        return [self._block(block) for block in found[:MAX_BLOCKS]]

    def _repeats(self, block: Mapping[str, Any]) -> bool:
        if "structuredContent" not in self.fields or self.is_error:
            return False
        try:
            return bool(json.loads(str(block.get("text"))) == self.fields["structuredContent"])
        except ValueError:
            return False

    @property
    def messages(self) -> list[tuple[str, Block]]:
        found = _dicts(self.fields.get("messages"))[:MAX_BLOCKS]
        return [(str(message.get("role")), self._block(message.get("content"))) for message in found]

    @property
    def left_out(self) -> int:
        lists = (self.fields.get(name) or () for name in ("content", "contents", "messages"))
        return max(0, sum(map(len, lists)) - MAX_BLOCKS)

    @cached_property
    def structured(self) -> "ResultTable | SafeString | None":
        if "structuredContent" not in self.fields:
            return None
        return to_table(self.fields["structuredContent"]) or render_json(self.fields["structuredContent"])

    @property
    def is_table(self) -> bool:
        return isinstance(self.structured, ResultTable)

    @property
    def raw(self) -> SafeString:
        return render_json(self.error or without_view(self.fields))

    def _block(self, block: Any) -> Block:
        match block:
            case {"type": "text", "text": str(text)}:
                return {"kind": "text", "text": render_text(text)}
            case {"type": "image", "data": str(data)}:
                return _image(data, str(block.get("mimeType")))
            case {"type": "audio", "data": str(data)}:
                return _note(_("Audio: %(type)s, %(size)s") % _measured(data, str(block.get("mimeType"))))
            case {"type": "resource_link", "uri": str(uri)}:
                return {**_words_of(block), "kind": "link", "uri": visible(uri), "href": self._reads(uri)}
            case {"type": "resource", "resource": {"uri": str(uri)}}:
                inner = block["resource"]
                return {**_words_of(inner), "kind": "resource", "uri": visible(uri), "inner": _contents(inner)}
        return {"kind": "text", "text": render_json(block)}


class ResultTable(NamedTuple):
    """Structured content as a table.

    Attributes:
        facts: members that are no rows, by name.
        columns: names of the rows' members.
        rows: their cells.
        more: number of rows that are not shown.
    """

    facts: Sequence[tuple[str, SafeString]]
    columns: Sequence[str]
    rows: Sequence[Sequence[SafeString]]
    more: int


MAX_TABLE_ROWS, MAX_TABLE_COLUMNS = 50, 30


def to_table(value: Any) -> ResultTable | None:
    """Return an object, a list of objects, or an object with one list of objects as a table; otherwise None."""
    if not isinstance(value, Mapping | list) or not value:
        return None
    members = dict(value) if isinstance(value, Mapping) else {}
    lists = [name for name, member in members.items() if _are_rows(member)]
    rows: Any = members.pop(lists[0]) if len(lists) == 1 else value if _are_rows(value) else []
    if not rows and not members:
        return None
    columns = list(dict.fromkeys(name for row in rows[:MAX_TABLE_ROWS] for name in row))[:MAX_TABLE_COLUMNS]
    return ResultTable(
        [(visible(str(name)), _cell(member)) for name, member in members.items()],
        [visible(str(name)) for name in columns],
        [[_cell(row[name]) if name in row else NONE for name in columns] for row in rows[:MAX_TABLE_ROWS]],
        max(0, len(rows) - MAX_TABLE_ROWS),
    )


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _cell(value: Any) -> SafeString:
    return NONE if value is None else shown_value(value)


class Snippet(NamedTuple):
    """The request of a call, to copy."""

    title: str
    text: str


def snippets(server: MCPServer, url: str, kind: str, params: Mapping[str, Any]) -> list[Snippet]:
    """Return the request for a shell, for a script and for a test.

    Args:
        server: the endpoint.
        url: its absolute URL.
        kind: of the target: ``"tool"``, ``"prompt"``, or any kind of resource.
        params: of the request, without secrets.
    """
    method = {"tool": "tools/call", "prompt": "prompts/get"}.get(kind, "resources/read")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, ensure_ascii=False)
    body = "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in body)
    curl = f"""curl {shlex.quote(url)} \\
  --header "Authorization: Bearer $MCP_KEY" \\
  --header "Content-Type: application/json" \\
  --data {shlex.quote(body)}"""
    named = f"{params['name']!r}, {dict(params.get('arguments') or {})!r}" if "name" in params else repr(params["uri"])
    call = {"tool": "call_tool", "prompt": "get_prompt"}.get(kind, "read_resource")
    script = f"""import asyncio
import os

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    headers = {{"Authorization": f"Bearer {{os.environ['MCP_KEY']}}"}}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        async with Client(streamable_http_client({url!r}, http_client=http)) as client:
            print(await client.{call}({named}))


asyncio.run(main())"""
    at = "" if server.name == "default" else f", server={server.name!r}"
    test = {"tool": f"call({named})", "prompt": f"prompt({params.get('name')!r}, **{params.get('arguments')!r})"}
    check = f"""from django_mcp.test import MCPClient


def test_it(user):
    result = MCPClient(user{at}).{test.get(kind, f"read({named})")}
    result.assert_ok()"""
    return [Snippet("curl", curl), Snippet("Python", script), Snippet(_("Test"), check)]


def _contents(contents: Mapping[str, Any]) -> Block:
    match contents:
        case {"text": str(text)}:
            return {"kind": "text", "text": render_text(text)}
        case {"blob": str(data)}:
            return _image(data, str(contents.get("mimeType")))
    return {"kind": "text", "text": render_json(contents)}


def _image(data: str, mime_type: str) -> Block:
    words = _("Binary: %(type)s, %(size)s") % _measured(data, mime_type)
    if mime_type not in IMAGES or len(data) > MAX_IMAGE * 4 // 3:
        return _note(words)
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return _note(_("Image with invalid Base64"))
    words = _("Image: %(type)s, %(size)s") % _measured(data, mime_type)
    return {"kind": "image", "src": f"data:{mime_type};base64,{data}", "words": words}


def _measured(data: str, mime_type: str) -> dict[str, str]:
    return {"type": visible(mime_type[:100]), "size": filesizeformat(len(data) * 3 // 4 - data[-2:].count("="))}


def _note(words: str) -> Block:
    return {"kind": "note", "words": words}


def _words_of(block: Mapping[str, Any]) -> Block:
    found = {name: block.get(name) for name in ("name", "title", "description", "mimeType")}
    return {name: bounded(value, MAX_WORDS) for name, value in found.items() if isinstance(value, str)}


def _dicts(value: Any) -> list[Any]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def render_text(text: str) -> SafeString:
    return format_html('<pre class="mcp-playground-value" translate="no" dir="auto" tabindex="0">{}</pre>', cut(text))


def render_json(value: Any) -> SafeString:
    return render_text(json.dumps(value, indent=2, ensure_ascii=False))


def describe_messages(notifications: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(level, bounded(words, 2000)) for level, words in islice(map(_message, notifications), MAX_MESSAGES)]


def _message(notification: Mapping[str, Any]) -> tuple[str, str]:
    match notification["params"]:
        case {"progress": progress, **more}:
            far = f"{progress:g} / {more['total']:g}" if "total" in more else f"{progress:g}"
            return "progress", f"{far} {more.get('message') or ''}".strip()
        case {"level": level, "data": data, **more}:
            words = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            return level, f"{more['logger']}: {words}" if more.get("logger") else words
    return "", json.dumps(notification, ensure_ascii=False)
