"""Taking annotations apart, and putting others together."""

import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any

from django.db.models import Model, QuerySet

COLLECTIONS = frozenset({list, tuple, set, frozenset, Sequence, MutableSequence, AbstractSet, Collection, Iterable})
"""Whose arguments are the types of their entries."""
MAPPINGS = frozenset({dict, Mapping})


def replaced(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """*annotation* with others in its place, or in the place of what it is made of.

    Args:
        annotation: also one that is optional, a union, a collection or ``Annotated``.
        change: takes an annotation, gives the one in its place; None where it is to be looked into.
    """
    found = change(annotation)
    if found is not None:
        return found
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return Annotated[(replaced(arguments[0], change), *arguments[1:])]
    if is_union(annotation):
        return typing.Union[tuple(replaced(each, change) for each in arguments)]  # noqa: UP007 - made at run time
    if origin in COLLECTIONS | MAPPINGS and arguments:
        return origin[tuple(replaced(each, change) for each in arguments)]
    return annotation


def leaves(annotation: Any) -> Iterator[Any]:
    """What an annotation is made of in the end: ``int`` and ``None`` of ``list[Annotated[int, …]] | None``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        yield from leaves(arguments[0])
    elif arguments and (is_union(annotation) or origin in COLLECTIONS):
        for each in arguments:
            yield from leaves(each)
    else:
        yield annotation


def parts(annotation: Any) -> Iterator[Any]:
    """An annotation and all that is written in its brackets, whatever it means there."""
    yield annotation
    for each in typing.get_args(annotation):
        yield from parts(each)


def is_union(annotation: Any) -> bool:
    """Whether it is ``A | B`` or ``Optional[A]``."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def is_rows(annotation: Any) -> bool:
    """Whether it is a model, or a queryset."""
    return isinstance(annotation, type) and issubclass(annotation, Model | QuerySet)
