"""The webhook: one signed POST for each ticket, as Standard Webhooks has it (https://www.standardwebhooks.com)."""

import base64
import binascii
import datetime
import hashlib
import hmac
import json
import time
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.approvals.about import page_url, requester
from django_mcp.approvals.posting import post
from django_mcp.conf import settings
from django_mcp.core.redaction import redacted
from django_mcp.models import Approval

KIND = "approval.requested"
PREFIX = "whsec_"
MOST_BYTES = 256 * 1024
"""Of a body. Where arguments and preview make it larger, they are on the page only."""


def send(approval: Approval) -> None:
    """Send it.

    Raises:
        ImproperlyConfigured: the settings have no address or no secret.
        Exception: it was not accepted; see ``post``.
    """
    if settings.APPROVAL_WEBHOOK is None or not settings.APPROVAL_WEBHOOK_SECRET:
        raise ImproperlyConfigured("DJANGO_MCP has no APPROVAL_WEBHOOK with an APPROVAL_WEBHOOK_SECRET.")
    body = body_of(approval)
    number = f"msg_{approval.ticket}"  # the same each time it is tried, so that receivers know it again
    now = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "django_mcp",
        "webhook-id": number,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(key_of(settings.APPROVAL_WEBHOOK_SECRET), number, now, body),
    }
    post(settings.APPROVAL_WEBHOOK, body, headers)


def signature(key: bytes, number: str, timestamp: int, body: bytes) -> str:
    """What the header ``webhook-signature`` says."""
    digest = hmac.new(key, f"{number}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """The key that a secret stands for: Base64 behind ``whsec_``, else its own bytes.

    Raises:
        ValueError: what is behind ``whsec_`` is no Base64.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("What is behind whsec_ is no Base64.")
    return key


def body_of(approval: Approval) -> bytes:
    """What is sent, as JSON."""
    data = {
        "ticket": approval.ticket,
        "endpoint": approval.server,
        "tool": approval.tool,
        "requester": requester(approval),
        "client": approval.client,
        "client_id": approval.client_id or None,
        # Not what the page shows: these leave the site, and nobody decides by them alone.
        "arguments": redacted(None, approval.arguments, longest=None, whole=None),
        "preview": redacted(None, approval.preview, longest=None, whole=None),
        "url": page_url(approval) or None,
        "expires": _moment(approval.expires),
    }
    body = _encoded(approval, data)
    if len(body) > MOST_BYTES:
        body = _encoded(approval, {**data, "arguments": None, "preview": None})
    return body


def _encoded(approval: Approval, data: dict[str, Any]) -> bytes:
    message = {"type": KIND, "timestamp": _moment(approval.created), "data": data}
    return json.dumps(message, separators=(",", ":")).encode()


def _moment(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
