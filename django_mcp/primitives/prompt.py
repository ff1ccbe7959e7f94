"""Prompts (2026-07-28, Prompts)."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.functional import Promise

from django_mcp.primitives.base import Primitive, sendable
from django_mcp.primitives.completions import Completions, read_completers
from django_mcp.primitives.output import check_size
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.content import Content, PromptMessage


class Prompt(Primitive):
    """A function that builds messages from arguments. ``@prompt`` documents the options.

    Arguments are strings on the wire; pydantic converts them. The function returns a str (one user message), a
    ``PromptMessage``, a content block, or a list of these.

    Args:
        arguments: validates the arguments in place of the signature, for functions with ``**kwargs``.
    """

    kind = "prompt"

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        context_type: type,
        arguments: Arguments | None = None,
        completions: Completions | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, context_type=context_type, **options)
        self.require_plain_name()
        self.arguments = arguments or Arguments(self.function.parameters, self.label)
        self.completers = read_completers(self.arguments, completions, context_type, self.label)
        required = set(self.arguments.schema.get("required", ()))
        entries = []
        for name, schema in self.arguments.schema["properties"].items():
            entry = {"name": name}
            entry.update({key: schema[key] for key in ("title", "description") if key in schema})
            entry["required"] = name in required
            entries.append(entry)
        if entries:
            self.definition["arguments"] = entries

    def fields(self, value: Any, most: int | None = None) -> dict[str, Any]:
        """Return the ``GetPromptResult`` for the function's return value.

        Raises:
            OutputTooLarge: they have more than *most* bytes, or characters of text.
        """
        items = value if isinstance(value, list | tuple) else [value]
        messages = [_message(item).to_wire() for item in items]
        check_size([message["content"] for message in messages], 0, most, most)
        fields: dict[str, Any] = {"messages": sendable(messages)}
        if self.description:
            fields["description"] = str(self.description)  # may be lazy
        return fields


def _message(item: Any) -> PromptMessage:
    if isinstance(item, PromptMessage):
        return item
    if isinstance(item, Promise):
        item = str(item)
    if isinstance(item, str) and not item.strip():
        return PromptMessage("The prompt is empty.")  # model providers reject an empty text
    if isinstance(item, str | Content):
        return PromptMessage(item)
    msg = f"a prompt must return str, PromptMessage or content blocks, not {type(item).__name__}"
    raise TypeError(msg)


def strings_only(arguments: Mapping[str, Any]) -> list[str]:
    # GetPromptRequestParams requires strings.
    return [name for name, value in arguments.items() if not isinstance(value, str)]
