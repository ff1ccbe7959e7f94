"""In-process requests to the site, made for a tool call."""

import io
import json
import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.messages.storage.base import BaseStorage, Message
from django.contrib.sessions.backends.base import SessionBase
from django.core.files.uploadedfile import UploadedFile
from django.core.handlers.wsgi import WSGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    get_script_prefix,
    resolve,
    reverse,
    set_script_prefix,
)
from django.utils import translation
from django.utils.crypto import get_random_string, salted_hmac
from pydantic_core import to_jsonable_python

from django_mcp.core.apps import app_of
from django_mcp.core.context import Context
from django_mcp.core.request import set_user

logger = logging.getLogger("django_mcp")

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WITHOUT_BODY = SAFE | {"DELETE"}
_HINTS: Mapping[str, Mapping[str, bool]] = {
    **{method: {"read_only": True} for method in SAFE},
    "DELETE": {"read_only": False, "destructive": True, "idempotent": True},
    "PUT": {"read_only": False, "destructive": True, "idempotent": True},
    "PATCH": {"read_only": False, "destructive": True},
    "POST": {"read_only": False},
}


def request_options(method: str, options: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return the options of a tool that sends requests.

    They have the hints that fit the HTTP method (RFC 9110, section 9.2), and no transaction: the view has one if it has
    one at its URL.

    Args:
        options: those of the site, which take precedence unless they are None.
        own: further defaults.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "app" in given:
        given["app"] = app_of(given["app"], str(given.get("name") or own.get("name") or "A tool of requests"))
    hints = {} if given.get("read_only") else _HINTS[method]
    return {"atomic": False, **hints, **own, **given}


def row_preview(verb: str, name: str, changes: Iterable[tuple[str, str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the preview of what a request does to a row, as the approver sees it, without redacted values.

    Args:
        verb: ``"create"``, ``"update"`` or ``"delete"``.
        name: of the row.
        changes: field, label, and the values ``"before"`` and ``"after"`` as far as they are known, with ``"computed"``
            if a change of the first does not mean that the row has changed.
    """
    from django_mcp.model_resources.previews import unless_secret  # noqa: PLC0415 - few calls are previewed

    shown = [
        {
            "field": field,
            "label": label,
            **{side: unless_secret(field, sides[side]) for side in ("before", "after") if side in sides},
            **({"computed": True} if sides.get("computed") else {}),
        }
        for field, label, sides in changes
    ]
    return {"verb": verb, "object": name, "changes": shown}


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
Files = Mapping[str, "UploadedFile[Any] | Sequence[UploadedFile[Any]]"]
"""Files by field name. A list sends several files of one field."""
_COPIED_HEADERS = (
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_REAL_IP",
    "HTTP_ACCEPT_LANGUAGE",
    "HTTP_USER_AGENT",
)
"""Headers copied from the MCP request: its origin and preferences, but no credentials."""


@dataclass(frozen=True)
class Call:
    """A request to send to a view.

    Attributes:
        path: URL path, percent-encoded, with the script prefix and without the query.
        query: query parameters. A list repeats its key; None is left out.
        body: a JSON-serializable value, or a dict for forms. None for no body.
        headers: additional headers; ``Accept`` may be replaced.
        files: files by form field name, several in a list. The body is then ``multipart/form-data``.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Files = field(default_factory=dict)


class SiteRequest(WSGIRequest):
    """An in-process request, made for a tool call."""

    @property
    def _cache_update_cache(self) -> bool:
        # The key of ``cache_page`` has the URL and headers such as Cookie and Authorization. This request has no
        # credentials in them, so a page for one user would be served to others.
        return False

    @_cache_update_cache.setter
    def _cache_update_cache(self, value: bool) -> None:
        pass


class EmptySession(SessionBase):
    """A session that lasts for one request. It begins empty and is never saved."""

    def load(self) -> dict[str, Any]:
        return {}

    def exists(self, session_key: str) -> bool:  # noqa: ARG002
        return False

    def create(self) -> None:
        self._session_key = get_random_string(32)

    def save(self, must_create: bool = False) -> None:
        """Do nothing."""

    def delete(self, session_key: str | None = None) -> None:
        """Do nothing."""


class Messages(BaseStorage):
    """Message storage that lasts for one request."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:  # noqa: ARG002
        return [], True

    def _store(self, messages: list[Message], response: Any, *args: Any, **kwargs: Any) -> list[Message]:  # noqa: ARG002
        return []


def site_request(ctx: Context, call: Call) -> HttpRequest:
    """Return a request to the site as the calling user, with the origin of the MCP request.

    It has an empty session that is never saved, message storage, no credentials, and is exempt from CSRF checks.
    """
    content_type, body = _body(call)
    came = ctx.request
    environ: dict[str, Any] = {
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",  # for stdio, whose request has no address
        **{name: came.META[name] for name in _copied() if name in came.META},
        "REQUEST_METHOD": call.method.upper(),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "QUERY_STRING": query_string(call.query),
        "HTTP_ACCEPT": "application/json, text/html;q=0.9, */*;q=0.8",
        "wsgi.url_scheme": came.scheme,
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in call.headers.items()},
    }
    prefix = came.META.get("SCRIPT_NAME", "")
    path = unquote_to_bytes(call.path).decode("latin-1")
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = prefix, path.removeprefix(prefix)
    if content_type:
        environ |= {"CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
    if ctx.user.is_authenticated:
        environ["HTTP_COOKIE"] = f"mcp_caller={_caller(ctx)}"
    return _completed(SiteRequest(environ), ctx)


def _copied() -> Iterator[str]:
    yield from _COPIED_HEADERS
    if settings.SECURE_PROXY_SSL_HEADER:
        yield settings.SECURE_PROXY_SSL_HEADER[0]


def _caller(ctx: Context) -> str:
    # Separates cached pages that vary on ``Cookie``, by caller. An HMAC, and no credential: no page can be planted
    # for another caller.
    who = f"{ctx.principal.kind}\n{ctx.principal.id}"
    return salted_hmac("django_mcp.integrations.requests", who, algorithm="sha256").hexdigest()[:32]


def reverse_url(lookup: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """Return Django's ``reverse``, whatever converters and patterns of the site raise.

    Raises:
        NoReverseMatch: there is no such URL.
    """
    try:
        return reverse(lookup, args=args, kwargs=dict(kwargs or {}))
    except NoReverseMatch:
        raise
    except Exception as error:
        logger.warning("The URL of %r cannot be reversed", lookup, exc_info=True)
        raise NoReverseMatch(str(error)) from error


def resolve_path(path: str) -> ResolverMatch:
    """Return Django's ``resolve``, whatever converters of the site raise.

    Raises:
        Resolver404: no URL matches.
    """
    try:
        return resolve(path)
    except Resolver404:
        raise
    except Exception as error:
        logger.warning("The path %r cannot be resolved", path, exc_info=True)
        raise Resolver404({"path": path}) from error


def _completed(request: SiteRequest, ctx: Context) -> HttpRequest:
    made: Any = request
    own = vars(request).keys() | _UNSHARED_ATTRIBUTES
    set_user(request, ctx.user)
    made.session = EmptySession()
    made._messages = Messages(request)  # noqa: SLF001 - where django.contrib.messages looks
    made._dont_enforce_csrf_checks = True  # noqa: SLF001 - not authenticated by a browser's cookie
    made.LANGUAGE_CODE = translation.get_language()
    try:
        made.resolver_match = resolve_path(request.path_info)
    except Resolver404:
        made.resolver_match = None
    for name, value in ctx.set_on_request.items():  # by context managers, in place of the site's middleware
        if name not in own and not hasattr(SiteRequest, name):
            setattr(made, name, value)
    return request


def stand_in_request(user: Any) -> HttpRequest:
    """Return a GET of the site's front page as a user, without a call, to ask what depends on a request."""
    environ = {"REQUEST_METHOD": "GET", "SERVER_NAME": "localhost", "SERVER_PORT": "80", "PATH_INFO": "/"}
    request: Any = SiteRequest({**environ, "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO()})
    request.user, request.session = user, EmptySession()
    request._messages = Messages(request)  # noqa: SLF001 - where django.contrib.messages looks
    return request  # type: ignore[no-any-return]


def unsaved_superuser() -> Any:
    """Return a user that is in no database and may do everything, to ask what a site offers at most."""
    user: Any = get_user_model()()
    user.is_active = user.is_staff = user.is_superuser = True
    return user


_UNSHARED_ATTRIBUTES = frozenset(
    {"_body", "_files", "_post", "_post_parse_error", "_upload_handlers", "auser", "scope", "user"}
)
"""Attributes of a request that are not for another one: its body, once read, and its caller."""


def query_string(query: Mapping[str, Any]) -> str:
    """Return a URL query string. Lists repeat their key; None is left out."""
    pairs = [(key, text) for key, value in query.items() for text in _texts(value)]
    return urlencode(pairs)


def _texts(value: Any) -> list[str]:
    plain = to_jsonable_python(value)
    if plain is None:
        return []
    if isinstance(plain, list):
        return [text for entry in plain for text in _texts(entry)]
    if isinstance(plain, bool):
        return ["true" if plain else "false"]
    return [json.dumps(plain) if isinstance(plain, dict) else str(plain)]


def _body(call: Call) -> tuple[str, bytes]:
    if call.files or call.content_type.startswith(MULTIPART):
        return _multipart(_fields(call), call.files)
    if call.body is None:
        return "", b""
    if call.content_type.startswith(FORM):
        return call.content_type, urlencode(_fields(call)).encode()
    if isinstance(call.body, bytes):
        return call.content_type, call.body
    return call.content_type, json.dumps(to_jsonable_python(call.body), cls=DjangoJSONEncoder).encode()


def _fields(call: Call) -> list[tuple[str, str]]:
    # Browsers leave out an unchecked box.
    given = {key: value for key, value in (call.body or {}).items() if value is not False}
    return [(key, text) for key, value in given.items() for text in _texts(value)]


def _multipart(fields: Iterable[tuple[str, str]], files: Files) -> tuple[str, bytes]:
    # The boundary is random: a view may show the one it received, and no value may end its own part.
    from django.test.client import encode_multipart  # noqa: PLC0415 - imports 50 modules

    boundary = secrets.token_hex(24)
    data: dict[str, list[Any]] = {}
    for name, text in fields:
        data.setdefault(_quoted(name), []).append(text)
    for name, given in files.items():
        several = [given] if isinstance(given, UploadedFile) else given
        data.setdefault(_quoted(name), []).extend(map(_with_quoted_head, several))
    return f"{MULTIPART}; boundary={boundary}", encode_multipart(boundary, data)


def _with_quoted_head(file: "UploadedFile[Any]") -> "UploadedFile[Any]":
    name, content_type = (None if text is None else _quoted(text) for text in (file.name, file.content_type))
    return UploadedFile(file.file, name, content_type, file.size)


def _quoted(text: str) -> str:
    # Django does not escape these characters in a part's header. Browsers do.
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


@contextmanager
def script_prefix(request: HttpRequest) -> Iterator[None]:
    """Set the script prefix for a request, as Django's handler does. The call has set the language."""
    before = get_script_prefix()
    set_script_prefix(f"{request.META.get('SCRIPT_NAME', '')}/")
    try:
        yield
    finally:
        set_script_prefix(before)
