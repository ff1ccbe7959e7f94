"""From the arguments of a call to the view's response and back."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol
from urllib.parse import quote

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import FieldError, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import DataError, router
from django.db.models import Model
from django.http import Http404
from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser
from rest_framework.response import Response
from rest_framework.status import HTTP_204_NO_CONTENT, is_client_error
from rest_framework.versioning import AcceptHeaderVersioning, QueryParameterVersioning

from django_mcp import Context, ToolError, ToolResult
from django_mcp.adapters.paths import nothing_with
from django_mcp.adapters.requests import FORM, JSON, MULTIPART, Call, run_view, site_request
from django_mcp.adapters.responses import tool_result
from django_mcp.contrib.rest_framework.addresses import NoSuchURLError, place
from django_mcp.contrib.rest_framework.answers import answered
from django_mcp.contrib.rest_framework.arguments import APIArguments, Sent
from django_mcp.contrib.rest_framework.dialect import Schema
from django_mcp.contrib.rest_framework.refusals import refused
from django_mcp.contrib.rest_framework.views import Operation
from django_mcp.core.database import rolled_back
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import missing_argument

MOST_ROWS = 100
"""So many rows are looked at that an argument may name."""


class Description(Protocol):
    """What a view tells of an operation, as far as calls need it.

    Attributes:
        view: the view as schemas are generated from it.
    """

    view: Any

    @property
    def arguments(self) -> APIArguments:
        """The arguments of the tool."""

    @property
    def output(self) -> Schema | None:
        """JSON Schema of the tool's structured content."""

    @property
    def model(self) -> Any:
        """The model of the view's rows, or None."""

    @property
    def addresses_rows(self) -> bool:
        """The body may name rows other than by primary key."""

    def rows_in(self, view: Any, sent: Sent) -> dict[str, Any]:
        """Return the rows that a body names, by argument."""


