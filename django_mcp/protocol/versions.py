"""The supported protocol versions, and version negotiation. Outside ``revisions``, only this module names versions.

A *modern* version has its version, identity and capabilities in every request; a *legacy* one starts with
``initialize`` (specification, "Versioning and Compatibility", section Terminology).
"""

MODERN: tuple[str, ...] = ("2026-07-28",)
LEGACY: tuple[str, ...] = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

SUPPORTED: tuple[str, ...] = MODERN + LEGACY
"""Newest first. Used for ``supportedVersions``, the data of error -32022, and ``initialize``."""

ASSUMED = "2025-03-26"
"""The version of requests without ``MCP-Protocol-Version`` (2025-06-18, Transports, Protocol Version Header)."""

BATCHING: frozenset[str] = frozenset({"2025-03-26"})
"""Versions in which a POST may contain an array of messages; 2025-06-18 removed it."""


def negotiate(requested: object) -> str:
    return requested if isinstance(requested, str) and requested in LEGACY else LEGACY[0]
