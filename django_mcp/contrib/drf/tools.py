"""``drf_tools``: options, names and descriptions of tools for REST framework views."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db.models.constants import LOOKUP_SEP
from django.utils.encoding import force_str
from rest_framework.serializers import BaseSerializer, ListSerializer

from django_mcp import Context
from django_mcp.contrib.drf import checks  # noqa: F401 - registers one
from django_mcp.contrib.drf.operations import METHODS, Operation, addresses, operations
from django_mcp.contrib.drf.requests import APIArguments, Endpoint, page_arguments
from django_mcp.contrib.drf.schema import (
    NOTHING,
    addresses_rows,
    annotation_schema,
    contains_file,
    default_serializer,
    inspector,
    instance_of,
    model_column,
    model_of,
    note_schema,
    query_locations,
    request_of,
    response_of,
    rows_in,
    structural,
    variable_schema,
    with_files,
)
from django_mcp.contrib.openapi import ArgumentLocation, Document, RequestData, Schema, body_locations, join_text
from django_mcp.core.database import without_queries
from django_mcp.core.decorators import register_at
from django_mcp.core.late_tools import LateTool
from django_mcp.core.server import Where
from django_mcp.core.signatures import GIVEN, function, shaped
from django_mcp.integrations.requests import request_options
from django_mcp.primitives.base import untranslated
from django_mcp.primitives.function import EMPTY, own_docstring
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import with_article

T = TypeVar("T")


_SECTION = re.compile(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)
_SUFFIXES = ("ViewSet", "APIView", "View", "API", "List", "Detail")

NAMES = {
    "list": "list_{plural}",
    "retrieve": "get_{name}",
    "create": "create_{name}",
    "update": "replace_{name}",
    "partial_update": "update_{name}",
    "destroy": "delete_{name}",
}
SENTENCES = {
    "list": "List {plural}.",
    "retrieve": "Get one {name}.",
    "create": "Create {a_name}.",
    "update": "Replace all fields of {a_name}.",
    "partial_update": "Change the given fields of {a_name}.",
    "destroy": "Delete {a_name}.",
}
DONE = {"destroy": "Deleted."}


class ModelNames:
    """The singular and plural name of a view's rows, as identifiers."""

    def __init__(self, view: type, model: Any, name: str | None, plural: str | None) -> None:
        singular = untranslated(model._meta.verbose_name) if model else _snake(view.__name__)  # noqa: SLF001
        several = untranslated(model._meta.verbose_name_plural) if model else f"{singular}s"  # noqa: SLF001
        self.is_chosen = bool(name or plural)
        self.name = name or identifier(singular)
        self.plural = plural or (f"{name}s" if name else identifier(several))

    def format_sentence(self, sentence: str) -> str:
        name = self.name.replace("_", " ")
        return sentence.format(name=name, a_name=with_article(name), plural=self.plural.replace("_", " "))


def tool_name(operation: Operation, names: ModelNames, schema: Any) -> str:
    if (chosen := schema.get_operation_id()) is not None:
        return identifier(chosen)
    return default_tool_name(operation, names)


def default_tool_name(operation: Operation, names: ModelNames) -> str:
    if operation.action in NAMES:
        own = _other_list_name(operation, names)
        return NAMES[operation.action].format(name=own or names.name, plural=own or names.plural)
    if operation.action in METHODS:
        own = _snake(operation.view.__name__)
        several = sum(hasattr(operation.view, method) for method in METHODS) > 1
        return f"{operation.action}_{own}" if several else own
    about = names.name if operation.detail else names.plural
    # ``recent_users`` of users already contains the noun.
    return operation.action if names.name in operation.action else f"{operation.action}_{about}"


def _other_list_name(operation: Operation, names: ModelNames) -> str:
    """Return the name of a list that is called after something else than its rows, such as ``trash``; else "".

    Beside another view of the same model it would pass for the list of all rows.
    """
    if operation.action != "list" or operation.mapping is not None or names.is_chosen:
        return ""
    own = _snake(operation.view.__name__)
    return "" if {*own.split("_")} & {*names.name.split("_"), *names.plural.split("_")} else own


