"""``drf_tools``: the views of a REST API as tools, with names and descriptions."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.utils.encoding import force_str
from rest_framework.serializers import BaseSerializer, ListSerializer

from django_mcp import Context
from django_mcp.contrib.drf import checks  # noqa: F401 - registers one
from django_mcp.contrib.drf.operations import METHODS, Operation, addresses, operations
from django_mcp.contrib.drf.requests import APIArguments, Endpoint, page_arguments
from django_mcp.contrib.drf.schema import (
    NOTHING,
    addresses_rows,
    column_of,
    default_serializer,
    from_annotation,
    inspector,
    instance_of,
    note_schema,
    query_places,
    request_of,
    response_of,
    rows_in,
    structural,
    variable_schema,
)
from django_mcp.contrib.openapi import Document, Place, Schema, Sent, as_object, body_places
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import Where
from django_mcp.core.signatures import function, shaped
from django_mcp.integrations.http import hints
from django_mcp.integrations.late_tools import LateTool
from django_mcp.primitives.base import untranslated
from django_mcp.primitives.function import EMPTY
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import with_article

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


class Noun:
    """What a view is about, in the singular and the plural, as identifiers."""

    def __init__(self, view: type, model: Any, name: str | None, plural: str | None) -> None:
        singular = untranslated(model._meta.verbose_name) if model else _snake(view.__name__)  # noqa: SLF001
        several = untranslated(model._meta.verbose_name_plural) if model else f"{singular}s"  # noqa: SLF001
        self.name = name or identifier(singular)
        self.plural = plural or (f"{name}s" if name else identifier(several))

    def in_words(self, sentence: str) -> str:
        """A sentence with it in the place of ``{name}``, ``{a_name}`` and ``{plural}``."""
        name = self.name.replace("_", " ")
        return sentence.format(name=name, a_name=with_article(name), plural=self.plural.replace("_", " "))


def tool_name(operation: Operation, noun: Noun, schema: Any) -> str:
    """What an operation is called as a tool."""
    if (chosen := schema.get_operation_id()) is not None:
        return identifier(chosen)
    return own_name(operation, noun)


def own_name(operation: Operation, noun: Noun) -> str:
    """What it is called where no annotation says so."""
    if operation.action in NAMES:
        return NAMES[operation.action].format(name=noun.name, plural=noun.plural)
    if operation.action in METHODS:
        own = _snake(operation.view.__name__)
        several = sum(hasattr(operation.view, method) for method in METHODS) > 1
        return f"{operation.action}_{own}" if several else own
    about = noun.name if operation.detail else noun.plural
    # ``recent_users`` of users has its noun already.
    return operation.action if noun.name in operation.action else f"{operation.action}_{about}"


def description(operation: Operation, view: Any, noun: Noun, schema: Any) -> str:
    """What a model is told of a tool: what the site wrote of the operation, else of the view."""
    if words := schema.get_description():
        return force_str(words)
    sections = _sections(_written(operation.view))
    if words := _written(operation.function) or sections.get(operation.handler) or sections.get(operation.action):
        return words
    title = force_str(schema.get_summary() or getattr(view, "name", None) or "")
    first = noun.in_words(SENTENCES[operation.action]) if operation.action in SENTENCES else title
    if operation.action not in {*SENTENCES, *METHODS}:
        first = title or f"{own_name(operation, noun).replace('_', ' ').capitalize()}."
    return "\n\n".join(filter(None, [first, sections.get("", "")])) or operation.view.__name__


def _written(function: Any) -> str:
    return (inspect.getdoc(function) or "") if _is_sites(function) else ""


def _is_sites(written: Any) -> bool:
    return not (written.__module__ or "").startswith("rest_framework.")


def _sections(text: str | None) -> Mapping[str, str]:
    """A view's docstring by method, where it is written so: ``list:`` on a line of its own, and its words below."""
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
    """Words as one name, of letters that every client takes."""
    found = re.sub(r"[^a-zA-Z0-9]+", "_", words).strip("_").lower()
    if not found:
        msg = f"{words!r} makes no name of a tool; say name='…' and plural='…'."
        raise ImproperlyConfigured(msg)
    return found


def _snake(name: str) -> str:
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


T = TypeVar("T")


