"""Model instances as arguments and results of tools."""

import functools
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.db.models import Model, QuerySet
from django.utils.text import capfirst
from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import to_json

from django_mcp.core.concurrency import run_off_loop
from django_mcp.core.context import Context
from django_mcp.core.permissions import is_blocked
from django_mcp.core.request import require_same
from django_mcp.core.server import MCPServer
from django_mcp.core.signatures import taken_by
from django_mcp.model_resources.access import RowAccess, using_write_db
from django_mcp.model_resources.bound_resource import BoundResource, without_duplicates
from django_mcp.model_resources.pagination import TEXT_IN_LISTS, show_row, whole_row, with_output_fields
from django_mcp.model_resources.paths import is_composite, lookup_value
from django_mcp.model_resources.queryset import load_related_sets
from django_mcp.model_resources.schema import input_type
from django_mcp.model_resources.serializers import SerializerContext, row_schema, serialize_row, title_of
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.function import (
    COLLECTIONS,
    EMPTY,
    HIDDEN_CONTEXT,
    MAPPINGS,
    Function,
    Parameter,
    is_rows,
    is_union,
    leaves,
    parts,
    replaced,
)
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import InvalidValue, json_schema
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import about_argument, shown, with_article
from django_mcp.protocol.content import TextContent

MOST = 200
_NAMED = 5


@dataclass(frozen=True, slots=True)
class ModelArgument:
    """The rows that an argument accepts: ``Annotated[Order, ModelArgument(lambda ctx: ctx.user.orders.all())]``.

    Without it an argument accepts the rows that the model's ``ModelResource`` shows the caller.

    Args:
        rows: a function that takes the ``Context`` and returns a queryset. Other rows are reported as not found. In
            ``parents`` of a ``form_tool`` it may also take earlier parents by name.
        lookup_field: the field by which the caller identifies a row.
    """

    rows: Callable[..., QuerySet[Any]]
    lookup_field: str = "pk"

    def __post_init__(self) -> None:
        # A queryset would be the same for every call.
        if isinstance(self.rows, type) or not callable(self.rows):
            kind = "class" if isinstance(self.rows, type) else type(self.rows).__name__
            msg = (
                "ModelArgument takes a function of the context, like ModelArgument(lambda ctx: Order.objects.all()), "
                f"not a {kind}."
            )
            raise ImproperlyConfigured(msg)


