"""Reading a function once, at registration: its parameters, its words, the place of the context."""

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from docstring_parser import parse as parse_docstring
from pydantic.fields import FieldInfo

EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of the call. ``default`` is ``EMPTY`` where the caller must give it."""

    name: str
    annotation: Any
    default: Any
    description: str | None


@dataclass(frozen=True, slots=True)
class Function:
    """A function as a primitive sees it.

    Attributes:
        call: the function itself, untouched.
        context: the name of the parameter annotated as the context, or None.
    """

    call: Callable[..., Any]
    name: str
    is_async: bool
    parameters: Sequence[Parameter]
    context: str | None
    returns: Any
    description: str | None


def read_function(call: Callable[..., Any], context_type: type) -> Function:
    """Read *call*'s signature, annotations and docstring (Google, NumPy or Sphinx style).

    Raises:
        ImproperlyConfigured: a parameter that no caller by name could fill, or an annotation that cannot be
            resolved at run time.
    """
    label = getattr(call, "__qualname__", repr(call))
    try:
        signature = inspect.signature(call)
        hints = typing.get_type_hints(_underlying(call), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        msg = f"{label}: its annotations cannot be read at run time ({error}). Import the names outside TYPE_CHECKING."
        raise ImproperlyConfigured(msg) from error
    docs = parse_docstring(inspect.getdoc(call) or "")
    described = {parameter.arg_name: parameter.description for parameter in docs.params}
    context: str | None = None
    parameters: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            msg = f"{label}: parameter {parameter} cannot be an argument; give each argument a name and a type."
            raise ImproperlyConfigured(msg)
        annotation = hints.get(parameter.name, Any)
        if isinstance(annotation, type) and issubclass(annotation, context_type):
            context = parameter.name
            continue
        default = parameter.default
        if isinstance(default, FieldInfo):
            annotation = typing.Annotated[annotation, default]
            default = EMPTY
        parameters.append(Parameter(parameter.name, annotation, default, described.get(parameter.name)))
    words = [text for text in (docs.short_description, docs.long_description) if text]
    return Function(
        call=call,
        name=getattr(call, "__name__", type(call).__name__),
        is_async=inspect.iscoroutinefunction(_underlying(call)),
        parameters=tuple(parameters),
        context=context,
        returns=hints.get("return", EMPTY),
        description="\n\n".join(words) or None,
    )


def _underlying(call: Callable[..., Any]) -> Callable[..., Any]:
    """What carries the annotations: an object with ``__call__`` carries them on that method."""
    if inspect.isroutine(call):
        return call
    return type(call).__call__
