"""Completion of arguments of prompts and resource templates (2026-07-28, Completion)."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from contextlib import aclosing
from itertools import islice
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from pydantic_core import to_json

from django_mcp.primitives.function import Parameter, read_function
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.json_schema import alternatives, choices_of

MAX_VALUES = 100
"""Limit of the specification (2026-07-28, Completion, Completion Results)."""
MAX_CHARACTERS = 1024 * 1024
"""Characters of all values together."""

Completions = Mapping[str, Callable[..., Any]]
"""Completing functions by argument name."""


class Completer:
    """A function that returns possible values for a typed text.

    Args:
        call: takes the typed text, and optionally a context and a parameter named ``arguments``, the values chosen for
            other arguments. Other parameters need a default.
        context_type: annotation that marks the context parameter.
        label: name for errors.

    Raises:
        ImproperlyConfigured: the function has another signature.
    """

    def __init__(self, call: Callable[..., Any], context_type: type, label: str) -> None:
        if not callable(call):
            msg = f"{label} must be a function from the typed text to strings, not {type(call).__name__}."
            raise ImproperlyConfigured(msg)
        function = read_function(call, context_type)
        self._value = _value_parameter(function.parameters, label)
        self._takes_arguments = any(parameter.name == "arguments" for parameter in function.parameters)
        self._context = function.context
        self.is_async = function.is_async
        self.call = call
        if inspect.isasyncgenfunction(call):
            self.is_async, self.call = True, _gathered(call)

    def keywords(self, context: Any, value: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        keywords: dict[str, Any] = {self._value: value}
        if self._takes_arguments:
            keywords["arguments"] = arguments
        if self._context is not None:
            keywords[self._context] = context
        return keywords


def read_completers(
    arguments: Arguments, completions: Completions | None, context_type: type, label: str
) -> dict[str, Completer]:
    """Return the given completers, and one for each argument whose type lists its values.

    Raises:
        ImproperlyConfigured: *completions* names an unknown argument, or a function has the wrong signature.
    """
    properties, given = arguments.schema["properties"], completions or {}
    if unknown := [name for name in given if name not in properties]:
        known = ", ".join(map(repr, properties)) or "none"
        msg = f"{label}: completions for unknown arguments {', '.join(map(repr, unknown))}. Its arguments: {known}."
        raise ImproperlyConfigured(msg)
    completers: dict[str, Completer] = {}
    for name, schema in properties.items():
        if name in given:
            completers[name] = Completer(given[name], context_type, f"{label}: completions[{name!r}]")
        elif choices := _choices(schema, arguments.schema):
            completers[name] = Completer(_among(choices), context_type, label)
    return completers


def completion(found: Any) -> dict[str, Any]:
    """Return the ``completion`` object for a completer's return value; querysets are sliced.

    Raises:
        TypeError: the value is not an iterable of strings.
        ValueError: the strings are too long.
    """
    if isinstance(found, str) or not isinstance(found, Iterable):
        msg = f"a completer must return an iterable of strings, not {type(found).__name__}"
        raise TypeError(msg)
    values = list(found[: MAX_VALUES + 1] if isinstance(found, QuerySet) else islice(found, MAX_VALUES + 1))
    for value in values:
        if not isinstance(value, str):
            msg = f"a completer must return strings, not {value!r}"
            raise TypeError(msg)
    if (length := sum(map(len, values))) > MAX_CHARACTERS:
        msg = f"a completer must return at most {MAX_CHARACTERS} characters, not {length}"
        raise ValueError(msg)
    has_more = len(values) > MAX_VALUES
    fields: dict[str, Any] = {"values": values[:MAX_VALUES], "hasMore": has_more}
    total = _total(found) if has_more else len(values)
    return fields if total is None else {**fields, "total": total}


def _total(found: Iterable[Any]) -> int | None:
    if isinstance(found, QuerySet):
        return found.count()
    return len(found) if isinstance(found, Sized) else None


def _value_parameter(parameters: Sequence[Parameter], label: str) -> str:
    others = [parameter for parameter in parameters if parameter.name != "arguments"]
    required = [parameter for parameter in others if parameter.required]
    if not others or len(required) > 1:
        names = ", ".join(parameter.name for parameter in parameters) or "nothing"
        msg = f"{label} must take the typed text, and optionally 'arguments' and a Context; it takes {names}."
        raise ImproperlyConfigured(msg)
    return (required or others)[0].name


def _gathered(call: Callable[..., AsyncIterator[Any]]) -> Callable[..., Coroutine[Any, Any, Iterable[Any]]]:
    # Returned as an iterator, because the total is unknown.
    async def gathered(**keywords: Any) -> Iterable[Any]:
        found: list[Any] = []
        async with aclosing(call(**keywords)) as values:  # type: ignore[type-var]
            async for value in values:
                found.append(value)
                if len(found) > MAX_VALUES:
                    break
        return iter(found)

    return gathered


def _choices(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[str]:
    """Return the values of a ``Literal``, an enum or a bool as on the wire."""
    values: list[Any] = []
    for form in alternatives(schema, root):
        choices = choices_of(form)
        if choices is not None:
            values += [value for value, _ in choices]
        elif form.get("type") == "boolean":
            values += [True, False]
    return [value if isinstance(value, str) else to_json(value).decode() for value in values]


def _among(choices: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(value: str) -> list[str]:
        return [choice for choice in choices if choice.casefold().startswith(value.casefold())]

    return complete
