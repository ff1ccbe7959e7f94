"""Filters: the declared paths and lookups, as arguments that callers may give."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from django.db import models
from django.db.models import QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.utils.translation import gettext_lazy as _
from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from django_mcp.core.generated import list_of, optional
from django_mcp.exposure.field_types import input_type, is_array, is_json, is_range
from django_mcp.exposure.guards import matching
from django_mcp.exposure.paths import Path, PathError, is_composite, read_path
from django_mcp.exposure.viewing import Viewer
from django_mcp.primitives.functions import Parameter
from django_mcp.primitives.typed import json_schema
from django_mcp.primitives.words import with_article

if TYPE_CHECKING:
    from django_mcp.exposure.exposed import Exposed

MOST_VALUES = 100
"""The most values of one ``in``."""

_COMPARED = ("exact", "in", "isnull")
_SORTED = ("gt", "gte", "lt", "lte")
_TEXT = ("iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith")
_PARTS = ("year", "month", "day", "date")
LOOKUPS = frozenset({*_COMPARED, *_SORTED, *_TEXT, *_PARTS})
"""What may be declared. Regular expressions are not among them: a caller could keep the database busy with one."""

_ANNOTATIONS: Mapping[str, Any] = {
    "isnull": bool,
    "date": datetime.date,
    "year": Annotated[int, Field(ge=1, le=9999)],
    "month": Annotated[int, Field(ge=1, le=12)],
    "day": Annotated[int, Field(ge=1, le=31)],
}

WORDS = {
    "exact": "",
    "in": "is one of these",
    "isnull": "has none",
    "gt": "is greater than this",
    "gte": "is at least this",
    "lt": "is less than this",
    "lte": "is at most this",
    "iexact": "is this, in any case of letters",
    "contains": "has this in it",
    "icontains": "has this in it, in any case of letters",
    "startswith": "begins with this",
    "istartswith": "begins with this, in any case of letters",
    "endswith": "ends with this",
    "iendswith": "ends with this, in any case of letters",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """One declared filter.

    Attributes:
        argument: its name for callers: the path, with the lookup behind it unless that is ``exact``.
        declared: the path that was written.
        path: to what is compared: of a relation what addresses the row it leads to.
        lookup: one of ``LOOKUPS``.
    """

    argument: str
    declared: str
    path: Path
    lookup: str

    @property
    def parameter(self) -> Parameter:
        """As an argument of a tool: may be left out."""
        return Parameter(self.argument, optional(self._annotation), None, self._words)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its values."""
        return json_schema(TypeAdapter(self._annotation), "validation")

    @property
    def _annotation(self) -> Any:
        one = self._one
        if self.lookup == "in":
            return list_of(one, most=MOST_VALUES)
        if self.lookup in _TEXT:
            return input_type(models.CharField())
        return _ANNOTATIONS.get(self.lookup, one)

    @property
    def _leads_to_row(self) -> bool:
        """Whether it is a relation, compared by what addresses the row it leads to."""
        return self.path.source != self.declared

    @property
    def _one(self) -> Any:
        field = self.path.field
        if not self._leads_to_row:
            return input_type(field)
        wanted = f"must be the {_called(field)} of {with_article(str(field.model._meta.verbose_name))}"  # noqa: SLF001

        def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
            try:
                return handler(value)
            except ValidationError:
                raise ValueError(wanted) from None

        return Annotated[input_type(field), WrapValidator(read)]

    @property
    def _words(self) -> str:
        what = self.declared.replace(LOOKUP_SEP, " ").replace("_", " ")
        how = WORDS.get(self.lookup, f"is of this {self.lookup}")
        by = f", by {_called(self.path.field)}" if self._leads_to_row else ""
        # Not the help text of the column, which is for who fills in a form: "Required." of an optional filter.
        return f"Only rows whose {what} {how or 'is this'}{by}."


def _called(field: Any) -> str:
    return "primary key" if field.primary_key else str(field.verbose_name)


def read_filters(exposed: "Exposed") -> Iterator[Filter]:
    """The filters that a declaration names.

    Raises:
        PathError: a path leads nowhere, or cannot be compared like that.
    """
    for source, lookup in _pairs(exposed.resource.filters):
        yield _filter(exposed, source, lookup)


def _pairs(declared: Sequence[str] | Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    if isinstance(declared, Mapping):
        for source, lookups in declared.items():
            if isinstance(lookups, str):
                raise PathError(
                    _("%(source)r: lookups must be a list, like [%(lookups)r]"), source=source, lookups=lookups
                )
            yield from ((source, lookup) for lookup in lookups)
        return
    for each in declared:
        source, _sep, lookup = each.rpartition(LOOKUP_SEP)
        yield (source, lookup) if source and lookup in LOOKUPS else (each, "exact")


def _filter(exposed: "Exposed", source: str, lookup: str) -> Filter:
    if lookup not in LOOKUPS:
        raise PathError(
            _("%(source)r cannot be filtered with %(lookup)r; there are %(lookups)s"),
            source=source,
            lookup=lookup,
            lookups=", ".join(sorted(LOOKUPS)),
        )
    path = read_path(exposed.model, source)
    argument = source if lookup == "exact" else f"{source}{LOOKUP_SEP}{lookup}"
    if path.field.is_relation and (target := exposed.on_server(path.field.related_model)) and lookup != "isnull":
        path = read_path(exposed.model, f"{source}{LOOKUP_SEP}{target.resource.lookup_field}")
    _require_comparable(path, lookup)
    return Filter(argument, source, path, lookup)


def _require_comparable(path: Path, lookup: str) -> None:
    field = path.value_field
    if lookup != "isnull" and is_composite(path.end):
        raise PathError(
            _("%(source)r leads to %(model)s, which has a composite primary key: filter by one of its columns"),
            source=path.source,
            model=path.end.model._meta.label,  # noqa: SLF001 - Django's documented API
        )
    fits = {
        _TEXT: not (isinstance(field, models.IntegerField | models.BooleanField | models.DateField) or is_json(field)),
        _PARTS: isinstance(field, models.DateField) and (lookup != "date" or isinstance(field, models.DateTimeField)),
        _SORTED: not (isinstance(field, models.BooleanField) or is_json(field)),
        ("exact", "in"): not (isinstance(field, models.BinaryField) or is_json(field)),
        # Where a file is stored is not shown, so it is not compared either; arguments are no arrays and ranges.
        (*_COMPARED[:2], *_SORTED, *_TEXT): not (
            isinstance(field, models.FileField) or is_array(field) or is_range(field)
        ),
    }
    for lookups, fitting in fits.items():
        if lookup in lookups and not fitting:
            raise PathError(
                _("%(source)r is a %(kind)s, which cannot be filtered with %(lookup)r"),
                source=path.source,
                kind=type(field).__name__,
                lookup=lookup,
            )


def filtered(rows: QuerySet[Any], arguments: Mapping[str, Any], viewer: Viewer, exposed: "Exposed") -> QuerySet[Any]:
    """Those of *rows* that all filters in *arguments* let through."""
    for each in exposed.filters:
        value = arguments.get(each.argument)
        if value is None:
            continue
        if isinstance(value, list):
            value = tuple(value)
        rows = rows.filter(matching(each.path, each.lookup, value, viewer, exposed))
    return rows
