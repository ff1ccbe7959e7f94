"""What keeps a row from being written, in words from which a caller can mend the call; they tell of no other row."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DataError, IntegrityError
from django.db.models import ProtectedError, RestrictedError

from django_mcp.exposure.exposed import Exposed
from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.validation_errors import shortened

logger = logging.getLogger("django_mcp")

RULE = (
    "The values do not fit together, or not with what there is already: other values must be unique, or something that "
    "is needed is missing."
)
NOT_SET = "A value is missing that this tool cannot set, whatever its arguments are. The site's log says which."
_MOST_CHARACTERS = 500
_LACKING = frozenset({"blank", "null", "required"})
_OF_RELATIONS = frozenset({"invalid", "invalid_choice", "invalid_pk_value"})


@contextmanager
def readable(exposed: Exposed, arguments: Mapping[str, str]) -> Iterator[None]:
    """What goes wrong while a row is written, as far as the caller may know.

    Args:
        exposed: the row's model.
        arguments: of each field that can be given, what it is called for the caller.

    Raises:
        ToolError: in place of what was raised; so the transaction is rolled back.
    """
    try:
        with stored(exposed.options.label):
            yield
    except ValidationError as error:
        if others := _others(error, arguments):
            logger.warning("A row of %s could not be written: %s", exposed.options.label, others)
        raise ToolError(in_words(error, exposed, arguments)) from None
    except (ProtectedError, RestrictedError):
        raise ToolError(f"This {exposed.one} cannot be deleted: there is something else that needs it.") from None


@contextmanager
def of_field(name: str) -> Iterator[None]:
    """Have what is wrong with a value be told of the field *name*.

    Raises:
        ValidationError: one that names the field, in place of one that names none.
    """
    try:
        yield
    except ValidationError as error:
        raise ValidationError({name: error}) from None


@contextmanager
def stored(label: str) -> Iterator[None]:
    """What a database says no to, in words that tell of no row.

    Args:
        label: of what is written, for the log.

    Raises:
        ToolError: in place of what the database raised.
    """
    try:
        yield
    except (ProtectedError, RestrictedError):
        raise
    except IntegrityError as error:
        # The caller reads nothing of it, for a database may quote another row; the site's owner has to.
        logger.warning("A row of %s could not be written", label, exc_info=error)
        raise ToolError(RULE) from None
    except (DataError, OverflowError):
        raise ToolError("A value is outside of what the database holds. Use another one.") from None


def in_words(error: ValidationError, exposed: Exposed, arguments: Mapping[str, str]) -> str:
    """All that an error says, each sentence once."""
    by_name = error.error_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.error_list}
    return " ".join(
        dict.fromkeys(_sentence(name, each, exposed, arguments) for name, errors in by_name.items() for each in errors)
    )


def _sentence(name: str, error: Any, exposed: Exposed, arguments: Mapping[str, str]) -> str:
    params = error.params if isinstance(error.params, dict) else {}
    if "unique_check" in params:
        return _unique(params["unique_check"], arguments)
    if error.code == "unique_for_date":
        return _unique((params["field"], params["date_field"]), arguments)
    message = error.messages[0]
    if message in _names_of_constraints(exposed):
        return RULE
    message = shortened(message + _parts(error), _MOST_CHARACTERS)
    if name not in arguments:
        return _of_another_field(name, error.code, message, exposed)
    if error.code in _OF_RELATIONS and _is_relation(exposed, name):
        message = "it cannot be this one; it is none of those that can be chosen here."
    return f"Argument {arguments[name]!r}: {message}"


def _of_another_field(name: str, code: Any, message: str, exposed: Exposed) -> str:
    """What is told of a field that is no argument. It is named where the caller knows it, from reading rows."""
    if name in {column.name for column in exposed.columns if column.path is not None and not column.path.hops}:
        return f"Field {name!r}, which this tool cannot set: {message}"
    return NOT_SET if code in _LACKING else message


def _others(error: ValidationError, arguments: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with fields that are no arguments."""
    by_name = error.message_dict if hasattr(error, "error_dict") else {}
    return {name: words for name, words in by_name.items() if name not in arguments and name != NON_FIELD_ERRORS}


def _parts(error: ValidationError) -> str:
    """What an error says of the parts of a value, as those of Wagtail do of blocks."""
    told = getattr(error, "as_json_data", None)
    return f" {json.dumps(told(), cls=DjangoJSONEncoder)}" if callable(told) else ""


def _unique(names: Any, arguments: Mapping[str, str]) -> str:
    if any(name not in arguments for name in names):
        return RULE
    together = " and ".join(repr(arguments[name]) for name in names)
    alone = len(names) == 1
    return f"{'Argument' if alone else 'Arguments'} {together}: {'it' if alone else 'together they'} must be unique."


def _names_of_constraints(exposed: Exposed) -> set[str]:
    """What Django says of a constraint for which the model has no words: its name, which is not for callers."""
    constraints = [each for options in _with_parents(exposed) for each in options.constraints]
    plain = [each for each in constraints if each.violation_error_message == each.default_violation_error_message]
    return {str(each.get_violation_error_message()) for each in plain}


def _with_parents(exposed: Exposed) -> Iterator[Any]:
    yield exposed.options
    for parent in exposed.options.all_parents:
        yield parent._meta  # noqa: SLF001 - Django's documented API


def _is_relation(exposed: Exposed, name: str) -> bool:
    return any(each.name == name and each.is_relation for each in exposed.options.get_fields())
