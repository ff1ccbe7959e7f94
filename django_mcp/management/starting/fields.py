"""Which fields of a model an example may show to anybody who may view it: few, simple, and no secrets."""

import re
from collections.abc import Iterator
from typing import Any

from django.db import models

MOST = 8
"""Fields of an example."""
SECRETS = re.compile(
    r"passw|passphrase|passcode|secret|token|key|hash|salt|credential|signature|auth(?!or)|authoriz|cookie|session|otp|pin\b|cvv|iban|"
    r"card|ssn|nonce|digest",
    re.IGNORECASE,
)
"""Words in names of what is nobody's business."""
SIMPLE = (
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.DecimalField,
    models.FloatField,
    models.BooleanField,
    models.DateField,
    models.TimeField,
    models.DurationField,
    models.UUIDField,
)
"""Kinds of fields whose values are plain: no files, no bytes, no JSON, nothing that leads to other rows."""
PERSONAL = re.compile(r"e_?mail|phone|mobile|address|birth|last_login|is_superuser|is_staff", re.IGNORECASE)
"""Words in names of what belongs to a person: left for the site's owner to add."""


TITLES = frozenset({"title", "name", "headline", "label"})
"""What models usually call a row by."""
TREES = (frozenset({"path", "depth", "numchild"}), frozenset({"lft", "rght", "tree_id", "level"}))
"""Fields of django-treebeard and django-mptt."""


def safe_fields(model: type[models.Model]) -> list[str]:
    """Names of fields that an example shows: what a row is called by, then the model's own, then its parents'."""
    hidden = _of_tree(model)
    return [
        field.name
        for field in _fields(model)
        if _is_safe(field) and field.name not in hidden and (field.editable or field.model is model)
    ][:MOST]


def left_out(model: type[models.Model]) -> list[str]:
    """Names of all further columns and sets of rows, but for the primary key, which each row is shown with."""
    shown, sets = safe_fields(model), model._meta.many_to_many  # noqa: SLF001 - Django's documented API
    return [field.name for field in (*_fields(model), *sets) if field.name not in shown and not field.primary_key]


def searchable(model: type[models.Model]) -> list[str]:
    """Those among them that words can be looked for in."""
    meta = model._meta  # noqa: SLF001 - Django's documented API
    fields = (meta.get_field(name) for name in safe_fields(model))
    return [str(each.name) for each in fields if _is_text(each) and not getattr(each, "choices", None)][:3]


def _fields(model: type[models.Model]) -> Iterator[Any]:
    """Give what rows are called by, then the model's own columns, then those of its parents."""
    fields = model._meta.concrete_fields  # noqa: SLF001 - likewise
    yield from sorted(fields, key=lambda field: (field.name not in TITLES, field.model is not model, *_rank(field)))


def _rank(field: Any) -> tuple[bool, bool]:
    """Give what stands in the class itself and is for people to fill in the lowest rank."""
    abstract = [each for each in field.model.__mro__ if getattr(getattr(each, "_meta", None), "abstract", False)]
    return any(field.name in {own.name for own in each._meta.local_fields} for each in abstract), not field.editable  # noqa: SLF001


def _of_tree(model: type[models.Model]) -> frozenset[str]:
    """Return the names of fields in which packages for trees keep where a row is."""
    names = {field.name for field in _fields(model)}
    return frozenset[str]().union(*(each for each in TREES if each <= names))


def _is_safe(field: Any) -> bool:
    return (
        isinstance(field, SIMPLE)
        and not isinstance(field, models.EmailField | models.FilePathField)
        and not field.primary_key
        and not SECRETS.search(field.name)
        and not SECRETS.search(str(field.verbose_name))
        and not PERSONAL.search(field.name)
    )


def _is_text(field: Any) -> bool:
    return isinstance(field, models.CharField | models.TextField)
