"""In-process requests to the site's views, and conversion of their responses to tool results."""

import copy
import io
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from http import HTTPStatus
from types import CellType, FunctionType
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote_to_bytes, urlencode, urljoin, urlsplit

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import BaseStorage, Message
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import (
    NON_FIELD_ERRORS,
    BadRequest,
    MiddlewareNotUsed,
    PermissionDenied,
    SuspiciousOperation,
)
from django.core.files.uploadedfile import UploadedFile
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections
from django.forms import BaseForm
from django.forms.formsets import BaseFormSet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotFound
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, set_script_prefix
from django.utils import timezone, translation
from django.utils.crypto import get_random_string, salted_hmac
from django.utils.http import parse_header_parameters
from django.utils.log import log_response
from django.utils.module_loading import import_string
from pydantic_core import from_json, to_jsonable_python

from django_mcp.conf import settings as settings_of_package
from django_mcp.core.apps import app_of
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction, tools_alias
from django_mcp.core.request import set_user
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.validation_errors import shortened, written
from django_mcp.protocol.content import AudioContent, Content, EmbeddedResource, ImageContent, ResourceContents

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


MAX_CHARACTERS = 4000

_WORDS = {
    HTTPStatus.BAD_REQUEST: "The request was not accepted.",
    HTTPStatus.UNAUTHORIZED: "Authentication is required for this.",
    HTTPStatus.FORBIDDEN: "You do not have permission to do this.",
    HTTPStatus.NOT_FOUND: "Not found.",
    HTTPStatus.CONFLICT: "The request conflicts with existing data.",
    HTTPStatus.GONE: "No longer available.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The request is too large.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Service temporarily unavailable.",
}
_PLACES = frozenset({"body", "query", "path", "form", "file", "header", "cookie"})
_OF_ALL = frozenset({"__all__", "non_field_errors", "errors"})
_OF_ALL_AS_TEXT = frozenset({"detail", "details", "error", "message", "title"})
"""Names that may also be fields; such a field has a list of errors."""


class ServerError(Exception):
    """A view responded with a server error, or does not support the request. Logged, not shown to callers."""


def error_from_response(response: Any, body: bytes, request: Any) -> ToolError:
    """Return the error for a response with a status of 400 or more.

    Raises:
        ServerError: no caller can correct it: 405, or 5xx except 503.
    """
    status = response.status_code
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        msg = f"{request.path} allows {response.headers.get('Allow', 'no method')}, but the tool sends {request.method}"
        raise ServerError(msg)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.SERVICE_UNAVAILABLE:
        msg = f"{request.method} {request.path} returned status {status}: {body[:MAX_CHARACTERS]!r}"
        raise ServerError(msg)
    words, told = (
        _WORDS.get(status, f"{response.reason_phrase}."),
        error_text(response, body, request.build_absolute_uri()),
    )
    sentences = [told] if words.strip(".").lower() in told.lower() else [words, told]
    if wait := response.headers.get("Retry-After"):
        sentences.append(f"Retry after {wait} seconds." if wait.isdecimal() else f"Retry after {wait}.")
    return ToolError(" ".join(filter(None, sentences)))


def error_text(response: Any, body: bytes, base: str = "") -> str:
    """Return the text of an error response, or "" if its body is not readable text.

    *base* is its URL, to which links are relative.
    """
    kind = media_type(response)
    if is_json(kind):
        try:
            told = "\n".join(dict.fromkeys(_lines(from_json(body), "")))
        except ValueError:
            return ""
    elif "html" in kind:
        from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

        page = read_page(decode_body(response, body), base, settings_of_package.BASE_URL or "")
        told = "\n".join(page.errors) or page.text.lstrip("# ")
    else:
        told = decode_body(response, body) if kind.startswith("text/") else ""
    return shortened(told, MAX_CHARACTERS)


def media_type(response: Any) -> str:
    """Return the media type of a response in lower case without parameters; "" if it has none."""
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def decode_body(response: Any, body: bytes) -> str:
    """Decode a body with the response's charset, or as UTF-8 if the charset is unknown."""
    try:
        return body.decode(response.charset, "replace")
    except LookupError:  # unknown charset
        return body.decode("utf-8", "replace")


