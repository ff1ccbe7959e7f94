"""Functions made for what was declared, with a signature like one somebody wrote."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, WithJsonSchema

from django_mcp.core.context import Context
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import json_schema

CONTEXT = "ctx"


def function(
    call: Callable[..., Any],
    name: str,
    words: str,
    parameters: Sequence[Parameter],
    owner: object,
    returns: Any = EMPTY,
) -> Callable[..., Any]:
    """A function that passes the context and its arguments on.

    Args:
        call: takes the context, and a dict of the arguments.
        name: of the function.
        words: its docstring.
        parameters: its arguments.
        owner: what was declared, for messages and pages that say where something comes from.
        returns: its return annotation.
    """

    def made(**keywords: Any) -> Any:
        return call(keywords.pop(CONTEXT), keywords)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = words
    made.__module__ = type(owner).__module__
    made.owner = owner  # type: ignore[attr-defined]
    own = Parameter(CONTEXT, Context, EMPTY, None)
    everything = [own, *parameters]
    made.__annotations__ = {each.name: _annotation(each) for each in everything}
    if returns is not EMPTY:
        made.__annotations__["return"] = returns
    signature = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default) for each in everything
    ]
    made.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return made


def _annotation(parameter: Parameter) -> Any:
    if parameter.description is None:
        return parameter.annotation
    return Annotated[parameter.annotation, Field(description=parameter.description)]


def shaped(schema: dict[str, Any]) -> Any:
    """A return annotation for a ``ToolResult`` whose data were made to fit *schema*."""
    fitting: Any = Annotated[dict[str, Any], WithJsonSchema(schema)]
    return ToolResult[fitting]


def one_of(values: Iterable[Any]) -> Any:
    """An annotation for an argument that is one of *values*."""
    return Literal[tuple(values)]


def optional(annotation: Any) -> Any:
    """An annotation for an argument that may be left out.

    Null is taken for that, since models send it; it is not in the published schema, where it would cost tokens.
    """
    return Annotated[annotation | None, WithJsonSchema(json_schema(TypeAdapter(annotation), "validation"))]


def list_of(annotation: Any, *, least: int = 0, most: int) -> Any:
    """An annotation for an argument that is a list of *least* to *most* values."""
    return Annotated[list[annotation], Field(min_length=least, max_length=most)]
