"""Paths from a model to its columns, also across relations, and values that identify a row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.db.models.constants import LOOKUP_SEP
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_mcp.model_resources.schema import value_field

CORRECT_IT = _("Correct the name.")


class PathError(ValueError):
    """An invalid path in a declaration. The message and the hint may be lazily translated.

    Attributes:
        hint: what would be right.
    """

    def __init__(self, text: str | Promise, hint: str | Promise = CORRECT_IT, **values: Any) -> None:
        super().__init__(text, values)
        self.text, self.values, self._hint = text, values, hint

    @property
    def hint(self) -> str:
        return str(self._hint) % self.values

    def __str__(self) -> str:
        return str(self.text) % self.values


class Path(NamedTuple):
    """A path from a model to a value.

    Attributes:
        hops: the relations along the way, in order.
        field: the last field: a column, a relation or a set of related rows.
        is_many: True if one row may have several values.
    """

    source: str
    hops: tuple[Any, ...]
    field: Any
    is_many: bool

    @property
    def value_field(self) -> Any:
        return value_field(self.field)

    @property
    def column(self) -> str:
        """The path that is compared; for a relation, that of its primary key."""
        return f"{self.source}{LOOKUP_SEP}pk" if self.field.is_relation else self.source

    @property
    def end(self) -> Any:
        """The column that is compared; for a relation, the primary key it refers to."""
        field = self.field.related_model._meta.pk if self.field.is_relation else self.field  # noqa: SLF001
        while field.is_relation:
            field = field.target_field
        return field

    @property
    def prefixes(self) -> list[tuple[str, Any]]:
        """Every relation on the path, including a final one, each with the path up to it."""
        relations = (*self.hops, self.field) if self.field.is_relation else self.hops
        names = self.source.split(LOOKUP_SEP)
        return [(LOOKUP_SEP.join(names[: at + 1]), relation) for at, relation in enumerate(relations)]

    @property
    def is_nullable(self) -> bool:
        # Django does not say whether the expression of a generated column can be null.
        return any(getattr(hop, "generated", False) or getattr(hop, "null", True) for hop in (*self.hops, self.field))


def is_unique(field: Any) -> bool:
    """Return True if no two rows have the same value of the column *field*, by a constraint or by itself."""
    options = field.model._meta  # noqa: SLF001 - Django's documented API
    alone = [tuple(constraint.fields) for constraint in options.total_unique_constraints]
    return bool(field.unique) or (field.name,) in {*alone, *map(tuple, options.unique_together)}


def example_path(source: str, model: Any) -> str:
    """Return a path from *source*, a relation to *model*, to a column that *model* has, for hints."""
    columns = model._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    texts = (column.name for column in columns if isinstance(column, models.CharField | models.TextField))
    return f"{source}{LOOKUP_SEP}{next(texts, 'pk')}"


def is_composite(field: Any) -> bool:
    return isinstance(field, models.CompositePrimaryKey)


def read_path(model: type[models.Model], source: str) -> Path:
    """Resolve *source*, starting at *model*.

    Raises:
        PathError: a name is not a field, follows something that is not a relation, is a generic foreign key, or is a
            set of rows beyond the first step.
    """
    hops: list[Any] = []
    here, field = model, None
    for name in source.split(LOOKUP_SEP):
        if field is not None:
            if field.related_model is None:
                raise PathError(
                    _("%(source)r: %(field)r is not a relation, so nothing can follow it"),
                    _("End the path at %(field)r. A part of a value needs a method or an annotation."),
                    source=source,
                    field=field.name,
                )
            hops.append(field)
            here = field.related_model
        field = _field(here, name, source)
    many = [hop for hop in (*hops, field) if hop.is_relation and (hop.one_to_many or hop.many_to_many)]
    if len(many) > 1 or (many and many[0] is not (*hops, field)[0]):
        raise PathError(
            _("%(source)r: a path can contain only one set of rows, as its first step"),
            _("End the path at the first set, or use a method."),
            source=source,
        )
    return Path(source, tuple(hops), field, bool(many))


def _field(model: type[models.Model], name: str, source: str) -> Any:
    options = model._meta  # noqa: SLF001 - Django's documented API
    if name == "pk":
        name = options.pk.name
    try:
        field = options.get_field(name)
    except FieldDoesNotExist:
        # Templates and views know the set by its accessor, queries and paths by another name.
        accessors = {other.get_accessor_name(): other.name for other in options.related_objects}
        if name in accessors:
            raise PathError(
                _("%(source)r: %(model)s has no field %(name)r; queries call these rows %(query_name)r"),
                source=source,
                model=options.label,
                name=name,
                query_name=accessors[name],
            ) from None
        names = ", ".join(sorted(other.name for other in options.get_fields()))
        raise PathError(
            _("%(source)r: %(model)s has no field %(name)r; it has %(names)s"),
            source=source,
            model=options.label,
            name=name,
            names=names,
        ) from None
    if is_composite(field):
        raise PathError(
            _("%(source)r: %(model)s has a composite primary key, which is not a single value; use one of its columns"),
            _("Use one of its columns."),
            source=source,
            model=options.label,
        )
    if field.is_relation and field.related_model is None:
        raise PathError(
            _("%(source)r: %(name)r is a generic relation, which has no fixed model; use a method instead"),
            _("Use a method."),
            source=source,
            name=name,
        )
    if getattr(field, "column", None) is not None and field.name != name:
        raise PathError(_("%(source)r: use %(field)r, not %(name)r"), source=source, field=field.name, name=name)
    return field


class Annotation(NamedTuple):
    """A value that the database computes for each row.

    Attributes:
        expression: None if ``get_queryset`` annotates the value.
        field: a model field of the value's type.
        relations: the relations that the expression joins.
    """

    expression: Any
    field: Any
    relations: Sequence[Any]


LARGEST_INTEGER = 2**63 - 1


def field_noun(field: Any) -> str:
    return "primary key" if field.primary_key else str(field.verbose_name)


def lookup_value(field: Any, value: object) -> Any:
    try:
        found = value_field(field).to_python(value)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None
    is_none = isinstance(found, int) and abs(found) > LARGEST_INTEGER  # SQLite cannot compare larger ones
    return None if is_none or "\0" in str(found) else found