class Argument:
    """An argument whose type is a model or a list of a model.

    Args:
        label: names the tool in configuration errors.
        is_atomic: the tool runs in a transaction, so that rows are read from the database that it writes to.

    Attributes:
        parameter: the parameter that callers see, which takes lookup values.

    Raises:
        ImproperlyConfigured: neither a ``ModelResource`` nor a ``ModelArgument`` defines the rows.
    """

    def __init__(self, parameter: Parameter, server: MCPServer, label: str, *, is_atomic: bool = True) -> None:
        self._label, self._is_atomic = f"{label}: parameter {parameter.name!r}", is_atomic
        self._model = self._one_model(parameter.annotation)
        self._options = self._model._meta  # noqa: SLF001 - Django's documented API
        self._rows: ModelArgument | None = next(
            (mark for mark in _metadata(parameter.annotation) if isinstance(mark, ModelArgument)), None
        )
        self._bound: BoundResource | None = (
            None if self._rows else registered_resource(self._model, server, self._label)
        )
        self._field = self._lookup()
        is_many = typing.get_origin(_unwrapped(parameter.annotation)) is not None
        annotation = replaced(parameter.annotation, self._addressed)
        if is_many:
            annotation = Annotated[annotation, Field(max_length=MOST)]
        words = f"{capfirst(self._of)} of {'each' if is_many else 'the'} {self.one}."
        if parameter.description:
            words = f"{parameter.description.rstrip('.')}. {words}"
        has_words = any(field.description for field in parameter.fields)
        self.parameter = Parameter(parameter.name, annotation, parameter.default, None if has_words else words)

    @property
    def schema(self) -> dict[str, Any]:
        described = {} if self.parameter.description is None else {"description": self.parameter.description}
        return {**json_schema(TypeAdapter(self.parameter.annotation), "validation"), **described}

    @property
    def one(self) -> str:
        return str(self._options.verbose_name)

    @property
    def _of(self) -> str:
        return "primary key" if self._field.primary_key else str(self._field.verbose_name)

    def _one_model(self, annotation: Any) -> Any:
        kinds = {leaf for leaf in leaves(annotation) if leaf not in (None, type(None), Ellipsis)}
        model, shape = next(iter(kinds)), _unwrapped(annotation)
        entries = [_unwrapped(argument) for argument in typing.get_args(shape) if argument is not Ellipsis] or [shape]
        is_model = issubclass(model, models.Model) and model is not models.Model
        if len(kinds) != 1 or kinds != set(entries) or not is_model:
            msg = f"{self._label}: {annotation} is not supported; use a model, list[Model], or either with None."
            raise ImproperlyConfigured(msg)
        return model

    def _lookup(self) -> Any:
        if self._bound is not None:
            return self._bound.lookup
        assert self._rows is not None  # noqa: S101 - without a registered model there is a ModelArgument
        if is_composite(self._options.pk):
            msg = (
                f"{self._label}: {self._options.label} has a composite primary key, "
                "so no single value identifies a row."
            )
            raise ImproperlyConfigured(msg)
        if self._rows.lookup_field == "pk":
            return self._options.pk
        try:
            return self._options.get_field(self._rows.lookup_field)
        except FieldDoesNotExist as error:
            msg = f"{self._label}: ModelArgument(lookup_field={self._rows.lookup_field!r}): {error}"
            raise ImproperlyConfigured(msg) from None

    def _addressed(self, annotation: Any) -> Any:
        if annotation is not self._model:
            return None
        return input_type(self._field) if self._bound is None else _address_type(self._field)

    # In a call

    def resolve(self, value: Any, access: RowAccess) -> Any:
        """Return the row or rows that *value* identifies, with one query. None and instances are returned unchanged.

        Raises:
            ToolError: a row does not exist for the caller.
        """
        if value is None or isinstance(value, models.Model):
            return value
        if not isinstance(value, list | tuple | set | frozenset):
            return self._found([value], access, {})[0]
        return type(value)(self._found(list(value), access, {}))

    def find(self, value: Any, access: RowAccess, parents: Mapping[str, Any]) -> Any:
        """Return the row that *value*, any JSON, identifies.

        Args:
            parents: rows by name, of which the function of a ``ModelArgument`` gets those that it takes.

        Raises:
            ToolError: the row does not exist for the caller.
        """
        key = value if type(value) in (str, int) else _Misfit(value)
        return self._found([key], access, parents)[0]

    def named(self, rows: Any, access: RowAccess) -> str:
        if self._bound is None or rows is None:
            return ""
        each_row = [rows] if isinstance(rows, models.Model) else rows
        # A title must not start a new line, which would read as another argument.
        titles = [
            " ".join(title_of(self._bound, row, access).split()) for row in each_row if isinstance(row, models.Model)
        ]
        return f"{self.parameter.name}: {capfirst(self.one)} {', '.join(titles)}" if titles else ""

    def _found(self, values: list[Any], access: RowAccess, parents: Mapping[str, Any]) -> list[Any]:
        for entry in values:
            if isinstance(entry, _Misfit):
                words = f"must be the {self._of} of {with_article(self.one)}, not {shown(entry.value)}."
                raise ToolError(about_argument([self.parameter.name], f"{words}{finding_hint(self._bound, access)}"))
        name = self._field.attname
        keys = {value: lookup_value(self._field, value) for value in values}
        wanted = {key for key in keys.values() if key is not None}
        rows = self._visible(access, parents).filter(**{f"{name}__in": wanted}) if wanted else ()
        found: dict[Any, Any] = {}
        for row in rows:
            if self._bound is None or access.can_view(self._bound, row):
                if getattr(row, name) in found:
                    msg = f"{self._label}: there are several rows with {name} {getattr(row, name)!r}"
                    raise self._model.MultipleObjectsReturned(msg)
                found[getattr(row, name)] = row
        if lacking := [value for value in values if keys[value] not in found]:
            raise self._missing(lacking, access)
        return [found[keys[value]] for value in values]

    def _visible(self, access: RowAccess, parents: Mapping[str, Any]) -> QuerySet[Any]:
        if self._bound is not None:
            rows = access.get_queryset(self._bound)
        else:
            assert self._rows is not None  # noqa: S101 - without a registered model there is a ModelArgument
            rows = without_duplicates(self._rows.rows(access.ctx, **taken_by(self._rows.rows, parents)).all())
        return (using_write_db(rows) if self._is_atomic else rows).order_by()

    def _missing(self, values: Iterable[Any], access: RowAccess) -> ToolError:
        named = ", ".join(repr(str(value)[:80]) for value in list(dict.fromkeys(values))[:_NAMED])
        return ToolError(f"No {self.one} with {self._of} {named} found.{finding_hint(self._bound, access)}")


