"""Where a view is in the site's URLconf. A tool sends its request there, and so through what is around the view."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from django.core.exceptions import ImproperlyConfigured
from django.urls import (
    NoReverseMatch,
    Resolver404,
    URLResolver,
    get_resolver,
    get_script_prefix,
    get_urlconf,
    resolve,
    reverse,
)
from django.utils.translation import gettext as _
from django.utils.translation import override
from rest_framework.versioning import NamespaceVersioning

from django_mcp.adapters import paths
from django_mcp.adapters.paths import Address, fits_into_path
from django_mcp.contrib.rest_framework.views import Operation


class NoSuchURLError(Exception):
    """No URL of the view has these values.

    Attributes:
        lacking: the variables that its shortest URL has besides, where each has more than were given.
    """

    def __init__(self, lacking: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.lacking = lacking


def place(operation: Operation, values: Mapping[str, Any], version: str | None) -> tuple[str, Any]:
    """The path to ask, percent-encoded, and what it resolves to.

    Args:
        operation: of a view that is in the URLconf.
        values: of the URL's variables.
        version: of the API.

    Raises:
        NoSuchURLError: none of the view's URLs takes these values.
        ImproperlyConfigured: it has none with these variables.
    """
    known = addresses(operation, version)
    longer = [each.variables.keys() - values.keys() for each in known if each.variables.keys() > values.keys()]
    lacking = frozenset(min(longer, key=len, default=()))
    fitting = [each for each in known if each.variables.keys() == values.keys()]
    if not fitting and not lacking:
        with override(None):  # logs are in English
            raise ImproperlyConfigured(missing(operation, known))
    for each in fitting:
        if not all(map(fits_into_path, values.values())):
            continue
        try:
            path = reverse(each.lookup, kwargs=dict(values))
            match = resolve(_plain(path))
        except (NoReverseMatch, Resolver404):
            continue
        # A value may make a URL that belongs to another view, one that was not published perhaps.
        if match.func is each.callback:
            return path, match
    raise NoSuchURLError(frozenset() if fitting else lacking)


def missing(operation: Operation, known: Sequence[Address]) -> str:
    """For the site's owner: that no URL leads to an operation."""
    urls = [
        _("with %(variables)s") % {"variables": ", ".join(sorted(each.variables)) or _("no variables")}
        for each in known
    ]
    has = _("the URLconf has none (in a namespace a URL needs a name)")
    if urls:
        has = _("its URLs are %(urls)s") % {"urls": "; ".join(urls)}
    return _("No URL leads to %(method)s of %(view)s with the variables that its tool knows: %(has)s.") % {
        "method": operation.method,
        "view": f"{operation.view.__module__}.{operation.view.__qualname__}",
        "has": has,
    }


def addresses(operation: Operation, version: str | None) -> list[Address]:
    """All entries of the URLconf for an operation, in order; of one version where they differ by namespace."""
    every = _by_view(get_resolver(get_urlconf())).get(operation.view, ())
    known = [each for each in every if _leads_to(each.callback, operation) and "format" not in each.variables]
    if operation.callback is not None:
        # One class may be at several URLs, with other permissions at each.
        known = [each for each in known if each.callback is operation.callback] or [
            each for each in known if getattr(each.callback, "initkwargs", None) == operation.initkwargs
        ]
    scheme = operation.view.versioning_class
    if version is None or scheme is None or not issubclass(scheme, NamespaceVersioning):
        return known
    return [each for each in known if version in each.namespaces]


def _leads_to(callback: Any, operation: Operation) -> bool:
    actions = getattr(callback, "actions", None) or {}
    return operation.mapping is None or actions.get(operation.method.lower()) == operation.handler


@lru_cache(maxsize=8)
def _by_view(resolver: URLResolver) -> Mapping[type, Sequence[Address]]:
    """The entries that ``reverse`` can find, by the class of their view."""
    found: defaultdict[type, list[Address]] = defaultdict(list)
    for each in paths.addresses(resolver):
        if each.lookup is not None and hasattr(each.callback, "cls"):
            found[each.callback.cls].append(each)
    return found


def _plain(path: str) -> str:
    """A path as a resolver takes it: decoded, and without the prefix under which the site runs."""
    return "/" + unquote(path).removeprefix(get_script_prefix())
