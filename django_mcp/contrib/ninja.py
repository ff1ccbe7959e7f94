"""``ninja_tools``: the operations of a django-ninja API as tools."""

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import NoReverseMatch, get_script_prefix
from django.urls.resolvers import RoutePattern
from ninja import NinjaAPI, Router
from ninja.compatibility.files import FIX_MIDDLEWARE_PATH, fix_request_files_middleware
from ninja.constants import NOT_SET
from ninja.operation import Operation
from ninja.params.models import BodyModel, CookieModel, FileModel, FormModel, HeaderModel, PathModel, QueryModel
from ninja.security.apikey import APIKeyBase
from ninja.security.http import HttpAuthBase
from ninja.security.session import SessionAuth, SessionAuthSuperUser
from pydantic import TypeAdapter
from pydantic_core import from_json

from django_mcp import Context, ToolError, ToolResult
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import Where
from django_mcp.core.signatures import function, shaped
from django_mcp.integrations.http import (
    FORM,
    JSON,
    MULTIPART,
    Call,
    close,
    hints,
    media_type,
    run_view,
    site_request,
    tool_result,
)
from django_mcp.integrations.views import fits_into_path, nothing_with
from django_mcp.model_resources.form_schema import FILE_SCHEMA, file_argument, file_note
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError, Arguments, json_schema, property_name, typed_dict
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import sentences


@dataclass(frozen=True)
class Published:
    """One operation.

    Attributes:
        operation: with the decorators, throttles and tags of the API and the routers above it.
        method: of the request.
        route: where it is below the API.
        name: its ``operation_id``, or that of its function.
        prefix: what sets names apart where one router is in an API twice.
        router: that it was declared on.
    """

    operation: Operation
    method: str
    route: RoutePattern
    name: str
    prefix: str | None
    router: Router

    @property
    def label(self) -> str:
        """For messages to the site's owner."""
        function = self.operation.view_func
        return f"{self.method} {self.operation.path} ({function.__module__}.{function.__qualname__})"


def operations(api: NinjaAPI) -> Iterator[Published]:
    """All operations of an API, in the order of its routers."""
    for bound in _bound(api):
        patterns = iter(bound.urls_paths(bound.prefix))
        for view in bound.path_operations.values():
            for operation in view.operations:
                operation.api = api
                route = next(patterns).pattern
                for method in operation.methods:
                    name = operation.operation_id or operation.view_func.__name__
                    name = name if len(operation.methods) == 1 else f"{name}_{method.lower()}"
                    yield Published(operation, method, route, name, bound.url_name_prefix, bound.template)


def _bound(api: NinjaAPI) -> Any:
    """The routers of an API as it binds them itself for its URLs, but bound for us alone.

    Binding copies operations, so what tools do to theirs does not reach the API. It also closes routers, which those of
    a site that has not read its URLconf yet must not be: they are opened again.
    """
    own: Any = copy.copy(api)
    own._bound_routers_cache = None  # noqa: SLF001 - ninja has no other way to its operations
    known = [each for _, router, *_ in own._router_registrations for each in within(router)]  # noqa: SLF001
    before = [(router, router._frozen) for router in known]  # noqa: SLF001
    try:
        return own._get_bound_routers()  # noqa: SLF001
    finally:
        for router, frozen in before:
            router._frozen = frozen  # noqa: SLF001


def within(router: Router) -> Iterator[Router]:
    """A router, and all that were added to it."""
    yield router
    for _, child, *_ in router._routers:  # noqa: SLF001
        yield from within(child)


def callbacks(operation: Operation, auth: Callable[[Any], Any] | None) -> list[Callable[[Any], Any]] | None:
    """What to ask in place of an operation's own ``auth``; None where that cannot be known.

    A callback that looks for a credential in the request finds none: *auth* takes its place, or it is left out. All
    others, which look at the request's user or at anything else, are asked as ever.
    """
    kept: list[Callable[[Any], Any]] = []
    for each in operation.auth_callbacks:
        if not _wants_credential(each):
            kept.append(each)
        elif auth is not None and auth not in kept:
            kept.append(auth)
    return kept if kept or not operation.auth_callbacks else None