def description(operation: Operation, view: Any, names: ModelNames, schema: Any) -> str:
    """Return the tool's description: the site's text for the operation, otherwise for the view."""
    if words := schema.get_description():
        return force_str(words)
    sections = _sections(own_docstring(operation.view) if _is_sites(operation.view) else "")
    if words := _handler_description(operation) or sections.get(operation.handler) or sections.get(operation.action):
        return words
    title = force_str(schema.get_summary() or getattr(view, "name", None) or "")
    first = names.format_sentence(SENTENCES[operation.action]) if operation.action in SENTENCES else title
    if operation.action in SENTENCES and (own := _other_list_name(operation, names)):
        first = f"{first.removesuffix('.')} ({own.replace('_', ' ')})."
    if operation.action not in {*SENTENCES, *METHODS}:
        first = title or f"{default_tool_name(operation, names).replace('_', ' ').capitalize()}."
    if not first and not sections.get(""):
        return f"Send a {operation.method} request to {_snake(operation.view.__name__).replace('_', ' ')}."
    return "\n\n".join(filter(None, [first, sections.get("", "")]))


def _handler_description(operation: Operation) -> str:
    # Docstrings of mixins describe mixins.
    owner = next((base for base in operation.view.__mro__ if operation.handler in vars(base)), operation.view)
    is_own = owner is operation.view or (operation.is_extra and not _is_installed(owner))
    return own_docstring(operation.function) if is_own and _is_sites(operation.function) else ""


def _is_installed(written: Any) -> bool:
    module = sys.modules.get(written.__module__)
    return bool({"site-packages", "dist-packages"} & {*Path(getattr(module, "__file__", None) or "").parts})


def _is_sites(written: Any) -> bool:
    return not (written.__module__ or "").startswith("rest_framework.")


def _sections(text: str | None) -> Mapping[str, str]:
    """Split a view's docstring at method names such as ``list:`` on their own line."""
    parts = _SECTION.split(text or "")
    first, *rest = parts
    found = {"": first.strip()}
    for heading, same_line, below in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if below.startswith("\n") and heading in {*NAMES, *METHODS}:
            found[heading] = f"{same_line}\n{below}".strip()
        else:
            found[""] = f"{found['']}\n{heading}: {same_line}{below}".strip()
    return found


def identifier(words: str) -> str:
    """Return an identifier of characters that all clients accept."""
    found = re.sub(r"[^a-zA-Z0-9]+", "_", words).strip("_").lower()
    if not found:
        msg = f"{words!r} cannot be converted to a tool name; set name='…' and plural='…'."
        raise ImproperlyConfigured(msg)
    return found


def _snake(name: str) -> str:
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(frozen=True)
class ToolOptions:
    """The options of ``drf_tools``."""

    names: Mapping[str, str]
    request: Mapping[str, Any]
    responses: Mapping[str, Any]
    path_arguments: Mapping[str, Any]
    arguments: Mapping[str, str]
    output: bool
    filters: Collection[str] | None
    version: str | None
    mounted: bool
    name: str | None
    plural: str | None

    def entry_for(self, operation: Operation, given: Mapping[str, Any]) -> Any:
        return given.get(operation.action, given.get(operation.handler, NOTHING))


MAX_NAMED = 30
"""Maximum number of columns to name, by which the API filters and a tool does not."""


def _filters_note(names: Iterable[str]) -> str:
    columns = [*dict.fromkeys(name.partition(LOOKUP_SEP)[0] for name in names)]
    more = f", and {len(columns) - MAX_NAMED} more" if len(columns) > MAX_NAMED else ""
    return f"Not offered: further filters by {', '.join(columns[:MAX_NAMED])}{more}." if columns else ""


