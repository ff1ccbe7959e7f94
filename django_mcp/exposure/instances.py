"""Rows as arguments: ``order: Order`` takes what addresses a row, and the function gets the row."""

import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.db.models import QuerySet
from django.utils.text import capfirst
from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.core.server import MCPServer
from django_mcp.exposure.exposed import Exposed, address_in
from django_mcp.exposure.field_types import input_type
from django_mcp.exposure.paths import is_composite
from django_mcp.exposure.viewing import Viewer, each_once
from django_mcp.exposure.write_rows import on_writer
from django_mcp.primitives.function import Parameter, leaves, replaced
from django_mcp.primitives.schema import Unfit
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.primitives.validation_errors import about_argument, shown, with_article

MOST = 200
"""The most rows that one argument addresses."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of a model an argument may mean: ``Annotated[Order, Rows(lambda ctx: ctx.user.orders.all())]``.

    Without it they are those that the model's ``ModelResource`` shows the caller.

    Args:
        rows: takes the ``Context``, gives the rows; others do not exist for the caller.
        lookup: the field by which the caller addresses a row.
    """

    rows: Callable[[Context], QuerySet[Any]]
    lookup: str = "pk"

    def __post_init__(self) -> None:
        """Refuse rows themselves: which there are shows in each call."""
        if isinstance(self.rows, type) or not callable(self.rows):
            kind = "class" if isinstance(self.rows, type) else type(self.rows).__name__
            msg = f"Rows takes a function of the context, like Rows(lambda ctx: Order.objects.all()), not a {kind}."
            raise ImproperlyConfigured(msg)


class Argument:
    """An argument that means rows.

    Args:
        parameter: of the function.
        server: the endpoint.
        tool: for errors, and where its rows are read.

    Attributes:
        parameter: the one that callers see, of what addresses a row.

    Raises:
        ImproperlyConfigured: nothing says which rows there are for a caller.
    """

    def __init__(self, parameter: Parameter, server: MCPServer, tool: Tool) -> None:
        self._tool = tool
        self._label = f"{tool.label}: parameter {parameter.name!r}"
        self._model = self._one_model(parameter.annotation)
        self._options = self._model._meta  # noqa: SLF001 - Django's documented API
        self._rows: Rows | None = next(
            (each for each in _metadata(parameter.annotation) if isinstance(each, Rows)), None
        )
        self._exposed: Exposed | None = None if self._rows else registered(self._model, server, self._label)
        self._field = self._lookup()
        is_many = typing.get_origin(_unwrapped(parameter.annotation)) is not None
        annotation = replaced(parameter.annotation, self._addressed)
        if is_many:
            annotation = Annotated[annotation, Field(max_length=MOST)]
        words = f"The {self._of} of the {self.one}."
        if is_many:
            words = f"The {self._of} of each {self.one}."
        if parameter.description:
            words = f"{parameter.description.rstrip('.')}. {words}"
        has_words = any(field.description for field in parameter.fields)
        self.parameter = Parameter(parameter.name, annotation, parameter.default, None if has_words else words)

    @property
    def one(self) -> str:
        """What a row is called."""
        return str(self._options.verbose_name)

    @property
    def _of(self) -> str:
        return "primary key" if self._field.primary_key else str(self._field.verbose_name)

    def _one_model(self, annotation: Any) -> Any:
        kinds = {leaf for leaf in leaves(annotation) if leaf not in (None, type(None), Ellipsis)}
        model, shape = next(iter(kinds)), _unwrapped(annotation)
        entries = [_unwrapped(each) for each in typing.get_args(shape) if each is not Ellipsis] or [shape]
        is_model = issubclass(model, models.Model) and model is not models.Model
        if len(kinds) != 1 or kinds != set(entries) or not is_model:
            msg = f"{self._label}: {annotation} is not understood; use a model, list[Model], or one of them or None."
            raise ImproperlyConfigured(msg)
        return model

    def _lookup(self) -> Any:
        if self._exposed is not None:
            return self._exposed.lookup
        assert self._rows is not None  # noqa: S101 - one of the two says which rows
        if is_composite(self._options.pk):
            msg = (
                f"{self._label}: {self._options.label} has a composite primary key, so no single value addresses a row."
            )
            raise ImproperlyConfigured(msg)
        if self._rows.lookup == "pk":
            return self._options.pk
        try:
            return self._options.get_field(self._rows.lookup)
        except FieldDoesNotExist as error:
            msg = f"{self._label}: Rows(lookup={self._rows.lookup!r}): {error}"
            raise ImproperlyConfigured(msg) from None

    def _addressed(self, annotation: Any) -> Any:
        if annotation is not self._model:
            return None
        return input_type(self._field) if self._exposed is None else _address_type(self._field)

    # In a call

    def resolve(self, value: Any, viewer: Viewer) -> Any:
        """The row or rows that *value* addresses, all in one query; what is no address is left, such as a default.

        Raises:
            ToolError: one does not exist for the caller.
        """
        if value is None or isinstance(value, models.Model):
            return value
        if not isinstance(value, list | tuple | set | frozenset):
            return self._found([value], viewer)[0]
        return type(value)(self._found(list(value), viewer))

    def named(self, rows: Any) -> str:
        """A line that says which rows they are, by the titles that their declaration gives them; "" without one."""
        if self._exposed is None or rows is None:
            return ""
        each_row = [rows] if isinstance(rows, models.Model) else rows
        # One line, whatever a title has in it: the next one is about another argument.
        titles = [" ".join(self._exposed.title_of(row).split()) for row in each_row if isinstance(row, models.Model)]
        return f"{self.parameter.name}: {capfirst(self.one)} {', '.join(titles)}" if titles else ""

    def _found(self, values: list[Any], viewer: Viewer) -> list[Any]:
        for each in values:
            if isinstance(each, _Misfit):
                words = f"must be the {self._of} of {with_article(self.one)}, not {shown(each.value)}."
                raise ToolError(about_argument([self.parameter.name], f"{words}{finding_hint(self._exposed, viewer)}"))
        name = self._field.attname
        keys = {value: address_in(self._field, value) for value in values}
        wanted = {key for key in keys.values() if key is not None}
        rows = self._visible(viewer).filter(**{f"{name}__in": wanted}) if wanted else ()
        found: dict[Any, Any] = {}
        for row in rows:
            if self._exposed is None or viewer.sees(self._exposed, row):
                if getattr(row, name) in found:
                    msg = f"{self._label}: there are several rows with {name} {getattr(row, name)!r}"
                    raise self._model.MultipleObjectsReturned(msg)
                found[getattr(row, name)] = row
        if lacking := [value for value in values if keys[value] not in found]:
            raise self._missing(lacking, viewer)
        return [found[keys[value]] for value in values]

    def _visible(self, viewer: Viewer) -> QuerySet[Any]:
        if self._exposed is not None:
            rows = viewer.door(self._exposed)
        else:
            assert self._rows is not None  # noqa: S101 - one of the two says which rows
            rows = each_once(self._rows.rows(viewer.ctx).all())
        return (on_writer(rows) if self._tool.atomic else rows).order_by()

    def _missing(self, values: Iterable[Any], viewer: Viewer) -> ToolError:
        """The same words for what does not exist and for what the caller may not see."""
        named = [f"no {self.one} {str(value)[:80]}" for value in list(dict.fromkeys(values))[:_NAMED]]
        return ToolError(f"There is {' and '.join(named)}.{finding_hint(self._exposed, viewer)}")