@dataclass(frozen=True)
class Told:
    """What ``drf_tools`` was told besides the source; see there."""

    names: Mapping[str, str]
    request: Mapping[str, Any]
    responses: Mapping[str, Any]
    path_arguments: Mapping[str, Any]
    filters: Collection[str] | None
    version: str | None
    mounted: bool
    name: str | None
    plural: str | None

    def about(self, operation: Operation, given: Mapping[str, Any]) -> Any:
        """What one of the mappings has for an operation, by action or by the name of its method; else ``NOTHING``."""
        return given.get(operation.action, given.get(operation.handler, NOTHING))


class APITool(LateTool):
    """A tool that calls a view. Serializers are read when it is first listed or called: some ask the database.

    Attributes:
        endpoint: what it calls.
    """

    reads_database = True

    def __init__(self, endpoint: Endpoint, described: "Described", **options: Any) -> None:
        self.endpoint, self._described, self._options = endpoint, described, options
        super().__init__(self._function(EMPTY), **options)
        self.rows_of = endpoint.rows
        # What is wrong with serializers is said where they are declared; the URLconf may import that very module.
        self._at_urls = not endpoint.mounted
        self.complete_now()
        if endpoint.mounted:
            self._at_urls = True
            self.forget()

    def _function(self, returns: Any) -> Any:
        return function(self.endpoint, self._options["name"], "", [], self._described.view, returns)

    def made(self) -> Tool:
        """See ``LateTool``."""
        output = self._described.output
        call = self._function(EMPTY if output is None else shaped(output))
        taken = self._described.arguments if self._at_urls else APIArguments(self._described.sent, "")
        return Tool(call, context_type=Context, arguments=taken, **self._options)

    def _fill(self, whole: Tool) -> None:
        super()._fill(whole)
        self._output = whole.output
        if "outputSchema" in whole.definition:
            self._definition["outputSchema"] = whole.definition["outputSchema"]


