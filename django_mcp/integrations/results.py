"""Conversion of a view's response to the result of a tool."""

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from asgiref.sync import async_to_sync
from django.contrib.messages import get_messages
from django.db import connections
from django.http import HttpRequest, HttpResponseNotFound
from django.http.response import HttpResponseBase
from django.utils.http import parse_header_parameters
from pydantic_core import from_json

from django_mcp.conf import settings as settings_of_package
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction, tools_alias
from django_mcp.integrations.handler import run_view
from django_mcp.integrations.redirects import MAX_REDIRECTS, redirect_call, redirect_url, require_no_login
from django_mcp.integrations.requests import SAFE, Call, script_prefix, site_request
from django_mcp.integrations.responses import (
    MAX_CHARACTERS,
    close_response,
    decode_body,
    error_from_response,
    form_errors,
    is_json,
    media_type,
)
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.validation_errors import shortened
from django_mcp.protocol.content import AudioContent, Content, EmbeddedResource, ImageContent, ResourceContents

logger = logging.getLogger("django_mcp")
MAX_RESPONSE_BYTES = 5 * 2**20
"""Default limit of a response body."""
_TEXTS = frozenset({"application/xml", "application/xhtml+xml", "application/javascript", "application/x-ndjson"})


def tool_result(
    response: HttpResponseBase,
    request: HttpRequest,
    *,
    ctx: Context | None = None,
    max_bytes: int = MAX_RESPONSE_BYTES,
    redirects: int = MAX_REDIRECTS,
) -> ToolResult[Any]:
    """Convert a response to the result of a tool.

    JSON becomes structured content. HTML becomes Markdown; images, audio and other files become content of their type.
    Messages of ``django.contrib.messages`` precede the text.

    Args:
        response: the response; it is read and closed.
        request: its request, made by ``site_request``.
        ctx: the call whose user follows redirects within the site. None reports redirects instead.
        max_bytes: limit of the body.
        redirects: limit of redirects to follow.

    Raises:
        ToolError: a client error (4xx, a form with errors, the login page), or the response is too large.
        ServerError: a server error (5xx).
    """
    try:
        if (url := redirect_url(response, request)) is not None:
            require_no_login(url, request)
            call = redirect_call(url, response, request) if ctx is not None else None
            if ctx is None or call is None:
                return ToolResult(text=_with_messages(request, f"Redirects to {url}"))
            close_response(response)
            return _after(request, ctx, call, partial(_follow, request, ctx, call, max_bytes, redirects))
        with script_prefix(request):
            body = _read(response, max_bytes)
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                raise error_from_response(response, body, request)
            return _shown(response, request, body)
    finally:
        close_response(response)


def _follow(request: Any, ctx: Context, call: Call, most: int, redirects: int) -> ToolResult[Any]:
    if not redirects:
        raise ToolError(f"Too many redirects; the last one was to {call.path}.")
    following: Any = site_request(ctx, call)
    following._messages = request._messages  # noqa: SLF001 - the next page shows them
    found = following.resolver_match
    response = run_view(found.func, following, found.args, found.kwargs) if found else HttpResponseNotFound()
    return tool_result(response, following, ctx=ctx, max_bytes=most, redirects=redirects - 1)


def _after(request: HttpRequest, ctx: Context, call: Call, follow: Callable[[], ToolResult[Any]]) -> ToolResult[Any]:
    if request.method in SAFE:
        return follow()
    try:
        # In a savepoint if the tool has a transaction, which a failed query would end; else as at its URL.
        return in_transaction(follow) if connections[tools_alias()].in_atomic_block else follow()
    except Exception as error:  # noqa: BLE001 - the tool itself has succeeded
        logger.warning("%s of %s redirects to %s, which failed", request.method, ctx.params.get("name"), call.path)
        reason = f" {error}" if isinstance(error, ToolError) else ""
        return ToolResult(
            text=_with_messages(request, f"Done. The page it redirects to, {call.path}, could not be shown.{reason}")
        )


def _message_text(message: Any, request: HttpRequest) -> str:
    if not hasattr(message, "__html__"):
        return str(message)
    # A page shows a message that is marked as safe as HTML.
    from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

    return read_page(str(message), request.build_absolute_uri()).text


def _with_messages(request: HttpRequest, text: str) -> str:
    messages = [_message_text(message.message, request) for message in get_messages(request)]
    return "\n\n".join(filter(None, ["\n".join(message for message in messages if message not in text), text]))


def _read(response: Any, most: int) -> bytes:
    length = response.headers.get("Content-Length", "")
    body = b""
    if not length.isdecimal() or int(length) <= most:
        body = response.content if not response.streaming else _collected(response, most)
        length = str(len(body))
    if int(length) > most:
        raise ToolError(f"The response is larger than the limit of {most:,} bytes. Request less data.")
    return body


def _collected(response: Any, most: int) -> bytes:
    if response.is_async:
        return async_to_sync(_collected_async)(response, most)
    body = bytearray()
    for part in response:
        body += part
        if len(body) > most:
            break
    return bytes(body)


async def _collected_async(response: Any, most: int) -> bytes:
    body = bytearray()
    async for part in response:
        body += part
        if len(body) > most:
            break
    return bytes(body)


def _shown(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    kind = media_type(response)
    if not body:
        located = response.headers.get("Location")
        return ToolResult(text=_with_messages(request, f"Done: {located}" if located else "Done."))
    if is_json(kind):
        try:
            return _structured(response, request, body)
        except ValueError:  # not JSON after all
            kind = "text/plain"
    if "html" in kind:
        return ToolResult(text=_with_messages(request, _page(response, request, body)))
    if kind.startswith("text/") or kind in _TEXTS or (kind.endswith("+xml") and not kind.startswith("image/")):
        return ToolResult(text=_with_messages(request, decode_body(response, body)))
    return ToolResult(text=_with_messages(request, "") or None, content=[_block(response, request, kind, body)])


def _structured(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    value = from_json(body, allow_inf_nan=False)
    messages = _with_messages(request, "")
    text = f"{messages}\n\n{decode_body(response, body)}" if messages else "null" if value is None else None
    return ToolResult(value, text=text)


def _page(response: Any, request: HttpRequest, body: bytes) -> str:
    from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

    page = read_page(decode_body(response, body), request.build_absolute_uri(), settings_of_package.BASE_URL or "")
    if request.method not in SAFE and (errors := form_errors(response) or page.errors):
        words = shortened("\n".join(["The form has errors.", *errors]), MAX_CHARACTERS)  # errors may quote the input
        raise ToolError(_with_messages(request, words))
    return page.text or "The page has no text."


def _block(response: Any, request: HttpRequest, kind: str, body: bytes) -> Content:
    if kind.startswith("image/"):
        return ImageContent(body, kind)
    if kind.startswith("audio/"):
        return AudioContent(body, kind)
    name = _filename(response)
    uri = f"attachment:///{quote(name, safe='')}" if name else request.build_absolute_uri()
    return EmbeddedResource(ResourceContents(body, uri, kind or "application/octet-stream"))


def _filename(response: Any) -> str:
    _, parameters = parse_header_parameters(response.headers.get("Content-Disposition", ""))
    return parameters.get("filename", "").rpartition("/")[2]