class APITool(LateTool):
    """A tool that calls a view. Completed when first listed or called: some serializers query the database.

    Attributes:
        endpoint: the function it runs.
    """

    reads_database = True

    def __init__(self, endpoint: Endpoint, described: "OperationDescription", **options: Any) -> None:
        is_previewed = options.get("preview") is not None
        if not endpoint.operation.is_safe and not is_previewed:
            options["preview"] = function(endpoint.preview, f"preview_{options['name']}", [GIVEN], described.view)
        self.endpoint, self._described, self._options = endpoint, described, options
        super().__init__(self._function(EMPTY), **options)
        self.rows_of = endpoint.rows
        if not endpoint.operation.is_safe and is_previewed:
            self.check_call = endpoint.preview
        # Report serializer errors at the declaration. URLs must wait: the URLconf may import the declaring module.
        self._at_urls = not endpoint.mounted
        self.complete_now()
        if endpoint.mounted:
            self._at_urls = True
            self.forget()

    def _function(self, returns: Any) -> Any:
        return function(self.endpoint, self._options["name"], [], self._described.view, returns)

    def made(self) -> Tool:
        output = self._described.output
        call = self._function(EMPTY if output is None else shaped(output))
        taken = self._described.arguments if self._at_urls else APIArguments(self._described.locations, "")
        options = self._options
        if words := _filters_note(self._described.too_many):
            options = {**options, "description": join_text(options["description"], words)}
        return Tool(call, context_type=Context, arguments=taken, **options)

    def _fill(self, whole: Tool) -> None:
        super()._fill(whole)
        self._output = whole.output
        self._definition["description"] = whole.definition["description"]
        if "outputSchema" in whole.definition:
            self._definition["outputSchema"] = whole.definition["outputSchema"]


