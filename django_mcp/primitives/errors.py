"""What is raised to be read by the model, or by a person."""

from collections.abc import Mapping, Sequence
from typing import Any


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.

    Attributes:
        meta: the result's ``_meta``, for programs. Keys that begin with ``django-mcp/`` are left out.
        is_of_package: the package itself raised it, and its ``meta`` is sent whole.
    """

    meta: Mapping[str, Any] | None = None
    is_of_package = False


class FormError(Exception):
    """What was filled in does not fit. Each of ``problems`` is a sentence from which a person can correct it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)
