"""Where a response leads: to a page of this site, to its login, or elsewhere."""

from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, parse_qs, urljoin, urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url

from django_mcp.adapters.methods import SAFE
from django_mcp.adapters.requests import Call, surroundings
from django_mcp.primitives.tool import ToolError

MOST_REDIRECTS = 5

_AS_GET = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER})
_AS_IT_WAS = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})


def target(response: HttpResponseBase, request: HttpRequest) -> str | None:
    """The absolute URL that a response leads to, without a fragment; None where it leads nowhere."""
    if response.status_code not in _AS_GET | _AS_IT_WAS or not (location := response.headers.get("Location")):
        return None
    try:
        return urlsplit(urljoin(request.build_absolute_uri(), location))._replace(fragment="").geturl()
    except ValueError:  # as of "http://["
        return location


def require_no_login(url: str, request: Any) -> None:
    """Refuse what a browser would be sent to the login page for.

    Raises:
        ToolError: *url* leads there, to come back afterwards; or nobody is signed in, and it is the login page.
    """
    parts = _split(url)
    own = {request.get_full_path(), request.build_absolute_uri()}
    leads_back = any(value in own for values in parse_qs(parts.query).values() for value in values)
    if request.user.is_authenticated:
        if leads_back:
            raise ToolError("You are not allowed to do this.")
    elif leads_back or parts.path == _login_path(request):
        raise ToolError("This needs a caller who is signed in.")


def _login_path(request: HttpRequest) -> str:
    with surroundings(request):
        return urlsplit(resolve_url(settings.LOGIN_URL)).path


def next_call(url: str, response: HttpResponseBase, request: HttpRequest) -> Call | None:
    """The request for *url* where it is of this site and to be asked for with GET; None for any other."""
    parts = _split(url)
    is_here = parts.scheme in {"http", "https"} and parts.netloc == request.get_host()
    if not is_here or (response.status_code in _AS_IT_WAS and request.method not in SAFE):
        return None
    return Call("GET", parts.path or "/", parse_qs(parts.query, keep_blank_values=True))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")
