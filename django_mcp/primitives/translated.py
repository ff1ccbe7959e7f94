"""Words that wait for a language: Django's lazy translations, in what is told of a primitive."""

from typing import Any

from django.utils import translation
from django.utils.functional import Promise


def is_translated(value: Any) -> bool:
    """Whether there is a lazy translation anywhere in *value*, JSON but for those."""
    match value:
        case dict():
            return any(map(is_translated, value.values()))
        case list() | tuple():
            return any(map(is_translated, value))
    return isinstance(value, Promise)


def spoken(value: Any, language: str) -> Any:
    """A copy of *value* in a language."""
    with translation.override(language):
        return _copied(value)


def _copied(value: Any) -> Any:
    match value:
        case dict():
            return {key: _copied(each) for key, each in value.items()}
        case list() | tuple():
            return [_copied(each) for each in value]
        case Promise():
            return str(value)
    return value
