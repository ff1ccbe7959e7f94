"""One operation of a view as one tool."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from rest_framework.serializers import BaseSerializer, ListSerializer

from django_mcp import Context
from django_mcp.adapters.late_tools import LateTool
from django_mcp.adapters.methods import hints
from django_mcp.contrib.rest_framework import outgoing
from django_mcp.contrib.rest_framework.answers import page_arguments
from django_mcp.contrib.rest_framework.arguments import APIArguments, Sent
from django_mcp.contrib.rest_framework.bodies import (
    addresses_rows,
    default_serializer,
    request_of,
    response_of,
    rows_in,
)
from django_mcp.contrib.rest_framework.calling import Endpoint
from django_mcp.contrib.rest_framework.columns import column_of, column_schema
from django_mcp.contrib.rest_framework.dialect import Schema, from_annotation, inlined, structural
from django_mcp.contrib.rest_framework.notes import NOTHING, OperationNote, note_of_operation, schema_of_note
from django_mcp.contrib.rest_framework.parameters import Parameter, query_parameters, serializer_parameters
from django_mcp.contrib.rest_framework.views import Operation
from django_mcp.contrib.rest_framework.words import DONE, Noun, description
from django_mcp.core.signatures import function, shaped
from django_mcp.primitives.function import EMPTY
from django_mcp.primitives.tool import Tool

T = TypeVar("T")

ANY_KEY: Schema = {"type": ["integer", "string"]}


@dataclass(frozen=True)
class Told:
    """What ``api_tools`` was told besides the source; see there."""

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
        self.complete_now()

    def _function(self, returns: Any) -> Any:
        return function(self.endpoint, self._options["name"], "", [], self._described.view, returns)

    def made(self) -> Tool:
        """See ``LateTool``."""
        output = self._described.output
        call = self._function(EMPTY if output is None else shaped(output))
        return Tool(call, context_type=Context, arguments=self._described.arguments, **self._options)

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
        self._label = f"api_tools: {operation.method} ({operation.handler}) of {operation.view.__qualname__}"
        self._read(self._begin)

    def _begin(self) -> None:
        self.view = self.operation.instance()
        self.note: OperationNote = note_of_operation(self.view, self.operation.decorated, self.operation.method)
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
        own["description"] = description(self.operation, self.view, self.noun, self.note)
        own["title"] = self.note.summary or name.replace("_", " ").capitalize()
        return APITool(endpoint, self, name=name, **{**own, **options})

    @cached_property
    def arguments(self) -> APIArguments:
        """What the operation takes."""
        return self._read(self._read_arguments)

    @cached_property
    def output(self) -> Schema | None:
        """JSON Schema of the tool's structured content; None where nobody said what comes back."""
        return self._read(self._read_output)

    @property
    def _given(self) -> Any:
        return self._told.about(self.operation, self._told.request)

    @cached_property
    def _request(self) -> Any:
        return request_of(self.operation, self.view, self.note, self._given)

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
            return {arguments.whole: rows_in(body, sent.body)}
        return {
            arguments.of_body[name]: rows_in(each, sent.body[name])
            for name, each in getattr(body, "fields", {}).items()
            if name in sent.body and name in arguments.of_body
        }

    def _body(self, view: Any) -> Any:
        body = request_of(self.operation, view, self.note, self._given)
        if not isinstance(body, dict) or not self.arguments.is_list:
            return body
        own = default_serializer(self.operation, view)
        return own if own is None or isinstance(own, ListSerializer) else ListSerializer(child=own, context=own.context)

    @cached_property
    def _response(self) -> Any:
        return response_of(self.operation, self.view, self.note, self._told.about(self.operation, self._told.responses))

    @property
    def _done(self) -> str:
        return DONE.get(self.operation.action, "Done.")

    @cached_property
    def model(self) -> Any:
        """The model of the view's rows; None where it has none that could be known here."""
        queryset = getattr(self.view, "queryset", None)
        if queryset is not None:
            return queryset.model
        serializers = [self._response, getattr(self.view, "serializer_class", None), self._given, self.note.request]
        models = (getattr(getattr(getattr(each, "child", each), "Meta", None), "model", None) for each in serializers)
        return next(filter(None, models), None)

    # Arguments

    def _read_arguments(self) -> APIArguments:
        query = query_parameters(self.operation, self.view, self.note, self.model, self._told.filters)
        body = self._request
        if self.operation.is_safe and isinstance(body, BaseSerializer):
            query, body = [*query, *serializer_parameters(body)], None
        made = APIArguments(list(self._variables()), query, body, self._label)
        if paginator := getattr(self.view, "paginator", None):
            pages = {each["name"] for each in paginator.get_schema_operation_parameters(self.view)}
            made.paging = frozenset(pages & {each.name for each in query})
        return made

    def _variables(self) -> Iterator[Parameter]:
        """The variables of the URL, in the order of a URL, with their types as far as they are known."""
        operation, signature = self.operation, self.operation.parameters()
        names = [*operation.variables, *([operation.lookup] if operation.lookup else []), *signature]
        for name in dict.fromkeys([*names, *self._told.path_arguments]):
            if name in {"format", operation.version_variable, None}:
                continue
            parameter = signature.get(name)
            optional = parameter is not None and parameter.default is not parameter.empty and name != operation.lookup
            yield Parameter(name, self._variable_schema(name, parameter), required=not optional)

    def _variable_schema(self, name: str, parameter: Any) -> Schema:
        if annotation := self._told.path_arguments.get(name):
            return from_annotation(annotation) or ANY_KEY
        if name == self.operation.lookup and self.model is not None:
            column = column_of(self.model, self.view.lookup_field)
            schema = ANY_KEY if column is None else column_schema(column)
            words = "key" if self.view.lookup_field in {"pk", "id"} else self.view.lookup_field.replace("_", " ")
            return {**schema, "description": self.noun.in_words(f"The {words} of the {{name}}.")}
        if parameter is not None and parameter.annotation is not parameter.empty:
            return from_annotation(parameter.annotation) or ANY_KEY
        return ANY_KEY

    # Output

    def _read_output(self) -> Schema | None:
        if self._response is NOTHING or self._response is None:
            return None
        schema = structural(schema_of_note(self._response, outgoing.schema_of))
        schema = self._several(schema)
        if schema.get("type") != "object":
            schema = {"type": "object", "properties": {"result": schema}}
        return schema if schema.get("properties") else None

    def _several(self, schema: Schema) -> Schema:
        """For what lists: the array, in what the paginator puts around it."""
        operation = self.operation
        is_list = operation.action == "list" and isinstance(self._response, BaseSerializer)
        if is_list and not isinstance(self._response, ListSerializer):
            schema = {"type": "array", "items": schema}
        is_paged = operation.action == "list" or operation.mentions("paginate_queryset")
        if schema.get("type") != "array" or not is_paged or not self.arguments.paging:
            return schema
        page = structural(inlined(self.view.paginator.get_paginated_response_schema(schema)))
        return {**page, "properties": {**page.get("properties", {}), **page_arguments()}}
