"""Requests of ``drf_tools`` to a view, and its responses and errors as tool results."""

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import NON_FIELD_ERRORS, FieldError, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import DataError, router
from django.db.models import Model
from django.http import Http404
from django.utils.datastructures import MultiValueDict
from pydantic_core import from_json
from rest_framework.exceptions import APIException
from rest_framework.fields import FileField, HiddenField, SerializerMethodField
from rest_framework.parsers import BaseParser, FormParser, MultiPartParser
from rest_framework.relations import HyperlinkedRelatedField, ManyRelatedField, StringRelatedField
from rest_framework.response import Response
from rest_framework.serializers import Serializer
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
from django_mcp.contrib.drf.operations import NoSuchURLError, Operation, reverse_operation
from django_mcp.contrib.openapi import OMITTED, OperationArguments, RequestData, Schema, as_text
from django_mcp.core.database import rolled_back
from django_mcp.core.request import require_same
from django_mcp.integrations.handler import replace_class_view, replace_decorated, run_view
from django_mcp.integrations.redirects import redirect_url, require_no_login
from django_mcp.integrations.requests import FORM, JSON, MULTIPART, SAFE, Call, row_preview, site_request
from django_mcp.integrations.responses import close_response, error_text, is_json, media_type
from django_mcp.integrations.results import tool_result
from django_mcp.integrations.views import not_found_text
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import abridged, missing_argument, shortened, written

MAX_SHOWN = 80
"""Characters of an invalid value to repeat in an error."""


class APIArguments(OperationArguments):
    """Arguments of a view.

    Attributes:
        paging: query parameters that select a page.
    """

    paging: frozenset[str] = frozenset()

    def value(self, place: Sequence[Any], given: Mapping[str, Any]) -> str | None:
        """Return the JSON of the value at a location in the arguments; None if it is missing or long."""
        found: Any = given
        for step in place:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return text if len(text := json.dumps(found, ensure_ascii=False)) <= MAX_SHOWN else None

    def of_page(self, link: Any) -> dict[str, Any]:
        # A model cannot follow the link itself.
        if not isinstance(link, str):
            return {}
        sent = dict(parse_qsl(urlsplit(link).query, keep_blank_values=True))
        return {
            name: int(sent[location.name])
            if location.schema.get("type") == "integer" and sent[location.name].isdecimal()
            else sent[location.name]
            for name, location in self.locations.items()
            if location.source == "query" and location.name in self.paging & sent.keys()
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


def to_result(result: ToolResult[Any], arguments: APIArguments, output: Schema | None) -> ToolResult[Any]:
    """Return a result with the arguments of the next and previous page, and only data that matches *output*.

    The text still has the complete response.
    """
    value = result.structured
    if isinstance(value, dict):
        value = {**value, **_pages(value, arguments)}
    if output is None:
        return ToolResult(value, text=result.text, content=result.content)
    fitting = filter_to_schema(output, value if isinstance(value, dict) else {"result": value})
    text = result.text or json.dumps(value, ensure_ascii=False)
    return ToolResult({} if fitting is UNFIT else fitting, text=text, content=result.content)


def page_arguments() -> dict[str, Schema]:
    return {
        NEXT: {"type": "object", "description": "Arguments to add for the next page. Keep the others."},
        PREVIOUS: {"type": "object", "description": "Arguments to add for the previous page. Keep the others."},
    }


def _pages(value: dict[str, Any], arguments: APIArguments) -> dict[str, Any]:
    inner = value.get("links")
    links: dict[str, Any] = inner if isinstance(inner, dict) else value
    found = {NEXT: arguments.of_page(links.get("next")), PREVIOUS: arguments.of_page(links.get("previous"))}
    return {name: given for name, given in found.items() if given}


def filter_to_schema(schema: Schema, value: Any) -> Any:
    """Return the parts of *value* that match a ``structural`` schema, or ``UNFIT`` if none does."""
    if "anyOf" in schema:
        tried = (filter_to_schema(form, value) for form in schema["anyOf"])
        value = next((candidate for candidate in tried if candidate is not UNFIT), UNFIT)
    if value is UNFIT or not _is_of_type(schema.get("type"), value):
        return UNFIT
    if ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        return UNFIT
    if isinstance(value, dict):
        return _fitted_members(schema, value)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = [filter_to_schema(schema["items"], entry) for entry in value]
        return UNFIT if any(item is UNFIT for item in items) else items
    return value


def _fitted_members(schema: Schema, value: dict[str, Any]) -> Any:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    schemas = {name: properties.get(name, others if isinstance(others, dict) else {}) for name in value}
    fitting = {name: filter_to_schema(schemas[name], entry) for name, entry in value.items()}
    return {name: entry for name, entry in fitting.items() if entry is not UNFIT}


def _is_of_type(kind: Any, value: Any) -> bool:
    if kind is None:
        return True
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _OF_JSON[name]) for name in kinds)


