"""``view_tool``: Django views as tools, addressed through the URLconf."""

import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Annotated, Any
from urllib.parse import quote, unquote
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseNotFound
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
    get_script_prefix,
)
from django.urls import path as url_path
from django.urls.converters import IntConverter, PathConverter, SlugConverter, StringConverter, UUIDConverter
from django.urls.resolvers import RegexPattern
from django.utils.http import RFC3986_SUBDELIMS, escape_leading_slashes
from django.utils.regex_helper import normalize
from django.utils.text import camel_case_to_spaces
from pydantic import Field, TypeAdapter, WithJsonSchema

from django_mcp.core.context import Context
from django_mcp.core.decorators import register_at
from django_mcp.core.late_tools import LateTool
from django_mcp.core.server import Where, every_server
from django_mcp.core.signatures import function, optional, shaped
from django_mcp.integrations.handler import run_view
from django_mcp.integrations.requests import (
    FORM,
    METHODS,
    WITHOUT_BODY,
    Call,
    request_options,
    resolve_path,
    reverse_url,
    script_prefix,
    site_request,
)
from django_mcp.integrations.results import MAX_RESPONSE_BYTES, tool_result
from django_mcp.primitives.base import Primitive, check_options
from django_mcp.primitives.function import EMPTY, Parameter, own_docstring
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError, json_schema, with_one_type
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import shown

logger = logging.getLogger("django_mcp")

_ANNOTATIONS: Mapping[type, Any] = {
    IntConverter: Annotated[int, Field(ge=0)],
    StringConverter: Annotated[str, Field(min_length=1, pattern="^[^/]+$")],
    SlugConverter: Annotated[str, Field(pattern="^[-a-zA-Z0-9_]+$")],
    PathConverter: Annotated[str, Field(min_length=1)],
    UUIDConverter: UUID,
}


_UNFIT = re.compile(r"(^|[/\\])\.\.?($|[/\\])|[\x00-\x1f\x7f]")
_UNNAMED = re.compile(r"_(\d+)")
"""Names of unnamed groups in ``Address.variables``: ``_0``, ``_1`` and so on."""


