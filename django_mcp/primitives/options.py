"""Options as a site gives them: which there are."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

INTERNAL = frozenset({"arguments", "context_type"})
"""What primitives take from those who make them, and nobody declares."""


def check_options(label: str, given: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse an option that there is not.

    Args:
        label: whose options they are, for the error.
        given: their names.
        takers: what takes them by name.
        also: further ones that may be meant.

    Raises:
        ImproperlyConfigured: there is no such option; it names the nearest one.
    """
    known = sorted({*_taken(takers), *also, "server"})
    for name in given:
        if name not in known:
            msg = f"{label}: there is no option {name!r}. {_hint(name, known)}"
            raise ImproperlyConfigured(msg)


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known)
    if not close:
        return f"There are {', '.join(known)}."
    return f"Did you mean {min(close, key=lambda each: each[0] != name[0])!r}?"  # an abbreviation has the same start


def _taken(takers: Iterable[Callable[..., Any]]) -> set[str]:
    parameters = [each for taker in takers for each in inspect.signature(taker).parameters.values()]
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} - INTERNAL