class OperationDescription:
    """The description of one operation, read from its view once.

    Raises:
        ImproperlyConfigured: the view cannot be described without a real request.
    """

    too_many: Sequence[str] = ()
    """Filters of the API that are no arguments, because there are too many of them. Known with the arguments."""

    def __init__(self, operation: Operation, tool_options: ToolOptions) -> None:
        self.operation = operation
        self.tool_options = tool_options
        self._label = f"drf_tools: {operation.method} ({operation.handler}) of {operation.view.__qualname__}"
        self._read(self._prepare_view)

    def _prepare_view(self) -> None:
        self.view = self.operation.instance()
        self.schema = self._inspector(self.view)
        with without_queries():  # apps may be loading
            self.model_names = ModelNames(
                self.operation.view, self.model, self.tool_options.name, self.tool_options.plural
            )
        if self.model is None:
            del self.model  # look again once the database may be queried

    def _read(self, part: Callable[[], T]) -> T:
        try:
            return part()
        except (ImproperlyConfigured, DatabaseError):
            raise
        except Exception as error:
            msg = (
                f"{self._label} cannot be described: {error!r}. Views are inspected as for an OpenAPI schema, with "
                f"swagger_fake_view set and an anonymous user. Support that{self._missing_declarations()}."
            )
            raise ImproperlyConfigured(msg) from error

    def _missing_declarations(self) -> str:
        """Return which declarations are missing, in whose place the view's serializers are made."""
        operation, tool_options = self.operation, self.tool_options
        options = {"request": tool_options.request, "responses": tool_options.responses}
        if operation.is_safe or operation.action in {"destroy", "delete"}:
            del options["request"]
        if not tool_options.output:
            del options["responses"]
        lacking = [name for name, given in options.items() if tool_options.entry_for(operation, given) is NOTHING]
        if not lacking:
            return " in its filters, pagination and schema class, and in the serializers given here"
        without = " or output=False" if "responses" in lacking else ""
        return f", or set {' and '.join(f'{name}={{{operation.action!r}: …}}' for name in lacking)}{without}"

    def tool(self, name: str, options: Mapping[str, Any]) -> "APITool":
        endpoint = Endpoint(
            self.operation, self, self.tool_options.version, self.tool_options.mounted, self._done_message
        )
        own: dict[str, Any] = {"destructive": False} if self.operation.action == "create" else {}
        own["description"] = description(self.operation, self.view, self.model_names, self.schema)
        own["title"] = self.schema.get_summary() or name.replace("_", " ").capitalize()
        return APITool(endpoint, self, name=name, **request_options(self.operation.method, options, **own))

    @cached_property
    def arguments(self) -> APIArguments:
        return self._read(self._read_arguments)

    @cached_property
    def locations(self) -> list[ArgumentLocation]:
        return self._read(self._read_locations)

    @cached_property
    def output(self) -> Schema | None:
        return self._read(self._read_output)

    def _inspector(self, view: Any) -> Any:
        entry = partial(self.tool_options.entry_for, self.operation)
        tool_options = self.tool_options
        return inspector(
            self.operation,
            view,
            entry(tool_options.request),
            entry(tool_options.responses),
            needs_response=tool_options.output,
        )

    @cached_property
    def _request(self) -> Any:
        return request_of(self.schema)

    @cached_property
    def addresses_rows(self) -> bool:
        return addresses_rows(self._body(self.view))

    @cached_property
    def is_serialized(self) -> bool:
        return isinstance(instance_of(self._request), BaseSerializer)

    def with_files(self, body: Any) -> Any:
        if not contains_file(body):
            return body
        serializer = self._body(self.view)
        is_plain = isinstance(body, list) and not isinstance(serializer, ListSerializer)
        return [with_files(serializer, entry, "") for entry in body] if is_plain else with_files(serializer, body, "")

    def rows_in(self, view: Any, sent: RequestData) -> dict[str, Any]:
        body, arguments = self._body(view), self.arguments
        if arguments.whole is not None:
            is_plain = isinstance(sent.body, list) and not isinstance(body, ListSerializer)
            return {
                arguments.whole: [rows_in(body, entry) for entry in sent.body] if is_plain else rows_in(body, sent.body)
            }
        return {
            name: rows_in(body.fields[location.name], sent.body[location.name])
            for name, location in arguments.locations.items()
            if location.source == "body" and location.name in sent.body and location.name in getattr(body, "fields", {})
        }

    def _body(self, view: Any) -> Any:
        body = instance_of(request_of(self._inspector(view)))
        return default_serializer(self.operation, view) if isinstance(body, dict) else body

    @cached_property
    def _response(self) -> Any:
        return response_of(self.schema)

    @property
    def _done_message(self) -> str:
        return DONE.get(self.operation.action, "Done.")

    @cached_property
    def model(self) -> Any:
        return model_of(self.schema)

    # Arguments

    def _read_locations(self) -> list[ArgumentLocation]:
        query, self.too_many = query_locations(self.schema, self.model, self.tool_options.filters)
        body = self._request
        if body is None:
            return query
        schema, document = note_schema(self.schema, body, "request")
        locations = body_locations(schema, document, required=not isinstance(body, dict))
        return [
            *query,
            *(replace(location, source="query") if self.operation.is_safe else location for location in locations),
        ]

    def _read_arguments(self) -> APIArguments:
        path = {variable.name: variable for variable in self._variables()}
        # Filters that repeat a URL variable are left out.
        locations = [location for location in self.locations if location.source != "query" or location.name not in path]
        locations = [
            replace(location, argument=self.tool_options.arguments.get(location.name, "")) for location in locations
        ]
        made = APIArguments([*path.values(), *locations], self._label)
        if paginator := getattr(self.view, "paginator", None):
            made.paging = frozenset(
                parameter["name"] for parameter in paginator.get_schema_operation_parameters(self.view)
            )
        return made

    def _variables(self) -> Iterator[ArgumentLocation]:
        operation, signature = self.operation, self.operation.parameters()
        is_known = operation.mapping is not None or not operation.is_extra
        lookup = [operation.lookup] if operation.lookup and is_known else []
        optional = {
            name
            for name, parameter in signature.items()
            if parameter.default is not parameter.empty and name not in lookup
        }
        known = addresses(operation, self.tool_options.version) if self.tool_options.mounted else []
        if known:
            names = [name for address in known for name in address.variables]
            optional = {name for name in names if not all(name in address.required for address in known)}
        else:
            names = [*operation.variables, *lookup, *signature, *self.tool_options.path_arguments]
        for name in dict.fromkeys(names):
            if name not in {"format", operation.version_variable}:
                schema = self._variable_schema(name, signature.get(name))
                yield ArgumentLocation(
                    "path", name, schema, name not in optional, argument=self.tool_options.arguments.get(name, "")
                )

    def _variable_schema(self, name: str, parameter: Any) -> Schema:
        if annotation := self.tool_options.path_arguments.get(name):
            return annotation_schema(annotation) or variable_schema(None)
        if name == self.operation.lookup and self.model is not None:
            column = model_column(self.model, self.view.lookup_field)
            schema = variable_schema(column)
            words = "key" if self.view.lookup_field in {"pk", "id"} else self.view.lookup_field.replace("_", " ")
            return {**schema, "description": self.model_names.format_sentence(f"{words.capitalize()} of the {{name}}.")}
        if parameter is not None and parameter.annotation is not parameter.empty:
            return annotation_schema(parameter.annotation) or variable_schema(None)
        return variable_schema(None)

    # Output

    def _read_output(self) -> Schema | None:
        if not self.tool_options.output or self._response is NOTHING or self._response is None:
            return None
        schema, document = note_schema(self.schema, self._response, "response")
        schema = self._wrap_list(structural(document.schema(schema)))
        schema.pop("title", None)
        if schema.get("type") != "object":  # always an object: without what does not match, it is empty
            return {"type": "object", "properties": {"result": schema}}
        return schema if schema.get("properties") else None

    def _wrap_list(self, schema: Schema) -> Schema:
        is_many = isinstance(instance_of(self._response), ListSerializer)
        if self.operation.action == "list" and isinstance(self._response, BaseSerializer) and not is_many:
            schema = {"type": "array", "items": schema}
        is_list = self.operation.action == "list" or (is_many and self.operation.is_safe)
        if schema.get("type") != "array" or not is_list or not self._is_paged:
            return schema
        page = structural(Document().schema(self.view.paginator.get_paginated_response_schema(schema)))
        return {**page, "properties": {**page.get("properties", {}), **page_arguments()}}

    @property
    def _is_paged(self) -> bool:
        paginator = getattr(self.view, "paginator", None)
        sizes = [
            getattr(paginator, attribute)
            for attribute in ("page_size", "default_limit")
            if hasattr(paginator, attribute)
        ]
        return paginator is not None and (not sizes or any(size is not None for size in sizes))


