"""What the package's pages for all users have in common, those of the authorization server and of approvals."""

import secrets
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""Without ``form-action``: Chromium applies it to the redirect after a form too, and so would block every answer."""


def page(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """A page of ours, with its headers.

    Args:
        request: the request.
        template: below ``django_mcp/``.
        context: what the template needs, beside ``style_nonce``, ``site_name``, ``site_host`` and ``user``.
        status: of the response.
    """
    nonce = secrets.token_urlsafe(16)
    host = urlsplit(settings.BASE_URL or "").netloc or request.get_host()
    site = {"site_name": settings.TITLE or host, "site_host": host, "user": getattr(request, "user", None)}
    context = {"style_nonce": nonce, **site, **context}
    response = TemplateResponse(request, f"django_mcp/{template}", context, status=status)
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.format(nonce=nonce)
    return protect(response)


def protect(response: HttpResponse) -> HttpResponse:
    """Headers for a page on which people agree to things, and for the redirect after it.

    The referrer is kept from other sites only. With ``no-referrer`` browsers send ``Origin: null`` with the form,
    which Django's protection against forged requests has to refuse.
    """
    response["X-Frame-Options"] = "DENY"
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "same-origin"
    return response


def title_of(server: MCPServer) -> str:
    """What an endpoint is called on pages."""
    return str(server.implementation.get("title") or server.implementation["name"])
