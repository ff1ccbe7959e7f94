"""Running a view with its middleware, as Django's request handler does."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from http import HTTPStatus
from types import CellType, FunctionType, MethodType
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction, markcoroutinefunction, sync_to_async
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
    renders: bool = True,
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
        renders: False to leave a ``TemplateResponse`` unrendered, unless there is middleware, which may read it.
    """
    serving = _Serving(view, args, kwargs or {}, instead or view)
    serving.renders = renders or bool(settings_of_package.VIEW_MIDDLEWARE)
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
    attribute of a function or a callable object. Closures share everything else with the original.

    Args:
        replace: returns what stands in place of a function, or None if that is not the one to replace.

    Returns:
        None if there is no such function inside.
    """
    return _redecorated(outer, replace, {})


def replace_class_view(cls: type, stand_in: Any, function: Any) -> Any:
    """Return *stand_in* if a function is the one that ``as_view`` of *cls* made, without the decorators around it."""
    code = getattr(function, "__code__", None)
    if code is None or "cls" not in code.co_freevars:
        return None
    return stand_in if function.__closure__[code.co_freevars.index("cls")].cell_contents is cls else None


def _redecorated(outer: Any, replace: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """*done* has what became of each callable, by its id, so that one that is held twice is replaced twice."""
    if isinstance(outer, type) or not callable(outer):
        return None
    if id(outer) not in done:
        done[id(outer)] = None  # while it is looked at: decorators may hold themselves
        done[id(outer)] = replace(outer) or _copy_around(outer, replace, done)
    return done[id(outer)]


def _copy_around(outer: Any, replace: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    match outer:
        case partial():
            inner = _redecorated(outer.func, replace, done)
            return None if inner is None else partial(inner, *outer.args, **outer.keywords)
        case MethodType():
            inner = _redecorated(outer.__func__, replace, done)
            return None if inner is None else MethodType(inner, outer.__self__)
        case FunctionType():
            return _with_cells(outer, replace, done)
    attributes = _replaced(getattr(outer, "__dict__", {}), replace, done)
    if not attributes:
        return None
    made = copy.copy(outer)
    for name, inner in attributes.items():
        setattr(made, name, inner)
    return made


def _replaced(attributes: Mapping[str, Any], replace: Callable[[Any], Any], done: dict[int, Any]) -> dict[str, Any]:
    found = {name: _redecorated(value, replace, done) for name, value in attributes.items()}
    return {name: inner for name, inner in found.items() if inner is not None}


def _with_cells(outer: FunctionType, replace: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    cells, is_found = [*(outer.__closure__ or ())], False
    for place, cell in enumerate(cells):
        with suppress(ValueError):  # the cell is still empty
            if (inner := _redecorated(cell.cell_contents, replace, done)) is not None:
                cells[place], is_found = CellType(inner), True
    attributes = _replaced(outer.__dict__, replace, done)
    if not is_found and not attributes.keys() - {"__wrapped__"}:  # which says what is decorated, and is not called
        return None
    made = FunctionType(outer.__code__, outer.__globals__, outer.__name__, outer.__defaults__, tuple(cells))
    made.__kwdefaults__ = outer.__kwdefaults__
    made.__dict__.update({**outer.__dict__, **attributes})
    return made


class _Reached(BaseException):
    """The request passed the decorators of a view. No ``except Exception`` of theirs takes it for an error."""


def response_before(
    view: Callable[..., Any], request: HttpRequest, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> HttpResponseBase | None:
    """Return the response that a request gets before the code of its view runs, or None if it gets there.

    Middleware and decorators run, of a class also its ``dispatch`` and what that calls before the handler, such as the
    tests of Django's mixins. What they would do after the view does not run. Handlers of Django's editing views
    run up to ``form_valid`` or the deletion, so that the response may also be the form with its errors.

    The arguments are those of ``run_view``. Call it in a transaction that is rolled back.
    """
    is_reached = False
    asked = _without_handler(view)

    def ask(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_reached
        try:
            return (async_to_sync(asked) if iscoroutinefunction(asked) else asked)(*args, **kwargs)
        except _Reached:
            # Here, inside of the middleware, which counts on a response.
            is_reached = True
            return HttpResponse()

    response = run_view(view, request, args, kwargs, instead=ask)
    return None if is_reached else response


def _without_handler(view: Any) -> Any:
    """Return a view with its decorators, which raises ``_Reached`` in place of running the site's own code."""
    cls = getattr(view, "view_class", None)
    if isinstance(cls, type):
        stand_in = _class_view(cls, getattr(view, "view_initkwargs", {})) if _is_known(view, cls) else _reach
        return replace_decorated(view, partial(replace_class_view, cls, stand_in)) or stand_in
    return _replace_innermost(view)


def _replace_innermost(function: Any) -> Any:
    """Return a function with its decorators, and with one that raises ``_Reached`` inside of them.

    If what a decorator holds is not known, nothing of them is left, so that they do not run the function.
    """
    inner = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inspect.unwrap(inner.func)
    stand_in = _areach if iscoroutinefunction(inner) else _reach
    return replace_decorated(function, lambda found: stand_in if found is inner else None) or stand_in


def _reach(*_: Any, **__: Any) -> Any:
    raise _Reached


async def _areach(*_: Any, **__: Any) -> Any:
    raise _Reached


def _class_view(cls: Any, options: Mapping[str, Any]) -> Any:
    """Return a view like that of ``as_view``, whose instance has no handler of the site."""
    from django.views.generic import edit  # noqa: PLC0415 - imports forms

    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls(**options)
        made.setup(request, *args, **kwargs)
        made.check_throttles = lambda _request: None  # of REST framework: it counts the call itself
        name = str(request.method).lower()
        handler = getattr(cls, name, None)
        if handler is not None and inspect.unwrap(handler).__module__ == edit.__name__:
            made.form_valid = _reach
            made.delete = partial(_reach_row, made)
        elif hasattr(made, name):
            made.__dict__[name] = MethodType(_replace_innermost(handler or getattr(made, name)), made)
        return made.dispatch(request, *args, **kwargs)

    return markcoroutinefunction(view) if cls.view_is_async else view


def _reach_row(view: Any, *_: Any, **__: Any) -> Any:
    # In place of ``DeletionMixin.delete``, which would delete it.
    view.object = view.get_object()
    raise _Reached


def _is_known(view: Any, cls: Any) -> bool:
    """Return True if the handlers of a class are called by the name of the method, by ``View`` or as it does.

    The view sets of REST framework find them in another way. A ``dispatch`` that neither does so nor calls another one
    may be all of the view, and do its work.
    """
    from django.views.generic import View  # noqa: PLC0415 - imports forms

    own = [inspect.unwrap(vars(base)["dispatch"]) for base in cls.__mro__ if "dispatch" in vars(base)]
    names = [getattr(getattr(dispatch, "__code__", None), "co_names", ()) for dispatch in own]
    return (
        issubclass(cls, View)
        and getattr(view, "actions", None) is None
        and all(not {"dispatch", "http_method_names"}.isdisjoint(called) for called in names)
    )


@dataclass
class _Serving:
    """A view, its arguments, what is called for it, and the exception in place of its response."""

    view: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    called: Callable[..., Any]
    error: Exception | None = None
    renders: bool = True


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
        return response if response.is_rendered or not serving.renders else response.render()


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