def drf_tools(
    source: Any,
    *,
    actions: Collection[str] | None = None,
    exclude: Collection[str] = (),
    name: str | None = None,
    plural: str | None = None,
    names: Mapping[str, str] | None = None,
    request: Mapping[str, Any] | None = None,
    responses: Mapping[str, Any] | None = None,
    path_arguments: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    output: bool = True,
    filters: Collection[str] | None = None,
    version: str | None = None,
    mounted: bool = True,
    scopes: Sequence[str] = (),
    write_scopes: Sequence[str] = (),
    server: Where = None,
    **options: Any,
) -> None:
    """Offer an API of Django REST framework as tools, one for each operation. The API stays unchanged.

    Each call is a request to the view's own URL as the calling user, with the view's permissions, throttles, filters,
    pagination, parsers, versioning and validation, but without its authenticators.

    Args:
        source: a viewset, a generic view, an ``APIView`` (the class, or a result of ``as_view`` or ``@api_view``), or a
            router with all its viewsets.
        actions: offer only these: ``"list"``, ``"retrieve"``, ``"create"``, ``"update"`` (PUT), ``"partial_update"``,
            ``"destroy"``, names of ``@action`` methods; for other views ``"get"``, ``"post"``, ….
        exclude: actions to leave out.
        name: name of one row in tool names. Default: the model's.
        plural: its plural.
        names: names of single tools by action.
        request: serializers of request bodies by action, if the view does not declare them; None for no body. For GET,
            of the query.
        responses: serializers of responses by action.
        path_arguments: types of URL variables that the view does not declare, by name; None for any type. Without a
            URL, also their names.
        arguments: names of arguments by their names in the API, such as ``{"pk": "id"}``.
        output: False for no output schemas, which may be most of a long list of tools, or need a serializer that
            cannot be made without a real request. The results are the same.
        filters: offer only these filters of a ``filterset_class``. Default: all; above 60, only those declared on the
            class or without a lookup (``__``) in their name, because a model reads every argument.
        version: version to request, for a versioned API.
        mounted: True if the view is in the URLconf. False calls it without a URL.
        scopes: OAuth scopes required in addition to the endpoint's.
        write_scopes: additional scopes of tools that are not read-only.
        server: one or several endpoints or namespaces to register at. Default: ``django_mcp.server``.
        **options: options of ``tool`` for each tool: ``permission``, ``groups``, ``visible``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: *source* has the wrong type or no such action, or its arguments cannot be determined.
    """
    tool_options = ToolOptions(
        names or {},
        request or {},
        responses or {},
        path_arguments or {},
        arguments or {},
        output,
        filters,
        version,
        mounted,
        name,
        plural,
    )
    wanted = [*(actions or ()), *exclude, *tool_options.names, *tool_options.request, *tool_options.responses]
    described = [
        OperationDescription(operation, tool_options)
        for operation in _select_operations(source, wanted, actions, exclude)
    ]
    shown = [one for one in described if actions is not None or not one.schema.is_excluded()]
    for one, tool in _with_unique_names(shown, tool_options):
        needed = [*scopes, *(() if one.operation.is_safe else write_scopes)]
        register_at(server, partial(_make_tool, one, tool, {**options, "scopes": needed}))


