"""``ninja_tools``: the operations of a django-ninja API as tools."""

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.urls import get_script_prefix
from django.urls.resolvers import RoutePattern
from ninja import NinjaAPI, Router
from ninja.compatibility.files import FIX_MIDDLEWARE_PATH, fix_request_files_middleware
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.params.models import BodyModel, FileModel, FormModel
from ninja.security.apikey import APIKeyBase
from ninja.security.http import HttpAuthBase
from ninja.security.session import SessionAuth, SessionAuthSuperUser
from pydantic import ValidationError
from pydantic_core import from_json

from django_mcp import Context, ToolError, ToolResult
from django_mcp.contrib.openapi import (
    OMITTED,
    ArgumentLocation,
    Document,
    OperationArguments,
    RequestData,
    as_text,
    body_locations,
    output_schema,
    parameter_locations,
    without_required,
)
from django_mcp.core.decorators import register_at
from django_mcp.core.server import Where
from django_mcp.core.signatures import function, shaped
from django_mcp.integrations.handler import replace_decorated, run_view
from django_mcp.integrations.requests import FORM, JSON, MULTIPART, SAFE, Call, request_options, site_request
from django_mcp.integrations.responses import close_response, media_type
from django_mcp.integrations.results import tool_result
from django_mcp.integrations.views import fits_into_path, not_found_text
from django_mcp.primitives.function import EMPTY, dotted_name
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import sentences


@dataclass(frozen=True)
class NinjaOperation:
    """One operation of an API.

    Attributes:
        operation: with the decorators, throttles and tags of its API and routers.
        route: URL pattern below the API.
        name: its ``operation_id``, or the name of its function.
        prefix: distinguishes names if a router is included twice.
        router: the router that declares it.
    """

    operation: Operation
    method: str
    route: RoutePattern
    name: str
    prefix: str | None
    router: Router

    @property
    def site_code(self) -> Callable[..., Any]:
        return self.operation.view_func

    @property
    def label(self) -> str:
        return f"{self.method} {self.operation.path} ({dotted_name(self.site_code)})"


def operations(api: NinjaAPI) -> Iterator[NinjaOperation]:
    """Yield all operations of an API in the order of its routers."""
    for bound in _bound(api):
        patterns = iter(bound.urls_paths(bound.prefix))
        for view in bound.path_operations.values():
            for operation in view.operations:
                operation.api = api
                route = next(patterns).pattern
                for method in operation.methods:
                    name = operation.operation_id or operation.view_func.__name__
                    name = name if len(operation.methods) == 1 else f"{name}_{method.lower()}"
                    yield NinjaOperation(operation, method, route, name, bound.url_name_prefix, bound.template)


def _bound(api: NinjaAPI) -> Any:
    """Return copies of an API's bound routers, so that changes for tools do not affect the API.

    Binding closes routers; they are reopened, because the site may still add operations.
    """
    own: Any = copy.copy(api)
    own._bound_routers_cache = None  # noqa: SLF001 - there is no public API for operations
    known = [known_router for _, router, *_ in own._router_registrations for known_router in within(router)]  # noqa: SLF001
    before = [(router, router._frozen) for router in known]  # noqa: SLF001
    try:
        return own._get_bound_routers()  # noqa: SLF001
    finally:
        for router, frozen in before:
            router._frozen = frozen  # noqa: SLF001


def within(router: Router) -> Iterator[Router]:
    """Yield a router and all routers added to it, recursively."""
    yield router
    for _, child, *_ in router._routers:  # noqa: SLF001
        yield from within(child)


def callbacks(operation: Operation, auth: Callable[[Any], Any] | None) -> list[Callable[[Any], Any]] | None:
    """Return the authentication callbacks of a tool, or None if *auth* is required.

    Callbacks that read a credential are replaced by *auth*, or dropped if there are others; all others are kept.
    """
    kept: list[Callable[[Any], Any]] = []
    for callback in operation.auth_callbacks:
        if not _wants_credential(callback):
            kept.append(callback)
        elif auth is not None and auth not in kept:
            kept.append(auth)
    return kept if kept or not operation.auth_callbacks else None


def _wants_credential(callback: Any) -> bool:
    is_session = isinstance(callback, SessionAuth | SessionAuthSuperUser)
    return isinstance(callback, HttpAuthBase | APIKeyBase) and not is_session


class _Description(OpenAPISchema):
    """The OpenAPI description of one operation: in a shared one, schemas with the same name overwrite each other."""

    def get_paths(self) -> dict[str, Any]:
        return {}

    def document(self) -> Document:
        return Document(self.schemas)


