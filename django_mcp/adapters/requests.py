"""Requests made in this process, for views that tools call: real ones, as the calling user."""

import io
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.conf import settings
from django.contrib.messages.storage.base import BaseStorage, Message
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_script_prefix, resolve, set_script_prefix
from django.utils import translation
from django.utils.crypto import get_random_string, salted_hmac
from django.utils.log import log_response
from django.utils.module_loading import import_string
from pydantic_core import to_jsonable_python

from django_mcp.core.context import Context
from django_mcp.core.request import set_user

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

Files = Mapping[str, "UploadedFile[Any] | Sequence[UploadedFile[Any]]"]
"""By the name of their field; several of one field in a list."""

_OF_THE_CALL = (
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
"""Where the call came from and for whom to write; never what proves who they are."""


@dataclass(frozen=True)
class Call:
    """What to send to a view.

    Attributes:
        method: ``"GET"``, ``"POST"``, …
        path: as in a URL, percent-encoded, with the script prefix and without the query.
        query: a list gives a repeated key; None is left out.
        body: anything JSON can show; for forms a dict. None for no body.
        content_type: of the body.
        headers: further ones by name; they may replace ``Accept``.
        files: by the name of the form's field, several in a list; the body is then ``multipart/form-data``.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Files = field(default_factory=dict)


class SiteRequest(WSGIRequest):
    """A request that no client sent."""

    @property
    def _cache_update_cache(self) -> bool:
        # ``cache_page`` keeps pages under a key made of the URL and of headers such as Cookie and Authorization. This
        # request has neither, so what it gets for one user must never be kept for another.
        return False

    @_cache_update_cache.setter
    def _cache_update_cache(self, value: bool) -> None:
        pass


class EmptySession(SessionBase):
    """A session of one request. It begins empty and is never saved."""

    def load(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def exists(self, session_key: str) -> bool:  # noqa: ARG002
        """No key is taken."""
        return False

    def create(self) -> None:
        """Have a key, as a saved one would."""
        self._session_key = get_random_string(32)

    def save(self, must_create: bool = False) -> None:
        """Is not done."""

    def delete(self, session_key: str | None = None) -> None:
        """There is nothing to delete."""


class Messages(BaseStorage):
    """``django.contrib.messages`` of one request."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:  # noqa: ARG002
        return [], True

    def _store(self, messages: list[Message], response: Any, *args: Any, **kwargs: Any) -> list[Message]:  # noqa: ARG002
        return []


def site_request(ctx: Context, call: Call) -> HttpRequest:
    """A request to the site as the calling user, from where the MCP request came.

    It has an empty session that is never saved, messages, and no credentials; CSRF protection lets it through.
    """
    content_type, body = _body(call)
    came = ctx.request
    environ: dict[str, Any] = {
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",  # over standard input and output it is this machine
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
    yield from _OF_THE_CALL
    if settings.SECURE_PROXY_SSL_HEADER:
        yield settings.SECURE_PROXY_SSL_HEADER[0]


def _caller(ctx: Context) -> str:
    """A cookie for the key of cached pages that vary on it, where none would mean nobody's page.

    It proves nothing, and nobody can guess it to leave a page there.
    """
    who = f"{ctx.principal.kind}\n{ctx.principal.id}"
    return salted_hmac("django_mcp.adapters.requests", who, algorithm="sha256").hexdigest()[:32]


def _completed(request: SiteRequest, ctx: Context) -> HttpRequest:
    """What the middleware of a site would put on it."""
    made: Any = request
    set_user(request, ctx.user)
    made.session = EmptySession()
    made._messages = Messages(request)  # noqa: SLF001 - where django.contrib.messages looks
    made._dont_enforce_csrf_checks = True  # noqa: SLF001 - no cookie of a browser brought it here
    made.LANGUAGE_CODE = translation.get_language_from_request(request)
    try:
        made.resolver_match = resolve(request.path_info)
    except Resolver404:
        made.resolver_match = None
    return request


def query_string(query: Mapping[str, Any]) -> str:
    """As in a URL. Lists give repeated keys; what is None is left out."""
    pairs = [(key, text) for key, value in query.items() for text in _texts(value)]
    return urlencode(pairs)


def _texts(value: Any) -> list[str]:
    """A value as a URL or a form has it: none, one, or several texts."""
    plain = to_jsonable_python(value)
    if plain is None:
        return []
    if isinstance(plain, list):
        return [text for each in plain for text in _texts(each)]
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
    """A form's fields as a browser sends them: of a box that is not ticked it sends nothing."""
    given = {key: value for key, value in (call.body or {}).items() if value is not False}
    return [(key, text) for key, value in given.items() for text in _texts(value)]


def _multipart(fields: Iterable[tuple[str, str]], files: Files) -> tuple[str, bytes]:
    """Return the content type and the body of a form with files.

    The boundary is random for each request: a view may show the one it received, and no value may end its own part.
    """
    from django.test.client import encode_multipart  # noqa: PLC0415 - 50 modules that only forms with files need

    boundary = secrets.token_hex(24)
    data: dict[str, list[Any]] = {}
    for name, text in fields:
        data.setdefault(_quoted(name), []).append(text)
    for name, given in files.items():
        several = [given] if isinstance(given, UploadedFile) else given
        data.setdefault(_quoted(name), []).extend(map(_with_quoted_head, several))
    return f"{MULTIPART}; boundary={boundary}", encode_multipart(boundary, data)


def _with_quoted_head(file: "UploadedFile[Any]") -> "UploadedFile[Any]":
    name, content_type = (None if each is None else _quoted(each) for each in (file.name, file.content_type))
    return UploadedFile(file.file, name, content_type, file.size)


def _quoted(text: str) -> str:
    """Quote as browsers do what Django writes into the head of a part unchanged."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def run_view(
    view: Callable[..., Any], request: HttpRequest, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> HttpResponseBase:
    """The response of a view, as Django's handler has it but for middleware.

    The view may be async; this is called from synchronous code. Templates are rendered, ``ATOMIC_REQUESTS`` holds, and
    so does ``LoginRequiredMiddleware``, which on the sites that have it stands in for decorators of views.
    ``Http404``, ``PermissionDenied``, ``SuspiciousOperation`` and ``BadRequest`` become bare responses.

    Raises:
        Exception: whatever else the view raised.
    """
    keywords = kwargs or {}
    error: Exception | None = None
    response: Any
    with surroundings(request):
        try:
            response = _kept_out(view, request, args, keywords) or _respond(view, request, args, keywords)
        except (Http404, PermissionDenied, SuspiciousOperation, BadRequest, MultiPartParserError) as raised:
            # Without the error's words: Django does not show them to whoever asks, either.
            response, error = HttpResponse(status=_status(raised)), raised
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        words = f"{response.reason_phrase}: {error}" if error else response.reason_phrase
        trace = None if isinstance(error, Http404) else error
        log_response("%s: %s", words, request.path, response=response, request=request, exception=trace)
    return response  # type: ignore[no-any-return]


def _respond(view: Any, request: HttpRequest, args: Sequence[Any], keywords: Mapping[str, Any]) -> HttpResponseBase:
    handler = BaseHandler()
    atomic: Any = handler.make_view_atomic(view)
    call = async_to_sync(atomic) if iscoroutinefunction(atomic) else atomic
    response: Any = call(request, *args, **keywords)
    handler.check_response(response, view)
    return response if getattr(response, "is_rendered", True) else response.render()  # type: ignore[no-any-return]


def _kept_out(view: Any, request: HttpRequest, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a site that wants a login for each view answers to nobody; None where the view may run."""
    from django.contrib.auth.middleware import LoginRequiredMiddleware  # noqa: PLC0415 - needs settings

    for each in map(import_string, settings.MIDDLEWARE):
        if isinstance(each, type) and issubclass(each, LoginRequiredMiddleware):
            return each(HttpResponse).process_view(request, view, args, keywords)  # type: ignore[arg-type]
    return None


def _status(error: Exception) -> int:
    if isinstance(error, Http404):
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.FORBIDDEN if isinstance(error, PermissionDenied) else HTTPStatus.BAD_REQUEST


@contextmanager
def surroundings(request: HttpRequest) -> Iterator[None]:
    """The language and the script prefix that middleware and handler would set for a request."""
    before = get_script_prefix()
    set_script_prefix(f"{request.META.get('SCRIPT_NAME', '')}/")
    try:
        with translation.override(translation.get_language_from_request(request)):
            yield
    finally:
        set_script_prefix(before)
