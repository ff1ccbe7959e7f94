"""Where a view is: the URLs that lead to it, and what is variable in them."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
    get_script_prefix,
    reverse,
)
from django.urls import path as url_path
from django.urls.converters import IntConverter, PathConverter, SlugConverter, StringConverter, UUIDConverter
from django.urls.resolvers import RegexPattern
from django.utils.regex_helper import normalize
from pydantic import Field, WithJsonSchema

from django_mcp.core.signatures import optional
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import shown

_ANNOTATIONS: Mapping[type, Any] = {
    IntConverter: Annotated[int, Field(ge=0)],
    StringConverter: Annotated[str, Field(min_length=1, pattern="^[^/]+$")],
    SlugConverter: Annotated[str, Field(pattern="^[-a-zA-Z0-9_]+$")],
    PathConverter: Annotated[str, Field(min_length=1)],
    UUIDConverter: UUID,
}


_UNFIT = re.compile(r"(^|[/\\])\.\.?($|[/\\])|[\x00-\x1f\x7f]")
_UNNAMED = re.compile(r"_(\d+)")
"""The name that ``Address.variables`` gives to a group without one: ``_0``, ``_1`` and so on."""


@dataclass(frozen=True)
class Address:
    """One pattern of a URLconf that leads to a view, with all it is included in.

    Attributes:
        names: under which ``reverse`` may know it, namespaces and all; none where it has no name.
        namespaces: it is included in, the outermost first.
        lookup: what ``reverse`` takes for this very one; None where nothing does.
        variables: the converter of each part that varies; None for a group of a regular expression. Groups without a
            name are called ``_0``, ``_1`` and so on.
        required: those it cannot do without.
    """

    names: frozenset[str]
    namespaces: tuple[str, ...]
    lookup: Any
    callback: Callable[..., Any]
    variables: Mapping[str, Any]
    required: frozenset[str]

    @classmethod
    def of(cls, chain: Sequence[URLPattern | URLResolver]) -> "Address":
        """The address of the last one, which the others include."""
        *above, last = chain
        assert isinstance(last, URLPattern)  # noqa: S101
        inside = [each for each in above if isinstance(each, URLResolver) and each.namespace]
        names = {last.name} if last.name else set[str]()
        for each in reversed(inside):
            names = {f"{outer}:{name}" for outer in {each.namespace, each.app_name} if outer for name in names}
        namespaces = tuple(str(each.namespace) for each in inside)
        lookup = ":".join((*namespaces, last.name)) if last.name else None if namespaces else last.callback
        variables: dict[str, Any] = {}
        required = frozenset[str]()
        for part in chain:
            before = sum(map(is_unnamed, variables))
            possible = [
                {_numbered(name, before): name for name in parameters}
                for _, parameters in normalize(part.pattern.regex.pattern)
            ]
            every = {name: own for each in possible for name, own in each.items()}
            variables |= {name: part.pattern.converters.get(own) for name, own in sorted(every.items())}
            required |= frozenset.intersection(*map(frozenset, possible))
        return cls(frozenset(names), namespaces, lookup, last.callback, variables, required)


def is_unnamed(variable: str) -> bool:
    """Return True for a group of a regular expression that has no name, as ``Address.variables`` calls it."""
    return _UNNAMED.fullmatch(variable) is not None


def _numbered(name: str, before: int) -> str:
    """Return a name in one pattern as it is called where patterns with *before* groups without a name include it."""
    unnamed = _UNNAMED.fullmatch(name)
    return name if unnamed is None else f"_{int(unnamed[1]) + before}"


def addresses(resolver: URLResolver, above: tuple[URLResolver, ...] = ()) -> Iterator[Address]:
    """Those of every view below a resolver."""
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from addresses(each, (*above, each))
        else:
            yield Address.of((*above, each))


class Route:
    """How to get to one view.

    Args:
        view: its URL's name, or itself: a function, or a ``View`` class.
        pattern: like ``"bookings/<int:pk>/"``; by default it is looked up in the URLconf of the site.

    Raises:
        ImproperlyConfigured: no URL leads there, or several of which one has to be chosen.
    """

    def __init__(self, view: Any, pattern: str | None = None) -> None:
        self._own: URLResolver | None = None
        if pattern is not None:
            call = view.as_view() if isinstance(view, type) else view  # type: ignore[attr-defined]
            self._own = URLResolver(RegexPattern(r"^/"), [url_path(pattern.lstrip("/"), call)])
            self._lookup: Any = call
            self.addresses = list(addresses(self._own))
        else:
            self.addresses = [each for each in addresses(get_resolver()) if _leads_to(each, view)]
            self._lookup = self._looked_up(view)
        self._groups = self._named_groups(view)

    def _looked_up(self, view: Any) -> Any:
        """What ``reverse`` takes for it."""
        if not self.addresses:
            what = f"No URL has the name {view!r}" if isinstance(view, str) else f"The URLconf has no {view!r}"
            msg = f"{what}. Give the name of a URL, with its namespace, like 'bookings:detail'; or path='bookings/'."
            raise ImproperlyConfigured(msg)
        if isinstance(view, str):
            return view
        names = frozenset.intersection(*(each.names for each in self.addresses))
        if names:
            return min(names)
        if len(self.addresses) == 1 and self.addresses[0].lookup is not None:
            return self.addresses[0].lookup
        known = ", ".join(sorted({name for each in self.addresses for name in each.names})) or "none has a name"
        msg = f"Several URLs lead to {view!r}, or one without a name. Name the one that is meant: {known}."
        raise ImproperlyConfigured(msg)

    def _named_groups(self, view: Any) -> Mapping[str, str]:
        """Return what groups without a name are called for callers: what the view calls the arguments it takes them as.

        Raises:
            ImproperlyConfigured: the view does not say, or they stand beside groups with a name, so that Django does
                not give them to the view at all.
        """
        every = {name for each in self.addresses for name in each.variables}
        unnamed = sorted(filter(is_unnamed, every), key=lambda name: int(name[1:]))
        if not unnamed:
            return {}
        names = _arguments_of(self.callback, len(unnamed)) if len(unnamed) == len(every) else []
        if not names:
            msg = (
                f"The URL of {view!r} has groups without a name ({len(unnamed)}), and the view has no arguments of its "
                f"own for them. Write (?P<name>…); or give the view itself, with a path of its own: path='…'."
            )
            raise ImproperlyConfigured(msg)
        return dict(zip(unnamed, names, strict=True))

    @property
    def callback(self) -> Callable[..., Any]:
        """The view as the URLconf has it, decorators and all."""
        return self.addresses[0].callback

    @property
    def variables(self) -> dict[str, Any]:
        """The converter of each part of the path that varies, by the name callers know it under."""
        return {
            self._groups.get(name, name): converter
            for each in self.addresses
            for name, converter in each.variables.items()
        }

    def parameters(self) -> list[Parameter]:
        """An argument for each variable."""
        required = {
            self._groups.get(name, name) for name in frozenset.intersection(*(each.required for each in self.addresses))
        }
        return [_parameter(name, converter, name in required) for name, converter in self.variables.items()]

    def path(self, values: Mapping[str, Any]) -> str:
        """The path with these values in it, percent-encoded, with the script prefix.

        Raises:
            ArgumentError: there is none.
        """
        if not all(map(fits_into_path, values.values())):
            raise ArgumentError([nothing_with(values)])
        variables = self.variables
        given = {name: _as_url(name, variables[name], value) for name, value in values.items()}
        try:
            if self._own is not None:
                return get_script_prefix() + self._own.reverse(self._lookup, **given)
            if self._groups:
                return reverse(self._lookup, args=[given[name] for name in self._groups.values() if name in given])
            return reverse(self._lookup, kwargs=given)
        except NoReverseMatch:
            raise ArgumentError([nothing_with(values)]) from None

    def match(self, request: HttpRequest) -> ResolverMatch | None:
        """What is at the path of a request, if it is this view and none that stands before it."""
        if self._own is not None:
            try:
                request.resolver_match = self._own.resolve(request.path_info)
            except Resolver404:
                return None
        found = request.resolver_match
        return found if found is not None and any(found.func is each.callback for each in self.addresses) else None


def fits_into_path(value: Any) -> bool:
    """Return True if a value can be part of a URL's path as it is: it has no dot segments, which browsers and proxies
    resolve (RFC 3986, section 5.2.4), and no control characters.
    """
    return not _UNFIT.search(str(value))


def _arguments_of(view: Callable[..., Any], count: int) -> list[str]:
    """Return what a view calls the first *count* arguments behind the request; nothing where it takes fewer.

    One that takes any is given ``value``, where there is just one.
    """
    cls = getattr(view, "view_class", None)
    methods = [getattr(cls, name, None) for name in getattr(cls, "http_method_names", ())]
    for call, bound in [(each, 1) for each in methods if each is not None] or [(view, 0)]:
        try:
            parameters = [*inspect.signature(call).parameters.values()][bound + 1 :]
        except (TypeError, ValueError):  # one that is not of Python
            parameters = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
        names = [each.name for each in parameters if each.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD][:count]
        if len(names) == count:
            return names
        if count == 1 and any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
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
    """A text of which the URLconf says what it must look like; numbers are taken for what they look like."""
    schema = {"type": "string"} | ({"pattern": f"^(?:{regex})$"} if regex else {})
    return Annotated[str, Field(coerce_numbers_to_str=True), WithJsonSchema(schema)]


def _as_url(name: str, converter: Any, value: Any) -> Any:
    """What the converter of a site takes, for which it has to be asked itself."""
    if converter is None or type(converter) in _ANNOTATIONS:
        return str(value)
    try:
        if re.fullmatch(converter.regex, str(value)):
            return converter.to_python(str(value))
    except ValueError:
        pass
    raise ArgumentError([nothing_with({name: value})])


def nothing_with(values: Mapping[str, Any]) -> str:
    """What is told of values of a URL's variables that lead nowhere."""
    named = ", ".join(f"{name} {shown(value)}" for name, value in values.items())
    return f"There is nothing with {named}." if values else "Say which one is meant."
