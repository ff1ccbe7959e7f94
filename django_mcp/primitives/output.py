"""What a tool gives back: content blocks for the reader, structured content for the program."""

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import from_json, to_json

from django_mcp.primitives.functions import EMPTY
from django_mcp.primitives.schema import json_schema, typed_dict
from django_mcp.protocol.content import Content, TextContent

T = TypeVar("T")


class ToolResult(Generic[T]):
    """A result whose words differ from its data.

    Annotate a tool ``-> ToolResult[Flights]`` and the output schema is that of ``Flights``.

    Args:
        structured: the value for programs; None for none.
        text: what a reader sees; by default the JSON of *structured*. Some clients show a model only this, so
            it should say everything.
        content: further blocks, after *text*.
        meta: the result's ``_meta``.
    """

    __slots__ = ("content", "meta", "structured", "text")

    def __init__(
        self,
        structured: T | None = None,
        *,
        text: str | None = None,
        content: Sequence[Content] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.structured = structured
        self.text = text
        self.content = content
        self.meta = meta


class Output:
    """How the values of one tool are shown.

    A class with fields (pydantic model, dataclass, TypedDict, ``dict[str, …]``) is structured content as it
    is. Other types are wrapped as ``{"result": …}``, for clients refuse an output schema that is not an
    object. ``str``, content blocks, ``None`` and unannotated functions have no schema.

    Attributes:
        schema: JSON Schema of ``structuredContent``, or None.
    """

    def __init__(self, returns: Any, label: str) -> None:
        self.schema: dict[str, Any] | None = None
        self._wrapped = False
        if typing.get_origin(returns) is ToolResult:
            (returns,) = typing.get_args(returns)
        elif _is_plain(returns):
            return
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(returns)
            schema = json_schema(adapter, "serialization")
            if "$ref" in schema:  # a class that contains itself: clients want its type at the top
                schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
            self._wrapped = schema.get("type") != "object"
            if self._wrapped:
                schema = json_schema(TypeAdapter(typed_dict("wrapped", {"result": returns})), "serialization")
        except PydanticUserError as error:
            msg = f"{label}: its return annotation has no JSON Schema. {error}"
            raise ImproperlyConfigured(msg) from error
        self.schema = schema
        self._validate = adapter.validator.validate_python
        self._dump = adapter.serializer.to_python

    def fields(self, value: Any) -> dict[str, Any]:
        """The ``CallToolResult`` for what the function returned.

        Raises:
            pydantic.ValidationError: the value is not what the function's annotation promises.
            ValueError: NaN or an infinity, which JSON does not have.
        """
        if isinstance(value, QuerySet):
            value = list(value)
        if isinstance(value, ToolResult):
            content = [block.to_wire() for block in value.content]
            fields = self._fields(value.structured, value.text, content)
            if value.meta is not None:
                fields["_meta"] = dict(value.meta)
            return fields
        return self._fields(value, None, [])

    def _fields(self, value: Any, text: str | None, content: list[dict[str, Any]]) -> dict[str, Any]:
        structured: dict[str, Any] | None = None
        if self.schema is not None:
            value = self._dump(self._validate(value), mode="json", by_alias=True)
            encoded = _json(value)
            text = encoded if text is None else text
            structured = {"result": value} if self._wrapped else value
        elif isinstance(value, Content):
            content = [value.to_wire(), *content]
        elif _is_blocks(value):
            content = [*(_block(item).to_wire() for item in value), *content]
        elif isinstance(value, str):
            text = value if text is None else text
        elif value is not None:
            encoded = _json(value)
            text = encoded if text is None else text
            structured = value if isinstance(value, dict) else None
        if text is not None:
            content = [{"type": "text", "text": text}, *content]
        fields: dict[str, Any] = {"content": content}
        if structured is not None:
            fields["structuredContent"] = structured
        return fields


def _is_blocks(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and any(isinstance(item, Content) for item in value)


def _block(item: Any) -> Content:
    if isinstance(item, Content):
        return item
    return TextContent(item if isinstance(item, str) else _json(item))


def _json(value: Any) -> str:
    text = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in text or "Infinity" in text:
        from_json(text, allow_inf_nan=False)  # refuses the number, and lets the word pass
    return text


def _is_plain(returns: Any) -> bool:
    """Whether an annotation asks for unstructured content."""
    if returns in (EMPTY, None, type(None), Any, object, str, ToolResult):
        return True
    if isinstance(returns, type):
        return issubclass(returns, Content | str)
    origin, arguments = typing.get_origin(returns), typing.get_args(returns)
    if origin in (list, tuple, Sequence, typing.Union, types.UnionType) and arguments:
        blocks = [argument for argument in arguments if argument not in (None, type(None), Ellipsis)]
        return any(_is_content(block) for block in blocks) and all(_is_plain(block) for block in blocks)
    return False


def _is_content(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, Content)
    return any(_is_content(argument) for argument in typing.get_args(annotation))