def form_errors(response: Any) -> list[str]:
    """Return the errors of the bound forms in a template response's context, one line for each field."""
    context = getattr(response, "context_data", None) or {}
    forms = [form for value in context.values() for form in _forms(value)]
    lines = [
        f"{'' if name == NON_FIELD_ERRORS else f'{form.add_prefix(name)}: '}{' '.join(map(str, errors))}"
        for form in forms
        if form.is_bound
        for name, errors in form.errors.items()
    ]
    sets = (value for value in context.values() if isinstance(value, BaseFormSet) and value.is_bound)
    return lines + [str(error) for formset in sets for error in formset.non_form_errors()]


def _forms(value: Any) -> list[BaseForm]:
    return [value] if isinstance(value, BaseForm) else list(value.forms) if isinstance(value, BaseFormSet) else []


def _lines(value: Any, where: str) -> Iterator[str]:
    match value:
        case {"loc": [*steps], "msg": str(words)}:  # pydantic's format
            yield from _lines(words, written(step for step in steps if step not in _PLACES))
        case dict():
            for key, part in value.items():
                is_of_all = key in _OF_ALL or (key in _OF_ALL_AS_TEXT and not _is_words(part))
                yield from _lines(part, where if is_of_all else f"{where}.{key}".strip("."))
        case list() if any(isinstance(part, dict | list) for part in value):
            for number, part in enumerate(value):
                is_field = where and not (isinstance(part, dict) and "loc" in part)
                yield from _lines(part, f"{where}[{number}]" if is_field else where)
        case None | "" | [] | bool():
            return
        case _:
            words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{where}: {words}" if where else words


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


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
    """Return a cookie value that separates cached pages varying on ``Cookie`` by caller.

    It is no credential, but an HMAC, so that no page can be planted for another caller.
    """
    who = f"{ctx.principal.kind}\n{ctx.principal.id}"
    return salted_hmac("django_mcp.integrations.requests", who, algorithm="sha256").hexdigest()[:32]


def _completed(request: SiteRequest, ctx: Context) -> HttpRequest:
    made: Any = request
    own = vars(request).keys() | _UNSHARED_ATTRIBUTES
    set_user(request, ctx.user)
    made.session = EmptySession()
    made._messages = Messages(request)  # noqa: SLF001 - where django.contrib.messages looks
    made._dont_enforce_csrf_checks = True  # noqa: SLF001 - not authenticated by a browser's cookie
    made.LANGUAGE_CODE = translation.get_language()
    try:
        made.resolver_match = resolve(request.path_info)
    except Resolver404:
        made.resolver_match = None
    for name, value in ctx.set_on_request.items():  # by context managers, in place of the site's middleware
        if name not in own and not hasattr(SiteRequest, name):
            setattr(made, name, value)
    return request


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
    """Return a form's fields. False is left out, as browsers leave out an unchecked box."""
    given = {key: value for key, value in (call.body or {}).items() if value is not False}
    return [(key, text) for key, value in given.items() for text in _texts(value)]


def _multipart(fields: Iterable[tuple[str, str]], files: Files) -> tuple[str, bytes]:
    """Return the content type and body of a form with files.

    The boundary is random for each request: a view may show the one it received, and no value may end its own part.
    """
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
    """Percent-encode what Django does not escape in a part's header, as browsers do."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def run_view(
    view: Callable[..., Any],
    request: HttpRequest,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    instead: Callable[..., Any] | None = None,
) -> HttpResponseBase:
    """Return the response of a view, as Django's handler would with ``VIEW_MIDDLEWARE`` alone.

    The view may be async; call this from synchronous code. ``ATOMIC_REQUESTS`` and an installed
    ``LoginRequiredMiddleware`` are respected. ``Http404``, ``PermissionDenied``, ``SuspiciousOperation`` and
    ``BadRequest`` become empty responses; other exceptions propagate.

    Args:
        view: the view.
        request: made by ``site_request``.
        args: of the view.
        kwargs: likewise.
        instead: is called in place of the view, for which middleware takes it.
    """
    serving = _Serving(view, args, kwargs or {}, instead or view)
    with script_prefix(request), timezone.override(timezone.get_current_timezone()):
        # A time zone that middleware activates must not outlast the request: the next call in the thread may have none.

        response = _middleware(settings_of_package.VIEW_MIDDLEWARE).respond(request, serving)
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        error = serving.error
        words = f"{response.reason_phrase}: {error}" if error else response.reason_phrase
        trace = None if isinstance(error, Http404) else error
        log_response("%s: %s", words, request.path, response=response, request=request, exception=trace)
    return response  # type: ignore[no-any-return]


def replace_decorated(outer: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a copy of a decorated function with another one inside of the same decorators.

    A decorator is known if it holds what it decorates in a closure, as those of Django do, in a ``partial``, or in an
    attribute of a callable object. Closures share everything else with the original.

    Args:
        replace: returns what stands in place of a function, or None if that is not the one to replace.

    Returns:
        None if there is no such function inside.
    """
    return _redecorated(outer, replace, set())