def argument_locations(operation: Operation, headers: Mapping[str, str], label: str) -> list[ArgumentLocation]:
    """Return the location of each argument in the request.

    Args:
        headers: headers of every request, by lower-case name with hyphens.

    Raises:
        ImproperlyConfigured: the operation requires a header or cookie that is not sent.
    """
    described = _Description(operation.api, "")
    parameters = described.operation_parameters(operation)
    body = described.request_body(operation)
    for parameter in parameters:
        name, kind = parameter["name"].lower().replace("_", "-"), parameter["in"]
        if parameter["required"] and (kind == "cookie" or (kind == "header" and name not in headers)):
            msg = (
                f"{label}: requires the {kind} {name!r}, which MCP clients do not send. Give it a "
                "default, exclude the operation, or set headers={…} to send with every request."
            )
            raise ImproperlyConfigured(msg)
    parameters = [
        {**parameter, "required": parameter["required"] or parameter["in"] == "path"} for parameter in parameters
    ]
    found = list(parameter_locations(parameters, described.document()))
    if body:
        (content,) = body["content"].values()
        name = _body_name(operation)
        found += body_locations(content["schema"], described.document(), required=body["required"], name=name)
    unsendable = set(_unsendable(operation))
    for location in found:
        if location.required and location.name in unsendable:
            msg = (
                f"{label}: no request can send a value of {location.name!r}, since its type compares the text of the "
                "request with numbers, as Literal[1, 2] does. Declare an enum.IntEnum, or exclude the operation."
            )
            raise ImproperlyConfigured(msg)
    return [location for location in found if location.name not in unsendable]


def _unsendable(operation: Operation) -> Iterator[str]:
    """Yield the parameters none of whose values can be sent as text, as those of ``Literal[1, 2]``."""
    described = _Description(operation.api, "")
    for model in operation.models:
        for parameter in described._extract_parameters(model) if hasattr(model, "__ninja_flatten_map__") else ():  # noqa: SLF001
            schema = described.document().schema(parameter["schema"])
            values = list(_listed(schema))
            if values and not any(_is_taken(model, parameter["name"], schema, value) for value in values):
                yield parameter["name"]


def _listed(schema: Any) -> Iterator[Any]:
    """Yield the values of an enumeration, or of items that are one."""
    forms = schema.get("anyOf", [schema])
    if all({"enum", "const", "items"} & form.keys() or form.get("type") == "null" for form in forms):
        for form in forms:
            yield from form.get("enum", ())
            yield from [form["const"]] if "const" in form else []
            yield from _listed(form["items"]) if isinstance(form.get("items"), dict) else []


def _is_taken(model: Any, name: str, schema: Any, value: Any) -> bool:
    """Return True if a model takes the text of a value for a parameter."""
    text = as_text(value)
    data: dict[str, Any] = {}
    location = model.__ninja_flatten_map__[name]
    model._map_data_path(data, [text] if schema.get("type") == "array" else text, location)  # noqa: SLF001
    try:
        model.model_validate(data)
    except ValidationError as error:
        return not any(detail["loc"][: len(location)] == location for detail in error.errors())
    return True


def _is_form(operation: Operation) -> bool:
    return any(issubclass(model, FormModel | FileModel) for model in operation.models)


def _body_name(operation: Operation) -> str | None:
    models = [] if _is_form(operation) else [kind for kind in operation.models if issubclass(kind, BodyModel)]
    names = [field.alias or name for model in models for name, field in model.model_fields.items()]
    return names[0] if len(names) == 1 else None


def output(operation: Operation) -> dict[str, Any] | None:
    """Return the schema of structured content.

    None if the response is undeclared, may be empty, is a stream or not JSON, or has several schemas.
    """
    described = _Description(operation.api, "")
    schema = output_schema(described.responses(operation), described.document())
    if schema is not None and (operation.exclude_unset or operation.exclude_defaults or operation.exclude_none):
        schema = without_required(schema)
    return schema


def _in_place_of(operation: Operation, run: Any, function: Any) -> Any:
    return run if getattr(function, "__self__", None) is operation and function.__name__ == "run" else None


_VARIABLE = re.compile(r"<(?:[^<>:]+:)?([^<>]+)>")


