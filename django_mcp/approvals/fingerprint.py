"""Digests that identify a call by its caller, tool and arguments, so that an approval fits only the same call.

If two values may differ in meaning, they get different digests: at worst a call needs a second approval. So each value
is encoded with its type, and nothing is rounded.
"""

import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from typing import Any

from django.core.files import File
from django.db.models import Model
from django.utils.crypto import salted_hmac
from django.utils.translation import get_language
from pydantic import BaseModel, SecretBytes, SecretStr

from django_mcp.approvals.previews import ENDS_THE_CALL
from django_mcp.approvals.tool_definitions import current_definition
from django_mcp.core.context import Context
from django_mcp.core.policies import Rule
from django_mcp.primitives.tool import Tool

SALT = "django_mcp.approvals"
GIVEN = "given"
"""Parameter that holds the arguments of tools made from forms, views or APIs."""


class _NoForm(Exception):
    """The value has no encoding that is the same in every process."""


ModelArgument = Mapping[str, Any]
"""Argument name -> the row or rows it addresses; "" -> the row that no argument names."""


def digest(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> str:
    """Return the keyed digest of a caller, tool and arguments. The key prevents guessing short secrets.

    *keywords* are validated and include defaults; *rows* come from ``addressed``, as the same arguments may later
    address other rows.
    """
    principal = context.principal
    # With the account's key, as a username may be reassigned.
    caller = [principal.kind, principal.id, principal.client_id or "", str(getattr(context.user, "pk", None))]
    where = [*context.addressed_to, "" if _given(tool, keywords) is None else get_language()]
    return _keyed([context.server.name, tool.key, *caller, *where, canonical(context, tool, keywords, rows)])


def _given(tool: Tool, keywords: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # Form, view and API tools parse dates and numbers in the call's language.
    given = keywords.get(GIVEN)
    is_made = isinstance(given, Mapping) and all(parameter.name != GIVEN for parameter in tool.function.parameters)
    return given if is_made else None


def parts(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> dict[str, str]:
    """Return the digest of each argument, for auto-approval rules, and under "" of what no argument names.

    That is the tenant, and the row of a tool whose row is not an argument.
    """
    found = canonical(context, tool, keywords, rows)
    found[""] = [context.addressed_to, found.get("")]
    return {name: _keyed([name, value]) for name, value in found.items()}


def addressed(context: Context, tool: Tool, keywords: Mapping[str, Any]) -> ModelArgument:
    """Return the rows that a call's arguments address now. Blocks.

    Return an empty mapping if a row does not exist for the caller; the preview or the call raises that error.
    """
    if tool.rows_of is None:
        return {}
    try:
        return tool.rows_of(context, keywords)
    except ENDS_THE_CALL:
        return {}


def is_same(rows: Any, others: Any) -> bool:
    # Their contents are not compared.
    return bool(_form(rows) == _form(others))


def _keyed(value: Any) -> str:
    return salted_hmac(SALT, _text(value), algorithm="sha256").hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def version(tool: Tool, rule: Rule) -> str:
    """Return a value that changes with the tool's definition, its policy, or who may decide its calls."""
    who = "" if tool.self_approval is None else f" {tool.self_approval}"
    return hashlib.sha256(f"{current_definition(tool).digest} {rule.version}{who}".encode()).hexdigest()


def canonical(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> dict[str, Any]:
    """Return the arguments in canonical form: independent of their order, of number formats and of omitted defaults.

    An argument without a canonical form is represented by all the arguments that were sent.
    """
    keywords = _given(tool, keywords) or keywords
    sent = context.params.get("arguments") or {}
    found = {str(name): _argument(value, sent) for name, value in keywords.items()}
    bound = {name: ["of", value, _form(rows[name])] if name in rows else value for name, value in found.items()}
    return bound if "" not in rows else {**bound, "": _form(rows[""])}


def _argument(value: Any, sent: Any) -> Any:
    try:
        return _form(value)
    except _NoForm:
        return ["sent", _form(sent)]


def _form(value: Any) -> Any:  # noqa: PLR0911 - one line for each kind
    match value:
        case enum.Enum():
            return ["enum", _form(value.value)]
        case None | bool() | str():
            return value
        case float() if value == 0 and math.copysign(1, value) < 0:
            return ["minus", 0]
        case int() | float():
            return int(value) if value == value // 1 and abs(value) < 2**53 else value
        case File():
            return _form_of_file(value)
        case Model() if value.pk is not None:
            return ["row", value._meta.label, _form(value.pk)]  # noqa: SLF001 - Django's documented API
    return _form_of_one(value)


def _form_of_one(value: Any) -> Any:  # noqa: PLR0911 - one line for each kind
    match value:
        case decimal.Decimal():
            return ["decimal", _exactly(value)]
        case bytes() | bytearray():
            return ["bytes", hashlib.sha256(value).hexdigest()]
        case datetime.datetime() | datetime.date() | datetime.time():
            # With the original time zone: a tool may use the local date.
            return [type(value).__name__, value.isoformat()]
        case datetime.timedelta():
            return ["timedelta", value.days, value.seconds, value.microseconds]
        case uuid.UUID():
            return ["uuid", str(value)]
        case SecretStr() | SecretBytes():
            return ["secret", _form(value.get_secret_value())]
    return _form_of_many(value)


def _exactly(value: decimal.Decimal) -> Any:
    # normalize() would round.
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return str(value)
    text = "".join(map(str, digits))
    short = text.rstrip("0")
    return [sign, short.lstrip("0"), exponent + len(text) - len(short)] if short else "0"


def _form_of_many(value: Any) -> Any:
    match value:
        case Mapping():
            return ["dict", sorted(([_form(key), _form(entry)] for key, entry in value.items()), key=_text)]
        case list() | tuple():
            return ["list", *map(_form, value)]
        case set() | frozenset():
            return ["set", *sorted(map(_form, value), key=_text)]
        case BaseModel():
            return _form_of_model(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return ["object", _name(value), _form(fields)]
    raise _NoForm


def _form_of_model(value: BaseModel) -> Any:
    fields = {name: getattr(value, name) for name in type(value).model_fields}
    extra = value.__pydantic_extra__ or {}
    # A tool may treat an omitted field as unchanged.
    return ["object", _name(value), _form(fields), _form(extra), sorted(value.model_fields_set)]


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _form_of_file(file: Any) -> Any:
    # The file is left at its start.
    file.seek(0)
    found = hashlib.sha256()
    for chunk in file.chunks():
        found.update(chunk)
    file.seek(0)
    return ["file", file.name, getattr(file, "content_type", None), found.hexdigest()]
