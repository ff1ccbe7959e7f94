"""Functions generated from declarations, with signatures and annotations."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, WithJsonSchema

from django_mcp.core.context import Context
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import json_schema

CONTEXT = "ctx_"
"""The parameter of the context. No column, whose name may be an argument, may end in an underscore."""
GIVEN = Parameter("given", Any, None, None)
"""The parameter of functions that take all arguments as one mapping, because their names are arbitrary."""


def function(
    call: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    owner: object,
    returns: Any = EMPTY,
    docstring: str = "",
) -> Callable[..., Any]:
    """Return a function with the given signature that passes its context and a dict of its arguments to *call*.

    *owner* is the declaration, for messages and pages that show the origin of a primitive.
    """

    def made(**keywords: Any) -> Any:
        return call(keywords.pop(CONTEXT), keywords)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = docstring
    made.__module__ = type(owner).__module__
    made.owner = owner  # type: ignore[attr-defined]
    own = Parameter(CONTEXT, Context, EMPTY, None)
    everything = [own, *parameters]
    made.__annotations__ = {parameter.name: _annotation(parameter) for parameter in everything}
    if returns is not EMPTY:
        made.__annotations__["return"] = returns
    signature = [
        inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default)
        for parameter in everything
    ]
    made.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return made


def _annotation(parameter: Parameter) -> Any:
    if parameter.description is None:
        return parameter.annotation
    return Annotated[parameter.annotation, Field(description=parameter.description)]


def taken_by(call: Callable[..., Any], values: Mapping[str, Any], *, after: int = 1) -> dict[str, Any]:
    """Return those of *values* that a function of the site takes by name, besides its first parameters."""
    if not values:  # some callables have no signature
        return {}
    parameters = list(inspect.signature(call).parameters.values())[after:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(values)
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}
    return {name: value for name, value in values.items() if name in names}


def shaped(schema: dict[str, Any]) -> Any:
    fitting: Any = Annotated[Any, WithJsonSchema(schema)]
    return ToolResult[fitting]


def one_of(values: Iterable[Any]) -> Any:
    return Literal[tuple(values)]


def optional(annotation: Any) -> Any:
    # Models send null for what they omit. It is accepted, but not published in the schema, where it would cost
    # tokens.
    return Annotated[annotation | None, WithJsonSchema(json_schema(TypeAdapter(annotation), "validation"))]


def list_of(annotation: Any, *, least: int = 0, most: int) -> Any:
    return Annotated[list[annotation], Field(min_length=least, max_length=most)]