@dataclass(frozen=True)
class Endpoint:
    """The function of a tool: a call of one operation."""

    declaration: NinjaOperation
    arguments: OperationArguments
    headers: Mapping[str, str]

    def __call__(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        given = keywords["given"]
        sent = self.arguments.request_data(given)
        path, variables = self._place(sent.path)
        request = site_request(ctx, self._call(path, sent))
        response: Any = run_view(self._view(variables), request)
        if response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and (problems := self._problems(response, given)):
            close_response(response)
            raise ArgumentError(problems)
        if response.streaming and self.declaration.operation.stream_format is not None:
            response["Content-Type"] = "text/plain"  # a stream of lines is returned as text
        return tool_result(response, request, ctx=ctx)

    def check(self, ctx: Context, keywords: Mapping[str, Any]) -> None:
        """Raise the error with which the operation would refuse the call before its function runs.

        That is: by decorators of its view, by its authentication, or because arguments are invalid. Throttles count the
        call itself.
        """
        operation = copy.copy(self.declaration.operation)
        decorated = vars(operation).pop("run", None)  # with decorators of the site around that of the original
        replace_run = partial(_in_place_of, self.declaration.operation, operation.run)
        if decorated is not None and (run := replace_decorated(decorated, replace_run)) is not None:
            vars(operation)["run"] = run
        operation.throttle_objects, operation.stream_format = [], None

        def nothing(*_: Any, **__: Any) -> HttpResponse:
            return HttpResponse()

        async def async_nothing(*_: Any, **__: Any) -> HttpResponse:
            return HttpResponse()

        operation.view_func = async_nothing if operation.is_async else nothing
        replace(self, declaration=replace(self.declaration, operation=operation))(ctx, keywords)

    def _place(self, values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        declaration = self.declaration
        try:
            root = declaration.operation.api.get_root_path({})
        except Exception:  # noqa: BLE001 - the API is not in the URLconf, or Django cannot reverse the site's patterns
            root = get_script_prefix()
        route = str(declaration.route)
        plain = _VARIABLE.sub(lambda found: str(values[found[1]]), route)
        match = declaration.route.match(plain)
        if match is None or match[0] or not all(map(fits_into_path, values.values())):
            raise ToolError(not_found_text(values))
        return root + quote(plain), match[2]

    def _call(self, path: str, sent: RequestData) -> Call:
        models = self.declaration.operation.models
        parts = [name for model in models if issubclass(model, BodyModel) for name in model.model_fields]
        body: Any = None if sent.body is OMITTED else sent.body
        if is_form := _is_form(self.declaration.operation):
            given = (body or {}).items()
            body = {name: json.dumps(value) if name in parts else as_text(value) for name, value in given}
        elif body is not None or sent.body is None:
            body = json.dumps(body).encode()
        kind = (MULTIPART if parts or sent.files else FORM) if is_form else JSON
        return Call(self.declaration.method, path, sent.query, body, kind, self.headers, sent.files)

    def _view(self, variables: Mapping[str, Any]) -> Callable[[Any], Any]:
        run: Callable[..., Any] = partial(self.declaration.operation.run, **variables)

        async def aview(request: Any) -> Any:
            return await run(request)

        def view(request: Any) -> Any:
            return run(request)

        chosen: Callable[[Any], Any] = aview if self.declaration.operation.is_async else view
        return fix_request_files_middleware(chosen) if FIX_MIDDLEWARE_PATH in settings.MIDDLEWARE else chosen

    def _problems(self, response: Any, given: Mapping[str, Any]) -> list[str]:
        if media_type(response) != JSON:
            return []
        match from_json(response.content):
            case {"detail": [*details]} if all(isinstance(detail, dict) and "loc" in detail for detail in details):
                return sentences([self._detail(detail, given) for detail in details], given, self.arguments.schema)
        return []

    def _detail(self, detail: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        source, *location = detail["loc"]
        if source == "body" and location[:1] == [_body_name(self.declaration.operation)]:
            location = location[1:]
        location = self.arguments.argument(location) or tuple(location)
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
    """Offer the operations of a django-ninja API as tools. The API stays unchanged.

    Each call is a request as the calling user, through the operation's decorators, throttles and validation.

    Args:
        source: the API, or one of its routers with all routers below it. Operations added later are not included.
        api: the API of a router.
        include: offer only these operations, by ``operation_id`` or function name. They may be excluded from the API's
            schema.
        exclude: operations to leave out.
        with_tags: offer only operations with one of these tags.
        auth: replaces authentication by bearer token, API key or password, which tools cannot provide:
            ``ninja.security.django_auth`` admits every authenticated user. Takes the request; its return value becomes
            ``request.auth``. Other callbacks, such as ``django_auth_superuser``, stay in effect.
        headers: headers of every request.
        tags: tags of the tools, in addition to those of the operations.
        server: one or several endpoints or namespaces to register at. Default: ``django_mcp.server``.
        **options: options of ``tool`` for each tool: ``permission``, ``namespace``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: an operation does not exist, or cannot be called without further options.
    """
    sent = {name.lower().replace("_", "-"): value for name, value in (headers or {}).items()}
    chosen = _chosen(source, api, include, exclude, with_tags)
    for declaration in chosen:
        _guard(declaration, auth)
    labels = [f"ninja_tools: {declaration.label}" for declaration in chosen]
    arguments = [
        OperationArguments(argument_locations(declaration.operation, sent, label), label)
        for declaration, label in zip(chosen, labels, strict=True)
    ]
    pairs = list(zip(chosen, arguments, strict=True))
    register_at(server, lambda _: (_tool(declaration, taken, sent, tags, options) for declaration, taken in pairs))


def _tool(
    declaration: NinjaOperation,
    arguments: OperationArguments,
    headers: Mapping[str, str],
    tags: Collection[str],
    options: Mapping[str, Any],
) -> Tool:
    operation, endpoint = declaration.operation, Endpoint(declaration, arguments, headers)
    name = f"{declaration.prefix}_{declaration.name}" if declaration.prefix else declaration.name
    shown = output(operation)
    returns = EMPTY if shown is None else shaped(shown)
    words = operation.description or operation.summary
    own: dict[str, Any] = {
        "name": name,
        "title": operation.summary,
        "description": f"Deprecated. {words}" if operation.deprecated else words,
    }
    tool = Tool(
        function(endpoint, name, [], declaration, returns),
        context_type=Context,
        arguments=arguments,
        tags=[*tags, *(operation.tags or ())],
        **request_options(declaration.method, options, **own),
    )
    if declaration.method not in SAFE:
        tool.check_call = endpoint.check
    return tool


def _guard(declaration: NinjaOperation, auth: Callable[[Any], Any] | None) -> None:
    operation = declaration.operation
    auth_callbacks = callbacks(operation, auth)
    if auth_callbacks is None:
        guards = ", ".join(type(callback).__name__ for callback in operation.auth_callbacks)
        msg = (
            f"ninja_tools: {declaration.label} requires {guards}, but a tool has no such credential. Set "
            "auth=ninja.security.django_auth to admit every authenticated user, or auth= to a function of the request."
        )
        raise ImproperlyConfigured(msg)
    operation.auth_callbacks = auth_callbacks


def _chosen(
    source: NinjaAPI | Router,
    api: NinjaAPI | None,
    include: Collection[str] | None,
    exclude: Collection[str],
    with_tags: Collection[str] | None,
) -> list[NinjaOperation]:
    every = list(_operations(source, api))
    for option, given, known in (
        ("include", include, {name for declaration in every for name in _names(declaration)}),
        ("exclude", exclude, {name for declaration in every for name in _names(declaration)}),
        ("with_tags", with_tags, {tag for declaration in every for tag in declaration.operation.tags or ()}),
    ):
        if unknown := set(given or ()) - known:
            msg = f"ninja_tools: unknown {option}: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}."
            raise ImproperlyConfigured(msg)
    return [declaration for declaration in every if _is_chosen(declaration, include, exclude, with_tags)]


def _is_chosen(
    declaration: NinjaOperation,
    include: Collection[str] | None,
    exclude: Collection[str],
    with_tags: Collection[str] | None,
) -> bool:
    names, operation = _names(declaration), declaration.operation
    if names.intersection(exclude) or (with_tags is not None and not set(operation.tags or ()).intersection(with_tags)):
        return False
    return operation.include_in_schema if include is None else bool(names.intersection(include))


def _names(declaration: NinjaOperation) -> set[str]:
    return {declaration.name, declaration.operation.operation_id or declaration.operation.view_func.__name__}


def _operations(source: NinjaAPI | Router, api: NinjaAPI | None) -> Iterator[NinjaOperation]:
    match source, api:
        case NinjaAPI(), None:
            yield from operations(source)
        case Router(), NinjaAPI():
            routers = list(within(source))
            found = [operation for operation in operations(api) if operation.router in routers]
            if not found:
                msg = f"ninja_tools: the router has no operations in {api.title!r}, or is not part of it."
                raise ImproperlyConfigured(msg)
            yield from found
        case Router(), None:
            msg = "ninja_tools: a router needs the API that it belongs to: ninja_tools(router, api=api)."
            raise ImproperlyConfigured(msg)
        case _:
            msg = f"ninja_tools takes a NinjaAPI, or a Router with api=, not {source!r}."
            raise ImproperlyConfigured(msg)


__all__ = ["ninja_tools"]
