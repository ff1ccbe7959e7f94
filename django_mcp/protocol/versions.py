"""The protocol versions spoken here. The one module that names them, below ``revisions/``.

A *modern* version carries version, identity and capabilities in every request; a *legacy* one opens with
``initialize`` (specification, "Versioning and Compatibility", section Terminology).
"""

MODERN: tuple[str, ...] = ("2026-07-28",)
LEGACY: tuple[str, ...] = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

SUPPORTED: tuple[str, ...] = MODERN + LEGACY
"""Newest first. Feeds ``supportedVersions``, the data of error -32022, and ``initialize``."""

ASSUMED = "2025-03-26"
"""What a request without ``MCP-Protocol-Version`` speaks (2025-06-18, Transports, Protocol Version Header)."""

BATCHING: frozenset[str] = frozenset({"2025-03-26"})
"""Where a client may send an array of messages in one POST; taken out again in 2025-06-18."""


def negotiate(requested: object) -> str:
    """The version ``initialize`` answers with: the one asked for if it is legacy, else our newest legacy one."""
    return requested if isinstance(requested, str) and requested in LEGACY else LEGACY[0]
