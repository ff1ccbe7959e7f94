"""``params._meta``: its keys, and the protocol fields of each request (2026-07-28, Overview, General fields)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django_mcp.protocol.errors import InvalidParams

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CLIENT_INFO = PREFIX + "clientInfo"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
SERVER_INFO = PREFIX + "serverInfo"
LOG_LEVEL = PREFIX + "logLevel"
SUBSCRIPTION = PREFIX + "subscriptionId"
OURS = "django-mcp/"
"""Prefix of keys outside the specification. In results, only the package itself sets them."""
APPS = PREFIX + "ui"
"""Identifier of the MCP Apps extension."""
APP_MIME_TYPE = "text/html;profile=mcp-app"
APPS_SETTINGS = {"mimeTypes": [APP_MIME_TYPE]}
"""Settings of the extension in the capabilities of a client that shows HTML."""
APP_HTML = OURS + "html"
"""In a result: the HTML of the tool's template, for the app."""
IDEMPOTENCY_KEY = OURS + "idempotencyKey"
APPROVAL = OURS + "approval"
"""In a result: the call requires approval or was denied. ``{"kind", "approval_id", "url"}``."""
ANTHROPIC = "anthropic/"
"""Prefix of keys in the definition of a tool that Claude Code reads (its documentation, "Connect to tools via MCP")."""
REQUIRES_USER_INTERACTION = ANTHROPIC + "requiresUserInteraction"
"""True: ask the user before every call, whatever they allowed."""
MAX_RESULT_SIZE_CHARS = ANTHROPIC + "maxResultSizeChars"
"""Characters of a result up to which it is shown instead of saved to a file."""
MAX_RESULT_SIZE_LIMIT = 500_000
"""Its maximum."""
ALWAYS_LOAD = ANTHROPIC + "alwaysLoad"
"""True: load the definition at the start, not when a search finds it."""


def of_a_tool(meta: Mapping[str, Any]) -> dict[str, Any]:
    # A tool may pass on the package's own keys from another server.
    return {key: value for key, value in meta.items() if not str(key).startswith(OURS)}


def shows_apps(capabilities: Mapping[str, Any]) -> bool:
    """Return True if a client declares MCP Apps with HTML (MCP Apps, Capability Negotiation)."""
    match capabilities:
        case {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": list(types)}}}:
            return APP_MIME_TYPE in types
    return False


class ClientInfo(NamedTuple):
    """The client's description of itself. Unverified: for display and logs only."""

    name: str = ""
    version: str = ""
    title: str = ""

    @classmethod
    def read(cls, value: Any) -> "ClientInfo":
        """Read an ``Implementation`` object. Members of the wrong type are read as empty."""
        if not isinstance(value, Mapping):
            return UNKNOWN_CLIENT
        name, version, title = value.get("name"), value.get("version"), value.get("title")
        return cls(
            name if isinstance(name, str) else "",
            version if isinstance(version, str) else "",
            title if isinstance(title, str) else "",
        )


UNKNOWN_CLIENT = ClientInfo()


def meta_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def fields(
    version: str, client: Mapping[str, Any], capabilities: Mapping[str, Any], log_level: str | None = None
) -> dict[str, Any]:
    """Return the protocol fields that a client sends in ``_meta``; the inverse of ``Envelope.read``."""
    made: dict[str, Any] = {VERSION: version, CLIENT_INFO: client, CLIENT_CAPABILITIES: dict(capabilities)}
    return made if log_level is None else {**made, LOG_LEVEL: log_level}


class Envelope(NamedTuple):
    """The protocol fields of a request. ``client`` and ``log_level`` are not validated."""

    version: str
    client: Any
    capabilities: Mapping[str, Any]
    log_level: Any = None

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> "Envelope":
        """Read and validate the fields that every self-contained request must have.

        Raises:
            InvalidParams: ``_meta`` or one of its required members is missing or of the wrong type.
        """
        meta = params.get("_meta")
        if type(meta) is not dict:
            raise InvalidParams(f'"params._meta" must be an object with {VERSION!r} and {CLIENT_CAPABILITIES!r}.')
        version, capabilities = meta.get(VERSION), meta.get(CLIENT_CAPABILITIES)
        if not isinstance(version, str):
            raise InvalidParams(f'"params._meta" must have {VERSION!r}, a string.')
        if not isinstance(capabilities, dict):
            raise InvalidParams(f'"params._meta" must have {CLIENT_CAPABILITIES!r}, an object.')
        return cls(version, meta.get(CLIENT_INFO), capabilities, meta.get(LOG_LEVEL))