_DETAIL = "detail"
_ENVELOPES = ("errors", "error", "details", _DETAIL)
"""Keys under which custom exception handlers put field errors."""


def error_from_response(response: Any, arguments: APIArguments, given: Mapping[str, Any], user: Any) -> ToolError:
    try:
        body = _body(response)
    finally:
        close_response(response)
    lines = abridged(list(dict.fromkeys(_error_lines(body, (), arguments, given))))
    return ToolError(
        "\n".join([*lines, *_permission_advice(response, lines, user)]) or f"Request failed: {response.reason_phrase}."
    )


def _permission_advice(response: Any, lines: Sequence[str], user: Any) -> Iterator[str]:
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
    return error_text(response, response.content)


def _error_lines(body: Any, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]) -> Iterator[str]:
    match body:
        case dict():
            for key, inner in body.items():
                is_number = str(key).isdecimal() and len(str(key)) < 10 and (place or arguments.whole is not None)  # noqa: PLR2004
                step = int(key) if is_number else key
                at = place if _is_general(key, inner, place, arguments, given) else (*place, step)
                yield from _error_lines(inner, at, arguments, given)
        case list() if any(isinstance(entry, dict | list) for entry in body):
            for number, inner in enumerate(body):
                item = None if place else _item_index(inner, arguments, given)
                if item is None:
                    yield from _error_lines(inner, (*place, number), arguments, given)
                else:
                    yield from _error_lines(inner["errors"], (item,), arguments, given)
        case list():
            if body:
                yield _error_sentence(" ".join(map(str, body)), place, arguments, given)
        case None | "":
            return
        case _:
            yield _error_sentence(str(body), place, arguments, given)


def _is_general(
    key: str, inner: Any, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]
) -> bool:
    if key in (api_settings.NON_FIELD_ERRORS_KEY, NON_FIELD_ERRORS):
        return True
    if key == _DETAIL and isinstance(inner, str):  # a field of that name would have a list
        return True
    if place or key not in _ENVELOPES:
        return False
    if _list_items(arguments, given) is not None:
        return isinstance(inner, dict | list)
    return isinstance(inner, dict) and arguments.argument((key,)) is None


def _list_items(arguments: APIArguments, given: Mapping[str, Any]) -> list[Any] | None:
    items = None if arguments.whole is None else given.get(arguments.whole)
    return items if isinstance(items, list) else None


def _item_index(entry: Any, arguments: APIArguments, given: Mapping[str, Any]) -> int | None:
    """Return the index of the item that errors belong to, from its index or its identifying values."""
    items = _list_items(arguments, given)
    if items is None or not isinstance(entry, dict) or not isinstance(entry.get("errors"), dict):
        return None
    if isinstance(entry.get("index"), int):
        return int(entry["index"])
    named = {key: value for key, value in entry.items() if key != "errors"}
    found = (number for number, entry in enumerate(items) if isinstance(entry, dict) and named.items() <= entry.items())
    return next(found, None) if named else None


def _error_sentence(words: str, place: tuple[Any, ...], arguments: APIArguments, given: Mapping[str, Any]) -> str:
    words = shortened(words, 1000)
    if not place:
        return words
    found = arguments.argument(place)
    if found is None:
        return f"{written(place)}: {words}"
    value = arguments.value(found, given)
    note = f" (It was {value}.)" if value is not None and value not in words else ""
    return f"Argument {written(found)!r}: {words}{note}"


MAX_ROWS = 100
"""Limit of rows looked up for one argument."""


class OperationProtocol(Protocol):
    """What calls need to know of an operation."""

    view: Any
    tool_options: Any

    @property
    def arguments(self) -> APIArguments:
        """Arguments of the tool."""

    @property
    def output(self) -> Schema | None:
        """JSON Schema of the structured content."""

    @property
    def model(self) -> Any:
        """The model of the view's rows, or None."""

    @property
    def addresses_rows(self) -> bool:
        """True if the body may identify rows by something other than a primary key."""

    @property
    def is_serialized(self) -> bool:
        """True if a serializer reads the body."""

    def rows_in(self, view: Any, sent: RequestData) -> dict[str, Any]:
        """Return the rows that a body refers to, by argument."""

    def with_files(self, body: Any) -> Any:
        """Return a body with files in place of the objects that stand for them in nested values."""


