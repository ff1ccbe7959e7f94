"""Running a view with its middleware, as Django's request handler does."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from http import HTTPStatus
from types import CellType, FunctionType
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.conf import settings
from django.core.exceptions import BadRequest, MiddlewareNotUsed, PermissionDenied, SuspiciousOperation
from django.core.handlers.base import BaseHandler
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.log import log_response
from django.utils.module_loading import import_string

from django_mcp.conf import settings as settings_of_package
from django_mcp.integrations.requests import script_prefix


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
        made: Any = request
        made._mcp_serving = serving  # noqa: SLF001 - the chain is shared by all requests
        response = self._chain(request)
        # Only now has all middleware seen a response.
        if serving.error is not None and not isinstance(serving.error, _EXPECTED):
            raise serving.error
        return response

    def _answering(self, get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
        # Middleware outside of it gets a response to each exception.
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


# Middleware is made once, as by Django's handler.
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
