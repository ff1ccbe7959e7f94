"""What a view answered, as the result of a tool."""

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from asgiref.sync import async_to_sync
from django.contrib.messages import get_messages
from django.http import HttpRequest, HttpResponseNotFound
from django.http.response import HttpResponseBase
from django.utils.http import parse_header_parameters
from pydantic_core import from_json

from django_mcp.adapters.methods import SAFE
from django_mcp.adapters.redirects import MOST_REDIRECTS, next_call, require_no_login, target
from django_mcp.adapters.refusals import decoded, form_errors, is_json, media_type, refused
from django_mcp.adapters.requests import Call, run_view, site_request, surroundings
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import ToolError
from django_mcp.protocol.content import AudioContent, Content, EmbeddedResource, ImageContent, ResourceContents

logger = logging.getLogger("django_mcp")

MOST_RESPONSE_BYTES = 5 * 2**20
"""The largest body of a response that a tool passes on, unless it says otherwise."""

_TEXTS = frozenset({"application/xml", "application/xhtml+xml", "application/javascript", "application/x-ndjson"})


def tool_result(
    response: HttpResponseBase,
    request: HttpRequest,
    *,
    ctx: Context | None = None,
    max_bytes: int = MOST_RESPONSE_BYTES,
    redirects: int = MOST_REDIRECTS,
) -> ToolResult[Any]:
    """What a tool gives back for the response to a request.

    JSON is structured content; what is no object is wrapped as ``{"result": …}``. HTML becomes readable text; images,
    sound and other files are content of their kind. Redirects are followed where *ctx* is given, else reported.
    What the site said through ``django.contrib.messages`` comes before the text.

    Args:
        response: it is read and closed.
        request: what it answers, made by ``site_request``.
        ctx: follows redirects within the site as its user.
        max_bytes: the most to read of the body.
        redirects: the most to follow.

    Raises:
        ToolError: the response says that the caller did something wrong (4xx, a form with errors, the login page), or
            is too large.
        ServerError: it says that the site did (5xx).
    """
    try:
        if (url := target(response, request)) is not None:
            require_no_login(url, request)
            call = next_call(url, response, request) if ctx is not None else None
            if ctx is None or call is None:
                return ToolResult(text=_with_messages(request, f"It leads to {url}"))
            close(response)
            return _after(request, ctx, call, partial(_follow, request, ctx, call, max_bytes, redirects))
        with surroundings(request):  # in which messages and errors of forms are translated
            body = _read(response, max_bytes)
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                raise refused(response, body, request)
            return _shown(response, request, body)
    finally:
        close(response)


def close(response: HttpResponseBase) -> None:
    """Let go of what a response holds.

    ``HttpResponse.close`` also sends ``request_finished``, and the request that brought the call is not finished.
    """
    held: Any = response
    while held._resource_closers:  # noqa: SLF001
        held._resource_closers.pop()()  # noqa: SLF001
    response.closed = True


def _follow(request: Any, ctx: Context, call: Call, most: int, redirects: int) -> ToolResult[Any]:
    if not redirects:
        raise ToolError(f"It leads on and on; the last page would be {call.path}.")
    following: Any = site_request(ctx, call)
    following._messages = request._messages  # noqa: SLF001 - the next page is where they are shown
    found = following.resolver_match
    response = run_view(found.func, following, found.args, found.kwargs) if found else HttpResponseNotFound()
    return tool_result(response, following, ctx=ctx, max_bytes=most, redirects=redirects - 1)


def _after(request: HttpRequest, ctx: Context, call: Call, follow: Callable[[], ToolResult[Any]]) -> ToolResult[Any]:
    """The page that a response leads to. What was done before is done, whatever becomes of that page."""
    if request.method in SAFE:
        return follow()
    try:
        return in_transaction(follow)
    except Exception as error:  # noqa: BLE001 - the tool has not failed
        logger.warning("%s of %s leads to %s, which failed", request.method, ctx.params.get("name"), call.path)
        told = f" {error}" if isinstance(error, ToolError) else ""
        return ToolResult(text=_with_messages(request, f"Done. The page it leads to, {call.path}, is not shown.{told}"))


def _with_messages(request: HttpRequest, text: str) -> str:
    told = [str(message) for message in get_messages(request)]
    return "\n\n".join(filter(None, ["\n".join(each for each in told if each not in text), text]))


# Reading


def _read(response: Any, most: int) -> bytes:
    length = response.headers.get("Content-Length", "")
    body = b""
    if not length.isdecimal() or int(length) <= most:
        body = response.content if not response.streaming else _collected(response, most)
        length = str(len(body))
    if int(length) > most:
        raise ToolError(f"The answer has more than {most:,} bytes. Ask for less of it.")
    return body


def _collected(response: Any, most: int) -> bytes:
    """A streamed body, or as much of it as shows that it is too large."""
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


# Showing


def _shown(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    kind = media_type(response)
    if not body:
        located = response.headers.get("Location")
        return ToolResult(text=_with_messages(request, f"Done: {located}" if located else "Done."))
    if is_json(kind):
        try:
            return _structured(response, request, body)
        except ValueError:  # it only says so
            kind = "text/plain"
    if "html" in kind:
        return ToolResult(text=_with_messages(request, _page(response, request, body)))
    if kind.startswith("text/") or kind in _TEXTS or (kind.endswith("+xml") and not kind.startswith("image/")):
        return ToolResult(text=_with_messages(request, decoded(response, body)))
    return ToolResult(text=_with_messages(request, "") or None, content=[_block(response, request, kind, body)])


def _structured(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    value = from_json(body, allow_inf_nan=False)
    told = _with_messages(request, "")
    text = f"{told}\n\n{decoded(response, body)}" if told else None
    return ToolResult(value if isinstance(value, dict) else {"result": value}, text=text)


def _page(response: Any, request: HttpRequest, body: bytes) -> str:
    from django_mcp.adapters.html import read_page  # noqa: PLC0415 - Beautiful Soup, which only pages need

    page = read_page(decoded(response, body), request.build_absolute_uri())
    if request.method not in SAFE and (errors := form_errors(response) or page.errors):
        raise ToolError(_with_messages(request, "\n".join(["The form was not accepted.", *errors])))
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
    """Of ``Content-Disposition``."""
    _, parameters = parse_header_parameters(response.headers.get("Content-Disposition", ""))
    return parameters.get("filename", "").rpartition("/")[2]
