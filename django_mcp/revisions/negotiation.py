"""Choice of the protocol revision that serves a request."""

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol import headers, versions
from django_mcp.protocol import meta as envelope
from django_mcp.protocol.meta import meta_of
from django_mcp.revisions.base import Revision
from django_mcp.revisions.legacy.handler import LegacyRevision
from django_mcp.revisions.modern.handler import ModernRevision

MODERN = ModernRevision()
LEGACY = LegacyRevision()


def choose(header: Mapping[str, str], body: Any) -> Revision:
    """Return the revision for a body.

    The header decides, because some clients send a legacy header with modern ``_meta`` and expect legacy responses.
    """
    version = header.get(headers.VERSION)
    if version is not None:
        version = version.strip()
    if type(body) is dict and body.get("method") == "initialize":
        return MODERN if version in versions.MODERN and _claims_modern(body) else LEGACY
    if version is None:
        return MODERN if _claims_modern(body) else LEGACY
    # Only the modern revision has an error for unknown versions.
    return LEGACY if version in versions.LEGACY else MODERN


def effective_version(body: Any, agreed: str | None) -> str:
    """Return the version of a body without headers; *agreed* is the one negotiated by ``initialize``.

    A request with modern ``_meta`` is modern whatever was negotiated (2026-07-28, Versioning, Backward Compatibility).
    """
    params = body.get("params") if type(body) is dict else None
    meta = meta_of(params) if type(params) is dict else {}
    version = meta.get(envelope.VERSION)
    if isinstance(version, str):
        return version
    if agreed is None and (envelope.VERSION in meta or envelope.CLIENT_CAPABILITIES in meta):
        return versions.MODERN[0]  # reports what is missing
    return agreed or versions.LEGACY[0]


def _claims_modern(body: Any) -> bool:
    params = body.get("params") if type(body) is dict else None
    return type(params) is dict and meta_of(params).get(envelope.VERSION) in versions.MODERN
