"""From the parameters of a function to JSON Schema 2020-12, and from JSON to checked arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ValidationError

from django_mcp.primitives import simple
from django_mcp.primitives.functions import Parameter
from django_mcp.primitives.sentences import sentences


class ArgumentError(Exception):
    """Arguments that do not fit. Each of ``problems`` is a sentence from which a caller can repair the call."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Arguments:
    """The named arguments of a tool, prompt or resource template.

    Args:
        parameters: of the function.
        label: names the primitive in errors.

    Attributes:
        schema: JSON Schema, an object that allows no further properties.

    Raises:
        ImproperlyConfigured: a parameter's type has no JSON Schema.
    """

    def __init__(self, parameters: Sequence[Parameter], label: str) -> None:
        self.names = tuple(parameter.name for parameter in parameters)
        checked = simple.arguments(parameters)
        if checked is None:
            from django_mcp.primitives import typed  # noqa: PLC0415 - it takes long to import, and not all sites need it

            checked = typed.arguments(parameters, label)
        self.schema = {"type": "object", "properties": {}, **checked.schema}
        self._validate = checked.validate

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to call with.

        Raises:
            ArgumentError: something is missing, unknown or of the wrong type.
        """
        try:
            return self._validate(values)
        except ValidationError as error:
            raise ArgumentError(sentences(error.errors(include_url=False), values, self.schema)) from None
