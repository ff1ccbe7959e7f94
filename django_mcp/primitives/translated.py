"""Django's lazy translations: text that waits for a language, in definitions and in what functions give back."""

from typing import Any

from django.utils import translation
from django.utils.functional import Promise, keep_lazy_text
from pydantic_core import PydanticSerializationError, to_json


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
        return translated(value)


def untranslated(text: Any) -> str:
    """Return a text as it is written in the source, whatever language is active."""
    with translation.override(None):
        return str(text)


@keep_lazy_text
def phrase(template: str, words: Any, *, lower: bool = False) -> str:
    """Return *template* with *words* in it, which may be a lazy translation; then the phrase is one too."""
    return template.format(str(words).lower() if lower else str(words))


def sendable(value: Any) -> Any:
    """Return *value*, JSON but for lazy translations, with these as text of the current language.

    What a function gives back passes here while its transaction is open: if it cannot be sent, nothing of it stays.

    Raises:
        PydanticSerializationError: it has no form in JSON, for example half of a surrogate pair.
    """
    try:
        to_json(value)
    except PydanticSerializationError:
        value = translated(value)
        to_json(value)
    return value


def translated(value: Any) -> Any:
    """Return a copy of *value* in the current language."""
    match value:
        case dict():
            return {translated(key): translated(each) for key, each in value.items()}
        case list() | tuple():
            return [translated(each) for each in value]
        case Promise():
            return str(value)
    return value
