"""Introspection of functions at registration: parameters, annotations, docstrings and methods."""

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model, QuerySet

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

COLLECTIONS = frozenset({list, tuple, set, frozenset, Sequence, MutableSequence, AbstractSet, Collection, Iterable})
"""Collections, whose type arguments are the types of their items."""
MAPPINGS = frozenset({dict, Mapping})


def replaced(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """Return *annotation*, in which *change* replaces parts; it returns None to descend into a part."""
    found = change(annotation)
    if found is not None:
        return found
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return Annotated[(replaced(arguments[0], change), *arguments[1:])]
    if is_union(annotation):
        return typing.Union[tuple(replaced(argument, change) for argument in arguments)]  # noqa: UP007 - made at run time
    if origin in COLLECTIONS | MAPPINGS and arguments:
        return origin[tuple(replaced(argument, change) for argument in arguments)]
    return annotation


def leaves(annotation: Any) -> Iterator[Any]:
    """Yield the innermost types: ``int`` and ``None`` of ``list[Annotated[int, …]] | None``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        yield from leaves(arguments[0])
    elif arguments and (is_union(annotation) or origin in COLLECTIONS):
        for argument in arguments:
            yield from leaves(argument)
    else:
        yield annotation


def parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for argument in typing.get_args(annotation):
        yield from parts(argument)


def is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def is_rows(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Model | QuerySet)


LOCAL = "<locals>"


def is_in_class_body(call: Any) -> bool:
    # Such a function has to be bound.
    if isinstance(call, classmethod):
        return True
    function = call.__func__ if isinstance(call, staticmethod) else call
    parent = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not parent or parent.endswith(LOCAL):
        return False
    # A class inside a function cannot be found by its name, but a static function does not need it.
    return LOCAL not in parent or (
        function is call and next(iter(inspect.signature(call).parameters), "") in {"self", "cls"}
    )


def bound(call: Any) -> Callable[..., Any]:
    """Return the callable for a method decorated in its class body; instance methods get a new object per call.

    Raises:
        ImproperlyConfigured: the class cannot be found, or requires arguments.
    """
    function = call if inspect.isfunction(call) else call.__func__
    owner, attribute = _owner(function)
    if isinstance(call, classmethod) or isinstance(attribute, classmethod):
        return function.__get__(owner)
    if isinstance(call, staticmethod) or isinstance(attribute, staticmethod):
        return function
    return _on_new_object(function, owner)


def is_there(call: Any) -> bool:
    return _found(call if inspect.isfunction(call) else call.__func__) is not None


def _found(function: Callable[..., Any]) -> tuple[type, Any] | None:
    path, _, name = function.__qualname__.rpartition(".")
    owner: Any = sys.modules.get(function.__module__)
    for part in path.split("."):
        owner = getattr(owner, part, None)
    attribute = inspect.getattr_static(owner, name, None) if isinstance(owner, type) else None
    return (owner, attribute) if attribute is not None and function in _layers(attribute) else None


def _owner(function: Callable[..., Any]) -> tuple[type, Any]:
    found = _found(function)
    if found is None:
        path, _, name = function.__qualname__.rpartition(".")
        msg = (
            f"{function.__qualname__} was decorated in the body of a class that cannot be found. Import "
            f"{function.__module__} in an mcp.py, so that the class exists at startup; or decorate a bound method: "
            f"tool({path.rpartition('.')[2]}(…).{name})."
        )
        raise ImproperlyConfigured(msg)
    return found


def _layers(attribute: Any) -> list[Any]:
    layers = [attribute]
    while (inner := getattr(layers[-1], "__wrapped__", None)) is not None:
        layers.append(inner)
    return layers


def _on_new_object(function: Callable[..., Any], owner: type) -> Callable[..., Any]:
    try:
        inspect.signature(owner).bind()
    except TypeError as error:
        msg = (
            f"{function.__qualname__} is a tool, but {owner.__name__} requires arguments ({error}). "
            f"Decorate the method of an object instead: tool({owner.__name__}(…).{function.__name__})."
        )
        raise ImproperlyConfigured(msg) from None
    _, *others = inspect.signature(function).parameters.values()

    def call(**keywords: Any) -> Any:
        return function(owner(), **keywords)

    async def call_async(**keywords: Any) -> Any:
        return await function(owner(), **keywords)

    made = functools.wraps(function)(call_async if inspect.iscoroutinefunction(function) else call)
    made.__signature__ = inspect.signature(function).replace(parameters=others)  # type: ignore[attr-defined]
    return made


EMPTY = inspect.Parameter.empty
HIDDEN_CONTEXT = "<context>"
"""Keyword under which wrappers get the context if the function itself does not take it."""
_ONLY_WORDS = re.compile(r"(?![@\s])[^:\n]*(?<!\s)")
_CONTEXTS = ("ctx", "context")


def origin_of(call: Callable[..., Any]) -> Any:
    """Return the site's function, view, form or model behind a primitive's function; a view may be a name only."""
    call = inspect.unwrap(call)
    owner = getattr(call, "owner", None)
    return call if owner is None else getattr(owner, "site_code", owner)


def dotted_name(origin: Any) -> str:
    """Return where an origin is defined: ``library.views.search``, or ``view 'search'`` for the name of a URL."""
    if isinstance(origin, str):
        return f"view {origin!r}"
    origin = getattr(origin, "view_class", None) or getattr(origin, "func", origin)
    named = origin if hasattr(origin, "__qualname__") else type(origin)
    name = named.__qualname__.rpartition("<locals>.")[2]
    if not name.endswith(named.__name__):  # REST framework renames the class around a function
        name = named.__name__
    return f"{named.__module__}.{name}"


class Parameter(NamedTuple):
    """One argument of the call.

    Attributes:
        default: the function's default; ``EMPTY`` if it has none or a ``Field`` in the annotation holds it.
    """

    name: str
    annotation: Any
    default: Any
    description: str | None

    @property
    def fields(self) -> "list[FieldInfo]":
        return [item for item in getattr(self.annotation, "__metadata__", ()) if is_field(item)]

    @property
    def required(self) -> bool:
        return self.default is EMPTY and all(field.is_required() for field in self.fields)


class Function(NamedTuple):
    """A function's signature as primitives use it.

    Attributes:
        context: name of the context parameter, or None.
        is_unbound: decorated in a class body; parameters are unknown until the class exists.
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
        return (
            keywords
            if self.context
            else {name: keyword for name, keyword in keywords.items() if name != HIDDEN_CONTEXT}
        )


def is_field(value: Any) -> bool:
    # This does not import pydantic.
    module = sys.modules.get("pydantic.fields")
    return module is not None and isinstance(value, module.FieldInfo)


def read_function(call: Callable[..., Any], context_type: type) -> Function:
    """Read a function's signature, annotations and docstring (Google, NumPy or Sphinx style).

    Raises:
        ImproperlyConfigured: a parameter cannot be passed by name, or an annotation cannot be resolved at run time.
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
            msg = f"{label}: parameter {parameter} cannot be an argument. Declare each argument by name and type."
            raise ImproperlyConfigured(msg)
        annotation = hints.get(parameter.name, Any)
        if isinstance(annotation, type) and issubclass(annotation, context_type):
            if context is not None:
                msg = f"{label}: {context!r} and {parameter.name!r} are both annotated as the context. Keep one."
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
    if inspect.isclass(call):
        msg = f"{label} is a class. Use a function, or a method of an object: {call.__name__}(…).some_method."
        raise ImproperlyConfigured(msg)
    try:
        signature = inspect.signature(call)
        hints = typing.get_type_hints(_annotated(call), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        msg = f"{label}: annotations cannot be resolved at run time ({error}). Import the names outside TYPE_CHECKING."
        raise ImproperlyConfigured(msg) from error
    if unsaid := next((name for name in _CONTEXTS if name in signature.parameters and name not in hints), None):
        msg = f"{label}: the context parameter {unsaid!r} has no annotation. Write {unsaid}: {context_type.__name__}."
        raise ImproperlyConfigured(msg)
    return signature, hints


def read_docstring(text: str) -> tuple[str | None, Mapping[str, str | None]]:
    """Return the description, and those of the parameters, of a docstring (Google, NumPy or Sphinx style)."""
    if _ONLY_WORDS.fullmatch(text):
        return text or None, {}
    from docstring_parser import parse  # noqa: PLC0415 - one line needs no parser

    docs = parse(text)
    return (docs.description or "").rstrip("\n") or None, {
        parameter.arg_name: parameter.description for parameter in docs.params
    }


def _written(call: Any) -> Any:
    while isinstance(call, functools.partial):
        call = call.func
    return call


def mentions_models(function: Function) -> bool:
    taken = (leaf for parameter in function.parameters for leaf in leaves(parameter.annotation))
    return any(map(is_rows, (*taken, *parts(function.returns))))


def _unbound(call: Any) -> Function:
    description = read_docstring(_docstring(call))[0]
    return Function(call, _name(call), False, (), None, EMPTY, description, is_unbound=True)


def underlying(call: Any) -> Callable[..., Any]:
    call = _written(call)
    return call if inspect.isroutine(call) else type(call).__call__


def _annotated(call: Any) -> Callable[..., Any]:
    call = _written(call)
    is_around = not inspect.isroutine(call) and hasattr(call, "__wrapped__")
    return inspect.unwrap(call) if is_around else underlying(call)


def _is_async(call: Any) -> bool:
    run = underlying(call)
    # Before Python 3.12, asgiref marks coroutine functions with this attribute.
    return inspect.iscoroutinefunction(run) or getattr(_written(call), "_is_coroutine", None) is not None


def _name(call: Any) -> str:
    named = call if hasattr(call, "__name__") else _written(call)
    return str(getattr(named, "__name__", type(named).__name__))


def _docstring(call: Any) -> str:
    return own_docstring(_written(call)) or own_docstring(underlying(call))


def own_docstring(written: Any) -> str:
    # inspect.getdoc() also returns docstrings of base classes and overridden methods, which others wrote.
    return inspect.cleandoc(getattr(written, "__doc__", None) or "")