def _redecorated(outer: Any, replace: Callable[[Any], Any], seen: set[int]) -> Any:
    if id(outer) in seen or isinstance(outer, type) or not callable(outer):
        return None
    seen.add(id(outer))
    if (found := replace(outer)) is not None:
        return found
    if isinstance(outer, partial):
        inner = _redecorated(outer.func, replace, seen)
        return None if inner is None else partial(inner, *outer.args, **outer.keywords)
    if isinstance(outer, FunctionType):
        return _with_cells(outer, replace, seen)
    for name, value in getattr(outer, "__dict__", {}).items():
        if (inner := _redecorated(value, replace, seen)) is not None:
            made = copy.copy(outer)
            setattr(made, name, inner)
            return made
    return None


def _with_cells(outer: FunctionType, replace: Callable[[Any], Any], seen: set[int]) -> Any:
    cells, is_found = [*(outer.__closure__ or ())], False
    for place, cell in enumerate(cells):
        with suppress(ValueError):  # the cell is still empty
            if (inner := _redecorated(cell.cell_contents, replace, seen)) is not None:
                cells[place], is_found = CellType(inner), True
    if not is_found:
        return None
    made = FunctionType(outer.__code__, outer.__globals__, outer.__name__, outer.__defaults__, tuple(cells))
    made.__kwdefaults__ = outer.__kwdefaults__
    made.__dict__.update(outer.__dict__)
    return made


@dataclass
class _Serving:
    """A view, its arguments, what is called for it, and the exception in place of its response."""

    view: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    called: Callable[..., Any]
    error: Exception | None = None


_EXPECTED = (Http404, PermissionDenied, SuspiciousOperation, BadRequest, MultiPartParserError)


