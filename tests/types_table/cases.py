"""One line of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django_mcp import MCPServer


@dataclass(frozen=True)
class Case:
    """A type of a source, and a value that does not fit.

    Attributes:
        label: the type, as a site's owner writes it: ``forms.IntegerField(max_value=9)``.
        publish: registers exactly one tool with an argument of the type.
        argument: what that argument is called.
        bad: a value of JSON that does not fit.
    """

    label: str
    publish: Callable[[MCPServer], None]
    argument: str
    bad: Any