@dataclass(frozen=True)
class Address:
    """A URL pattern that leads to a view, with the resolvers that include it.

    Attributes:
        names: names for ``reverse``, with namespaces.
        namespaces: those that include it, outermost first.
        lookup: argument of ``reverse`` for exactly this pattern, or None.
        variables: converters of the variable parts; None for a group of a regular expression. Unnamed groups are called
            ``_0``, ``_1`` and so on.
        required: variables without which no URL matches.
        chain: the pattern, after the resolvers that include it.
    """

    names: frozenset[str]
    namespaces: tuple[str, ...]
    lookup: Any
    callback: Callable[..., Any]
    variables: Mapping[str, Any]
    required: frozenset[str]
    chain: Sequence[URLPattern | URLResolver] = field(repr=False)

    @classmethod
    def of(cls, chain: Sequence[URLPattern | URLResolver]) -> "Address":
        """Return the address of the last pattern of a chain of resolvers.

        Raises:
            ValueError: Django cannot reverse one of the patterns, such as one with flags.
        """
        *above, last = chain
        assert isinstance(last, URLPattern)  # noqa: S101
        inside = [resolver_ for resolver_ in above if isinstance(resolver_, URLResolver) and resolver_.namespace]
        names = {last.name} if last.name else set[str]()
        for resolver_ in reversed(inside):
            names = {
                f"{outer}:{name}" for outer in {resolver_.namespace, resolver_.app_name} if outer for name in names
            }
        namespaces = tuple(str(resolver_.namespace) for resolver_ in inside)
        lookup = ":".join((*namespaces, last.name)) if last.name else None if namespaces else last.callback
        variables: dict[str, Any] = {}
        required = frozenset[str]()
        for part in chain:
            before = sum(map(is_unnamed, variables))
            possible = [
                {_numbered(name, before): name for name in parameters}
                for _, parameters in normalize(part.pattern.regex.pattern)
            ]
            every = {name: own for variables in possible for name, own in variables.items()}
            variables |= {name: part.pattern.converters.get(own) for name, own in sorted(every.items())}
            required |= frozenset.intersection(*map(frozenset, possible))
        return cls(frozenset(names), namespaces, lookup, last.callback, variables, required, chain)

    def find(self, values: Mapping[str, Any]) -> tuple[str, ResolverMatch] | None:
        """Return the percent-encoded path with these values, and its resolver match; None if no URL matches them.

        Django's ``reverse`` fails for all URLs of a name, or of the site, if it cannot read one of them: it joins the
        patterns of a URL to one expression, which may name a group twice.
        """
        for path in self._paths(values):
            with suppress(Resolver404):
                match = resolve_path("/" + unquote(path).removeprefix(get_script_prefix()))
                # A value may produce a URL of another view, possibly an unpublished one.
                if match.func is self.callback:
                    return path, match
        return None

    def _paths(self, values: Mapping[str, Any]) -> Iterator[str]:
        with suppress(NoReverseMatch):
            yield reverse_url(self.lookup, kwargs=values)
        texts = {}
        for name, value in values.items():
            try:
                converter = self.variables.get(name)
                texts[name] = str(value) if converter is None else converter.to_url(value)
            except Exception:  # noqa: BLE001 - reverse_url has logged it
                return
        for parts in product(*(normalize(part.pattern.regex.pattern) for part in self.chain)):
            if {name for _, names in parts for name in names} == values.keys():
                path = get_script_prefix() + "".join(text % texts for text, _ in parts)
                yield escape_leading_slashes(quote(path, safe=f"{RFC3986_SUBDELIMS}/~:@"))


def is_unnamed(variable: str) -> bool:
    # As an unnamed group of a regular expression.
    return _UNNAMED.fullmatch(variable) is not None


def _numbered(name: str, before: int) -> str:
    unnamed = _UNNAMED.fullmatch(name)
    return name if unnamed is None else f"_{int(unnamed[1]) + before}"


def addresses(resolver: URLResolver, above: tuple[URLResolver, ...] = ()) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern, (*above, pattern))
        else:
            # Django cannot reverse it, and its reverse() then fails for the whole site.
            with suppress(ValueError):
                yield Address.of((*above, pattern))


