"""Views of protected resource metadata (RFC 9728), which name an endpoint's authorization servers."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, get_script_prefix, re_path
from django.urls.resolvers import RegexPattern
from django.utils.cache import get_conditional_response, set_response_etag

from django_mcp.auth.protected_resource import WELL_KNOWN, base_url, has_metadata, issuers, path_of
from django_mcp.core.permissions import in_order
from django_mcp.core.server import MCPServer, servers

_WELL_KNOWN = re.escape(WELL_KNOWN)

OPEN_TO_ALL = {"Access-Control-Allow-Origin": "*"}
"""CORS headers of public documents."""


def document(server: MCPServer, *, slash: bool) -> dict[str, Any]:
    """Return the metadata of an endpoint; *slash* as in its URL, with which clients compare ``resource``."""
    found: dict[str, Any] = {
        "resource": base_url() + path_of(server) + ("/" if slash else ""),
        "authorization_servers": issuers(server),
        "bearer_methods_supported": ["header"],
        "resource_name": server.implementation.get("title") or server.implementation["name"],
    }
    if server.scopes:
        found["scopes_supported"] = in_order(server.scopes).split()
    return found


def public_document(
    make: Callable[[], dict[str, Any] | str], content_type: str = "application/json", max_age: int = 300
) -> Callable[[HttpRequest], HttpResponse]:
    """Return a view of a public document that browsers and programs may keep for *max_age* seconds.

    *make* returns the JSON object or the text.
    """

    @login_not_required
    def view(request: HttpRequest) -> HttpResponse:
        if request.method == "OPTIONS":
            allowed = {"Access-Control-Allow-Methods": "GET, HEAD", "Access-Control-Allow-Headers": "*"}
            return HttpResponse(status=204, headers={**OPEN_TO_ALL, **allowed})
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(status=405, headers={**OPEN_TO_ALL, "Allow": "GET, HEAD, OPTIONS"})
        made = make()
        content = made if isinstance(made, str) else json.dumps(made, cls=DjangoJSONEncoder)
        headers = {
            **OPEN_TO_ALL,
            "Access-Control-Expose-Headers": "ETag",
            "Cache-Control": f"public, max-age={max_age}",
        }
        answer = HttpResponse(content, content_type=content_type, headers=headers)
        set_response_etag(answer)
        found = get_conditional_response(request, etag=answer["ETag"], response=answer) or answer
        for name, value in headers.items():
            found.headers.setdefault(name, value)  # a 304 lacks those of CORS
        return found

    return view


class _MetadataPattern(RegexPattern):
    """The path of a document. Clients insert the site's after the well-known one (RFC 9728, section 3.1).

    That is the request's, so it is not part of the expression: the URLconf may be read before the first request.
    """

    def match(self, path: str) -> Any:
        # The site's own path may be part of the URL (RFC 9728, section 3.1), or not.
        site_path = f"{WELL_KNOWN}{get_script_prefix()}"
        return super().match(path) or super().match(path.replace(site_path, f"{WELL_KNOWN}/", 1))


def metadata_patterns() -> list[URLPattern]:
    """Return URL patterns for endpoints that take tokens; the bare path too if there is only one."""
    found = []
    protected = [server for server in servers() if has_metadata(server)]
    for server in protected:
        name = f"{server.name}-metadata"
        path = rf"^{_WELL_KNOWN}/{re.escape(server.path)}"
        plain, slashed = (public_document(partial(document, server, slash=slash)) for slash in (False, True))
        found.append(URLPattern(_MetadataPattern(rf"{path}$", name=name, is_endpoint=True), plain, name=name))
        found.append(URLPattern(_MetadataPattern(rf"{path}/$", is_endpoint=True), slashed))
    if len(protected) == 1:
        found.append(re_path(rf"^{_WELL_KNOWN}$", plain))
    return found
