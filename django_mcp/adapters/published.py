"""A view as a tool asks it: its address, its arguments, and the request that is made of them."""

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DEFAULT_DB_ALIAS
from django.http import HttpResponseNotFound

from django_mcp.adapters.methods import METHODS, WITHOUT_BODY
from django_mcp.adapters.paths import Route
from django_mcp.adapters.requests import Call, run_view, site_request, surroundings
from django_mcp.adapters.responses import tool_result
from django_mcp.core.context import Context
from django_mcp.core.signatures import optional
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult


class Published:
    """A view and how a tool asks it. See ``view_tool`` for the arguments."""

    def __init__(
        self,
        view: Any,
        path: str | None,
        method: str,
        arguments: Mapping[str, Any],
        query: frozenset[str],
        content_type: str,
        follow: bool,
        max_response_bytes: int,
    ) -> None:
        if not (isinstance(view, str) or callable(view)):
            msg = f"view_tool takes the name of a URL, or a view, not {view!r}."
            raise ImproperlyConfigured(msg)
        if method not in METHODS:
            msg = f"view_tool({view!r}): there is no method {method!r}; use one of {', '.join(sorted(METHODS))}."
            raise ImproperlyConfigured(msg)
        if unknown := query - arguments.keys():
            msg = f"view_tool({view!r}): query names {', '.join(sorted(unknown))}, which arguments has not."
            raise ImproperlyConfigured(msg)
        self.view, self._path, self.method, self.arguments = view, path, method, arguments
        self._query, self._content_type, self._follow = query, content_type, follow
        self._max_bytes = max_response_bytes
        if path is not None:
            self._check()

    @cached_property
    def route(self) -> Route:
        """Read from the URLconf when it is first wanted."""
        return Route(self.view, self._path)

    def forget(self) -> None:
        """Read the URLconf anew."""
        vars(self).pop("route", None)

    def _check(self) -> None:
        """Whether the view has the method.

        Raises:
            ImproperlyConfigured: it has not, or there is no such view.
        """
        cls = getattr(self.route.callback, "view_class", None)
        if cls is not None and not hasattr(cls, self.method.lower()) and self.method != "HEAD":
            msg = f"view_tool({self.view!r}): {cls.__name__} does not take {self.method}."
            raise ImproperlyConfigured(msg)

    def parameters(self) -> list[Parameter]:
        """The arguments: variables of the path, then the others.

        Raises:
            ImproperlyConfigured: nothing leads to the view, or what leads there does not take the method.
        """
        self._check()
        variables = [self._declared(each.name, each) for each in self.route.parameters()]
        names = {each.name for each in variables}
        return [*variables, *(self._declared(name, None) for name in self.arguments if name not in names)]

    def _declared(self, name: str, variable: Parameter | None) -> Parameter:
        if name not in self.arguments:
            assert variable is not None  # noqa: S101
            return variable
        given = self.arguments[name]
        annotation, default = given if isinstance(given, tuple) else (given, EMPTY)
        if variable is not None and not variable.required and default is EMPTY:
            annotation, default = optional(annotation), None
        return Parameter(name, annotation, default, None)

    @property
    def words(self) -> str:
        """The docstring of the view."""
        callback = self.route.callback
        cls = getattr(callback, "view_class", None)
        if cls is None:
            return inspect.getdoc(callback) or ""
        own = cls.__doc__ if cls.__doc__ and cls.__doc__ is not _inherited(cls) else None
        return inspect.cleandoc(own or "")

    @property
    def is_atomic(self) -> bool:
        """Whether a transaction may be around it: the view may say that it wants none."""
        return DEFAULT_DB_ALIAS not in getattr(self.route.callback, "_non_atomic_requests", ())

    def __call__(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """Ask the view."""
        values = {name: value for name, value in given.items() if value is not None}
        variables = self.route.variables
        others = {name: value for name, value in values.items() if name not in variables}
        with surroundings(ctx.request):  # a path is of one language, and found in that one alone
            path = self.route.path({name: value for name, value in values.items() if name in variables})
            request = site_request(ctx, self._call(path, others))
            found = self.route.match(request)
        response = run_view(found.func, request, found.args, found.kwargs) if found else HttpResponseNotFound()
        followed = ctx if self._follow else None
        return tool_result(response, request, ctx=followed, max_bytes=self._max_bytes)

    def _call(self, path: str, values: Mapping[str, Any]) -> Call:
        if self.method in WITHOUT_BODY:
            return Call(self.method, path, values)
        query = {name: value for name, value in values.items() if name in self._query}
        rest = {name: value for name, value in values.items() if name not in self._query}
        files = {name: SimpleUploadedFile(name, value) for name, value in rest.items() if isinstance(value, bytes)}
        body = {name: value for name, value in rest.items() if name not in files}
        return Call(self.method, path, query, body, self._content_type, files=files)


def _inherited(cls: type) -> str | None:
    """What Django's own classes say of themselves, which is nothing about the site."""
    return next((base.__doc__ for base in cls.__mro__[1:] if base.__doc__), None)