class Described:
    """All that a view tells of one operation, read once.

    Raises:
        ImproperlyConfigured: it cannot be read without a request from somebody.
    """

    def __init__(self, operation: Operation, told: Told) -> None:
        self.operation = operation
        self._told = told
        self._label = f"drf_tools: {operation.method} ({operation.handler}) of {operation.view.__qualname__}"
        self._read(self._begin)

    def _begin(self) -> None:
        self.view = self.operation.instance()
        self.schema = inspector(self.operation, self.view)
        self.noun = Noun(self.operation.view, self.model, self._told.name, self._told.plural)

    def _read(self, part: Callable[[], T]) -> T:
        try:
            return part()
        except (ImproperlyConfigured, DatabaseError):
            raise
        except Exception as error:
            msg = (
                f"{self._label} cannot be described: {error!r}. Views are asked what they take as for a schema, with "
                "swagger_fake_view set and an anonymous caller; or say it with request={...} and responses={...}."
            )
            raise ImproperlyConfigured(msg) from error

    def tool(self, name: str, options: Mapping[str, Any]) -> "APITool":
        """The tool, with the options of ``@tool``."""
        endpoint = Endpoint(self.operation, self, self._told.version, self._told.mounted, self._done)
        own: dict[str, Any] = {**hints(self.operation.method)}
        if self.operation.action == "create":
            own["destructive"] = False
        own["description"] = description(self.operation, self.view, self.noun, self.schema)
        own["title"] = self.schema.get_summary() or name.replace("_", " ").capitalize()
        return APITool(endpoint, self, name=name, **{**own, **options})

    @cached_property
    def arguments(self) -> APIArguments:
        """What the operation takes."""
        return self._read(self._read_arguments)

    @cached_property
    def sent(self) -> list[Place]:
        """What it takes in the query and the body."""
        return self._read(self._read_sent)

    @cached_property
    def output(self) -> Schema | None:
        """JSON Schema of the tool's structured content; None where nobody said what comes back."""
        return self._read(self._read_output)

    @property
    def _given(self) -> Any:
        return self._told.about(self.operation, self._told.request)

    @cached_property
    def _request(self) -> Any:
        return request_of(self.schema, self._given)

    @cached_property
    def addresses_rows(self) -> bool:
        """The body may mean rows by something else than their primary keys."""
        return addresses_rows(self._body(self.view))

    def rows_in(self, view: Any, sent: Sent) -> dict[str, Any]:
        """The rows that a body means, by argument.

        Args:
            view: as it serves the call.
            sent: the values of the call.
        """
        body, arguments = self._body(view), self.arguments
        if arguments.whole is not None:
            is_plain = isinstance(sent.body, list) and not isinstance(body, ListSerializer)
            return {
                arguments.whole: [rows_in(body, each) for each in sent.body] if is_plain else rows_in(body, sent.body)
            }
        return {
            name: rows_in(body.fields[place.name], sent.body[place.name])
            for name, place in arguments.places.items()
            if place.source == "body" and place.name in sent.body and place.name in getattr(body, "fields", {})
        }

    def _body(self, view: Any) -> Any:
        """The serializer that reads the body, or each of its items; that of the view where only a schema is known."""
        body = instance_of(request_of(inspector(self.operation, view), self._given))
        return default_serializer(self.operation, view) if isinstance(body, dict) else body

    @cached_property
    def _response(self) -> Any:
        return response_of(self.schema, self._told.about(self.operation, self._told.responses))

    @property
    def _done(self) -> str:
        return DONE.get(self.operation.action, "Done.")

    @cached_property
    def model(self) -> Any:
        """The model of the view's rows; None where it has none that could be known here."""
        queryset = getattr(self.view, "queryset", None)
        if queryset is not None:
            return queryset.model
        try:
            serializers = [self._response, getattr(self.view, "serializer_class", None), self._given, self._request]
        except Exception:  # noqa: BLE001 - it is said where the tool is described, and keeps no site from its start
            return None
        models = (getattr(getattr(getattr(each, "child", each), "Meta", None), "model", None) for each in serializers)
        return next(filter(None, models), None)

    # Arguments

    def _read_sent(self) -> list[Place]:
        query, body = query_places(self.schema, self.model, self._told.filters), self._request
        if body is None:
            return query
        schema, document = note_schema(self.schema, body, "request")
        places = body_places(schema, document, required=not isinstance(body, dict))
        return [*query, *(replace(each, source="query") if self.operation.is_safe else each for each in places)]

    def _read_arguments(self) -> APIArguments:
        path = {each.name: each for each in self._variables()}
        # What the URL says already no filter has to say again.
        sent = [each for each in self.sent if each.source != "query" or each.name not in path]
        made = APIArguments([*path.values(), *sent], self._label)
        if paginator := getattr(self.view, "paginator", None):
            made.paging = frozenset(each["name"] for each in paginator.get_schema_operation_parameters(self.view))
        return made

    def _variables(self) -> Iterator[Place]:
        """The variables of the URL, with their types as far as they are known; those of the view where it has none."""
        operation, signature = self.operation, self.operation.parameters()
        is_known = operation.mapping is not None or not operation.is_extra
        lookup = [operation.lookup] if operation.lookup and is_known else []
        optional = {name for name, each in signature.items() if each.default is not each.empty and name not in lookup}
        known = addresses(operation, self._told.version) if self._told.mounted else []
        if known:
            names = [name for each in known for name in each.variables]
            optional = {name for name in names if not all(name in each.required for each in known)}
        else:
            names = [*operation.variables, *lookup, *signature, *self._told.path_arguments]
        for name in dict.fromkeys(names):
            if name not in {"format", operation.version_variable}:
                yield Place("path", name, self._variable_schema(name, signature.get(name)), name not in optional)

    def _variable_schema(self, name: str, parameter: Any) -> Schema:
        if annotation := self._told.path_arguments.get(name):
            return from_annotation(annotation) or variable_schema(None)
        if name == self.operation.lookup and self.model is not None:
            column = column_of(self.model, self.view.lookup_field)
            schema = variable_schema(column)
            words = "key" if self.view.lookup_field in {"pk", "id"} else self.view.lookup_field.replace("_", " ")
            return {**schema, "description": self.noun.in_words(f"{words.capitalize()} of the {{name}}.")}
        if parameter is not None and parameter.annotation is not parameter.empty:
            return from_annotation(parameter.annotation) or variable_schema(None)
        return variable_schema(None)

    # Output

    def _read_output(self) -> Schema | None:
        if self._response is NOTHING or self._response is None:
            return None
        schema, document = note_schema(self.schema, self._response, "response")
        schema = as_object(self._several(structural(document.schema(schema))), required=False)
        return schema if schema.get("properties") else None

    def _several(self, schema: Schema) -> Schema:
        """For what lists: the array, in what the paginator puts around it."""
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
        sizes = [getattr(paginator, each) for each in ("page_size", "default_limit") if hasattr(paginator, each)]
        return paginator is not None and (not sizes or any(each is not None for each in sizes))


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
    filters: Collection[str] | None = None,
    version: str | None = None,
    mounted: bool = True,
    scopes: Sequence[str] = (),
    write_scopes: Sequence[str] = (),
    server: Where = None,
    **options: Any,
) -> None:
    """Offer an API of Django REST framework as tools, one for each of its operations. The API stays as it was.

    A call is a request to the view's own URL as the calling user: permissions, throttles, filters, pages, parsers,
    versions and validation are the view's. Its authenticators are not asked.

    Args:
        source: a view set, a generic view, an ``APIView`` (the class, or what ``as_view`` or ``@api_view`` made), or a
            router, which means all its view sets.
        actions: the only ones to offer: ``"list"``, ``"retrieve"``, ``"create"``, ``"update"`` (PUT),
            ``"partial_update"``, ``"destroy"``, names of ``@action`` methods; of other views ``"get"``, ``"post"`` …
        exclude: those not to offer.
        name: what one row is called in names of tools; by default as its model.
        plural: what several are called.
        names: of single tools, by action.
        request: serializers for what actions take, where the view does not tell, or None for no body; of GET, for the
            query.
        responses: serializers for what actions answer, likewise.
        path_arguments: types of the URL's variables that the view does not tell of, or None for any, by name; without
            a URL their names too.
        filters: names of the only filters of a ``filterset_class`` to offer; by default all, or above 60 those that
            the class declares and those without a lookup (``__``) in their names. Each is an argument, and a model
            reads hundreds of them before it reads a question.
        version: which one to ask for, of an API with versions.
        mounted: the view is in the URLconf. With False it is called without a URL of its own.
        scopes: OAuth scopes that the tools need besides those of the endpoint.
        write_scopes: further ones for tools that are not read-only.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
        **options: of each tool, those of ``tool``: ``permission``, ``groups``, ``visible``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: *source* is nothing of the kind, has no such action or none at all, or cannot tell what
            it takes.
    """
    told = Told(
        names or {}, request or {}, responses or {}, path_arguments or {}, filters, version, mounted, name, plural
    )
    wanted = [*(actions or ()), *exclude, *told.names, *told.request, *told.responses]
    described = [Described(operation, told) for operation in _chosen(source, wanted, actions, exclude)]
    shown = [each for each in described if actions is not None or not each.schema.is_excluded()]
    for each, tool in _named(shown, told):
        needed = [*scopes, *(() if each.operation.is_safe else write_scopes)]
        for one in servers_of(server):
            one.add(each.tool(tool, {**options, "scopes": needed}))


