"""Operations of REST framework views, and their URLs in the site's URLconf."""

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import URLResolver, get_resolver, get_urlconf
from django.utils.translation import gettext as _
from django.utils.translation import override
from rest_framework.request import Request
from rest_framework.routers import BaseRouter, SimpleRouter
from rest_framework.versioning import NamespaceVersioning, URLPathVersioning
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from django_mcp.integrations import views
from django_mcp.integrations.views import Address, fits_into_path

METHODS = ("get", "post", "put", "patch", "delete")
STANDARD = ("list", "retrieve", "create", "update", "partial_update", "destroy")
"""The standard actions of viewsets."""
_ACTIONS = {
    "get": ("retrieve", "list"),
    "post": ("create",),
    "put": ("update",),
    "patch": ("partial_update",),
    "delete": ("destroy",),
}
"""The actions that each HTTP method of a generic view may perform."""
_GROUPS = re.compile(r"\(\?P<(\w+)>|<(?:\w+:)?(\w+)>")


@dataclass(frozen=True)
class Operation:
    """One HTTP method of a view.

    Attributes:
        method: HTTP method in upper case.
        handler: name of the view's method.
        action: one of ``STANDARD``, or *handler*.
        detail: True if it concerns one row, named in the URL. A guess for views with their own handlers.
        mapping: for viewsets, names of the view's methods by HTTP method.
        initkwargs: arguments of ``as_view``.
        variables: known URL variables other than the row's.
        callback: the result of ``as_view``, if the site passed it; only its own URLs are used then.
    """

    view: type[APIView]
    method: str
    handler: str
    action: str
    detail: bool
    mapping: Mapping[str, str] | None = None
    initkwargs: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    callback: Any = None

    @property
    def decorated(self) -> Any:
        return getattr(self.view, self.handler)

    @property
    def function(self) -> Any:
        """The undecorated handler."""
        written = inspect.unwrap(self.decorated)
        if not getattr(written, "__closure__", None):
            return written
        # @api_view wraps the function in one handler for all methods.
        return inspect.getclosurevars(written).nonlocals.get("func", written)

    @property
    def is_extra(self) -> bool:
        return self.action not in STANDARD

    @property
    def is_safe(self) -> bool:
        return self.method == "GET"

    @property
    def is_own_handler(self) -> bool:
        return str(next(self._undecorated_handlers()).__module__).startswith("rest_framework.")

    @property
    def gets_object(self) -> bool:
        """True if the handler calls the view's ``get_object``, itself or through ``super()``.

        Others may find rows that ``get_object`` does not, such as those in the trash.
        """
        for written in self._undecorated_handlers():
            names = getattr(getattr(written, "__code__", None), "co_names", ())
            if written.__module__.startswith("rest_framework.") or "get_object" in names:
                return hasattr(self.view, "get_object")
            if "super" not in names:
                return False
        return False

    def _undecorated_handlers(self) -> Iterator[Any]:
        """Yield the undecorated handlers of the view's classes, the nearest first.

        For a generic view those of the action, such as ``update``, which REST framework's ``put`` only calls.
        """
        nearest = getattr(inspect.unwrap(self.decorated), "__module__", "")
        is_generic = self.handler in METHODS and nearest.startswith("rest_framework.")
        name = self.action if is_generic else self.handler
        yield from (inspect.unwrap(vars(cls)[name]) for cls in self.view.__mro__ if name in vars(cls))

    def parameters(self) -> Mapping[str, inspect.Parameter]:
        named = inspect.signature(self.function).parameters
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {
            name: variable
            for name, variable in named.items()
            if variable.kind not in kinds and name not in {"self", "request", "format", self.version_variable}
        }

    @property
    def lookup(self) -> str | None:
        """The URL variable that identifies the row; None if there is no single row."""
        if not self.detail:
            return None
        return getattr(self.view, "lookup_url_kwarg", None) or getattr(self.view, "lookup_field", None)

    @property
    def version_variable(self) -> str | None:
        scheme = self.view.versioning_class
        return scheme.version_param if scheme and issubclass(scheme, URLPathVersioning) else None

    def instance(self) -> Any:
        """Return a view instance as it is during a request of an anonymous user.

        ``swagger_fake_view`` is set, as by schema generators.
        """
        made: Any = self.view(**{key: value for key, value in self.initkwargs.items() if key != "schema"})
        request = HttpRequest()
        request.method = self.method
        request.user = AnonymousUser()
        made.request = Request(request)
        made.request.user = request.user
        made.request.version = made.request.versioning_scheme = None
        made.request.accepted_media_type = "application/json"
        made.args, made.kwargs, made.format_kwarg = (), {}, None
        made.swagger_fake_view = True
        if self.mapping is not None:
            made.action_map, made.action = dict(self.mapping), self.handler
        return made


def operations(source: Any) -> Iterator[Operation]:
    """Yield all operations of a router, a view class, or a result of ``as_view`` or ``@api_view``.

    Raises:
        ImproperlyConfigured: *source* is none of these.
    """
    if isinstance(source, BaseRouter):
        for prefix, viewset, basename in source.registry:
            yield from _viewset_operations(viewset, source, prefix, basename)
    elif inspect.isclass(source) and issubclass(source, ViewSetMixin):
        yield from _viewset_operations(source, SimpleRouter(), "", None)
    elif inspect.isclass(source) and issubclass(source, APIView):
        yield from _view_operations(source, {}, None)
    elif getattr(source, "actions", None):
        yield from _mapped(source.cls, source.actions, source.initkwargs, source.initkwargs.get("detail"), (), source)
    elif hasattr(source, "cls"):
        yield from _view_operations(source.cls, source.initkwargs, source)
    else:
        msg = f"drf_tools({source!r}): expected a router, a viewset or a view of Django REST framework."
        raise ImproperlyConfigured(msg)


