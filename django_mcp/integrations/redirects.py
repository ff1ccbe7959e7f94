"""Redirects of the site's views: to the login page, within the site, elsewhere."""

from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, parse_qs, urljoin, urlsplit

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import Resolver404

from django_mcp.integrations.requests import SAFE, Call, resolve_path, script_prefix
from django_mcp.primitives.base import ToolError

MAX_REDIRECTS = 5
_AS_GET = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER})
_AS_IT_WAS = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})


def redirect_url(response: HttpResponseBase, request: HttpRequest) -> str | None:
    """Return the absolute URL that a response redirects to, without fragment; None if it is no redirect."""
    if response.status_code not in _AS_GET | _AS_IT_WAS or not (location := response.headers.get("Location")):
        return None
    try:
        return urlsplit(urljoin(request.build_absolute_uri(), location))._replace(fragment="").geturl()
    except ValueError:  # such as "http://["
        return location


def require_no_login(url: str, request: Any) -> None:
    """Raise ToolError if a redirect leads to the login page, as that of ``login_required`` does.

    That is: *url* is ``LOGIN_URL`` or a ``LoginView`` and has the current URL as a query parameter, or any page that
    has it as ``next``. For anonymous users ``LOGIN_URL`` is enough. Other pages may have the current URL in a parameter
    too, such as the next step of a wizard, or a payment provider, which leads back to it.
    """
    parts = _split(url)
    own = {request.get_full_path(), request.build_absolute_uri()}
    back = {name for name, values in parse_qs(parts.query).items() if own.intersection(values)}
    is_login = _is_login(parts, request)
    if REDIRECT_FIELD_NAME not in back and not (is_login and (back or not request.user.is_authenticated)):
        return
    if request.user.is_authenticated:
        raise ToolError("You do not have permission to do this.")
    raise ToolError("Authentication is required for this.")


def _is_login(parts: SplitResult, request: HttpRequest) -> bool:
    # The site may have no login page, or patterns that Django cannot reverse.
    with script_prefix(request), suppress(Exception):
        login = _split(urljoin(request.build_absolute_uri(), resolve_url(settings.LOGIN_URL)))
        if (parts.netloc, parts.path) == (login.netloc, login.path):
            return True
    if parts.netloc != request.get_host():
        return False
    try:
        view = resolve_path(parts.path.removeprefix(request.META.get("SCRIPT_NAME", ""))).func
    except Resolver404:
        return False
    from django.contrib.auth.views import LoginView  # noqa: PLC0415 - imports forms and models

    cls = getattr(view, "view_class", None)
    return isinstance(cls, type) and issubclass(cls, LoginView)


def redirect_call(url: str, response: HttpResponseBase, request: HttpRequest) -> Call | None:
    """Return the GET request that follows a redirect to *url*; None if another site or method is required."""
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
