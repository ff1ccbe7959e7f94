"""Which calls are the same call: by the same caller, of the same tool, with arguments that mean the same.

Where it is in doubt whether two values mean the same they do not: that costs another approval, and the opposite could
run what nobody approved. So each form says what kind of value it is of, and nothing is rounded.
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
from pydantic import BaseModel, SecretBytes, SecretStr

from django_mcp.approvals.previews import ENDS_THE_CALL
from django_mcp.approvals.tool_policies import known
from django_mcp.core.context import Context
from django_mcp.core.policies import Rule
from django_mcp.core.request import host_of
from django_mcp.primitives.tool import Tool

SALT = "django_mcp.approvals"
GIVEN = "given"
"""Under this name tools that are made of something else, a form or an API, have their arguments."""


class _NoForm(Exception):
    """A value that has none that is the same in every process."""


ModelArgument = Mapping[str, Any]
"""Argument's name -> the row, or the rows, that it addresses now; "" -> the row that no argument says."""


def digest(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> str:
    """Of who calls what with which arguments; keyed, so that short secrets cannot be guessed from it.

    Args:
        context: of the call.
        tool: that is called.
        keywords: the arguments, checked and with defaults in place.
        rows: as ``addressed`` gives them: what addresses a row may come to address another.
    """
    principal = context.principal
    # With the account: the next one who is called so is somebody else. With the host, which may be a tenant's.
    caller = [principal.kind, principal.id, principal.client_id or "", str(getattr(context.user, "pk", None))]
    where = [host_of(context.request.META), "" if _given(tool, keywords) is None else context.language]
    return _keyed([context.server.name, tool.key, *caller, *where, canonical(context, tool, keywords, rows)])


def _given(tool: Tool, keywords: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments of a form, a view or an API, which reads dates and numbers itself, in the caller's language."""
    given = keywords.get(GIVEN)
    is_made = isinstance(given, Mapping) and all(each.name != GIVEN for each in tool.function.parameters)
    return given if is_made else None


def parts(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> dict[str, str]:
    """The digest of each argument, for those who approve further calls that agree in some of them."""
    return {name: _keyed([name, value]) for name, value in canonical(context, tool, keywords, rows).items()}


def addressed(context: Context, tool: Tool, keywords: Mapping[str, Any]) -> ModelArgument:
    """The rows that a call's arguments address now. Blocks.

    Where one does not exist for the caller there are none: the preview, or the call, says so.
    """
    if tool.rows_of is None:
        return {}
    try:
        return tool.rows_of(context, keywords)
    except ENDS_THE_CALL:
        return {}


def is_same(rows: Any, others: Any) -> bool:
    """Return True if two values of ``ModelArgument`` are the same rows, whatever else of them has changed."""
    return bool(_form(rows) == _form(others))


def _keyed(value: Any) -> str:
    return salted_hmac(SALT, _text(value), algorithm="sha256").hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def version(tool: Tool, rule: Rule) -> str:
    """What is another one when the tool, or what was decided about it, has changed."""
    return hashlib.sha256(f"{known(tool).digest} {rule.version}".encode()).hexdigest()


def canonical(context: Context, tool: Tool, keywords: Mapping[str, Any], rows: ModelArgument) -> dict[str, Any]:
    """The arguments in a form that is the same for the same arguments: order, number forms and defaults aside.

    An argument whose checked value has no such form stands for all that was sent.
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
            # With the zone as it was given: a tool may ask for the day.
            return [type(value).__name__, value.isoformat()]
        case datetime.timedelta():
            return ["timedelta", value.days, value.seconds, value.microseconds]
        case uuid.UUID():
            return ["uuid", str(value)]
        case SecretStr() | SecretBytes():
            return ["secret", _form(value.get_secret_value())]
    return _form_of_many(value)


def _exactly(value: decimal.Decimal) -> Any:
    """Without zeros at its end; ``normalize()`` would round."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return str(value)
    text = "".join(map(str, digits))
    short = text.rstrip("0")
    return [sign, short.lstrip("0"), exponent + len(text) - len(short)] if short else "0"


def _form_of_many(value: Any) -> Any:
    match value:
        case Mapping():
            return ["dict", sorted(([_form(key), _form(each)] for key, each in value.items()), key=_text)]
        case list() | tuple():
            return ["list", *map(_form, value)]
        case set() | frozenset():
            return ["set", *sorted(map(_form, value), key=_text)]
        case BaseModel():
            return _form_of_model(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return ["object", _name(value), _form(fields)]
    raise _NoForm


def _form_of_model(value: BaseModel) -> Any:
    """With the names of what was given: a tool may take what was left out for what is to stay as it is."""
    fields = {name: getattr(value, name) for name in type(value).model_fields}
    extra = value.__pydantic_extra__ or {}
    return ["object", _name(value), _form(fields), _form(extra), sorted(value.model_fields_set)]


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _form_of_file(file: Any) -> Any:
    """Name, type and contents; read from the start, and put back there."""
    file.seek(0)
    found = hashlib.sha256()
    for chunk in file.chunks():
        found.update(chunk)
    file.seek(0)
    return ["file", file.name, getattr(file, "content_type", None), found.hexdigest()]
