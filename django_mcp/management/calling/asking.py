"""Questions of a tool, answered at the terminal or beforehand with ``--answer``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError

from django_mcp.management.calling.values import BadValue, Schema, alternatives, choices, kind_of, resolved, typed

DECLINED = {"action": "decline"}
Write = Callable[[str], object]


def read_answers(given: Sequence[str]) -> dict[str, str]:
    """What ``--answer name=text`` says.

    Raises:
        CommandError: one does not look like that.
    """
    answers = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise CommandError(f"--answer {each!r}: it looks like --answer confirm=yes.")
        answers[name] = text
    return answers


class Person:
    """Who answers.

    Args:
        answers: given beforehand: name of a field -> text.
        yes: say yes to what is to be confirmed, and take defaults, where nothing was given.
        is_there: somebody sits at the terminal.
        write: shows them a line.
        ask: reads a line from them; ``EOFError`` where they end their input.
    """

    def __init__(
        self, answers: Mapping[str, str], write: Write, ask: Callable[[str], str] = input, *, yes: bool, is_there: bool
    ) -> None:
        self._answers, self._yes, self._is_there = answers, yes, is_there
        self._write, self._ask = write, ask

    @property
    def can_open_pages(self) -> bool:
        """Whether it makes sense to show a URL and wait."""
        return self._is_there or self._yes

    def answer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an elicitation.

        Raises:
            CommandError: nobody is there, and what would have to be given is missing.
        """
        self._write(f"\n{params.get('message', '')}")
        if params.get("mode") == "url":
            return self._page(str(params.get("url", "")))
        schema = params.get("requestedSchema") or {}
        fields = schema.get("properties", {})
        if not self._is_there and (missing := [name for name in fields if self._is_missing(name, schema)]):
            raise CommandError(_missing(missing, schema))
        try:
            content = {name: self._field(name, schema) for name in fields}
        except EOFError:
            self._write("Declined.")
            return DECLINED
        return {"action": "accept", "content": {name: value for name, value in content.items() if value is not None}}

    def _page(self, url: str) -> dict[str, Any]:
        self._write(f"Open this page in a browser: {url}")
        if self._yes:
            return {"action": "accept"}
        try:
            self._ask("Press Enter to go on, or Ctrl-D to decline: ")
        except EOFError:
            return DECLINED
        return {"action": "accept"}

    def _is_missing(self, name: str, schema: Schema) -> bool:
        if name in self._answers:
            return False
        field = resolved(schema["properties"][name], schema)
        return name in schema.get("required", ()) and not (self._yes and ("default" in field or _confirms(field)))

    def _field(self, name: str, schema: Schema) -> Any:
        field = resolved(schema["properties"][name], schema)
        if name in self._answers:
            return self._given(name, field, schema)
        if self._yes and (_confirms(field) or "default" in field):
            value = field.get("default", True) if not _confirms(field) else True
            self._write(f"{field.get('title', name)}: {value}")
            return value
        if not self._is_there:
            return field.get("default")
        return self._asked(name, field, schema)

    def _given(self, name: str, field: Schema, schema: Schema) -> Any:
        text = self._answers[name]
        try:
            value = typed(field, text, schema)
        except BadValue as error:
            raise CommandError(f"--answer {name}={text}: {name} must be {error}.") from None
        self._write(f"{field.get('title', name)}: {text}")
        return value

    def _asked(self, name: str, field: Schema, schema: Schema) -> Any:
        """Ask until what is typed fits."""
        is_needed = name in schema.get("required", ())
        options = choices(_items(field, schema))
        if words := field.get("description"):
            self._write(str(words))
        for value, title in options:
            self._write(f"  {value}{'' if title == str(value) else f'  {title}'}")
        hint = "choose one" if options and field.get("type") != "array" else kind_of(field, schema)
        if field.get("type") == "array":
            hint = "several, with commas between"
        default = f" [{_text(field['default'])}]" if "default" in field else "" if is_needed else " [leave out]"
        while True:
            text = self._ask(f"{field.get('title', name)} ({hint}){default}: ").strip()
            if not text and ("default" in field or not is_needed):
                return field.get("default")
            try:
                return typed(field, text, schema)
            except BadValue as error:
                self._write(f"This must be {error}.")


def _items(field: Schema, schema: Schema) -> Schema:
    return resolved(field.get("items", {}), schema) if field.get("type") == "array" else field


def _confirms(field: Schema) -> bool:
    return field.get("type") == "boolean"


def _text(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else str(value)


def _missing(names: Sequence[str], schema: Schema) -> str:
    lines = []
    for name in names:
        field = resolved(schema["properties"][name], schema)
        options = " or ".join(kind_of(_items(each, schema), schema) for each in alternatives(field, schema))
        example = "yes" if _confirms(field) else f"<{options}>"
        lines.append(f"  --answer {name}={example}  {field.get('title', '')}".rstrip())
    listed = "\n".join(lines)
    return f"The tool asks, and nobody is at the terminal to answer. Call it again with\n{listed}"
