"""The Tasks extension: its name, and whether a client declares it."""

from typing import Any

from django_mcp.protocol.errors import MissingClientCapability

NAME = "io.modelcontextprotocol/tasks"


def is_declared(capabilities: Any) -> bool:
    """Whether a client says of itself that it knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(NAME), dict)


def not_declared(what: str) -> MissingClientCapability:
    """For a client that asks for tasks without it.

    Args:
        what: needs the extension, as the beginning of a sentence.
    """
    message = f"{what} needs the extension {NAME}; declare it among the client's capabilities of the request."
    return MissingClientCapability(message, {"extensions": {NAME: {}}})
