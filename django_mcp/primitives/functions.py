"""Reading a function once, at registration: its parameters, its words, the place of the context."""

import functools
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
    """One argument of the call.

    Attributes:
        default: the function's own; ``EMPTY`` where it has none, or where a ``Field`` in the annotation has it.
    """

    name: str
    annotation: Any
    default: Any
    description: str | None

    @property
    def fields(self) -> list[FieldInfo]:
        """What pydantic's ``Field`` says of it."""
        return [item for item in getattr(self.annotation, "__metadata__", ()) if isinstance(item, FieldInfo)]

    @property
    def required(self) -> bool:
        """Whether the caller must give it."""
        return self.default is EMPTY and all(field.is_required() for field in self.fields)


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
    label = getattr(_written(call), "__qualname__", repr(call))
    try:
        signature = inspect.signature(call)
        hints = typing.get_type_hints(_underlying(call), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        msg = f"{label}: its annotations cannot be read at run time ({error}). Import the names outside TYPE_CHECKING."
        raise ImproperlyConfigured(msg) from error
    docs = parse_docstring(_docstring(call))
    described = {parameter.arg_name: parameter.description for parameter in docs.params}
    context: str | None = None
    parameters: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            msg = f"{label}: parameter {parameter} cannot be an argument; give each argument a name and a type."
            raise ImproperlyConfigured(msg)
        annotation = hints.get(parameter.name, Any)
        if isinstance(annotation, type) and issubclass(annotation, context_type):
            if context is not None:
                msg = f"{label}: {context!r} and {parameter.name!r} are both the context; one is enough."
                raise ImproperlyConfigured(msg)
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
        name=_name(call),
        is_async=inspect.iscoroutinefunction(_underlying(call)),
        parameters=tuple(parameters),
        context=context,
        returns=hints.get("return", EMPTY),
        description="\n\n".join(words) or None,
    )


def _written(call: Any) -> Any:
    """What somebody wrote: the function inside partials."""
    while isinstance(call, functools.partial):
        call = call.func
    return call


def _underlying(call: Any) -> Callable[..., Any]:
    """What carries the annotations: an object with ``__call__`` carries them on that method."""
    call = _written(call)
    return call if inspect.isroutine(call) else type(call).__call__


def _name(call: Any) -> str:
    named = call if hasattr(call, "__name__") else _written(call)
    return str(getattr(named, "__name__", type(named).__name__))


def _docstring(call: Any) -> str:
    return inspect.getdoc(_written(call)) or inspect.getdoc(_underlying(call)) or ""
