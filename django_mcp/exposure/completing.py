"""Completing what addresses a row, with rows that exist for the caller."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from django.db import connections, models
from django.db.models import Q, QuerySet

from django_mcp.core.context import Context
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.field_types import value_field
from django_mcp.exposure.pages import MOST_LOOKED_AT
from django_mcp.exposure.viewing import Viewer
from django_mcp.primitives.completions import MOST_VALUES


def complete_lookup(exposed: Exposed) -> Callable[..., Iterable[str]]:
    """A completer of the lookup field of a model."""

    def complete(value: str, ctx: Context) -> Iterable[str]:
        # A generator: it is not said how many more there would be, for they would have to be counted.
        viewer = Viewer(ctx)
        rows = viewer.door(exposed).order_by(exposed.lookup.attname)
        for beginning in _beginnings(exposed.lookup, value, connections[rows.db].vendor):
            found = _values(exposed, viewer, rows.filter(beginning))
            if found:
                yield from found
                return

    return complete


def _values(exposed: Exposed, viewer: Viewer, rows: QuerySet[Any]) -> list[str]:
    name = exposed.lookup.attname
    if not exposed.resource.checks_each_row:
        return list(map(str, rows.values_list(name, flat=True)[: MOST_VALUES + 1]))
    seen = (obj for obj in rows[:MOST_LOOKED_AT] if viewer.sees(exposed, obj))
    return [str(getattr(obj, name)) for obj in islice(seen, MOST_VALUES + 1)]


def _beginnings(field: Any, text: str, vendor: str) -> Iterator[Q]:
    """That the field begins with *text*, in ways that an index can tell, the likeliest first."""
    if isinstance(value_field(field), models.IntegerField):
        return  # digits tell nobody which row is meant
    if not text:
        yield Q()
    elif "\0" in text or len(text) > 200:  # noqa: PLR2004
        return
    elif isinstance(value_field(field), models.UUIDField):
        yield from filter(None, [_uuid(field.attname, text)])
    else:
        # No plain index can tell whatever the case of letters is. So other cases are for where nothing is as typed.
        for typed in dict.fromkeys([text, text.lower(), text.upper(), text.capitalize()]):
            yield _text(field, typed, vendor)


def _text(field: Any, text: str, vendor: str) -> Q:
    name = field.attname
    if vendor == "sqlite" and isinstance(value_field(field), models.CharField | models.TextField):
        # There LIKE is for letters of any case, so that no index can serve it.
        return Q(**{f"{name}__gte": text, f"{name}__lt": f"{text}\U0010ffff"})
    # On PostgreSQL the second index that Django makes for an indexed text is for this.
    return Q(**{f"{name}__startswith": text})


def _uuid(name: str, text: str) -> Q | None:
    digits = text.replace("-", "").lower()
    if len(digits) > 32 or not set(digits) <= set("0123456789abcdef"):  # noqa: PLR2004
        return None
    return Q(**{f"{name}__range": (uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f")))})