def _wants_credential(callback: Any) -> bool:
    is_session = isinstance(callback, SessionAuth | SessionAuthSuperUser)
    return isinstance(callback, HttpAuthBase | APIKeyBase) and not is_session


Schema = dict[str, Any]


def output_schema(published: Published) -> Schema | None:
    """The schema of structured content; None where no single one is promised.

    That is so where nothing was declared, where an answer may be empty, or of several shapes, and where it is a stream
    or no JSON.
    """
    operation = published.operation
    statuses = operation.response_models
    models = [model for status, model in statuses.items() if status is Ellipsis or 200 <= status < 300]  # noqa: PLR2004
    is_json = operation.api.renderer.media_type == "application/json" and operation.stream_format is None
    if not is_json or len(models) != 1 or models[0] in (None, NOT_SET):
        return None
    whole = json_schema(TypeAdapter(models[0]), "serialization", by_alias=operation.by_alias)
    answer: Schema = _inlined(whole["properties"]["response"], whole.get("$defs", {}))
    if operation.exclude_unset or operation.exclude_defaults or operation.exclude_none:
        answer = _without_required(answer)
    if answer.get("type") != "object":
        answer = {"type": "object", "properties": {"result": answer}, "required": ["result"]}
    return answer


def _inlined(schema: Any, shared: Mapping[str, Schema], within: frozenset[str] = frozenset()) -> Any:
    """A schema without references. Of one within itself just the type is left."""
    match schema:
        case {"$ref": str(reference), **others}:
            name = reference.rpartition("/")[2]
            if name in within:
                return {"type": shared[name].get("type", "object"), **others}
            return {**_inlined(shared[name], shared, within | {name}), **others}
        case dict():
            return {key: _inlined(each, shared, within) for key, each in schema.items()}
        case list():
            return [_inlined(each, shared, within) for each in schema]
    return schema


def _without_required(schema: Any) -> Any:
    """A schema for objects from which anything may be left out."""
    match schema:
        case dict():
            names = (key for key in schema if key != "required" or not isinstance(schema[key], list))
            return {key: _without_required(schema[key]) for key in names}
        case list():
            return [_without_required(each) for each in schema]
    return schema


_FILE: Schema = {**FILE_SCHEMA, "description": file_note()}


@dataclass(frozen=True)
class Place:
    """Where an argument goes.

    Attributes:
        source: ``"path"``, ``"query"``, ``"form"``, ``"file"``, ``"part"`` (JSON in a form), ``"body"`` (a member of
            the body) or ``"whole"`` (the body).
        name: what it is called there.
        location: where ninja says it is, when it is wrong.
        schema: of its values.
        required: it must be given.
    """

    source: str
    name: str
    location: tuple[str, ...]
    schema: Schema
    required: bool


