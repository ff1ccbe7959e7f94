"""Responses of the site's views: media type, text, and errors in words."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.forms import BaseForm
from django.forms.formsets import BaseFormSet
from django.http.response import HttpResponseBase
from pydantic_core import from_json

from django_mcp.conf import settings as settings_of_package
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.validation_errors import shortened, written
from django_mcp.protocol.json_schema import is_string_list

MAX_CHARACTERS = 4000
_WORDS = {
    HTTPStatus.BAD_REQUEST: "The request was not accepted.",
    HTTPStatus.UNAUTHORIZED: "Authentication is required for this.",
    HTTPStatus.FORBIDDEN: "You do not have permission to do this.",
    HTTPStatus.NOT_FOUND: "Not found.",
    HTTPStatus.CONFLICT: "The request conflicts with existing data.",
    HTTPStatus.GONE: "No longer available.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The request is too large.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Service temporarily unavailable.",
}
_PLACES = frozenset({"body", "query", "path", "form", "file", "header", "cookie"})
_OF_ALL = frozenset({"__all__", "non_field_errors", "errors"})
_OF_ALL_AS_TEXT = frozenset({"detail", "details", "error", "message", "title"})
"""Names that may also be fields; such a field has a list of errors."""


class ServerError(Exception):
    """A view responded with a server error, or does not support the request. Logged, not shown to callers."""


def error_from_response(response: Any, body: bytes, request: Any) -> ToolError:
    """Return the error for a response with a status of 400 or more.

    Raises:
        ServerError: no caller can correct it: 405, or 5xx except 503.
    """
    status = response.status_code
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        msg = f"{request.path} allows {response.headers.get('Allow', 'no method')}, but the tool sends {request.method}"
        raise ServerError(msg)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.SERVICE_UNAVAILABLE:
        msg = f"{request.method} {request.path} returned status {status}: {body[:MAX_CHARACTERS]!r}"
        raise ServerError(msg)
    words, detail = (
        _WORDS.get(status, f"{response.reason_phrase}."),
        error_text(response, body, request.build_absolute_uri()),
    )
    sentences = [detail] if words.strip(".").lower() in detail.lower() else [words, detail]
    if wait := response.headers.get("Retry-After"):
        sentences.append(f"Retry after {wait} seconds." if wait.isdecimal() else f"Retry after {wait}.")
    return ToolError(" ".join(filter(None, sentences)))


def error_text(response: Any, body: bytes, base: str = "") -> str:
    """Return the text of an error response, or "" if its body is not readable text.

    *base* is its URL, to which links are relative.
    """
    kind = media_type(response)
    if is_json(kind):
        try:
            text = "\n".join(dict.fromkeys(_lines(from_json(body), "")))
        except ValueError:
            return ""
    elif "html" in kind:
        from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

        page = read_page(decode_body(response, body), base, settings_of_package.BASE_URL or "")
        text = "\n".join(page.errors) or page.text.lstrip("# ")
    else:
        text = decode_body(response, body) if kind.startswith("text/") else ""
    return shortened(text, MAX_CHARACTERS)


def media_type(response: Any) -> str:
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def decode_body(response: Any, body: bytes) -> str:
    try:
        return body.decode(response.charset, "replace")
    except LookupError:  # unknown charset
        return body.decode("utf-8", "replace")


def form_errors(response: Any) -> list[str]:
    context = getattr(response, "context_data", None) or {}
    forms = [form for value in context.values() for form in _forms(value)]
    lines = [
        f"{'' if name == NON_FIELD_ERRORS else f'{form.add_prefix(name)}: '}{' '.join(map(str, errors))}"
        for form in forms
        if form.is_bound
        for name, errors in form.errors.items()
    ]
    sets = (value for value in context.values() if isinstance(value, BaseFormSet) and value.is_bound)
    return lines + [str(error) for formset in sets for error in formset.non_form_errors()]


def _forms(value: Any) -> list[BaseForm]:
    return [value] if isinstance(value, BaseForm) else list(value.forms) if isinstance(value, BaseFormSet) else []


def _lines(value: Any, where: str) -> Iterator[str]:
    match value:
        case {"loc": [*steps], "msg": str(words)}:  # pydantic's format
            yield from _lines(words, written(step for step in steps if step not in _PLACES))
        case dict():
            for key, part in value.items():
                is_of_all = key in _OF_ALL or (key in _OF_ALL_AS_TEXT and not is_string_list(part))
                yield from _lines(part, where if is_of_all else f"{where}.{key}".strip("."))
        case list() if any(isinstance(part, dict | list) for part in value):
            for number, part in enumerate(value):
                is_field = where and not (isinstance(part, dict) and "loc" in part)
                yield from _lines(part, f"{where}[{number}]" if is_field else where)
        case None | "" | [] | bool():
            return
        case _:
            words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{where}: {words}" if where else words


def close_response(response: HttpResponseBase) -> None:
    """Close a response without sending ``request_finished``, which ``HttpResponse.close`` does.

    The request that carries the MCP call has not finished.
    """
    held: Any = response
    while held._resource_closers:  # noqa: SLF001
        held._resource_closers.pop()()  # noqa: SLF001
    response.closed = True
