"""What a model is told where the view refused: words from which it can repair the call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from pydantic_core import from_json
from rest_framework.settings import api_settings
from rest_framework.status import HTTP_401_UNAUTHORIZED, HTTP_403_FORBIDDEN, HTTP_429_TOO_MANY_REQUESTS

from django_mcp import ToolError
from django_mcp.adapters.refusals import is_json, media_type, readable
from django_mcp.adapters.responses import close
from django_mcp.contrib.rest_framework.arguments import APIArguments
from django_mcp.primitives.validation_errors import abridged, shortened, written

_DETAIL = "detail"
_ENVELOPES = ("errors", "error", "details", _DETAIL)
"""Under which exception handlers of a site's own put what is wrong with the fields."""


def refused(response: Any, arguments: APIArguments, given: Mapping[str, Any], user: Any) -> ToolError:
    """The error for a response with a status of 4xx."""
    try:
        body = _body(response)
    finally:
        close(response)
    lines = abridged(list(dict.fromkeys(_lines(body, (), arguments, given))))
    return ToolError("\n".join([*lines, *_advice(response, lines, user)]) or f"Refused: {response.reason_phrase}.")


def _advice(response: Any, lines: Sequence[str], user: Any) -> Iterator[str]:
    if response.status_code in (HTTP_401_UNAUTHORIZED, HTTP_403_FORBIDDEN) and (
        user is None or not user.is_authenticated
    ):
        yield "The caller is not signed in."
    wait = response.headers.get("Retry-After")
    if response.status_code == HTTP_429_TOO_MANY_REQUESTS and wait and not any(wait in line for line in lines):
        yield f"Try again in {wait} seconds."


def _body(response: Any) -> Any:
    if is_json(media_type(response)):
        return from_json(response.content)
    return readable(response, response.content)


def _lines(body: Any, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each thing that is wrong, wherever in the body it is."""
    match body:
        case dict():
            for key, inner in body.items():
                is_number = str(key).isdecimal() and (place or arguments.whole is not None)
                step = int(key) if is_number else key
                at = place if _is_general(key, inner, place, arguments) else (*place, step)
                yield from _lines(inner, at, arguments, given)
        case list() if any(isinstance(each, dict | list) for each in body):
            for number, inner in enumerate(body):
                item = None if place else _item(inner, arguments, given)
                if item is None:
                    yield from _lines(inner, (*place, number), arguments, given)
                else:
                    yield from _lines(inner["errors"], (item,), arguments, given)
        case list():
            if body:
                yield _sentence(" ".join(map(str, body)), place, arguments, given)
        case None | "":
            return
        case _:
            yield _sentence(str(body), place, arguments, given)


def _is_general(key: str, inner: Any, place: tuple[Any, ...], arguments: APIArguments) -> bool:
    """Whether something is about the whole, and its key is not the name of a field."""
    if key in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS):
        return True
    if key == _DETAIL and isinstance(inner, str):  # of a field of that name there would be a list
        return True
    kind = dict | list if arguments.is_list else dict
    return not place and key in _ENVELOPES and isinstance(inner, kind) and arguments.argument((key,)) is None


def _item(told: Any, arguments: APIArguments, given: Mapping[str, Any]) -> int | None:
    """The number of the item that mistakes are about, where they are told beside its number or what names its row."""
    items = given.get(arguments.whole) if arguments.whole is not None and arguments.is_list else None
    if not isinstance(items, list) or not isinstance(told, dict) or not isinstance(told.get("errors"), dict):
        return None
    if isinstance(told.get("index"), int):
        return int(told["index"])
    named = {key: value for key, value in told.items() if key != "errors"}
    found = (number for number, each in enumerate(items) if isinstance(each, dict) and named.items() <= each.items())
    return next(found, None) if named else None


def _sentence(words: str, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]) -> str:
    words = shortened(words, 1000)
    if not place:
        return words
    name = arguments.argument(place)
    if name is None:
        return f"{written(place)}: {words}"
    value = arguments.value(place, given)
    told = f" (It was {value}.)" if value is not None and value not in words else ""
    return f"Argument {name!r}: {words}{told}"