class Places:
    """The arguments of an operation, by name.

    Args:
        operation: whose they are.
        headers: what every request has, by lower-case name with hyphens; no others are sent.
        label: names the operation in errors.

    Attributes:
        found: by the name of the argument.
        shared: schemas that others refer to, by name.

    Raises:
        ImproperlyConfigured: it needs a header or a cookie that nobody sends, or two arguments have one name.
    """

    def __init__(self, operation: Operation, headers: Mapping[str, str], label: str) -> None:
        self._label = label
        self.found: dict[str, Place] = {}
        models = {f"m{number}": model for number, model in enumerate(operation.models)}
        whole = json_schema(TypeAdapter(typed_dict("operation", models)), "validation")
        self.shared: Schema = whole.get("$defs", {})
        # The body comes last, for what is in it can make way for the others.
        for key, model in sorted(models.items(), key=lambda item: issubclass(item[1], BodyModel)):
            schema = self._resolved(whole["properties"][key])
            if issubclass(model, HeaderModel | CookieModel):
                self._require_sent(model, schema, headers)
            elif issubclass(model, BodyModel):
                self._add(self._of_body(model, schema))
            else:
                self._add({place.name: place for place in self._flat(model, schema)})

    def _resolved(self, schema: Schema) -> Schema:
        """What a schema refers to; of an optional object the object, without what it requires."""
        for each in schema.get("anyOf", ()):
            if "properties" in (found := self._resolved(each)):
                return {**found, "required": []}
        return self.shared[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _flat(self, model: Any, schema: Schema) -> Iterator[Place]:
        """Those in path, query, form and files, where the members of objects are flat."""
        sources = {PathModel: "path", QueryModel: "query", FormModel: "form", FileModel: "file"}
        source = next(name for kind, name in sources.items() if issubclass(model, kind))
        paths = getattr(model, "__ninja_flatten_map__", None) or {name: (name,) for name in schema["properties"]}
        for name, path in paths.items():
            found, required = schema, True
            for step in path:
                found = self._resolved(found)
                required = required and step in found.get("required", ())
                found = found["properties"][step]
            if found.get("include_in_schema", True):
                shown = _with_files(found) if source == "file" else found
                yield Place(source, name, path, shown, required or source == "path")

    def _of_body(self, model: Any, schema: Schema) -> dict[str, Place]:
        """The members of the body where it is one object whose names are free; else what makes it up, one by one."""
        needed = schema.get("required", ())
        source = "body" if getattr(model, "__read_from_single_attr__", None) is None else "whole"
        if getattr(model, "__ninja_body_params__", None):
            source = "part"
        given = {
            name: Place(source, name, (name,), each, name in needed) for name, each in schema["properties"].items()
        }
        if source != "whole":
            return given
        ((name, place),) = given.items()
        inner = self._resolved(place.schema)
        members = inner.get("properties", {})
        is_open = not members or "additionalProperties" in inner
        if is_open or not place.required or not members.keys().isdisjoint(self.found):
            return given
        needed = inner.get("required", ())
        return {each: Place("body", each, (name, each), members[each], each in needed) for each in members}

    def _add(self, places: Mapping[str, Place]) -> None:
        for name, place in places.items():
            argument = property_name(name)
            if argument in self.found:
                msg = f"{self._label}: it takes {argument!r} twice; give one of them an alias."
                raise ImproperlyConfigured(msg)
            self.found[argument] = _sent_as(place)

    def _require_sent(self, model: Any, schema: Schema, headers: Mapping[str, str]) -> None:
        kind = "header" if issubclass(model, HeaderModel) else "cookie"
        names = [name.lower().replace("_", "-") for name in schema.get("required", ())]
        if needed := [name for name in names if kind == "cookie" or name not in headers]:
            msg = (
                f"{self._label}: it needs the {kind} {needed[0]!r}, which an MCP client does not send. Give it a "
                "default, exclude the operation, or say what headers every request has: headers={…}."
            )
            raise ImproperlyConfigured(msg)


def _sent_as(place: Place) -> Place:
    """*place*, with the name that the API has for it where no argument can have that name."""
    if property_name(place.name) == place.name:
        return place
    words = f"{place.schema.get('description', '')} Sent as {place.name!r}.".strip()
    return replace(place, schema={**place.schema, "description": words})


def _with_files(schema: Schema) -> Schema:
    """What stands for a file in a call, or for several, in place of what a form has."""
    described: Schema = {key: schema[key] for key in ("title", "description") if key in schema}
    several = schema.get("type") == "array" or any(each.get("type") == "array" for each in schema.get("anyOf", ()))
    return {"type": "array", "items": _FILE, **described} if several else {**_FILE, **described}


LEFT_OUT = object()


@dataclass
class Sent:
    """The values of one call, each where it goes.

    Attributes:
        form: fields of a form, as text.
        files: by field, a list each.
        body: JSON; ``LEFT_OUT`` for none.
    """

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    body: Any = LEFT_OUT


class OperationArguments(Arguments):
    """Arguments of which only the names are looked at. Whether values fit is for the operation to say.

    Args:
        operation: whose they are.
        headers: what every request has, by lower-case name with hyphens.
        label: names the operation in errors.

    Raises:
        ImproperlyConfigured: the operation needs what no argument can be.
    """

    def __init__(self, operation: Operation, headers: Mapping[str, str], label: str) -> None:
        places = Places(operation, headers, label)
        self._places = places.found
        required = [name for name, place in self._places.items() if place.required]
        named = [Parameter(name, Any, EMPTY if name in required else LEFT_OUT, None) for name in self._places]
        super().__init__(named, label)
        self.schema = {
            "type": "object",
            "properties": {name: place.schema for name, place in self._places.items()},
            "additionalProperties": False,
        }
        if required:
            self.schema["required"] = required
        if used := _definitions(self.schema, places.shared):
            self.schema["$defs"] = used

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under one name, ``given``: any name may be one of theirs.

        Raises:
            ArgumentError: one is unknown or missing.
        """
        return {"given": {name: value for name, value in super().validate(values).items() if value is not LEFT_OUT}}

    def sent(self, given: Mapping[str, Any]) -> Sent:
        """Each value where it goes.

        Raises:
            ArgumentError: a file is none.
        """
        sent = Sent()
        if any(place.source == "body" and len(place.location) > 1 for place in self._places.values()):
            sent.body = {}  # an object there must be, if only one of defaults
        for argument, value in given.items():
            place = self._places[argument]
            match place.source:
                case "path":
                    sent.path[place.name] = value
                case "query":
                    sent.query[place.name] = value
                case "form":
                    sent.form[place.name] = _as_text(value)
                case "part":
                    sent.form[place.name] = json.dumps(value)
                case "file" if value is not None:
                    given_files = value if isinstance(value, list) else [value]
                    sent.files[place.name] = [file_argument(argument, each) for each in given_files]
                case "body":
                    sent.body = {**({} if sent.body is LEFT_OUT else sent.body), place.name: value}
                case "whole":
                    sent.body = value
        return sent

    def argument(self, location: Sequence[Any]) -> tuple[Any, ...]:
        """Where in the arguments what ninja says is wrong is."""
        for name, place in self._places.items():
            for known in (place.location, (place.name,)):
                if tuple(location[: len(known)]) == known:
                    return (name, *location[len(known) :])
        return tuple(location)


def _definitions(schema: Schema, shared: Schema) -> Schema:
    """Those of the *shared* schemas that one refers to, directly or not."""
    used: Schema = {}
    wanted = list(_references(schema))
    while wanted:
        name = wanted.pop()
        if name not in used:
            used[name] = shared[name]
            wanted += _references(shared[name])
    return used


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(reference)}:
            yield reference.rpartition("/")[2]
        case dict():
            for each in schema.values():
                yield from _references(each)
        case list():
            for each in schema:
                yield from _references(each)


def _as_text(value: Any) -> Any:
    """A value as a form has it. A box that is not ticked is no field to a browser, but it is one here."""
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return value if isinstance(value, str) or value is None else json.dumps(value)


_VARIABLE = re.compile(r"<(?:[^>:]+:)?([^>]+)>")


@dataclass(frozen=True)
class Endpoint:
    """What a tool calls.

    Attributes:
        arguments: of the tool.
        headers: of every request.
    """

    published: Published
    arguments: OperationArguments
    headers: Mapping[str, str]

    def __call__(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        """Call the operation as the caller, and tell what it answered.

        Raises:
            ToolError: it refused.
        """
        given = keywords["given"]
        sent = self.arguments.sent(given)
        path, variables = self._place(sent.path)
        request = site_request(ctx, self._call(path, sent))
        response: Any = run_view(self._view(variables), request)
        if response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and (problems := self._problems(response, given)):
            close(response)
            raise ArgumentError(problems)
        if response.streaming and self.published.operation.stream_format is not None:
            response["Content-Type"] = "text/plain"  # a stream of lines is read whole, as text
        return tool_result(response, request, ctx=ctx)

    def _place(self, values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The path of the operation's URL, percent-encoded, and its variables as Django reads them from it."""
        published = self.published
        try:
            root = published.operation.api.get_root_path({})
        except NoReverseMatch:  # the API is at no URL of its own
            root = get_script_prefix()
        route = str(published.route)
        plain = _VARIABLE.sub(lambda found: str(values[found[1]]), route)
        match = published.route.match(plain)
        if match is None or match[0] or not all(map(fits_into_path, values.values())):
            raise ToolError(nothing_with(values))
        return root + quote(plain), match[2]

    def _call(self, path: str, sent: Sent) -> Call:
        models = self.published.operation.models
        has_body = any(issubclass(model, BodyModel) for model in models)
        has_form = any(issubclass(model, FormModel | FileModel) for model in models)
        body = None if sent.body is LEFT_OUT else json.dumps(sent.body).encode()
        return Call(
            self.published.method,
            path,
            sent.query,
            sent.form if has_form else body,
            (MULTIPART if has_body or sent.files else FORM) if has_form else JSON,
            self.headers,
            sent.files,
        )

    def _view(self, variables: Mapping[str, Any]) -> Callable[[Any], Any]:
        """The operation as a view. Of the site's middleware it has the one that ninja needs for files."""
        run: Callable[..., Any] = partial(self.published.operation.run, **variables)

        async def aview(request: Any) -> Any:
            return await run(request)

        def view(request: Any) -> Any:
            return run(request)

        chosen: Callable[[Any], Any] = aview if self.published.operation.is_async else view
        return fix_request_files_middleware(chosen) if FIX_MIDDLEWARE_PATH in settings.MIDDLEWARE else chosen

    def _problems(self, response: Any, given: Mapping[str, Any]) -> list[str]:
        """A sentence for each argument that is wrong; none where the API answers in words of its own."""
        if media_type(response) != JSON:
            return []
        match from_json(response.content):
            case {"detail": [*details]} if all(isinstance(each, dict) and "loc" in each for each in details):
                return sentences([self._detail(each, given) for each in details], given, self.arguments.schema)
        return []

    def _detail(self, detail: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """One of ninja's details, about an argument instead of a part of the request."""
        location = self.arguments.argument(detail["loc"][1:])
        value: Any = given
        for step in location:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        return {**detail, "loc": location, "input": value}


def ninja_tools(
    source: NinjaAPI | Router,
    *,
    api: NinjaAPI | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    with_tags: Collection[str] | None = None,
    auth: Callable[[Any], Any] | None = None,
    headers: Mapping[str, str] | None = None,
    tags: Collection[str] = (),
    server: Where = None,
    **options: Any,
) -> None:
    """Offer the operations of a django-ninja API as tools. The API stays as it was.

    A call is a request as the calling user, through the operation's decorators, throttles and validation.

    Args:
        source: the API, or one of its routers with all below it. What is added to it later is not offered.
        api: for a router, the API it is part of.
        include: the only operations to offer, by ``operation_id`` or the name of their function; also those that are
            not in the API's schema.
        exclude: those not to offer.
        with_tags: offer what has one of these tags.
        auth: who may call operations that are guarded by a bearer token, an API key or a password, which a tool does
            not have: ``ninja.security.django_auth`` for every user that is signed in. Takes the request; what it
            returns is ``request.auth``. Other guards, such as ``django_auth_superuser``, are asked as they are.
        headers: of every request.
        tags: of the tools, besides those of the operations.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
        **options: of each tool, those of ``tool``: ``permission``, ``namespace``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: there is no such operation, or one that cannot be called without saying more.
    """
    sent = {name.lower().replace("_", "-"): value for name, value in (headers or {}).items()}
    chosen = _chosen(source, api, include, exclude, with_tags)
    for each in chosen:
        _guard(each, auth)
    arguments = [OperationArguments(each.operation, sent, f"ninja_tools: {each.label}") for each in chosen]
    for one in servers_of(server):
        for each, taken in zip(chosen, arguments, strict=True):
            one.add(_tool(each, taken, sent, tags, options))


def _tool(
    published: Published,
    arguments: OperationArguments,
    headers: Mapping[str, str],
    tags: Collection[str],
    options: Mapping[str, Any],
) -> Tool:
    operation, endpoint = published.operation, Endpoint(published, arguments, headers)
    name = f"{published.prefix}_{published.name}" if published.prefix else published.name
    output = output_schema(published)
    returns = EMPTY if output is None else shaped(output)
    words = operation.description or operation.summary
    own: dict[str, Any] = {
        "name": name,
        "title": operation.summary,
        "description": f"Deprecated. {words}" if operation.deprecated else words,
        **hints(published.method),
    }
    return Tool(
        function(endpoint, name, "", [], published, returns),
        context_type=Context,
        arguments=arguments,
        tags=[*tags, *(operation.tags or ())],
        **{**own, **options},
    )


def _guard(published: Published, auth: Callable[[Any], Any] | None) -> None:
    """Put what can be asked in place of what reads credentials."""
    operation = published.operation
    asked = callbacks(operation, auth)
    if asked is None:
        guards = ", ".join(type(each).__name__ for each in operation.auth_callbacks)
        msg = (
            f"ninja_tools: {published.label} is guarded by {guards}, for which a tool has no credential. Say who may "
            "call it: auth=ninja.security.django_auth for every user that is signed in, or a function of the request."
        )
        raise ImproperlyConfigured(msg)
    operation.auth_callbacks = asked


def _chosen(
    source: NinjaAPI | Router,
    api: NinjaAPI | None,
    include: Collection[str] | None,
    exclude: Collection[str],
    with_tags: Collection[str] | None,
) -> list[Published]:
    every = list(_operations(source, api))
    for option, given, known in (
        ("include", include, {name for each in every for name in _names(each)}),
        ("exclude", exclude, {name for each in every for name in _names(each)}),
        ("with_tags", with_tags, {tag for each in every for tag in each.operation.tags or ()}),
    ):
        if unknown := set(given or ()) - known:
            msg = f"ninja_tools: {option} has {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}."
            raise ImproperlyConfigured(msg)
    return [each for each in every if _is_chosen(each, include, exclude, with_tags)]


def _is_chosen(
    published: Published, include: Collection[str] | None, exclude: Collection[str], with_tags: Collection[str] | None
) -> bool:
    names, operation = _names(published), published.operation
    if names.intersection(exclude) or (with_tags is not None and not set(operation.tags or ()).intersection(with_tags)):
        return False
    return operation.include_in_schema if include is None else bool(names.intersection(include))


def _names(published: Published) -> set[str]:
    return {published.name, published.operation.operation_id or published.operation.view_func.__name__}


def _operations(source: NinjaAPI | Router, api: NinjaAPI | None) -> Iterator[Published]:
    match source, api:
        case NinjaAPI(), None:
            yield from operations(source)
        case Router(), NinjaAPI():
            routers = list(within(source))
            found = [each for each in operations(api) if each.router in routers]
            if not found:
                msg = f"ninja_tools: the router has no operations in {api.title!r}, or is not part of it."
                raise ImproperlyConfigured(msg)
            yield from found
        case Router(), None:
            msg = (
                "ninja_tools: a router answers as the API that it is part of; say which: ninja_tools(router, api=api)."
            )
            raise ImproperlyConfigured(msg)
        case _:
            msg = f"ninja_tools takes a NinjaAPI, or a Router and its api, not {source!r}."
            raise ImproperlyConfigured(msg)


__all__ = ["ninja_tools"]