def _make_tool(
    described: OperationDescription, name: str, options: Mapping[str, Any], _server: Any
) -> Iterator[APITool]:
    yield described.tool(name, options)


def _select_operations(
    source: Any, wanted: Collection[str], actions: Collection[str] | None, exclude: Collection[str]
) -> Iterator[Operation]:
    every = list(operations(source))
    if not every:
        msg = (
            f"drf_tools({source!r}): no operations found; it has neither standard actions, such as list, nor "
            '@action methods. Pass ThatViewSet.as_view({"get": "listing_view"}), or use view_tool for the URL. '
            "Register viewsets on a router before this call."
        )
        raise ImproperlyConfigured(msg)
    known = dict.fromkeys(key for operation in every for key in (operation.action, operation.handler))
    if wrong := [key for key in dict.fromkeys(wanted) if key not in known]:
        msg = f"drf_tools({source!r}): unknown actions: {', '.join(wrong)}; known: {', '.join(known)}."
        raise ImproperlyConfigured(msg)
    for operation in every:
        keys = {operation.action, operation.handler}
        if (actions is None or keys & {*actions}) and not keys & {*exclude}:
            yield operation


def _with_unique_names(
    described: Sequence[OperationDescription], tool_options: ToolOptions
) -> Iterator[tuple[OperationDescription, str]]:
    # Repeated names get the HTTP method as prefix.
    seen: Counter[str] = Counter()
    for one in described:
        operation = one.operation
        name = tool_options.names.get(operation.action) or tool_options.names.get(operation.handler)
        name = name or tool_name(operation, one.model_names, one.schema)
        seen[name] += 1
        yield one, name if seen[name] == 1 else f"{operation.method.lower()}_{name}"
