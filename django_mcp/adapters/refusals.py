"""What a model is told where a view refused: words from which it can repair the call."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.forms import BaseForm
from django.forms.formsets import BaseFormSet
from pydantic_core import from_json

from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.validation_errors import shortened, written

MOST_CHARACTERS = 4000

_WORDS = {
    HTTPStatus.BAD_REQUEST: "The request was not accepted.",
    HTTPStatus.UNAUTHORIZED: "This needs a caller who is signed in.",
    HTTPStatus.FORBIDDEN: "You are not allowed to do this.",
    HTTPStatus.NOT_FOUND: "Not found.",
    HTTPStatus.CONFLICT: "This conflicts with what is there.",
    HTTPStatus.GONE: "It is no longer there.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "That is too large.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests.",
    HTTPStatus.SERVICE_UNAVAILABLE: "This is not available at the moment.",
}
_PLACES = frozenset({"body", "query", "path", "form", "file", "header", "cookie"})
_OF_ALL = frozenset({"__all__", "non_field_errors", "errors"})
_OF_ALL_AS_TEXT = frozenset({"detail", "details", "error", "message", "title"})
"""A field of such a name has a list of errors."""


class ServerError(Exception):
    """A view answered that the site has failed, or that it was not made for such a request. It is for the log."""


def refused(response: Any, body: bytes, request: Any) -> ToolError:
    """The error for a response with a status of 400 or more.

    Raises:
        ServerError: no caller could mend it.
    """
    status = response.status_code
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        msg = f"{request.path} takes {response.headers.get('Allow', 'no method')}, and the tool sends {request.method}"
        raise ServerError(msg)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.SERVICE_UNAVAILABLE:
        msg = f"{request.method} {request.path} was answered with {status}: {body[:MOST_CHARACTERS]!r}"
        raise ServerError(msg)
    words, told = _WORDS.get(status, f"{response.reason_phrase}."), readable(response, body)
    sentences = [told] if words.strip(".").lower() in told.lower() else [words, told]
    if wait := response.headers.get("Retry-After"):
        sentences.append(f"Try again in {wait} seconds." if wait.isdecimal() else f"Try again after {wait}.")
    return ToolError(" ".join(filter(None, sentences)))


def readable(response: Any, body: bytes) -> str:
    """The words of a body that says what is wrong; none where it is not for reading."""
    kind = media_type(response)
    if is_json(kind):
        try:
            told = "\n".join(dict.fromkeys(_lines(from_json(body), "")))
        except ValueError:
            return ""
    elif "html" in kind:
        from django_mcp.adapters.html import read_page  # noqa: PLC0415 - Beautiful Soup, which only pages need

        page = read_page(decoded(response, body))
        told = "\n".join(page.errors) or page.text.lstrip("# ")
    else:
        told = decoded(response, body) if kind.startswith("text/") else ""
    return shortened(told, MOST_CHARACTERS)


def media_type(response: Any) -> str:
    """Without parameters, in lower case; empty where there is none."""
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    """Whether a media type is JSON."""
    return kind == "application/json" or kind.endswith("+json")


def decoded(response: Any, body: bytes) -> str:
    """The text of a body."""
    try:
        return body.decode(response.charset, "replace")
    except LookupError:  # it names no encoding
        return body.decode("utf-8", "replace")


def form_errors(response: Any) -> list[str]:
    """What the forms of a template response found wrong, a line for each field."""
    context = getattr(response, "context_data", None) or {}
    forms = [form for value in context.values() for form in _forms(value)]
    lines = [
        f"{'' if name == NON_FIELD_ERRORS else f'{form.add_prefix(name)}: '}{' '.join(map(str, errors))}"
        for form in forms
        if form.is_bound
        for name, errors in form.errors.items()
    ]
    sets = (value for value in context.values() if isinstance(value, BaseFormSet) and value.is_bound)
    return lines + [str(error) for each in sets for error in each.non_form_errors()]


def _forms(value: Any) -> list[BaseForm]:
    return [value] if isinstance(value, BaseForm) else list(value.forms) if isinstance(value, BaseFormSet) else []


def _lines(value: Any, where: str) -> Iterator[str]:
    """What JSON says is wrong, a line for each field."""
    match value:
        case {"loc": [*steps], "msg": str(words)}:  # as pydantic has it
            yield from _lines(words, written(step for step in steps if step not in _PLACES))
        case dict():
            for key, each in value.items():
                is_of_all = key in _OF_ALL or (key in _OF_ALL_AS_TEXT and not _is_words(each))
                yield from _lines(each, where if is_of_all else f"{where}.{key}".strip("."))
        case list() if any(isinstance(each, dict | list) for each in value):
            for number, each in enumerate(value):
                is_field = where and not (isinstance(each, dict) and "loc" in each)
                yield from _lines(each, f"{where}[{number}]" if is_field else where)
        case None | "" | [] | bool():
            return
        case _:
            words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{where}: {words}" if where else words


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