@dataclass(frozen=True)
class Endpoint:
    """What a tool calls.

    Attributes:
        described: what the view tells of it.
        version: of the API, for views with versions.
        mounted: the view is in the URLconf.
        done: what a model is told of an answer without a body.
    """

    operation: Operation
    described: Description
    version: str | None
    mounted: bool
    done: str

    def __call__(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        """Call the view as the caller, and tell what it answered.

        Raises:
            ToolError: it refused.
            ArgumentError: no URL of it can be made of the arguments.
        """
        given, arguments, output = keywords["given"], self.described.arguments, self.described.output
        request, view, args, variables = self._asked(ctx, arguments.sent(given))
        response: Any = run_view(view, request, args, variables)
        if is_client_error(response.status_code):
            raise refused(response, arguments, given, ctx.user)
        result = tool_result(response, request, ctx=ctx)
        if response.status_code == HTTP_204_NO_CONTENT or (isinstance(response, Response) and response.data is None):
            return ToolResult({} if output else None, text=self.done)
        return answered(result, arguments, output)

    def rows(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The rows that a call means, by argument: the one that it is about, and those that its body names.

        The view and its serializer find them, with the request of the call and behind the view's permissions. What is
        none for the caller is left out. What they write meanwhile is rolled back.

        Raises:
            ToolError, ArgumentError: as when it is called.
        """
        sent = self.described.arguments.sent(keywords["given"])
        name = self.operation.lookup if self.operation.lookup in sent.path else None
        if name is None and not self.described.addresses_rows:
            return {}
        model = self.described.model
        alias = None if model is None else router.db_for_write(model)
        try:
            return rolled_back(partial(rolled_back, partial(self._found, ctx, sent, name), alias))
        except (ToolError, ArgumentError):
            raise
        except Exception:  # noqa: BLE001 - it needs what is around it in the URLconf perhaps, or cannot find rows at all
            return {} if name is None else {name: rolled_back(partial(self._of_model, sent.path[name]), alias)}

    def _found(self, ctx: Context, sent: Sent, name: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def look(view: Any) -> None:
            if name is not None and not hasattr(view, "get_object"):
                found[name] = self._of_model(sent.path[name])
            elif name is not None:
                with suppress(APIException, Http404, PermissionDenied, ObjectDoesNotExist):
                    row = view.get_object()
                    found[name] = row if isinstance(row, Model) and row.pk is not None else None
            found.update(self.described.rows_in(view, sent))

        request, view, args, variables = self._asked(ctx, sent)
        mapping = [dict(view.actions)] if getattr(view, "actions", None) else []
        run_view(self._looking.as_view(*mapping, **{**view.initkwargs, "mcp_look": look}), request, args, variables)
        return found

    @cached_property
    def _looking(self) -> Any:
        """The view, with a handler that only looks. To look does not count as a call."""

        def handle(view: Any, request: Any, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG001
            view.mcp_look(view)
            return Response()

        view = self.operation.view
        own = {"__module__": view.__module__, "mcp_look": None, "check_throttles": lambda _view, _request: None}
        return type(view.__name__, (view,), {**own, self.operation.handler: handle})

    def _of_model(self, value: Any) -> Any:
        """The keys of all rows that an argument may name; None where that cannot be known."""
        model = self.described.model
        if model is None:
            return None
        rows = model._base_manager.using(router.db_for_write(model))  # noqa: SLF001 - Django's documented API
        try:
            found = rows.filter(**{self.described.view.lookup_field: value}).order_by("pk").values_list("pk", flat=True)
            return list(found[:MOST_ROWS]) or None
        except (FieldError, ValueError, TypeError, ValidationError, DataError):
            return None

    def _asked(self, ctx: Context, sent: Sent) -> tuple[Any, Any, Any, Mapping[str, Any]]:
        """The request, the view behind its URL, and what that takes besides.

        Raises:
            ToolError, ArgumentError: there is no such URL.
        """
        path, view, args, variables, match = self._place(sent)
        request: Any = site_request(ctx, self._call(path, sent))
        request.resolver_match = match
        # What REST framework's own test client sets: the view's authenticators are not asked. There is no token to
        # give: the caller's is for this endpoint, and for nothing behind it.
        caller = AnonymousUser() if ctx.user is None else ctx.user
        request._force_auth_user, request._force_auth_token = caller, None  # noqa: SLF001
        return request, view, args, variables

    def _place(self, sent: Sent) -> tuple[str, Any, Any, Mapping[str, Any], Any]:
        """The path, the view behind it, what it takes besides the request, and the resolver's match."""
        values = dict(sent.path)
        if (variable := self.operation.version_variable) and self.version is not None:
            values[variable] = self.version
        if not self.mounted:
            path = "/".join(["", *(quote(str(value), safe="") for value in values.values()), ""])
            return path or "/", self._unmounted, (), values, None
        try:
            path, match = place(self.operation, values, self.version)
        except NoSuchURLError as error:
            if error.lacking:
                raise ArgumentError([missing_argument([name]) for name in sorted(error.lacking)]) from None
            raise ToolError(nothing_with(sent.path)) from None
        return path, match.func, match.args, match.kwargs, match

    @cached_property
    def _unmounted(self) -> Any:
        view: Any = self.operation.view
        mapping = [] if self.operation.mapping is None else [dict(self.operation.mapping)]
        return view.as_view(*mapping, **self.operation.initkwargs)

    def _call(self, path: str, sent: Sent) -> Call:
        scheme = self.operation.view.versioning_class
        accept, query = JSON, dict(sent.query)
        if scheme and self.version is not None and issubclass(scheme, AcceptHeaderVersioning):
            accept = f"{JSON}; {scheme.version_param}={self.version}"
        if scheme and self.version is not None and issubclass(scheme, QueryParameterVersioning):
            query[scheme.version_param] = self.version
        content_type = MULTIPART if sent.files else self._content_type
        if isinstance(sent.body, list):  # which no form can be
            content_type = JSON
        body = sent.body if content_type == JSON else as_form(sent.body or {})
        headers = {"Accept": f"{accept}, */*;q=0.1"}
        return Call(self.operation.method, path, query, body, content_type, headers, sent.files)

    @cached_property
    def _content_type(self) -> str:
        """What to send without files: JSON where the view takes it."""
        parsers: list[BaseParser] = self.operation.instance().get_parsers()
        taken = [each.media_type for each in parsers]
        return next((each for each in (JSON, MULTIPART, FORM) if each in taken), JSON)


def as_form(body: Any, prefix: str = "") -> dict[str, Any]:
    """A body as REST framework reads forms: ``a.b`` for a member, ``a[0]b`` for one of an item, text for all else."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found |= as_form(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                found |= as_form(each, f"{name}[{number}]") if isinstance(each, dict) else {f"{name}[{number}]": each}
        else:
            found[name] = [_text(each) for each in value] if isinstance(value, list) else _text(value)
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