class Route:
    """The URL of one view.

    Args:
        view: the name of its URL, or the view: a function or a ``View`` class.
        pattern: a path such as ``"bookings/<int:pk>/"``. Default: from the site's URLconf.
    """

    def __init__(self, view: Any, pattern: str | None = None) -> None:
        self._own: URLResolver | None = None
        if pattern is not None:
            call = view.as_view() if isinstance(view, type) else view  # type: ignore[attr-defined]
            self._own = URLResolver(RegexPattern(r"^/"), [url_path(pattern.lstrip("/"), call)])
            self._lookup: Any = call
            self.addresses = list(addresses(self._own))
        else:
            self.addresses = [address for address in addresses(get_resolver()) if _leads_to(address, view)]
            self._lookup = self._looked_up(view)
        self._groups = self._named_groups(view)

    def _looked_up(self, view: Any) -> Any:
        if not self.addresses:
            what = (
                f"No URL has the name {view!r}" if isinstance(view, str) else f"The URLconf does not contain {view!r}"
            )
            msg = f"{what}. Use a URL name with its namespace, such as 'bookings:detail', or set path='bookings/'."
            raise ImproperlyConfigured(msg)
        if isinstance(view, str):
            return view
        names = frozenset.intersection(*(address.names for address in self.addresses))
        if names:
            return min(names)
        if len(self.addresses) == 1 and self.addresses[0].lookup is not None:
            return self.addresses[0].lookup
        known = ", ".join(sorted({name for address in self.addresses for name in address.names})) or "none has a name"
        msg = f"Several URLs lead to {view!r}, or its only URL has no name. Pass one of the URL names: {known}."
        raise ImproperlyConfigured(msg)

    def _named_groups(self, view: Any) -> Mapping[str, str]:
        """Return the names of unnamed groups for callers, which are those of the view's parameters.

        Named groups must not be mixed with them: Django then ignores the unnamed ones.
        """
        every = {name for address in self.addresses for name in address.variables}
        unnamed = sorted(filter(is_unnamed, every), key=lambda name: int(name[1:]))
        if not unnamed:
            return {}
        names = _arguments_of(self.callback, len(unnamed)) if len(unnamed) == len(every) else []
        if not names:
            msg = (
                f"The URL of {view!r} has unnamed groups ({len(unnamed)}), and the view has no named parameters "
                f"for them. Write (?P<name>…), or pass the view itself with path='…'."
            )
            raise ImproperlyConfigured(msg)
        return dict(zip(unnamed, names, strict=True))

    @property
    def callback(self) -> Callable[..., Any]:
        return self.addresses[0].callback

    @property
    def variables(self) -> dict[str, Any]:
        """The converters of the variable parts, by the names callers use."""
        return {
            self._groups.get(name, name): converter
            for address in self.addresses
            for name, converter in address.variables.items()
        }

    def parameters(self) -> list[Parameter]:
        required = {
            self._groups.get(name, name)
            for name in frozenset.intersection(*(address.required for address in self.addresses))
        }
        return [_parameter(name, converter, name in required) for name, converter in self.variables.items()]

    def path(self, values: Mapping[str, Any]) -> str:
        """Return the percent-encoded path for these values, with the script prefix.

        Raises:
            ArgumentError: no URL matches these values.
        """
        if not all(map(fits_into_path, values.values())):
            raise ArgumentError([not_found_text(values)])
        variables = self.variables
        given = {name: _as_url(name, variables[name], value) for name, value in values.items()}
        try:
            if self._own is not None:
                return get_script_prefix() + self._own.reverse(self._lookup, **given)
            if self._groups:
                return reverse_url(self._lookup, [given[name] for name in self._groups.values() if name in given])
            return reverse_url(self._lookup, kwargs=given)
        except NoReverseMatch:
            found = None if self._own or self._groups else next(filter(None, self._found(given)), None)
        if found is None:
            raise ArgumentError([not_found_text(values)])
        return found[0]

    def _found(self, given: Mapping[str, Any]) -> Iterator[tuple[str, ResolverMatch] | None]:
        return (address.find(given) for address in self.addresses)

    def match(self, request: HttpRequest) -> ResolverMatch | None:
        """Resolve the path of a request; None if another view precedes this one there."""
        if self._own is not None:
            try:
                request.resolver_match = self._own.resolve(request.path_info)
            except Resolver404:
                return None
        found = request.resolver_match
        return (
            found if found is not None and any(found.func is address.callback for address in self.addresses) else None
        )


def fits_into_path(value: Any) -> bool:
    """Return True if a value has no control characters and no dot segments (RFC 3986, section 5.2.4)."""
    return not _UNFIT.search(str(value))


