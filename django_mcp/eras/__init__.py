"""How a client is spoken to. Everything that differs between protocol versions is in here and nowhere else.

An *era* takes one decoded POST body and gives one ``Answer``. ``choose`` says which era a body belongs to.
"""

from collections.abc import Mapping
from typing import Any

from django_mcp.eras.base import Answer, Era, Inbound
from django_mcp.eras.legacy import LegacyEra
from django_mcp.eras.modern import ModernEra
from django_mcp.protocol import envelope, headers, versions
from django_mcp.protocol.envelope import meta_of

__all__ = ["LEGACY", "MODERN", "Answer", "Era", "Inbound", "choose"]

MODERN = ModernEra()
LEGACY = LegacyEra()


def choose(header: Mapping[str, str], body: Any) -> Era:
    """The era of a body.

    The header decides, because real clients mix the rest: the connectors of one vendor send a legacy header
    with modern ``_meta`` and expect to be served as the header says.
    """
    version = header.get(headers.VERSION)
    if version is not None:
        version = version.strip()
    if type(body) is dict and body.get("method") == "initialize":
        return MODERN if version in versions.MODERN and _claims_modern(body) else LEGACY
    if version is None:
        return MODERN if _claims_modern(body) else LEGACY
    # A version nobody knows is refused in modern words, which are the ones that can name it.
    return LEGACY if version in versions.LEGACY else MODERN


def _claims_modern(body: Any) -> bool:
    params = body.get("params") if type(body) is dict else None
    return type(params) is dict and meta_of(params).get(envelope.VERSION) in versions.MODERN
