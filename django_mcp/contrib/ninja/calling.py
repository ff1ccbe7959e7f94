"""From the arguments of a call to the operation's response and back."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.urls import NoReverseMatch, get_script_prefix
from ninja.compatibility.files import FIX_MIDDLEWARE_PATH, fix_request_files_middleware
from ninja.params.models import BodyModel, FileModel, FormModel
from pydantic_core import from_json

from django_mcp import Context, ToolError, ToolResult
from django_mcp.adapters.paths import fits_into_path, nothing_with
from django_mcp.adapters.refusals import media_type
from django_mcp.adapters.requests import FORM, JSON, MULTIPART, Call, run_view, site_request
from django_mcp.adapters.responses import close, tool_result
from django_mcp.contrib.ninja.arguments import LEFT_OUT, OperationArguments, Sent
from django_mcp.contrib.ninja.operations import Published
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import sentences

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