def _arguments_of(view: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a view's first *count* parameters after the request, or [].

    For a single argument of a view with ``*args`` the name is ``value``.
    """
    cls = getattr(view, "view_class", None)
    methods = [getattr(cls, name, None) for name in getattr(cls, "http_method_names", ())]
    for call, bound in [(method, 1) for method in methods if method is not None] or [(view, 0)]:
        try:
            parameters = [*inspect.signature(call).parameters.values()][bound + 1 :]
        except (TypeError, ValueError):  # not implemented in Python
            parameters = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
        names = [
            parameter.name for parameter in parameters if parameter.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
        ][:count]
        if len(names) == count:
            return names
        if count == 1 and any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
            return ["value"]
    return []


def _leads_to(address: Address, view: Any) -> bool:
    if isinstance(view, str):
        return view in address.names
    if isinstance(view, type):
        return getattr(address.callback, "view_class", None) is view
    return address.callback is view


def _parameter(name: str, converter: Any, is_required: bool) -> Parameter:
    annotation = _ANNOTATIONS.get(type(converter)) or _text(getattr(converter, "regex", None))
    return Parameter(name, annotation if is_required else optional(annotation), EMPTY if is_required else None, None)


def _text(regex: str | None) -> Any:
    schema = {"type": "string"} | ({"pattern": f"^(?:{regex})$"} if regex else {})
    return Annotated[str, Field(coerce_numbers_to_str=True), WithJsonSchema(schema)]


def _as_url(name: str, converter: Any, value: Any) -> Any:
    if converter is None or type(converter) in _ANNOTATIONS:
        return str(value)
    try:
        if re.fullmatch(converter.regex, str(value)):
            return converter.to_python(str(value))
    except ValueError:
        pass
    except Exception:
        logger.warning("A converter of the URL variable %r failed", name, exc_info=True)
    raise ArgumentError([not_found_text({name: value})])


def not_found_text(values: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name} {shown(value)}" for name, value in values.items())
    return f"No object found with {named}." if values else "Not found. Give an argument that identifies the object."


class ViewDeclaration:
    """A view and the request options of its tool. See ``view_tool`` for the arguments."""

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
            msg = f"view_tool takes the name of a URL or a view, not {view!r}."
            raise ImproperlyConfigured(msg)
        if method not in METHODS:
            msg = f"view_tool({view!r}): unknown method {method!r}; use one of {', '.join(sorted(METHODS))}."
            raise ImproperlyConfigured(msg)
        if unknown := query - arguments.keys():
            msg = f"view_tool({view!r}): query contains {', '.join(sorted(unknown))}, which arguments does not."
            raise ImproperlyConfigured(msg)
        self.view = self.site_code = view
        self._path, self.method, self.arguments = path, method, arguments
        self._query, self._content_type, self._follow = query, content_type, follow
        self._max_bytes = max_response_bytes
        if path is not None:
            self._check()

    @cached_property
    def route(self) -> Route:
        return Route(self.view, self._path)

    def forget(self) -> None:
        vars(self).pop("route", None)

    def _check(self) -> None:
        cls = getattr(self.route.callback, "view_class", None)
        if cls is not None and not hasattr(cls, self.method.lower()) and self.method != "HEAD":
            msg = f"view_tool({self.view!r}): {cls.__name__} does not support {self.method}."
            raise ImproperlyConfigured(msg)

    def parameters(self) -> list[Parameter]:
        self._check()
        variables = [self._declared(parameter.name, parameter) for parameter in self.route.parameters()]
        names = {variable.name for variable in variables}
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
        callback = self.route.callback
        cls = getattr(callback, "view_class", None)
        if cls is None:
            return own_docstring(callback)
        own = cls.__doc__ if cls.__doc__ and cls.__doc__ is not _inherited(cls) else None
        return inspect.cleandoc(own or "")

    def __call__(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        values = {name: value for name, value in given.items() if value is not None}
        variables = self.route.variables
        others = {name: value for name, value in values.items() if name not in variables}
        with script_prefix(ctx.request):
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
    return next((base.__doc__ for base in cls.__mro__[1:] if base.__doc__), None)


class ViewTool(LateTool):
    """A view tool, completed when the URLconf is available."""

    def __init__(
        self, declaration: ViewDeclaration, output: dict[str, Any] | None, *, description: str | None, **options: Any
    ) -> None:
        self._declaration = declaration
        self._returns: Any = ToolResult if output is None else shaped({"type": "object"})
        self._options = {**options, "description": description}
        super().__init__(self._function([]), **self._options)
        if output is not None:  # set unchanged, because pydantic would try to resolve its references
            self._output.schema, self._output.is_wrapped = with_one_type(output)
            self._definition["outputSchema"] = self._output.schema

    def _function(self, parameters: Any, docstring: str = "") -> Any:
        return function(
            self._declaration, self._options["name"], parameters, self._declaration, self._returns, docstring
        )

    def forget(self) -> None:
        self._declaration.forget()
        super().forget()

    def made(self) -> Tool:
        declaration = self._declaration
        words = self._function(declaration.parameters(), declaration.words)
        return Tool(words, context_type=Context, **self._options)


@receiver(setting_changed)
def forget_urlconf(*, setting: str, **_: Any) -> None:
    """Discard cached routes when ROOT_URLCONF changes in tests."""
    if setting != "ROOT_URLCONF":
        return
    for server in every_server():
        for tool in server.tools.values():
            if isinstance(tool, ViewTool):
                tool.forget()
                server.pages = {}


def view_tool(
    view: Any,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    method: str = "GET",
    path: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    query: Collection[str] = (),
    content_type: str = FORM,
    output_schema: Any = None,
    follow: bool = True,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    server: Where = None,
    **options: Any,
) -> None:
    """Offer a view as a tool: ``view_tool("bookings:detail")``. The view and its URL stay unchanged.

    Each call makes an in-process request as the calling user, through the decorators that the URLconf puts around the
    view. Middleware does not run, except for the check of ``LoginRequiredMiddleware``.

    Args:
        view: the name of its URL; or the view, a function or a ``View`` class, if exactly one URL leads to it.
        name: tool name. Default: the name of the URL or view in snake case.
        description: description for the model. Default: the docstring, whose parameter section describes the arguments.
        method: HTTP method. GET, HEAD and OPTIONS make the tool ``read_only``.
        path: a path such as ``"bookings/<int:pk>/"``, for a view that is not in the URLconf.
        arguments: further arguments: names with an annotation, or with a pair of annotation and default. GET, HEAD,
            OPTIONS and DELETE send them in the query, other methods in the body. The name of a path variable refines
            that variable. ``bytes`` are sent as a file.
        query: names of arguments to send in the query with any method.
        content_type: media type of the body: a form type or ``"application/json"``.
        output_schema: JSON Schema of a JSON response, or a type that has one. Responses are not validated.
        follow: follow redirects within the site.
        max_response_bytes: maximum size of a response in bytes.
        server: one or several endpoints or namespaces to register at. Default: ``django_mcp.server``.
        **options: options of ``tool``: ``title``, ``permission``, ``visible``, ``read_only``, ``atomic``, ….

    Raises:
        ImproperlyConfigured: *view* is not a view, or cannot be called with these options.
    """
    named = name or _name(view)
    label = f"view_tool({named})"
    check_options(label, options, view_tool, Tool.__init__, Primitive.__init__, also=["arguments"])
    if arguments is not None and not isinstance(arguments, Mapping):
        msg = f"{label}: arguments must map names to annotations, such as {{'day': str}}, not {arguments!r}."
        raise ImproperlyConfigured(msg)
    declaration = ViewDeclaration(
        view, path, method.upper(), dict(arguments or {}), frozenset(query), content_type, follow, max_response_bytes
    )
    output = None if output_schema is None else _schema_of(output_schema)
    options = request_options(declaration.method, options)
    register_at(server, lambda _: [ViewTool(declaration, output, name=named, description=description, **options)])


def _name(view: Any) -> str:
    if isinstance(view, str):
        return re.sub(r"\W", "_", view, flags=re.ASCII)
    named = getattr(view, "view_class", view)
    if not isinstance(named, type):
        return str(getattr(named, "__name__", type(named).__name__))
    return camel_case_to_spaces(named.__name__).replace(" ", "_").removesuffix("_view")


def _schema_of(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else json_schema(TypeAdapter(given), "serialization")
