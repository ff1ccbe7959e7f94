"""Filters and searched fields of a ``ModelResource``: lookups, types and descriptions."""

import datetime
import enum
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from django.db import models
from django.db.models.constants import LOOKUP_SEP
from pydantic import Field, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from pydantic import ValidationError as PydanticError

from django_mcp.core.signatures import list_of, optional
from django_mcp.model_resources.paths import Path, field_noun
from django_mcp.model_resources.schema import input_type, labels_in_words
from django_mcp.primitives.function import Parameter
from django_mcp.primitives.schema import json_schema
from django_mcp.primitives.validation_errors import with_article

SEARCH_LOOKUPS = {"^": "istartswith", "=": "iexact", "@": "search"}
"""Prefixes of search fields and their lookups, as in the admin."""
MAX_VALUES = 100
EQUALITY_LOOKUPS = ("exact", "in", "isnull")
RANGE_LOOKUPS = ("gt", "gte", "lt", "lte")
TEXT_LOOKUPS = ("iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith")
DATE_LOOKUPS = ("year", "month", "day", "date")
FILTER_LOOKUPS = frozenset({*EQUALITY_LOOKUPS, *RANGE_LOOKUPS, *TEXT_LOOKUPS, *DATE_LOOKUPS})
"""Regular expressions are left out, since a caller could overload the database with one."""
_ANNOTATIONS: Mapping[str, Any] = {
    "isnull": bool,
    "date": datetime.date,
    "year": Annotated[int, Field(ge=1, le=9999)],
    "month": Annotated[int, Field(ge=1, le=12)],
    "day": Annotated[int, Field(ge=1, le=31)],
}
LOOKUP_DESCRIPTIONS = {
    "exact": "equals this value",
    "in": "is one of these values",
    "isnull": "is empty (true) or not empty (false)",
    "gt": "is greater than this value",
    "gte": "is greater than or equal to this value",
    "lt": "is less than this value",
    "lte": "is less than or equal to this value",
    "iexact": "equals this text (case-insensitive)",
    "contains": "contains this text (case-sensitive)",
    "icontains": "contains this text (case-insensitive)",
    "startswith": "starts with this text (case-sensitive)",
    "istartswith": "starts with this text (case-insensitive)",
    "endswith": "ends with this text (case-sensitive)",
    "iendswith": "ends with this text (case-insensitive)",
    "date": "falls on this date",
    "year": "falls in this year",
    "month": "falls in this month (1 to 12)",
    "day": "falls on this day of the month (1 to 31)",
}


class Filter(NamedTuple):
    """A declared filter.

    Attributes:
        argument: the argument's name: the path, followed by the lookup unless it is ``exact``.
        path: the compared path. For a relation to a registered model it ends at that model's lookup field.
    """

    argument: str
    declared: str
    path: Path
    lookup: str

    @property
    def parameter(self) -> Parameter:
        return Parameter(self.argument, optional(self._annotation), None, self._words)

    @property
    def schema(self) -> dict[str, Any]:
        return json_schema(TypeAdapter(self._annotation), "validation")

    @property
    def _annotation(self) -> Any:
        one = self._one
        if self.lookup == "in":
            return list_of(one, most=MAX_VALUES)
        if self.lookup in TEXT_LOOKUPS:
            return input_type(models.CharField())
        return _ANNOTATIONS.get(self.lookup, one)

    @property
    def leads_to_row(self) -> bool:
        return self.path.source != self.declared

    @property
    def _one(self) -> Any:
        field = self.path.field
        if not self.leads_to_row:
            return input_type(field)
        wanted = f"must be the {field_noun(field)} of {with_article(str(field.model._meta.verbose_name))}"  # noqa: SLF001

        def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
            try:
                return handler(value)
            except PydanticError:
                raise ValueError(wanted) from None

        return Annotated[input_type(field), WrapValidator(read)]

    @property
    def _words(self) -> str:
        what = self.declared.replace(LOOKUP_SEP, " ").replace("_", " ")
        # The column's help text is left out: it addresses people who fill in a form ("Required.").
        if not self.leads_to_row:
            labels = labels_in_words(self.path.field) if self.lookup in {"exact", "in"} else ""
            return f"Filter: {what} {LOOKUP_DESCRIPTIONS[self.lookup]}. {labels}".strip()
        key = field_noun(self.path.field)
        return f"Filter: {what}, by {key}: {LOOKUP_DESCRIPTIONS[self.lookup]}."


class MethodFilter(NamedTuple):
    """A filter that is a method of the declaration, ``filter_<argument>``.

    Attributes:
        method: takes the context, the rows and the value; returns a queryset of the same model.
        annotation: type of the value.
        description: what models read.
        label: what people read; may be lazily translated.
    """

    argument: str
    method: Callable[[Any, models.QuerySet[Any], Any], models.QuerySet[Any]]
    annotation: Any
    description: str
    label: Any

    @property
    def parameter(self) -> Parameter:
        return Parameter(self.argument, optional(self.annotation), None, self.description)

    @property
    def schema(self) -> dict[str, Any]:
        return json_schema(TypeAdapter(self.annotation), "validation")

    @property
    def choices(self) -> list[tuple[Any, Any]]:
        """The possible values with their labels, if the type lists them."""
        kind = typing.get_args(self.annotation)[0] if hasattr(self.annotation, "__metadata__") else self.annotation
        if typing.get_origin(kind) is typing.Literal:
            return [(value, str(value).replace("_", " ")) for value in typing.get_args(kind)]
        if isinstance(kind, type) and issubclass(kind, models.Choices):
            return list(kind.choices)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return [(member.value, member.name.lower().replace("_", " ")) for member in kind]
        return []


class SearchField(NamedTuple):
    """A path that is searched.

    Attributes:
        lookup: ``search`` is PostgreSQL's full-text search and becomes ``icontains`` on other databases.
        is_vector: True if the path leads to a ``SearchVectorField``.
    """

    path: Path
    lookup: str
    is_vector: bool = False
