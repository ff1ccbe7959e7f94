"""Pages whose modules are imported when somebody looks at the admin, and not when the site starts."""

import copy
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import admin
from django.db.models import Model
from django.urls import ResolverMatch, URLPattern
from django.urls.resolvers import RoutePattern
from django.utils.functional import LazyObject, empty, new_method_proxy

if TYPE_CHECKING:
    _LazyObject = LazyObject[Any]
else:
    _LazyObject = LazyObject

Route = tuple[str | None, str]
"""The last part of the name of a URL, and its route; None for a URL without name."""

TABLE: tuple[Route, ...] = (
    ("_changelist", ""),
    ("_add", "add/"),
    ("_history", "<path:object_id>/history/"),
    ("_delete", "<path:object_id>/delete/"),
    ("_change", "<path:object_id>/change/"),
    (None, "<path:object_id>/"),
)
"""Of the pages that Django makes for a model."""


class Deferred(NamedTuple):
    """A ``ModelAdmin`` that is not imported yet.

    Attributes:
        model: the model that it is for.
        module: where its class is.
        name: of the class.
        routes: of its pages. The URLconf has to know them before they are made, for any ``reverse`` reads all of it.
    """

    model: type[Model]
    module: str
    name: str
    routes: Sequence[Route]

    def load(self) -> Any:
        """The class."""
        return getattr(import_module(self.module), self.name)

    def register(self) -> None:
        """Register it at Django's admin site, where it is loaded when somebody looks at it."""
        site = admin.site
        if site.__class__.register is not admin.AdminSite.register:  # a site's own, which may want to see the class
            site.register(self.model, self.load())
            return

        def make(_model: type[Model], at: admin.AdminSite) -> Any:
            return DeferredAdmin(self, at)

        site.register(self.model, make)  # type: ignore[arg-type] # all that Django does with a class is call it


class DeferredAdmin(_LazyObject):
    """Stands for a ``ModelAdmin`` until something is asked of it, and is it from then on.

    Args:
        deferred: what it stands for.
        site: the admin site, in whose registry it is replaced by that.
    """

    def __init__(self, deferred: Deferred, site: admin.AdminSite) -> None:
        super().__init__()
        self.__dict__["_deferred"], self.__dict__["_site"] = deferred, site

    def _setup(self) -> None:
        deferred: Deferred = self.__dict__["_deferred"]
        registry = self.__dict__["_site"]._registry  # noqa: SLF001 - Django has no other way to replace one
        self._wrapped = deferred.load()(deferred.model, self.__dict__["_site"])
        if registry.get(deferred.model) is self:
            registry[deferred.model] = self._wrapped

    @property
    def urls(self) -> list[URLPattern]:
        """Its pages: an admin site asks for them when the URLconf is read."""
        deferred: Deferred = self.__dict__["_deferred"]
        options = deferred.model._meta  # noqa: SLF001 - Django's documented API
        prefix = f"{options.app_label}_{options.model_name}"
        return [
            DeferredPattern(self._page, route, None if name is None else prefix + name)
            for name, route in deferred.routes
        ]

    def _page(self, name: str | None, route: str) -> URLPattern:
        if self._wrapped is empty:
            self._setup()
        (found,) = (each for each in self._wrapped.urls if (each.name, str(each.pattern)) == (name, route))
        pattern: URLPattern = found
        return pattern

    # Those of LazyObject make a new one, without arguments.
    __copy__ = new_method_proxy(copy.copy)
    __deepcopy__ = new_method_proxy(copy.deepcopy)


class DeferredPattern(URLPattern):
    """The URL of a page that is not made before somebody comes for it.

    Args:
        find: gives the page's own pattern, for a name and a route.
        route: as ``django.urls.path`` has it.
        name: of the URL.
    """

    def __init__(self, find: Callable[[str | None, str], URLPattern], route: str, name: str | None) -> None:
        def view(*args: Any, **keywords: Any) -> Any:
            return find(name, route).callback(*args, **keywords)

        super().__init__(RoutePattern(route, name=name, is_endpoint=True), view, name=name)
        self._find = find
        self._route = route

    def resolve(self, path: str) -> ResolverMatch | None:
        """What the page's own pattern finds: with the view itself, and all that decorates it."""
        return self._find(self.name, self._route).resolve(path) if self.pattern.match(path) else None
