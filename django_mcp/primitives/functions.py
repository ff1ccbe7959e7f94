"""Reading a function once, at registration: its parameters, its words, the place of the context."""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.annotations import is_rows, leaves, parts
from django_mcp.primitives.methods import bound, is_in_class_body, is_there

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

EMPTY = inspect.Parameter.empty
HIDDEN_CONTEXT = "<context>"
"""The context's name where a function has no parameter for it, and what was put around it wants it all the same."""
_ONLY_WORDS = re.compile(r"(?![@\s])[^:\n]*(?<!\s)")
"""A docstring of one line, in which nothing can be a section or a field of any style."""
_CONTEXTS = ("ctx", "context")
"""What the context is called by those who forget to annotate it."""


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
    def fields(self) -> "list[FieldInfo]":
        """What pydantic's ``Field`` says of it."""
        return [item for item in getattr(self.annotation, "__metadata__", ()) if is_field(item)]

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
        is_unbound: it was decorated in the body of its class; what its parameters are shows when there is the class.
    """

    call: Callable[..., Any]
    name: str
    is_async: bool
    parameters: Sequence[Parameter]
    context: str | None
    returns: Any
    description: str | None
    is_unbound: bool = False

    def own(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Of *keywords*, which have the context under its name or ``HIDDEN_CONTEXT``, those it has a parameter for."""
        return keywords if self.context else {name: each for name, each in keywords.items() if name != HIDDEN_CONTEXT}


def is_field(value: Any) -> bool:
    """Whether it is what pydantic's ``Field`` gives. Where pydantic was not imported, there is no such thing."""
    module = sys.modules.get("pydantic.fields")
    return module is not None and isinstance(value, module.FieldInfo)


def read_function(call: Callable[..., Any], context_type: type) -> Function:
    """Read *call*'s signature, annotations and docstring (Google, NumPy or Sphinx style).

    Raises:
        ImproperlyConfigured: a parameter that no caller by name could fill, or an annotation that cannot be
            resolved at run time.
    """
    if is_in_class_body(call):
        if not is_there(call):
            return _unbound(call)
        call = bound(call)
    label = getattr(_written(call), "__qualname__", repr(call))
    signature, hints = _signature(call, context_type, label)
    description, described = read_docstring(_docstring(call))
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
        if is_field(default):
            annotation = typing.Annotated[annotation, default]
            default = EMPTY
        parameters.append(Parameter(parameter.name, annotation, default, described.get(parameter.name)))
    return Function(
        call=call,
        name=_name(call),
        is_async=_is_async(call),
        parameters=tuple(parameters),
        context=context,
        returns=hints.get("return", EMPTY),
        description=description,
    )


def _signature(call: Any, context_type: type, label: str) -> tuple[inspect.Signature, dict[str, Any]]:
    """The parameters, and the annotations by name.

    Raises:
        ImproperlyConfigured: there are none that can be read, or it was forgotten to say which one is the context.
    """
    if inspect.isclass(call):
        msg = f"{label} is a class; give a function, or a method of an object: {call.__name__}(…).some_method."
        raise ImproperlyConfigured(msg)
    try:
        signature = inspect.signature(call)
        hints = typing.get_type_hints(_annotated(call), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        msg = f"{label}: its annotations cannot be read at run time ({error}). Import the names outside TYPE_CHECKING."
        raise ImproperlyConfigured(msg) from error
    if unsaid := next((name for name in _CONTEXTS if name in signature.parameters and name not in hints), None):
        msg = f"{label}: callers would have to give {unsaid!r}; annotate it: {unsaid}: {context_type.__name__}."
        raise ImproperlyConfigured(msg)
    return signature, hints


def read_docstring(text: str) -> tuple[str | None, Mapping[str, str | None]]:
    """The description in a docstring (Google, NumPy or Sphinx style), and those of the parameters by their names."""
    if _ONLY_WORDS.fullmatch(text):
        return text or None, {}
    from docstring_parser import parse  # noqa: PLC0415 - one line needs no parser

    docs = parse(text)
    words = [part for part in (docs.short_description, docs.long_description) if part]
    return "\n\n".join(words) or None, {parameter.arg_name: parameter.description for parameter in docs.params}


def _written(call: Any) -> Any:
    """What somebody wrote: the function inside partials."""
    while isinstance(call, functools.partial):
        call = call.func
    return call


def mentions_models(function: Function) -> bool:
    """Whether a parameter or the result is said to be rows of a model."""
    taken = (leaf for parameter in function.parameters for leaf in leaves(parameter.annotation))
    return any(map(is_rows, (*taken, *parts(function.returns))))


def _unbound(call: Any) -> Function:
    """What is known of a function whose class is being made."""
    description = read_docstring(_docstring(call))[0]
    return Function(call, _name(call), False, (), None, EMPTY, description, is_unbound=True)


def underlying(call: Any) -> Callable[..., Any]:
    """What is run in the end: of an object with ``__call__`` that method."""
    call = _written(call)
    return call if inspect.isroutine(call) else type(call).__call__


def _annotated(call: Any) -> Callable[..., Any]:
    """What carries the annotations: the function inside an object that was made of it, like a cached one."""
    call = _written(call)
    is_around = not inspect.isroutine(call) and hasattr(call, "__wrapped__")
    return inspect.unwrap(call) if is_around else underlying(call)


def _is_async(call: Any) -> bool:
    """Whether it gives a coroutine, or was marked as if (asgiref's ``markcoroutinefunction``)."""
    run = underlying(call)
    return inspect.iscoroutinefunction(run) or getattr(_written(call), "_is_coroutine", None) is not None


def _name(call: Any) -> str:
    named = call if hasattr(call, "__name__") else _written(call)
    return str(getattr(named, "__name__", type(named).__name__))


def _docstring(call: Any) -> str:
    return inspect.getdoc(_written(call)) or inspect.getdoc(underlying(call)) or ""