def resolved(arguments: Mapping[str, Argument], keywords: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """*keywords* with rows in place of what addressed them.

    Raises:
        ToolError: one does not exist for the caller, or the call was approved for another one.
    """
    rows = {name: each.resolve(keywords[name], viewer) for name, each in arguments.items() if name in keywords}
    for name, found in rows.items():
        require_same(viewer.ctx, name, found)
    return {**keywords, **rows}


def registered(model: Any, server: MCPServer, label: str) -> Exposed:
    """A model as it is exposed at an endpoint.

    Raises:
        ImproperlyConfigured: it is not, or its declaration has a problem.
    """
    exposed: Exposed | None = server.exposed.get(model)
    source = server.source
    if exposed is None and source is not None and model in source.exposed:
        msg = (
            f"{label}: {model._meta.label} is registered at {source!r}, but {server!r} does not take it over. "  # noqa: SLF001
            f"{server.selection.how_to_take_a_model}"
        )
        raise ImproperlyConfigured(msg)
    if exposed is None:
        msg = (
            f"{label}: {model._meta.label} is not registered at {server!r}, so nothing says which rows a caller may "  # noqa: SLF001
            "see. Register it with a ModelResource; for an argument, Annotated[…, Rows(…)] says it too."
        )
        raise ImproperlyConfigured(msg)
    if not exposed.is_sound:
        problems = " ".join(each.text for each in exposed.problems or ())
        msg = f"{label}: what is registered for {model._meta.label} has a problem. {problems}"  # noqa: SLF001
        raise ImproperlyConfigured(msg)
    return exposed


def search_tool(exposed: Exposed, viewer: Viewer) -> str | None:
    """The name of the tool that finds rows of a model, if the caller may use it."""
    name = f"search_{exposed.plural}"
    tool, allowed = exposed.server.tools.get(name), viewer.ctx.principal.tools
    if tool is None or not viewer.may_view(exposed) or (allowed is not None and name not in allowed):
        return None
    return name if tool.is_generated or not tool.is_guarded else None


def finding_hint(exposed: Exposed | None, viewer: Viewer) -> str:
    """How the caller finds a row that there is, to be said behind words on one that there is not."""
    name = None if exposed is None else search_tool(exposed, viewer)
    return f" Use {name} to find one." if name else ""


@dataclass(frozen=True, slots=True)
class _Misfit(Unfit):
    """A value of the wrong kind, kept until it is known what the caller may be told besides."""

    value: Any


def _address_type(field: Any) -> Any:
    """The annotation of what addresses a row; also of what has the wrong kind, as a ``_Misfit``."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            is_no_key = isinstance(value, str) and "\0" not in value and address_in(field, value) is None
            if is_no_key or type(value) in {int, float}:
                return _Misfit(value)
            raise

    return Annotated[input_type(field), WrapValidator(read)]


def _unwrapped(annotation: Any) -> Any:
    """The annotation itself, without ``Annotated`` and None around it."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated or type(None) in arguments:
        return _unwrapped(next(each for each in arguments if each is not type(None)))
    return annotation


def _metadata(annotation: Any) -> Iterable[Any]:
    """What ``Annotated`` says anywhere in an annotation."""
    if typing.get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
    for each in typing.get_args(annotation):
        if not isinstance(each, Rows):
            yield from _metadata(each)