def resolve_arguments(arguments: Mapping[str, Argument], keywords: dict[str, Any], access: RowAccess) -> dict[str, Any]:
    """Return *keywords* with rows in place of lookup values.

    Raises:
        ToolError: a row does not exist for the caller, or the call was approved for a different one.
    """
    rows = {name: argument.resolve(keywords[name], access) for name, argument in arguments.items() if name in keywords}
    for name, found in rows.items():
        require_same(access.ctx, name, found)
    return {**keywords, **rows}


def registered_resource(model: Any, server: MCPServer, label: str) -> BoundResource:
    """Return the bound resource of a model at an endpoint.

    Raises:
        ImproperlyConfigured: the model is not registered there, or its declaration has errors.
    """
    bound: BoundResource | None = server.model_resources.get(model)
    source = server.source
    if bound is None and source is not None and model in source.model_resources:
        msg = (
            f"{label}: {model._meta.label} is registered at {source!r}, but {server!r} does not select it. "  # noqa: SLF001
            f"{server.selection.how_to_take_a_model}"
        )
        raise ImproperlyConfigured(msg)
    if bound is None:
        msg = (
            f"{label}: {model._meta.label} is not registered at {server!r}, so the rows that a caller may "  # noqa: SLF001
            "see are unknown. Register it with a ModelResource or, for an argument, use Annotated[…, ModelArgument(…)]."
        )
        raise ImproperlyConfigured(msg)
    if bound.problems:  # None before the declaration is checked, after which tools are bound again
        problems = " ".join(problem.msg for problem in bound.problems)
        msg = f"{label}: the ModelResource of {model._meta.label} has errors. {problems}"  # noqa: SLF001
        raise ImproperlyConfigured(msg)
    return bound


def search_tool(bound: BoundResource, access: RowAccess) -> str | None:
    name = f"search_{bound.plural}"
    tool = bound.server.tools.get(name)
    if tool is None or not access.can_view_model(bound) or is_blocked(access.ctx, tool):
        return None
    return name if tool.is_generated or not tool.is_guarded else None


def finding_hint(bound: BoundResource | None, access: RowAccess) -> str:
    name = None if bound is None else search_tool(bound, access)
    return f" Use {name} to find one." if name else ""


@dataclass(frozen=True, slots=True)
class _Misfit(InvalidValue):
    """A value of the wrong type. Its error waits until the caller's permissions decide on the search hint."""

    value: Any