class _Middleware:
    """A chain of middleware around the views that tools call, as ``BaseHandler`` has it."""

    def __init__(self, middleware: Sequence[Any]) -> None:
        self._handler = BaseHandler()
        self._of_view: list[Any] = []
        self._of_template: list[Any] = []
        self._of_exception: list[Any] = []
        self._chain = self._answering(self._innermost)
        for given in reversed(middleware):
            factory = import_string(given) if isinstance(given, str) else given
            is_async = not getattr(factory, "sync_capable", True)
            try:
                made = factory(sync_to_async(self._chain) if is_async else self._chain)
            except MiddlewareNotUsed:
                continue
            self._chain = self._answering(async_to_sync(made) if is_async else made)
            if hasattr(made, "process_view"):
                self._of_view.insert(0, _sync(made.process_view))
            if hasattr(made, "process_template_response"):
                self._of_template.append(_sync(made.process_template_response))
            if hasattr(made, "process_exception"):
                self._of_exception.append(_sync(made.process_exception))

    def respond(self, request: HttpRequest, serving: _Serving) -> Any:
        """Return the response. Raise an unexpected exception once all middleware has seen a response."""
        made: Any = request
        made._mcp_serving = serving  # noqa: SLF001 - the chain is shared by all requests
        response = self._chain(request)
        if serving.error is not None and not isinstance(serving.error, _EXPECTED):
            raise serving.error
        return response

    def _answering(self, get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
        """Return a function that responds to exceptions, so that middleware outside of it gets a response."""

        @wraps(get_response, updated=())
        def respond(request: HttpRequest) -> Any:
            serving: _Serving = request._mcp_serving  # type: ignore[attr-defined] # noqa: SLF001 - of this module
            serving.error = None  # of an earlier try: middleware may ask again
            try:
                return get_response(request)
            except Exception as error:  # noqa: BLE001 - respond() raises it
                serving.error = error
                # Without the error's message, which Django does not show to clients either.
                return HttpResponse(status=_status(error))

        return respond

    def _innermost(self, request: HttpRequest) -> Any:
        serving: _Serving = request._mcp_serving  # type: ignore[attr-defined] # noqa: SLF001 - of this module
        view, args, keywords = serving.view, serving.args, serving.kwargs
        for hook in (*self._of_view, _check_login_required):
            if (response := hook(request, view, args, keywords)) is not None:
                return response
        atomic: Any = self._handler.make_view_atomic(serving.called)
        call = async_to_sync(atomic) if iscoroutinefunction(atomic) else atomic
        try:
            response = call(request, *args, **keywords)
        except Exception as error:
            response = next(filter(None, (hook(request, error) for hook in self._of_exception)), None)
            if response is None:
                raise
        self._handler.check_response(response, view)
        if not callable(getattr(response, "render", None)):
            return response
        for hook in self._of_template:
            response = hook(request, response)
        return response if response.is_rendered else response.render()


def _sync(hook: Any) -> Any:
    return async_to_sync(hook) if iscoroutinefunction(hook) else hook


@lru_cache(8)
def _middleware(given: Sequence[Any]) -> _Middleware:
    return _Middleware(given)


def _check_login_required(request: HttpRequest, view: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    from django.contrib.auth.middleware import LoginRequiredMiddleware  # noqa: PLC0415 - needs settings

    for middleware in map(import_string, settings.MIDDLEWARE):
        if isinstance(middleware, type) and issubclass(middleware, LoginRequiredMiddleware):
            return middleware(HttpResponse).process_view(request, view, args, keywords)  # type: ignore[arg-type]
    return None


def _status(error: Exception) -> int:
    if not isinstance(error, _EXPECTED):
        return HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, Http404):
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.FORBIDDEN if isinstance(error, PermissionDenied) else HTTPStatus.BAD_REQUEST


@contextmanager
def script_prefix(request: HttpRequest) -> Iterator[None]:
    """Set the script prefix for a request, as Django's handler does. The call has set the language."""
    before = get_script_prefix()
    set_script_prefix(f"{request.META.get('SCRIPT_NAME', '')}/")
    try:
        yield
    finally:
        set_script_prefix(before)


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
    """Return True if a URL is ``LOGIN_URL``, or leads to a ``LoginView`` of this site."""
    with script_prefix(request), suppress(NoReverseMatch):  # the site may have no login page
        login = _split(urljoin(request.build_absolute_uri(), resolve_url(settings.LOGIN_URL)))
        if (parts.netloc, parts.path) == (login.netloc, login.path):
            return True
    if parts.netloc != request.get_host():
        return False
    try:
        view = resolve(parts.path.removeprefix(request.META.get("SCRIPT_NAME", ""))).func
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


logger = logging.getLogger("django_mcp")

MAX_RESPONSE_BYTES = 5 * 2**20
"""Default limit of a response body."""

_TEXTS = frozenset({"application/xml", "application/xhtml+xml", "application/javascript", "application/x-ndjson"})


def tool_result(
    response: HttpResponseBase,
    request: HttpRequest,
    *,
    ctx: Context | None = None,
    max_bytes: int = MAX_RESPONSE_BYTES,
    redirects: int = MAX_REDIRECTS,
) -> ToolResult[Any]:
    """Convert a response to the result of a tool.

    JSON becomes structured content. HTML becomes Markdown; images, audio and other files become content of their type.
    Messages of ``django.contrib.messages`` precede the text.

    Args:
        response: the response; it is read and closed.
        request: its request, made by ``site_request``.
        ctx: the call whose user follows redirects within the site. None reports redirects instead.
        max_bytes: limit of the body.
        redirects: limit of redirects to follow.

    Raises:
        ToolError: a client error (4xx, a form with errors, the login page), or the response is too large.
        ServerError: a server error (5xx).
    """
    try:
        if (url := redirect_url(response, request)) is not None:
            require_no_login(url, request)
            call = redirect_call(url, response, request) if ctx is not None else None
            if ctx is None or call is None:
                return ToolResult(text=_with_messages(request, f"Redirects to {url}"))
            close_response(response)
            return _after(request, ctx, call, partial(_follow, request, ctx, call, max_bytes, redirects))
        with script_prefix(request):
            body = _read(response, max_bytes)
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                raise error_from_response(response, body, request)
            return _shown(response, request, body)
    finally:
        close_response(response)


def close_response(response: HttpResponseBase) -> None:
    """Close a response without sending ``request_finished``, which ``HttpResponse.close`` does.

    The request that carries the MCP call has not finished.
    """
    held: Any = response
    while held._resource_closers:  # noqa: SLF001
        held._resource_closers.pop()()  # noqa: SLF001
    response.closed = True


def _follow(request: Any, ctx: Context, call: Call, most: int, redirects: int) -> ToolResult[Any]:
    if not redirects:
        raise ToolError(f"Too many redirects; the last one was to {call.path}.")
    following: Any = site_request(ctx, call)
    following._messages = request._messages  # noqa: SLF001 - the next page shows them
    found = following.resolver_match
    response = run_view(found.func, following, found.args, found.kwargs) if found else HttpResponseNotFound()
    return tool_result(response, following, ctx=ctx, max_bytes=most, redirects=redirects - 1)


def _after(request: HttpRequest, ctx: Context, call: Call, follow: Callable[[], ToolResult[Any]]) -> ToolResult[Any]:
    """Return the page that a response redirects to. If it fails, the first request has still succeeded."""
    if request.method in SAFE:
        return follow()
    try:
        # In a savepoint if the tool has a transaction, which a failed query would end; else as at its URL.
        return in_transaction(follow) if connections[tools_alias()].in_atomic_block else follow()
    except Exception as error:  # noqa: BLE001 - the tool itself has succeeded
        logger.warning("%s of %s redirects to %s, which failed", request.method, ctx.params.get("name"), call.path)
        told = f" {error}" if isinstance(error, ToolError) else ""
        return ToolResult(
            text=_with_messages(request, f"Done. The page it redirects to, {call.path}, could not be shown.{told}")
        )


def _message_text(message: Any, request: HttpRequest) -> str:
    """Return a message as text. A page shows one that is marked as safe as HTML."""
    if not hasattr(message, "__html__"):
        return str(message)
    from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

    return read_page(str(message), request.build_absolute_uri()).text


def _with_messages(request: HttpRequest, text: str) -> str:
    told = [_message_text(message.message, request) for message in get_messages(request)]
    return "\n\n".join(filter(None, ["\n".join(message for message in told if message not in text), text]))


# Reading


def _read(response: Any, most: int) -> bytes:
    length = response.headers.get("Content-Length", "")
    body = b""
    if not length.isdecimal() or int(length) <= most:
        body = response.content if not response.streaming else _collected(response, most)
        length = str(len(body))
    if int(length) > most:
        raise ToolError(f"The response is larger than the limit of {most:,} bytes. Request less data.")
    return body


def _collected(response: Any, most: int) -> bytes:
    if response.is_async:
        return async_to_sync(_collected_async)(response, most)
    body = bytearray()
    for part in response:
        body += part
        if len(body) > most:
            break
    return bytes(body)


async def _collected_async(response: Any, most: int) -> bytes:
    body = bytearray()
    async for part in response:
        body += part
        if len(body) > most:
            break
    return bytes(body)


# Showing


def _shown(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    kind = media_type(response)
    if not body:
        located = response.headers.get("Location")
        return ToolResult(text=_with_messages(request, f"Done: {located}" if located else "Done."))
    if is_json(kind):
        try:
            return _structured(response, request, body)
        except ValueError:  # not JSON after all
            kind = "text/plain"
    if "html" in kind:
        return ToolResult(text=_with_messages(request, _page(response, request, body)))
    if kind.startswith("text/") or kind in _TEXTS or (kind.endswith("+xml") and not kind.startswith("image/")):
        return ToolResult(text=_with_messages(request, decode_body(response, body)))
    return ToolResult(text=_with_messages(request, "") or None, content=[_block(response, request, kind, body)])


def _structured(response: Any, request: HttpRequest, body: bytes) -> ToolResult[Any]:
    value = from_json(body, allow_inf_nan=False)
    told = _with_messages(request, "")
    text = f"{told}\n\n{decode_body(response, body)}" if told else "null" if value is None else None
    return ToolResult(value, text=text)


def _page(response: Any, request: HttpRequest, body: bytes) -> str:
    from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

    page = read_page(decode_body(response, body), request.build_absolute_uri(), settings_of_package.BASE_URL or "")
    if request.method not in SAFE and (errors := form_errors(response) or page.errors):
        raise ToolError(_with_messages(request, "\n".join(["The form has errors.", *errors])))
    return page.text or "The page has no text."


def _block(response: Any, request: HttpRequest, kind: str, body: bytes) -> Content:
    if kind.startswith("image/"):
        return ImageContent(body, kind)
    if kind.startswith("audio/"):
        return AudioContent(body, kind)
    name = _filename(response)
    uri = f"attachment:///{quote(name, safe='')}" if name else request.build_absolute_uri()
    return EmbeddedResource(ResourceContents(body, uri, kind or "application/octet-stream"))


def _filename(response: Any) -> str:
    _, parameters = parse_header_parameters(response.headers.get("Content-Disposition", ""))
    return parameters.get("filename", "").rpartition("/")[2]
