"""Names and descriptions of tools."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.encoding import force_str

from django_mcp.contrib.rest_framework.notes import OperationNote
from django_mcp.contrib.rest_framework.views import METHODS, Operation
from django_mcp.primitives.base import untranslated
from django_mcp.primitives.validation_errors import with_article

_SECTION = re.compile(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)
_SUFFIXES = ("ViewSet", "APIView", "View", "API", "List", "Detail")

NAMES = {
    "list": "list_{plural}",
    "retrieve": "get_{name}",
    "create": "create_{name}",
    "update": "replace_{name}",
    "partial_update": "update_{name}",
    "destroy": "delete_{name}",
}
SENTENCES = {
    "list": "List {plural}.",
    "retrieve": "Get one {name}.",
    "create": "Create {a_name}.",
    "update": "Replace all fields of {a_name}.",
    "partial_update": "Change the given fields of {a_name}.",
    "destroy": "Delete {a_name}.",
}
DONE = {"destroy": "Deleted."}


class Noun:
    """What a view is about, in the singular and the plural, as identifiers."""

    def __init__(self, view: type, model: Any, name: str | None, plural: str | None) -> None:
        singular = untranslated(model._meta.verbose_name) if model else _snake(view.__name__)  # noqa: SLF001
        several = untranslated(model._meta.verbose_name_plural) if model else f"{singular}s"  # noqa: SLF001
        self.name = name or identifier(singular)
        self.plural = plural or (f"{name}s" if name else identifier(several))

    def in_words(self, sentence: str) -> str:
        """A sentence with it in the place of ``{name}``, ``{a_name}`` and ``{plural}``."""
        name = self.name.replace("_", " ")
        return sentence.format(name=name, a_name=with_article(name), plural=self.plural.replace("_", " "))


def tool_name(operation: Operation, noun: Noun, note: OperationNote) -> str:
    """What an operation is called as a tool."""
    if note.operation_id:
        return identifier(note.operation_id)
    if operation.action in NAMES:
        return NAMES[operation.action].format(name=noun.name, plural=noun.plural)
    if operation.action in METHODS:
        own = _snake(operation.view.__name__)
        several = sum(hasattr(operation.view, method) for method in METHODS) > 1
        return f"{operation.action}_{own}" if several else own
    about = noun.name if operation.detail else noun.plural
    # ``recent_users`` of users has its noun already.
    return operation.action if noun.name in operation.action else f"{operation.action}_{about}"


def description(operation: Operation, view: Any, noun: Noun, note: OperationNote) -> str:
    """What a model is told of a tool: what the site wrote of the operation, else of the view."""
    if note.description:
        return force_str(note.description)
    sections = _sections(_written(operation.view))
    if words := _written(operation.function) or sections.get(operation.handler) or sections.get(operation.action):
        return words
    title = force_str(note.summary or getattr(view, "name", None) or "")
    first = noun.in_words(SENTENCES[operation.action]) if operation.action in SENTENCES else title
    if operation.action not in {*SENTENCES, *METHODS}:
        first = title or f"{tool_name(operation, noun, OperationNote()).replace('_', ' ').capitalize()}."
    return "\n\n".join(filter(None, [first, sections.get("", "")])) or operation.view.__name__


def _written(function: Any) -> str:
    return (inspect.getdoc(function) or "") if _is_sites(function) else ""


def _is_sites(written: Any) -> bool:
    return not (written.__module__ or "").startswith("rest_framework.")


def _sections(text: str | None) -> Mapping[str, str]:
    """A view's docstring by method, where it is written so: ``list:`` on a line of its own, and its words below."""
    parts = _SECTION.split(text or "")
    first, *rest = parts
    found = {"": first.strip()}
    for heading, same_line, below in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if below.startswith("\n") and heading in {*NAMES, *METHODS}:
            found[heading] = f"{same_line}\n{below}".strip()
        else:
            found[""] = f"{found['']}\n{heading}: {same_line}{below}".strip()
    return found


def identifier(words: str) -> str:
    """Words as one name, of letters that every client takes."""
    found = re.sub(r"[^a-zA-Z0-9]+", "_", words).strip("_").lower()
    if not found:
        msg = f"{words!r} makes no name of a tool; say name='…' and plural='…'."
        raise ImproperlyConfigured(msg)
    return found


def _snake(name: str) -> str:
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