class _Data(dict[str, Any]):
    """The data of a request with files, as JSON has it.

    In a form, null, an empty list, an object and a value that is left out have no or another meaning: a serializer
    would read a ``BooleanField`` that is left out as False. It takes this for JSON, since it has no ``getlist``.
    """

    def copy(self) -> "dict[str, Any]":
        # REST framework adds the files to the copy, which has them already.
        return _WithFiles(self)


class _WithFiles(dict[str, Any]):
    def update(self, *others: Any, **more: Any) -> None:
        if not (others and isinstance(others[0], MultiValueDict)):
            super().update(*others, **more)


@dataclass(frozen=True)
class Endpoint:
    """The function of a tool: a call of one operation.

    Attributes:
        version: API version, for versioned views.
        mounted: True if the view is in the URLconf.
        done: text of the result for a response without a body.
    """

    operation: Operation
    described: OperationProtocol
    version: str | None
    mounted: bool
    done: str

    def __call__(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        given, arguments, output = keywords["given"], self.described.arguments, self.described.output
        if ctx.grant is not None:
            for name, found in self.rows(ctx, keywords).items():
                require_same(ctx, name, found)
        request, view, args, variables = self._prepare_request(ctx, arguments.request_data(given))
        response: Any = run_view(view, request, args, variables)
        if is_client_error(response.status_code):
            raise error_from_response(response, arguments, given, ctx.user)
        result = tool_result(response, request, ctx=ctx)
        if response.status_code == HTTP_204_NO_CONTENT or (isinstance(response, Response) and response.data is None):
            return ToolResult({} if output else None, text=self.done)
        return to_result(result, arguments, output)

    def rows(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows that a call refers to in its URL and body, by argument.

        The view and its serializer look them up with the request and permissions of the call. Rows the caller cannot
        access are left out. Writes during the lookup are rolled back.
        """
        sent = self.described.arguments.request_data(keywords["given"])
        variable = self.operation.lookup or ""
        name = self.described.arguments.variable(variable) if variable in sent.path else None
        if name is None and not self.described.addresses_rows:
            return {}
        try:
            return rolled_back(partial(self._find_rows, ctx, sent, name))
        except (ToolError, ArgumentError):
            raise
        except Exception:  # noqa: BLE001 - the view may depend on its decorators, or cannot look up rows
            return {} if name is None else {name: rolled_back(partial(self._all_keys, sent.path[variable]))}

    def _find_rows(self, ctx: Context, sent: RequestData, name: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def look(view: Any) -> None:
            if name is not None and not hasattr(view, "get_object"):
                found[name] = self._all_keys(sent.path[self.operation.lookup or ""])
            elif name is not None:
                with suppress(APIException, Http404, PermissionDenied, ObjectDoesNotExist):
                    row = view.get_object()
                    found[name] = row if isinstance(row, Model) and row.pk is not None else None
            found.update(self.described.rows_in(view, sent))

        self._run_with_view(ctx, sent, look)
        return found

    def preview(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the call would change, as the approver sees it, or None if that is unknown.

        Raises:
            ToolError: the view would refuse the call before it does anything: by its permissions, because the row does
                not exist for the caller, or, if the handler is REST framework's own, because the body is invalid.
        """
        given, arguments = keywords["given"], self.described.arguments
        shown: dict[str, Any] = {}

        def look(view: Any) -> None:
            row = view.get_object() if self.operation.lookup is not None and self.operation.gets_object else None
            shown.update(self._preview_of_view(view, row) or {})

        response = rolled_back(partial(self._run_with_view, ctx, arguments.request_data(given), look))
        if is_client_error(response.status_code):
            raise error_from_response(response, arguments, given, ctx.user)
        return shown or None

    def _preview_of_view(self, view: Any, row: Any) -> dict[str, Any] | None:
        verb = VERBS.get(self.operation.action)
        if verb is None:
            return None
        before = _represent_row(view, row)
        if verb == "delete":
            fields = {name: (name, value) for name, value in before.items()}
        elif not self.operation.is_own_handler:
            return None
        else:
            options = {} if row is None else {"partial": self.operation.action == "partial_update"}
            body = view.get_serializer(*([] if row is None else [row]), data=view.request.data, **options)
            body.is_valid(raise_exception=True)
            fields = {}
            for name in body.initial_data if isinstance(body.initial_data, Mapping) else ():
                field = getattr(body, "fields", {}).get(name)
                if field is not None and not field.read_only:
                    # A value that the API never shows is not shown here either.
                    after = {} if field.write_only else {"after": body.initial_data[name]}
                    fields[name] = str(field.label or name), {**before.get(name, {}), **after}
        name = self.described.model._meta.verbose_name if self.described.model else ""  # noqa: SLF001 - documented
        named = "" if row is None else f" {getattr(row, 'pk', '')}"
        changes = [(field, label, sides) for field, (label, sides) in fields.items()]
        return row_preview(verb, f"{name}{named}", changes)

    def _run_with_view(self, ctx: Context, sent: RequestData, look: Callable[[Any], None]) -> Any:
        """Return the view's response to a request whose handler is *look*.

        Raises:
            ToolError: middleware redirects the caller to the login page.
        """
        request, view, args, variables = self._prepare_request(ctx, sent)
        mapping = [dict(view.actions)] if getattr(view, "actions", None) else []
        looking = self._inspected_view.as_view(*mapping, **{**view.initkwargs, "mcp_look": look})
        if request.method not in SAFE:  # a decorator may keep the answer of those, as cache_page does
            looking = replace_decorated(view, partial(replace_class_view, self.operation.view, looking)) or looking
        response = run_view(view, request, args, variables, instead=looking)
        if (url := redirect_url(response, request)) is not None:
            require_no_login(url, request)
        return response

    @cached_property
    def _inspected_view(self) -> Any:
        def handle(view: Any, request: Any, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG001
            view.mcp_look(view)
            return Response()

        view = self.operation.view
        # Without throttles, which count the call itself.
        own = {"__module__": view.__module__, "mcp_look": None, "check_throttles": lambda _view, _request: None}
        return type(view.__name__, (view,), {**own, self.operation.handler: handle})

    def _all_keys(self, value: Any) -> Any:
        """Return the keys of all rows that an argument may refer to; None if unknown."""
        model = self.described.model
        if model is None:
            return None
        rows = model._base_manager.using(router.db_for_write(model))  # noqa: SLF001 - Django's documented API
        try:
            found = rows.filter(**{self.described.view.lookup_field: value}).order_by("pk").values_list("pk", flat=True)
            return list(found[:MAX_ROWS]) or None
        except (FieldError, ValueError, TypeError, ValidationError, DataError):
            return None

    def _prepare_request(self, ctx: Context, sent: RequestData) -> tuple[Any, Any, Any, Mapping[str, Any]]:
        path, view, args, variables, match = self._resolve_address(sent)
        call, body = self._call(path, sent), sent.body
        if self._reads_data and isinstance(body, dict | list):
            body = self.described.with_files(body)
        if body is not sent.body or (self._reads_data and call.content_type != JSON and isinstance(body, dict)):
            kind = MULTIPART if call.content_type == JSON else call.content_type
            request: Any = site_request(ctx, replace(call, body={}, files={}, content_type=kind))
            _give_data(request, body, sent.files)
        else:
            request = site_request(ctx, call)
        request.resolver_match = match
        # As DRF's test client does, skip the view's authenticators. The caller's token is valid for the MCP endpoint
        # only, and so is not passed on.
        caller = AnonymousUser() if ctx.user is None else ctx.user
        request._force_auth_user, request._force_auth_token = caller, None  # noqa: SLF001
        return request, view, args, variables

    def _resolve_address(self, sent: RequestData) -> tuple[str, Any, Any, Mapping[str, Any], Any]:
        values = dict(sent.path)
        if (variable := self.operation.version_variable) and self.version is not None:
            values[variable] = self.version
        if not self.mounted:
            values = {name: str(value) for name, value in values.items()}  # as a router's pattern matches them
            path = "/".join(["", *(quote(value, safe="") for value in values.values()), ""])
            return path or "/", self._unmounted, (), values, None
        try:
            path, match = reverse_operation(self.operation, values, self.version)
        except NoSuchURLError as error:
            if error.lacking:
                lacking = sorted(map(self.described.arguments.variable, error.lacking))
                raise ArgumentError([missing_argument([name]) for name in lacking]) from None
            named = {self.described.arguments.variable(name): value for name, value in sent.path.items()}
            raise ToolError(not_found_text(named)) from None
        return path, match.func, match.args, match.kwargs, match

    @cached_property
    def _unmounted(self) -> Any:
        view: Any = self.operation.view
        mapping = [] if self.operation.mapping is None else [dict(self.operation.mapping)]
        return view.as_view(*mapping, **self.operation.initkwargs)

    def _call(self, path: str, sent: RequestData) -> Call:
        scheme = self.operation.view.versioning_class
        accept, query = JSON, dict(sent.query)
        if scheme and self.version is not None and issubclass(scheme, AcceptHeaderVersioning):
            accept = f"{JSON}; {scheme.version_param}={self.version}"
        if scheme and self.version is not None and issubclass(scheme, QueryParameterVersioning):
            query[scheme.version_param] = self.version
        content_type = MULTIPART if sent.files else self._content_type
        if isinstance(sent.body, list):  # forms cannot represent lists
            content_type = JSON
        body = None if sent.body is OMITTED else sent.body
        body = body if content_type == JSON else to_form_data(body or {})
        headers = {"Accept": f"{accept}, */*;q=0.1"}
        return Call(self.operation.method, path, query, body, content_type, headers, sent.files)

    @cached_property
    def _parsers(self) -> list[BaseParser]:
        return self.operation.instance().get_parsers()  # type: ignore[no-any-return]

    @cached_property
    def _content_type(self) -> str:
        taken = [parser.media_type for parser in self._parsers]
        return next((media_type for media_type in (JSON, MULTIPART, FORM) if media_type in taken), JSON)

    @cached_property
    def _reads_data(self) -> bool:
        """True if a serializer reads what REST framework's own parsers make of forms.

        Other parsers may rename fields, and code without a serializer may expect the methods of a ``QueryDict``.
        """
        usual = {MULTIPART: MultiPartParser.parse, FORM: FormParser.parse}
        parse = [type(parser).parse for parser in self._parsers if parser.media_type in usual]
        return self.described.is_serialized and bool(parse) and {*parse} <= {*usual.values()}


def _give_data(request: Any, body: Any, files: Mapping[str, Any]) -> None:
    """Let REST framework take this body in place of a form's, as it does where a middleware has read ``POST``."""
    several = {name: file if isinstance(file, list) else [file] for name, file in files.items()}
    request._post = _Data({**body, **files}) if isinstance(body, dict) else body  # noqa: SLF001
    request._files, request._read_started = MultiValueDict(several), True  # noqa: SLF001
    request.META["CONTENT_LENGTH"] = str(max(1, int(request.META["CONTENT_LENGTH"])))  # zero is no body


VERBS = {"create": "create", "update": "update", "partial_update": "update", "destroy": "delete"}
"""The verbs that approvers read for standard actions."""


def _represent_row(view: Any, row: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the sides of a preview for a row as the view's own ``retrieve`` shows it, {} if that is unknown."""
    if row is None:
        return {}
    action = getattr(view, "action", None)
    try:
        if action is not None:
            view.action = "retrieve"  # which may have a serializer of its own
        serializer = view.get_serializer(row)
        shown = serializer.data
    except Exception:  # noqa: BLE001 - the view may have no serializer for it; the call is none of that
        return {}
    finally:
        if action is not None:
            view.action = action
    if not isinstance(shown, Mapping):
        return {}
    columns = _columns(serializer, row)
    return {name: {"before": value, "computed": name not in columns} for name, value in shown.items()}


_COMPUTED = (
    HiddenField,
    SerializerMethodField,
    FileField,
    StringRelatedField,
    HyperlinkedRelatedField,
    ManyRelatedField,
)
"""Fields whose representation may differ for the same row: by time, host, signature or order."""


def _columns(serializer: Any, row: Any) -> Container[str]:
    """Return the fields of a serializer that show a column of the row by REST framework's own code."""
    if type(serializer).to_representation is not Serializer.to_representation or not isinstance(row, Model):
        return ()
    columns = {field.name for field in row._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
    return {
        name
        for name, field in serializer.fields.items()
        if (field.source in columns or field.source == "pk")
        and type(field).__module__.startswith("rest_framework.")
        and not isinstance(field, _COMPUTED)
    }


def to_form_data(body: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten a body to DRF's form syntax: ``a.b`` for members, ``a[0]b`` for members of items."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found |= to_form_data(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            for number, entry in enumerate(value):
                found |= (
                    to_form_data(entry, f"{name}[{number}]")
                    if isinstance(entry, dict)
                    else {f"{name}[{number}]": entry}
                )
        else:
            found[name] = "" if value is None else as_text(value)
    return found
