"""From a signature to JSON Schema 2020-12, and from JSON to checked arguments: pydantic does both."""

import copy
import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_jsonable_python
from typing_extensions import NotRequired, Required, TypedDict

from django_mcp.primitives.functions import EMPTY, Parameter


class ArgumentError(Exception):
    """Arguments that do not fit. Each of ``problems`` is a sentence from which a caller can repair the call."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class _Schema(GenerateJsonSchema):
    """Without titles repeated from names: they tell a model nothing and cost tokens in every list."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def json_schema(adapter: TypeAdapter[Any], mode: str) -> dict[str, Any]:
    """The schema of *adapter*, in ``validation`` or ``serialization`` *mode*, by alias."""
    schema = adapter.json_schema(mode=mode, schema_generator=_Schema)  # type: ignore[arg-type]
    schema.pop("title", None)
    return schema


class Arguments:
    """The named arguments of a tool, prompt or resource template.

    They become a ``TypedDict``, so that a parameter may have any name and one that is left out stays out: then
    Python's own default applies.

    Attributes:
        schema: JSON Schema, an object that allows no further properties.
    """

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self.names = tuple(parameter.name for parameter in parameters)
        fields = {parameter.name: _field(parameter) for parameter in parameters}
        typed = TypedDict(f"{name}_arguments", fields)  # type: ignore[operator]
        typed.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        adapter: TypeAdapter[Any] = TypeAdapter(typed)
        self.schema = {"type": "object", "properties": {}, **json_schema(adapter, "validation")}
        self._validate = adapter.validator.validate_python

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to call with.

        Raises:
            ArgumentError: something is missing, unknown or of the wrong type.
        """
        try:
            return self._validate(values)  # type: ignore[no-any-return]
        except ValidationError as error:
            known = list(self.schema["properties"])
            problems = [_sentence(detail, known) for detail in error.errors(include_url=False, include_context=False)]
            raise ArgumentError(problems[:20]) from None


def _field(parameter: Parameter) -> Any:
    annotation, extra = parameter.annotation, {}
    if parameter.description and not _says(annotation, "description"):
        extra["description"] = parameter.description
    annotation = _without_default(annotation)
    if parameter.default is EMPTY:
        return Required[Annotated[annotation, Field(**extra)]]  # type: ignore[arg-type]
    try:
        schema = {"default": to_jsonable_python(parameter.default)}
    except (PydanticSerializationError, ValueError):
        schema = {}
    return NotRequired[Annotated[annotation, Field(**extra, json_schema_extra=schema)]]  # type: ignore[arg-type]


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return tuple(getattr(annotation, "__metadata__", ()))


def _says(annotation: Any, attribute: str) -> bool:
    return any(isinstance(item, FieldInfo) and getattr(item, attribute) for item in _metadata(annotation))


def _without_default(annotation: Any) -> Any:
    """A ``TypedDict`` has no defaults: what stands in ``Field(default=…)`` is told in the schema instead."""
    items = _metadata(annotation)
    if not any(isinstance(item, FieldInfo) and not item.is_required() for item in items):
        return annotation
    bare: list[Any] = []
    for item in items:
        if isinstance(item, FieldInfo):
            item = copy.copy(item)  # noqa: PLW2901
            item.default, item.default_factory = PydanticUndefined, None
            item._attributes_set = {  # noqa: SLF001
                key: value for key, value in item._attributes_set.items() if key not in {"default", "default_factory"}  # noqa: SLF001
            }
        bare.append(item)
    return Annotated[(annotation.__origin__, *bare)]


def _sentence(detail: Any, known: Sequence[str]) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return f"Missing argument {where!r}."
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        close = difflib.get_close_matches(where, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        offer = f"It takes {', '.join(map(repr, known))}." if known else "It takes no arguments."
        return f"Unknown argument {where[:100]!r}.{hint} {offer}"
    given = repr(detail["input"])
    shown = given if len(given) <= 80 else given[:77] + "…"  # noqa: PLR2004
    return f"Argument {where!r}: {detail['msg']} (it was {shown})."