def _chosen(
    source: Any, wanted: Collection[str], actions: Collection[str] | None, exclude: Collection[str]
) -> Iterator[Operation]:
    every = list(operations(source))
    if not every:
        msg = (
            f"drf_tools({source!r}): there is nothing to offer; it has neither standard actions, like list, nor "
            '@action methods. Give it ThatViewSet.as_view({"get": "listing_view"}), or offer the URL with view_tool. '
            "A router has to be filled before."
        )
        raise ImproperlyConfigured(msg)
    known = dict.fromkeys(key for each in every for key in (each.action, each.handler))
    if wrong := [each for each in dict.fromkeys(wanted) if each not in known]:
        msg = f"drf_tools({source!r}): it has no {', '.join(wrong)}; it has {', '.join(known)}."
        raise ImproperlyConfigured(msg)
    for each in every:
        keys = {each.action, each.handler}
        if (actions is None or keys & {*actions}) and not keys & {*exclude}:
            yield each


def _named(described: Sequence[Described], told: Told) -> Iterator[tuple[Described, str]]:
    """Each with its name; of several of one name, such as an action with two methods, those behind the first differ."""
    seen: Counter[str] = Counter()
    for each in described:
        operation = each.operation
        name = told.names.get(operation.action) or told.names.get(operation.handler)
        name = name or tool_name(operation, each.noun, each.schema)
        seen[name] += 1
        yield each, name if seen[name] == 1 else f"{operation.method.lower()}_{name}"