def _viewset_operations(viewset: Any, router: Any, prefix: str, basename: str | None) -> Iterator[Operation]:
    for route in router.get_routes(viewset):
        mapping = router.get_method_map(viewset, route.mapping)
        named = {} if basename is None else {"basename": basename}
        yield from _mapped(viewset, mapping, {**route.initkwargs, **named}, route.detail, (prefix, route.url))


def _mapped(
    viewset: Any,
    mapping: Mapping[str, str],
    initkwargs: Mapping[str, Any],
    detail: bool | None,
    parts: Sequence[str],
    callback: Any = None,
) -> Iterator[Operation]:
    variables = tuple(first or second for part in parts for first, second in _GROUPS.findall(part))
    for method, handler in mapping.items():
        if method in METHODS:
            about_one = getattr(getattr(viewset, handler), "detail", None) if detail is None else detail
            if about_one is None:
                about_one = handler in STANDARD and handler not in {"list", "create"}
            yield Operation(
                viewset, method.upper(), handler, handler, about_one, mapping, initkwargs, variables, callback
            )


def _view_operations(view: type[APIView], initkwargs: Mapping[str, Any], callback: Any) -> Iterator[Operation]:
    for method in METHODS:
        if hasattr(view, method) and method in view.http_method_names:
            action = next((name for name in _ACTIONS.get(method, ()) if hasattr(view, name)), method)
            about_one = action not in {"list", "create"}
            yield Operation(view, method.upper(), method, action, about_one, None, initkwargs, callback=callback)


class NoSuchURLError(Exception):
    """No URL of the view matches the values.

    Attributes:
        lacking: additional variables of the shortest URL, if all URLs need more values.
    """

    def __init__(self, lacking: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.lacking = lacking


def reverse_operation(operation: Operation, values: Mapping[str, Any], version: str | None) -> tuple[str, Any]:
    """Return the percent-encoded path of an operation in the URLconf, and its resolver match.

    Raises:
        NoSuchURLError: no URL of the view matches these values.
        ImproperlyConfigured: no URL of the view has these variables.
    """
    known = addresses(operation, version)
    longer = [address.variables.keys() - values.keys() for address in known if address.variables.keys() > values.keys()]
    lacking = frozenset(min(longer, key=len, default=()))
    fitting = [address for address in known if address.variables.keys() == values.keys()]
    if not fitting and not lacking:
        with override(None):  # logs are in English
            raise ImproperlyConfigured(missing_url_message(operation, known))
    for address in fitting:
        if not all(map(fits_into_path, values.values())):
            continue
        if (found := address.find(values)) is not None:
            return found
    raise NoSuchURLError(frozenset() if fitting else lacking)


def missing_url_message(operation: Operation, known: Sequence[Address]) -> str:
    urls = [
        _("with %(variables)s") % {"variables": ", ".join(sorted(address.variables)) or _("no variables")}
        for address in known
    ]
    has = _("the URLconf has none (in a namespace a URL needs a name)")
    if urls:
        has = _("its URLs are %(urls)s") % {"urls": "; ".join(urls)}
    return _("No URL leads to %(method)s of %(view)s with what its tool knows: %(has)s.") % {
        "method": operation.method,
        "view": f"{operation.view.__module__}.{operation.view.__qualname__}",
        "has": has,
    }


def relatives(operation: Operation) -> list[str]:
    """Return the sorted names of subclasses and base classes of the view that the URLconf has for the operation."""
    return sorted(
        f"{view.__module__}.{view.__qualname__}"
        for view, known in _addresses_by_view(get_resolver(get_urlconf())).items()
        if view is not operation.view
        and (issubclass(view, operation.view) or issubclass(operation.view, view))
        and any(_serves(address.callback, operation) and _has_named_variables(address.variables) for address in known)
    )


def addresses(operation: Operation, version: str | None) -> list[Address]:
    """Return the URLconf entries of an operation in order, limited to one version if they differ by namespace."""
    every = _addresses_by_view(get_resolver(get_urlconf())).get(operation.view, ())
    known = [
        address for address in every if _serves(address.callback, operation) and _has_named_variables(address.variables)
    ]
    if operation.callback is not None:
        # One class may be at several URLs, with other permissions at each.
        known = [address for address in known if address.callback is operation.callback] or [
            address for address in known if getattr(address.callback, "initkwargs", None) == operation.initkwargs
        ]
    scheme = operation.view.versioning_class
    if version is None or scheme is None or not issubclass(scheme, NamespaceVersioning):
        return known
    return [address for address in known if version in address.namespaces]


def _has_named_variables(variables: Mapping[str, Any]) -> bool:
    return "format" not in variables and not any(map(views.is_unnamed, variables))


def _serves(callback: Any, operation: Operation) -> bool:
    actions = getattr(callback, "actions", None) or {}
    return operation.mapping is None or actions.get(operation.method.lower()) == operation.handler


@lru_cache(maxsize=8)
def _addresses_by_view(resolver: URLResolver) -> Mapping[type, Sequence[Address]]:
    found: defaultdict[type, list[Address]] = defaultdict(list)
    for address in views.addresses(resolver):
        if address.lookup is not None and hasattr(address.callback, "cls"):
            found[address.callback.cls].append(address)
    return found
