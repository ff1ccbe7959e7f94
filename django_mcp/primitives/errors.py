"""What a tool raises to be read by the model."""

from collections.abc import Mapping
from typing import Any


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.

    Attributes:
        meta: the result's ``_meta``, for programs.
    """

    meta: Mapping[str, Any] | None = None
