"""Call a view with the arguments of a tool, and translate its response or error."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import NON_FIELD_ERRORS, FieldError, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import DataError, router
from django.db.models import Model
from django.http import Http404
from pydantic_core import from_json
from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.status import (
    HTTP_204_NO_CONTENT,
    HTTP_401_UNAUTHORIZED,
    HTTP_403_FORBIDDEN,
    HTTP_429_TOO_MANY_REQUESTS,
    is_client_error,
)
from rest_framework.versioning import AcceptHeaderVersioning, QueryParameterVersioning

from django_mcp import Context, ToolError, ToolResult
from django_mcp.contrib.drf.operations import NoSuchURLError, Operation, place
from django_mcp.contrib.openapi import LEFT_OUT, OperationArguments, Schema, Sent, as_text
from django_mcp.core.database import rolled_back
from django_mcp.integrations.http import (
    FORM,
    JSON,
    MULTIPART,
    Call,
    close,
    is_json,
    media_type,
    readable,
    run_view,
    site_request,
    tool_result,
)
from django_mcp.integrations.views import nothing_with
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import abridged, missing_argument, shortened, written

MAX_SHOWN = 80
"""Characters of a value that is told to have been wrong."""


class APIArguments(OperationArguments):
    """Arguments of a view.

    Attributes:
        paging: the parameters of the query that choose a page.
    """

    paging: frozenset[str] = frozenset()

    def value(self, place: Sequence[Any], given: Mapping[str, Any]) -> str | None:
        """The value at a place in the arguments, as JSON; None where there is none, or where it is long."""
        found: Any = given
        for step in place:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return text if len(text := json.dumps(found, ensure_ascii=False)) <= MAX_SHOWN else None

    def of_page(self, link: Any) -> dict[str, Any]:
        """The arguments that a link to another page stands for: a model cannot follow it, but it can call again."""
        if not isinstance(link, str):
            return {}
        sent = dict(parse_qsl(urlsplit(link).query, keep_blank_values=True))
        return {
            name: int(sent[place.name])
            if place.schema.get("type") == "integer" and sent[place.name].isdecimal()
            else sent[place.name]
            for name, place in self.places.items()
            if place.source == "query" and place.name in self.paging & sent.keys()
        }


UNFIT = object()
NEXT, PREVIOUS = "next_arguments", "previous_arguments"
_OF_JSON = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def answered(result: ToolResult[Any], arguments: APIArguments, output: Schema | None) -> ToolResult[Any]:
    """A result with the arguments of the pages before and after it, and with data that fit *output*.

    Data that do not fit are left out of the structured content. The text has all that the view said.
    """
    value = result.structured
    if isinstance(value, dict):
        value = {**value, **_pages(value, arguments)}
    if output is None:
        return ToolResult(value, text=result.text, content=result.content)
    fitting = fitted(output, value)
    text = result.text or json.dumps(value, ensure_ascii=False)
    return ToolResult({} if fitting is UNFIT else fitting, text=text, content=result.content)


def page_arguments() -> dict[str, Schema]:
    """What ``_pages`` adds, for an output schema."""
    return {
        NEXT: {"type": "object", "description": "Arguments to add for the next page. Keep the others."},
        PREVIOUS: {"type": "object", "description": "Arguments to add for the previous page. Keep the others."},
    }


def _pages(value: dict[str, Any], arguments: APIArguments) -> dict[str, Any]:
    inner = value.get("links")
    links: dict[str, Any] = inner if isinstance(inner, dict) else value
    found = {NEXT: arguments.of_page(links.get("next")), PREVIOUS: arguments.of_page(links.get("previous"))}
    return {name: given for name, given in found.items() if given}


def fitted(schema: Schema, value: Any) -> Any:
    """*value* without what does not fit a schema as ``structural`` makes them; ``UNFIT`` where nothing of it does."""
    if "anyOf" in schema:
        tried = (fitted(each, value) for each in schema["anyOf"])
        value = next((each for each in tried if each is not UNFIT), UNFIT)
    if value is UNFIT or not _is_of_type(schema.get("type"), value):
        return UNFIT
    if ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        return UNFIT
    if isinstance(value, dict):
        return _fitted_members(schema, value)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = [fitted(schema["items"], each) for each in value]
        return UNFIT if any(each is UNFIT for each in items) else items
    return value


def _fitted_members(schema: Schema, value: dict[str, Any]) -> Any:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    schemas = {name: properties.get(name, others if isinstance(others, dict) else {}) for name in value}
    fitting = {name: fitted(schemas[name], each) for name, each in value.items()}
    return {name: each for name, each in fitting.items() if each is not UNFIT}


def _is_of_type(kind: Any, value: Any) -> bool:
    if kind is None:
        return True
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _OF_JSON[each]) for each in kinds)


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
        yield "The caller is not authenticated."
    wait = response.headers.get("Retry-After")
    if response.status_code == HTTP_429_TOO_MANY_REQUESTS and wait and not any(wait in line for line in lines):
        yield f"Retry after {wait} seconds."


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
                at = place if _is_general(key, inner, place, arguments, given) else (*place, step)
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


def _is_general(
    key: str, inner: Any, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]
) -> bool:
    """Whether something is about the whole, and its key is not the name of a field."""
    if key in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS):
        return True
    if key == _DETAIL and isinstance(inner, str):  # of a field of that name there would be a list
        return True
    if place or key not in _ENVELOPES:
        return False
    if _items(arguments, given) is not None:
        return isinstance(inner, dict | list)
    return isinstance(inner, dict) and arguments.argument((key,)) is None


def _items(arguments: APIArguments, given: Mapping[str, Any]) -> list[Any] | None:
    """Return the items of a body that is a list; None for another body."""
    items = None if arguments.whole is None else given.get(arguments.whole)
    return items if isinstance(items, list) else None


def _item(told: Any, arguments: APIArguments, given: Mapping[str, Any]) -> int | None:
    """The number of the item that mistakes are about, where they are told beside its number or what names its row."""
    items = _items(arguments, given)
    if items is None or not isinstance(told, dict) or not isinstance(told.get("errors"), dict):
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
    found = arguments.argument(place)
    if found is None:
        return f"{written(place)}: {words}"
    value = arguments.value(found, given)
    told = f" (It was {value}.)" if value is not None and value not in words else ""
    return f"Argument {written(found)!r}: {words}{told}"


MAX_ROWS = 100
"""So many rows are looked at that an argument may name."""


class Description(Protocol):
    """What a view tells of an operation, as far as calls need it.

    Attributes:
        view: the view as schemas are generated from it.
    """

    view: Any

    @property
    def arguments(self) -> APIArguments:
        """The arguments of the tool."""

    @property
    def output(self) -> Schema | None:
        """JSON Schema of the tool's structured content."""

    @property
    def model(self) -> Any:
        """The model of the view's rows, or None."""

    @property
    def addresses_rows(self) -> bool:
        """The body may name rows other than by primary key."""

    def rows_in(self, view: Any, sent: Sent) -> dict[str, Any]:
        """Return the rows that a body names, by argument."""


