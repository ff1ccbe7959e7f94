"""Paths through models, like ``"author__name"``, read once and checked at every hop."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.constants import LOOKUP_SEP
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_mcp.exposure.field_types import value_field


class PathError(ValueError):
    """A path that leads nowhere, or where none may lead. The message says what would be right.

    Args:
        text: the message. It is translated when it is shown, which that of an attribute in place of a field never is.
        values: of the placeholders in it.
    """

    def __init__(self, text: str | Promise, **values: Any) -> None:
        super().__init__(text, values)
        self.text, self.values = text, values

    def __str__(self) -> str:
        return str(self.text) % self.values


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a model to a value.

    Attributes:
        source: as it was written.
        hops: the relations it goes through, in order.
        field: where it ends: a column, a relation, or a set of related rows.
        is_many: it has a set of values for one row.
    """

    source: str
    hops: tuple[Any, ...]
    field: Any
    is_many: bool

    @property
    def value_field(self) -> Any:
        """``value_field`` of where it ends."""
        return value_field(self.field)

    @property
    def column(self) -> str:
        """The path to what the database compares: of a relation its key."""
        return f"{self.source}{LOOKUP_SEP}pk" if self.field.is_relation else self.source

    @property
    def end(self) -> Any:
        """The column that is compared: of a relation the primary key it leads to."""
        field = self.field.related_model._meta.pk if self.field.is_relation else self.field  # noqa: SLF001
        while field.is_relation:
            field = field.target_field
        return field

    @property
    def prefixes(self) -> list[tuple[str, Any]]:
        """Every relation on the way with the path that leads over it; its own end too where that is one."""
        relations = (*self.hops, self.field) if self.field.is_relation else self.hops
        names = self.source.split(LOOKUP_SEP)
        return [(LOOKUP_SEP.join(names[: at + 1]), relation) for at, relation in enumerate(relations)]

    @property
    def is_nullable(self) -> bool:
        """Whether there may be no value."""
        return any(getattr(each, "null", True) for each in (*self.hops, self.field))


def is_composite(field: Any) -> bool:
    """Return True for a composite primary key, which has no column and no value of its own."""
    return isinstance(field, models.CompositePrimaryKey)


def read_path(model: type[models.Model], source: str) -> Path:
    """Read *source* from *model* on.

    Raises:
        PathError: a name on the way is no field; goes on behind what is no relation, or through a generic one; or
            there is a second set of rows on the way.
    """
    hops: list[Any] = []
    here, field = model, None
    for name in source.split(LOOKUP_SEP):
        if field is not None:
            if field.related_model is None:
                raise PathError(
                    _("%(source)r: %(field)r is no relation, so nothing can follow it"), source=source, field=field.name
                )
            hops.append(field)
            here = field.related_model
        field = _field(here, name, source)
    many = [each for each in (*hops, field) if each.is_relation and (each.one_to_many or each.many_to_many)]
    if len(many) > 1 or (many and many[0] is not (*hops, field)[0]):
        raise PathError(
            _("%(source)r: a set of rows can only be the first step of a path, and there can only be one"),
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
        names = ", ".join(sorted(each.name for each in options.get_fields()))
        raise PathError(
            _("%(source)r: %(model)s has no field %(name)r; it has %(names)s"),
            source=source,
            model=options.label,
            name=name,
            names=names,
        ) from None
    if is_composite(field):
        raise PathError(
            _("%(source)r: %(model)s has a composite primary key, which is no single value; name one of its columns"),
            source=source,
            model=options.label,
        )
    if field.is_relation and field.related_model is None:
        raise PathError(
            _("%(source)r: %(name)r is a generic relation, which has no model; name a function instead"),
            source=source,
            name=name,
        )
    if getattr(field, "column", None) is not None and field.name != name:
        raise PathError(_("%(source)r: write %(field)r, not %(name)r"), source=source, field=field.name, name=name)
    return field
