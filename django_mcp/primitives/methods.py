"""Methods that are decorated in the body of their class, which at that moment does not exist."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ImproperlyConfigured

LOCAL = "<locals>"


def is_in_class_body(call: Any) -> bool:
    """Whether it is a function of a class, not of an object or of the class itself, so that it is to be bound yet."""
    if isinstance(call, classmethod):
        return True
    function = call.__func__ if isinstance(call, staticmethod) else call
    parent = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not parent or parent.endswith(LOCAL):
        return False
    # A class inside a function cannot be found by its name, but what has no self needs none.
    return LOCAL not in parent or (
        function is call and next(iter(inspect.signature(call).parameters), "") in {"self", "cls"}
    )


def bound(call: Any) -> Callable[..., Any]:
    """What to call, now that the class is there: a method is called on an object of its own for each call.

    Raises:
        ImproperlyConfigured: the class cannot be found, or not be made without arguments.
    """
    function = call if inspect.isfunction(call) else call.__func__
    owner, attribute = _owner(function)
    if isinstance(call, classmethod) or isinstance(attribute, classmethod):
        return function.__get__(owner)
    if isinstance(call, staticmethod) or isinstance(attribute, staticmethod):
        return function
    return _on_new_object(function, owner)


def is_there(call: Any) -> bool:
    """Whether the class of what ``is_in_class_body`` has been made already."""
    return _found(call if inspect.isfunction(call) else call.__func__) is not None


def _found(function: Callable[..., Any]) -> tuple[type, Any] | None:
    """The class, and what stands in it under the function's name."""
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
            f"{function.__qualname__} was decorated in the body of a class that is not to be found. Import "
            f"{function.__module__} in an mcp.py, so that the class is there at the start; or decorate what is bound: "
            f"tool({path.rpartition('.')[2]}(…).{name})."
        )
        raise ImproperlyConfigured(msg)
    return found


def _layers(attribute: Any) -> list[Any]:
    """A function and all that it was before others decorated it."""
    layers = [attribute]
    while (inner := getattr(layers[-1], "__wrapped__", None)) is not None:
        layers.append(inner)
    return layers


def _on_new_object(function: Callable[..., Any], owner: type) -> Callable[..., Any]:
    try:
        inspect.signature(owner).bind()
    except TypeError as error:
        msg = (
            f"{function.__qualname__} is a tool, and {owner.__name__} cannot be made without arguments ({error}). "
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
