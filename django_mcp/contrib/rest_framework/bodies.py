"""What an operation takes in its body, and what it answers: serializers, as the view or its annotations have them."""

import ast
import inspect
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from rest_framework.fields import Field
from rest_framework.generics import GenericAPIView
from rest_framework.serializers import BaseSerializer

from django_mcp.contrib.rest_framework.dialect import Schema
from django_mcp.contrib.rest_framework.notes import NOTHING, OperationNote
from django_mcp.contrib.rest_framework.views import Operation

READING = ("FILES", "POST", "get_serializer_class", "serializer_class")
"""What code that reads a body mentions, besides ``request.data``."""
FREE: Schema = {"type": "object", "description": "The JSON to send."}


def request_of(operation: Operation, view: Any, note: OperationNote, given: Any) -> Any:
    """What the body is: a serializer, a field or another type, a schema; None for no body.

    Args:
        given: what the site's ``request=`` says of it; ``NOTHING`` where it does not.
    """
    told = note.request if given is NOTHING else given
    if told is not NOTHING:
        return _made(_of_media_types(told), operation, view)
    if operation.method not in {"POST", "PUT", "PATCH"}:
        return None
    own = "serializer_class" in getattr(operation.decorated, "kwargs", {})
    if operation.is_extra and not own and not operation.mentions(*READING) and not _takes_data(operation):
        return None
    return default_serializer(operation, view) or FREE


def _takes_data(operation: Operation) -> bool:
    """Whether the handler's code has ``request.data``, or ``data=…`` for anything but a response.

    ``get_serializer(row).data`` is what it answers.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(operation.function)))
    except (OSError, TypeError, SyntaxError):  # there is no source, or one that cannot be read by itself
        return operation.mentions("data", "get_serializer")
    requests = {"request", *[*inspect.signature(operation.function).parameters][:2]}  # behind self, if there is one
    return any(_is_data_of(requests, node) or _is_given_data(node) for node in ast.walk(tree))


def _is_data_of(requests: Collection[str], node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data" and _called(node.value) in requests


def _is_given_data(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _called(node.func).endswith("Response"):
        return False
    return any(each.arg == "data" for each in node.keywords)


def _called(node: ast.AST) -> str:
    """The last part of a name with dots; nothing for other expressions."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def response_of(operation: Operation, view: Any, note: OperationNote, given: Any) -> Any:
    """What a successful answer is, likewise; ``NOTHING`` where nobody says."""
    told = note.responses if given is NOTHING else given
    if told is not NOTHING:
        return _made(_of_statuses(told), operation, view)
    if operation.is_extra or operation.action == "destroy":
        return NOTHING
    return default_serializer(operation, view) or NOTHING


def default_serializer(operation: Operation, view: Any) -> BaseSerializer | None:
    """The one the view itself would use."""
    if isinstance(view, GenericAPIView) and _is_default(view) and view.serializer_class is None:
        return None
    if hasattr(view, "get_serializer"):
        return view.get_serializer(**_keywords(operation))
    made = getattr(view, "serializer_class", None)
    return made(**_keywords(operation)) if made else None


def _is_default(view: GenericAPIView[Any]) -> bool:
    own = (type(view).get_serializer, type(view).get_serializer_class)
    return own == (GenericAPIView.get_serializer, GenericAPIView.get_serializer_class)


def _keywords(operation: Operation) -> dict[str, Any]:
    return {"partial": True} if operation.method == "PATCH" else {}


def _made(told: Any, operation: Operation, view: Any) -> Any:
    if inspect.isclass(told) and issubclass(told, BaseSerializer):
        made: Any = told
        of_view = getattr(view, "get_serializer_context", dict)
        return made(context={"request": view.request, **of_view()}, **_keywords(operation))
    if inspect.isclass(told) and issubclass(told, Field):
        return told()
    return told


def _of_media_types(told: Any) -> Any:
    """``OpenApiRequest``, or a dict by media type: the one for JSON, else the first."""
    told = getattr(told, "request", told) if not isinstance(told, Field | type) else told
    if isinstance(told, Mapping) and any("/" in str(key) for key in told):
        return _of_media_types(told.get("application/json", next(iter(told.values()))))
    return told


def _of_statuses(told: Any) -> Any:
    """``OpenApiResponse``, or a dict by status: the first that is a success."""
    told = getattr(told, "response", told) if not isinstance(told, Field | type) else told
    if isinstance(told, Mapping) and told and all(_status(key) is not None for key in told):
        successes = [key for key in told if str(_status(key)).startswith("2")]
        return _of_statuses(told[min(successes, key=lambda key: str(_status(key)))]) if successes else NOTHING
    return told


def _status(key: Any) -> str | None:
    status = key[0] if isinstance(key, tuple) else key
    return str(status) if str(status)[:1].isdigit() else None