@dataclass(frozen=True)
class Endpoint:
    """What a tool calls.

    Attributes:
        described: what the view tells of it.
        version: of the API, for views with versions.
        mounted: the view is in the URLconf.
        done: what a model is told of an answer without a body.
    """

    operation: Operation
    described: Description
    version: str | None
    mounted: bool
    done: str

    def __call__(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        """Call the view as the caller, and tell what it answered.

        Raises:
            ToolError: it refused.
            ArgumentError: no URL of it can be made of the arguments.
        """
        given, arguments, output = keywords["given"], self.described.arguments, self.described.output
        request, view, args, variables = self._asked(ctx, arguments.sent(given))
        response: Any = run_view(view, request, args, variables)
        if is_client_error(response.status_code):
            raise refused(response, arguments, given, ctx.user)
        result = tool_result(response, request, ctx=ctx)
        if response.status_code == HTTP_204_NO_CONTENT or (isinstance(response, Response) and response.data is None):
            return ToolResult({} if output else None, text=self.done)
        return answered(result, arguments, output)

    def rows(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The rows that a call means, by argument: the one that it is about, and those that its body names.

        The view and its serializer find them, with the request of the call and behind the view's permissions. What is
        none for the caller is left out. What they write meanwhile is rolled back.

        Raises:
            ToolError, ArgumentError: as when it is called.
        """
        sent = self.described.arguments.sent(keywords["given"])
        name = self.operation.lookup if self.operation.lookup in sent.path else None
        if name is None and not self.described.addresses_rows:
            return {}
        model = self.described.model
        alias = None if model is None else router.db_for_write(model)
        try:
            return rolled_back(partial(rolled_back, partial(self._found, ctx, sent, name), alias))
        except (ToolError, ArgumentError):
            raise
        except Exception:  # noqa: BLE001 - it needs what is around it in the URLconf perhaps, or cannot find rows at all
            return {} if name is None else {name: rolled_back(partial(self._of_model, sent.path[name]), alias)}

    def _found(self, ctx: Context, sent: Sent, name: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def look(view: Any) -> None:
            if name is not None and not hasattr(view, "get_object"):
                found[name] = self._of_model(sent.path[name])
            elif name is not None:
                with suppress(APIException, Http404, PermissionDenied, ObjectDoesNotExist):
                    row = view.get_object()
                    found[name] = row if isinstance(row, Model) and row.pk is not None else None
            found.update(self.described.rows_in(view, sent))

        request, view, args, variables = self._asked(ctx, sent)
        mapping = [dict(view.actions)] if getattr(view, "actions", None) else []
        run_view(self._looking.as_view(*mapping, **{**view.initkwargs, "mcp_look": look}), request, args, variables)
        return found

    @cached_property
    def _looking(self) -> Any:
        """The view, with a handler that only looks. To look does not count as a call."""

        def handle(view: Any, request: Any, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG001
            view.mcp_look(view)
            return Response()

        view = self.operation.view
        own = {"__module__": view.__module__, "mcp_look": None, "check_throttles": lambda _view, _request: None}
        return type(view.__name__, (view,), {**own, self.operation.handler: handle})

    def _of_model(self, value: Any) -> Any:
        """The keys of all rows that an argument may name; None where that cannot be known."""
        model = self.described.model
        if model is None:
            return None
        rows = model._base_manager.using(router.db_for_write(model))  # noqa: SLF001 - Django's documented API
        try:
            found = rows.filter(**{self.described.view.lookup_field: value}).order_by("pk").values_list("pk", flat=True)
            return list(found[:MAX_ROWS]) or None
        except (FieldError, ValueError, TypeError, ValidationError, DataError):
            return None

    def _asked(self, ctx: Context, sent: Sent) -> tuple[Any, Any, Any, Mapping[str, Any]]:
        """The request, the view behind its URL, and what that takes besides.

        Raises:
            ToolError, ArgumentError: there is no such URL.
        """
        path, view, args, variables, match = self._place(sent)
        request: Any = site_request(ctx, self._call(path, sent))
        request.resolver_match = match
        # What REST framework's own test client sets: the view's authenticators are not asked. There is no token to
        # give: the caller's is for this endpoint, and for nothing behind it.
        caller = AnonymousUser() if ctx.user is None else ctx.user
        request._force_auth_user, request._force_auth_token = caller, None  # noqa: SLF001
        return request, view, args, variables

    def _place(self, sent: Sent) -> tuple[str, Any, Any, Mapping[str, Any], Any]:
        """The path, the view behind it, what it takes besides the request, and the resolver's match."""
        values = dict(sent.path)
        if (variable := self.operation.version_variable) and self.version is not None:
            values[variable] = self.version
        if not self.mounted:
            path = "/".join(["", *(quote(str(value), safe="") for value in values.values()), ""])
            return path or "/", self._unmounted, (), values, None
        try:
            path, match = place(self.operation, values, self.version)
        except NoSuchURLError as error:
            if error.lacking:
                raise ArgumentError([missing_argument([name]) for name in sorted(error.lacking)]) from None
            raise ToolError(nothing_with(sent.path)) from None
        return path, match.func, match.args, match.kwargs, match

    @cached_property
    def _unmounted(self) -> Any:
        view: Any = self.operation.view
        mapping = [] if self.operation.mapping is None else [dict(self.operation.mapping)]
        return view.as_view(*mapping, **self.operation.initkwargs)

    def _call(self, path: str, sent: Sent) -> Call:
        scheme = self.operation.view.versioning_class
        accept, query = JSON, dict(sent.query)
        if scheme and self.version is not None and issubclass(scheme, AcceptHeaderVersioning):
            accept = f"{JSON}; {scheme.version_param}={self.version}"
        if scheme and self.version is not None and issubclass(scheme, QueryParameterVersioning):
            query[scheme.version_param] = self.version
        content_type = MULTIPART if sent.files else self._content_type
        if isinstance(sent.body, list):  # which no form can be
            content_type = JSON
        body = None if sent.body is LEFT_OUT else sent.body
        body = body if content_type == JSON else as_form(body or {})
        headers = {"Accept": f"{accept}, */*;q=0.1"}
        return Call(self.operation.method, path, query, body, content_type, headers, sent.files)

    @cached_property
    def _content_type(self) -> str:
        """What to send without files: JSON where the view takes it."""
        parsers: list[BaseParser] = self.operation.instance().get_parsers()
        taken = [each.media_type for each in parsers]
        return next((each for each in (JSON, MULTIPART, FORM) if each in taken), JSON)


def as_form(body: Any, prefix: str = "") -> dict[str, Any]:
    """A body as REST framework reads forms: ``a.b`` for a member, ``a[0]b`` for one of an item, text for all else."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found |= as_form(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                found |= as_form(each, f"{name}[{number}]") if isinstance(each, dict) else {f"{name}[{number}]": each}
        else:
            found[name] = "" if value is None else as_text(value)
    return found