def _address_type(field: Any) -> Any:
    """Return the annotation of a lookup value. A value of the wrong type becomes a ``_Misfit``."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            is_no_key = isinstance(value, str) and "\0" not in value and lookup_value(field, value) is None
            if is_no_key or type(value) in {int, float}:
                return _Misfit(value)
            raise

    return Annotated[input_type(field), WrapValidator(read)]


def _unwrapped(annotation: Any) -> Any:
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated or type(None) in arguments:
        return _unwrapped(next(argument for argument in arguments if argument is not type(None)))
    return annotation


def _metadata(annotation: Any) -> Iterable[Any]:
    if typing.get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
    for argument in typing.get_args(annotation):
        if not isinstance(argument, ModelArgument):
            yield from _metadata(argument)


LOOKED_AT = 500
"""Minimum number of returned objects to read in search of visible ones."""


def is_shown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(is_shown, value))
    if isinstance(value, Mapping):
        return any(is_shown(entry) for entry in value.values())
    if isinstance(value, ToolResult):
        return is_shown(value.structured)
    return isinstance(value, Model) or returns_rows(value)


def returns_rows(value: Any) -> bool:
    # A queryset of values() has no rows of a model.
    return isinstance(value, QuerySet) and value._fields is None  # type: ignore[attr-defined]


class Results:
    """Converts the rows in one result to JSON."""

    def __init__(self, server: MCPServer, ctx: Context, label: str) -> None:
        self._server = server
        self._access = RowAccess(ctx)
        self._label = label
        self._notes: list[TextContent] = []

    def shown(self, value: Any) -> Any:
        """Return *value* with JSON in place of rows, as a ``ToolResult`` if rows were left out.

        Raises:
            ToolError: the caller may not see the single row that was returned.
            TypeError: the model is not registered.
        """
        if isinstance(value, ToolResult):
            result: ToolResult[Any] = ToolResult(
                self._value(value.structured), text=value.text, content=value.content, meta=value.meta
            )
        else:
            result = ToolResult(self._value(value))
            if not self._notes:
                return result.structured
        result.content = [*result.content, *self._notes]
        return result

    def _value(self, value: Any) -> Any:
        if isinstance(value, Model):
            return self._one(value)
        if returns_rows(value):
            return self._many(value.model, value)
        if isinstance(value, list | tuple) and is_shown(value):
            return self._many(type(value[0]), value) if isinstance(value[0], Model) else [*map(self._value, value)]
        if isinstance(value, Mapping):
            return {key: self._value(entry) for key, entry in value.items()}
        return value

    def _bound(self, model: Any) -> BoundResource:
        options, known = model._meta, self._server.model_resources  # noqa: SLF001 - Django's documented API
        bound: BoundResource | None = known.get(model) or known.get(options.concrete_model)
        if bound is None or not bound.is_sound:
            msg = (
                f"{self._label} returned rows of {options.label}, which is not registered at {self._server!r}, so "
                "the fields to show are unknown. Register it, or return plain values."
            )
            raise TypeError(msg)
        return bound

    def _one(self, obj: Model) -> dict[str, Any]:
        bound = self._bound(type(obj))
        rows = self._access.get_queryset(bound).filter(pk=obj.pk)
        row = show_row(bound, self._access, using_write_db(rows))
        if row is None:
            raise bound.missing(getattr(obj, bound.lookup.attname))
        return row

    def _many(self, model: Any, objects: Any) -> list[dict[str, Any]]:
        bound = self._bound(model)
        most = bound.resource.max_page_size
        keys = _keys(model, objects, max(most + 1, LOOKED_AT))
        rows = self._access.get_queryset(bound).filter(pk__in=keys)
        found = using_write_db(with_output_fields(bound, self._access, rows, bound.list_output_fields)).order_by()
        seen = {row.pk: row for row in found if self._access.can_view(bound, row)}
        load_related_sets([*seen.values()], bound.list_output_fields, bound, self._access)
        shown = list(islice(self._rows(bound, [seen[key] for key in keys if key in seen]), most))
        if len(shown) < len(seen):
            search = search_tool(bound, self._access)
            hint = f" Use {search} for others." if search else ""
            self._notes.append(TextContent(f"Only the first {len(shown)} rows are listed; more were left out.{hint}"))
        return shown

    def _rows(self, bound: BoundResource, objects: list[Any]) -> Iterator[dict[str, Any]]:
        context = SerializerContext(self._access, bound, TEXT_IN_LISTS)
        room = bound.resource.max_output_chars
        for at, obj in enumerate(objects):
            make = serialize_row if at else whole_row
            row = make(bound, obj, bound.list_output_fields, context)
            room -= len(to_json(row)) + 2
            if room < 0 and at:
                return
            yield row


def _keys(model: Any, objects: Any, most: int) -> list[Any]:
    # Unsaved objects have none.
    kind = model._meta.concrete_model  # noqa: SLF001 - Django's documented API
    is_read = not isinstance(objects, QuerySet) or objects._result_cache is not None  # noqa: SLF001
    if not is_read and not objects.query.combinator:
        return list(dict.fromkeys(objects[:most].values_list("pk", flat=True)))
    if any(obj._meta.concrete_model is not kind for obj in objects[:most]):  # noqa: SLF001
        msg = "a list with rows of several models was returned; return a dict with a list for each model"
        raise TypeError(msg)
    return list(dict.fromkeys(obj.pk for obj in objects[:most] if obj.pk is not None))


UNTYPED = (EMPTY, Any, object, Model, ToolResult, *MAPPINGS, *COLLECTIONS)
"""Return annotations that may or may not mean rows."""
ANY_ROWS = {"type": "array", "items": {"type": "object"}}


def bind_model_arguments(server: MCPServer, tool: Tool) -> None:
    """Let *tool* take and return rows of the models of *server*, if its annotations ask for it.

    Raises:
        ImproperlyConfigured: a model has no usable declaration, or an annotated class cannot be found.
    """
    tool.bind()
    taken = (
        {name: _argument(marker, server, tool) for name, marker in _rows_in(tool.read).items()}
        if tool.is_deferred
        else {}
    )
    if tool.is_deferred:
        tool.settle(_with_rows(server, tool, taken))
    elif server.model_resources and _is_unsaid(tool.read.returns):
        tool.function = _around(tool.read, {}, server, tool)
    if taken:
        tool.rows_of = partial(_addressed, taken)
    if tool.read_preview is not None:
        tool.preview = _preview(tool.read_preview, server, tool)
    elif taken:
        tool.preview = _naming(tool, taken)


def _argument(parameter: Parameter, server: MCPServer, tool: Tool) -> Argument:
    return Argument(parameter, server, tool.label, is_atomic=tool.atomic)


def _addressed(arguments: dict[str, Argument], context: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in keywords.items() if name in arguments}
    return resolve_arguments(arguments, given, RowAccess(context))


def _naming(tool: Tool, arguments: dict[str, Argument]) -> Function:
    """Return the default preview of a tool that takes rows: their titles.

    It fails like the call if a row does not exist for the caller, so that no approval is requested.
    """

    def name_rows(**keywords: Any) -> str | None:
        access = RowAccess(keywords[HIDDEN_CONTEXT])
        found = resolve_arguments(arguments, keywords, access)
        return (
            "\n".join(filter(None, (argument.named(found.get(name), access) for name, argument in arguments.items())))
            or None
        )

    parameters = tuple(argument.parameter for argument in arguments.values())
    return Function(
        name_rows,
        tool.name,
        is_async=False,
        parameters=parameters,
        context=HIDDEN_CONTEXT,
        returns=EMPTY,
        description=None,
    )


def _preview(function: Function, server: MCPServer, tool: Tool) -> Function:
    taken, own = _rows_in(function), _rows_in(tool.read)
    # If both take an argument, the tool's annotation defines the rows.
    arguments = {name: _argument(own.get(name, marker), server, tool) for name, marker in taken.items()}
    return _around(function, arguments, server, tool, gives_rows=False) if arguments else function


def _rows_in(function: Function) -> dict[str, Parameter]:
    return {
        parameter.name: parameter
        for parameter in function.parameters
        if any(map(is_rows, leaves(parameter.annotation)))
    }


def _is_unsaid(returns: Any) -> bool:
    """Return True if part of a return annotation may or may not mean rows."""
    origin, arguments = typing.get_origin(returns), typing.get_args(returns)
    if origin in (ToolResult, *MAPPINGS, *COLLECTIONS) or is_union(returns):
        return any(map(_is_unsaid, arguments))
    return returns in UNTYPED


def _with_rows(server: MCPServer, tool: Tool, arguments: dict[str, Argument]) -> Function:
    function = tool.read
    parameters = [
        arguments[parameter.name].parameter if parameter.name in arguments else parameter
        for parameter in function.parameters
    ]
    returns = _returns(function.returns, server, tool)
    gives_rows = returns is not function.returns or _is_unsaid(function.returns)
    made = _around(function, arguments, server, tool, gives_rows=gives_rows)
    return made._replace(parameters=tuple(parameters), returns=returns)


def _returns(returns: Any, server: MCPServer, tool: Tool) -> Any:
    if typing.get_origin(returns) and not any(map(is_rows, leaves(returns))):
        return _inside(returns, server, tool)
    kinds = [leaf for leaf in leaves(returns) if is_rows(leaf)]
    if not kinds:
        return returns
    if returns is Model:
        return EMPTY
    if len(kinds) > 1:
        msg = f"{tool.label}: its result, {returns}, has rows of several models; return those of one, or a dict."
        raise ImproperlyConfigured(msg)
    if issubclass(kinds[0], QuerySet):  # the model is not known before the call
        return Annotated[list[Any], WithJsonSchema(ANY_ROWS)]
    bound = registered_resource(kinds[0], server, f"{tool.label}: its result")
    if kinds[0] in _alone(returns):
        schema: dict[str, Any] = row_schema(bound, bound.output_fields)
    else:
        schema = {"type": "array", "items": row_schema(bound, bound.list_output_fields)}
    row: Any = Annotated[dict[str, Any] if schema["type"] == "object" else list[Any], WithJsonSchema(schema)]
    return row | None if _may_be_none(returns) else row


def _inside(returns: Any, server: MCPServer, tool: Tool) -> Any:
    """Return the annotation of the JSON for rows in an (optional) dict, ``ToolResult`` or list of dicts."""
    if not any(map(is_rows, parts(returns))):
        return returns
    origin, inner = typing.get_origin(returns), typing.get_args(returns)
    if _may_be_none(returns) and len(inner) == 2:  # noqa: PLR2004 - something, or None
        (one,) = (annotation_ for annotation_ in inner if annotation_ is not type(None))
        return _returns(one, server, tool) | None
    if origin not in (ToolResult, *MAPPINGS, *COLLECTIONS) or any(map(is_rows, inner[:-1])) or inner[-1] is Ellipsis:
        msg = f"{tool.label}: its result, {returns}, is not supported; return rows alone, in a list or in a dict."
        raise ImproperlyConfigured(msg)
    shown = _returns(inner[-1], server, tool)
    return origin[(*inner[:-1], Any if shown is EMPTY else shown)]


def _alone(returns: Any) -> Iterable[Any]:
    return typing.get_args(returns) if is_union(returns) else (returns,)


def _may_be_none(returns: Any) -> bool:
    return is_union(returns) and type(None) in typing.get_args(returns)


def _around(
    function: Function, arguments: dict[str, Argument], server: MCPServer, tool: Tool, *, gives_rows: bool = True
) -> Function:
    """Wrap *function* so that it takes rows for lookup values and its returned rows become JSON."""
    name, call = function.context or HIDDEN_CONTEXT, function.call

    def take(keywords: dict[str, Any]) -> dict[str, Any]:
        return function.own(
            resolve_arguments(arguments, keywords, RowAccess(keywords[name])) if arguments else keywords
        )

    def show(context: Context, value: Any) -> Any:
        return Results(server, context, tool.label).shown(value)

    def run(**keywords: Any) -> Any:
        value = call(**take(keywords))
        return show(keywords[name], value) if gives_rows and is_shown(value) else value

    async def arun(**keywords: Any) -> Any:
        context = keywords[name]
        runner = context.site_runner.checks
        own = await run_off_loop(runner, partial(take, keywords)) if arguments else take(keywords)
        value = await call(**own)
        return await run_off_loop(runner, partial(show, context, value)) if gives_rows and is_shown(value) else value

    made = functools.wraps(call)(arun if function.is_async else run)
    return function._replace(call=made, context=name)
