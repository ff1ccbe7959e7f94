"""What a value must be, by pydantic's name for what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Any

_DATE = "a date like 1999-12-31 (year-month-day)"
_MOMENT = "a date and time like 1999-12-31T14:30:00Z"
_TIME = "a time like 14:30:00"
_DURATION = "a duration like P3DT12H30M (ISO 8601)"
_INTEGER = "an integer"
_UUID = "a UUID like 123e4567-e89b-12d3-a456-426614174000"
_URL = "a URL like https://example.com/page"

_KINDS: Mapping[str, str] = {
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_from_float": _INTEGER,
    "int_parsing_size": "an integer of fewer digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "decimal_type": "a decimal number like 12.50",
    "decimal_parsing": "a decimal number like 12.50",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "iterable_type": "an array",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "none_required": "null",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": "a date without a time, like 1999-12-31",
    "date_past": "a date in the past",
    "date_future": "a date in the future",
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
    "datetime_past": "a moment in the past",
    "datetime_future": "a moment in the future",
    "timezone_aware": "a date and time with an offset, like 1999-12-31T14:30:00Z",
    "timezone_naive": "a date and time without an offset, like 1999-12-31T14:30:00",
    "time_type": _TIME,
    "time_parsing": _TIME,
    "time_delta_type": _DURATION,
    "time_delta_parsing": _DURATION,
    "uuid_type": _UUID,
    "uuid_parsing": _UUID,
    "uuid_version": _UUID,
    "url_type": _URL,
    "url_parsing": _URL,
    "url_syntax_violation": _URL,
    "url_scheme": "a URL that begins with {expected_schemes}",
    "path_type": "a path like reports/may.txt",
    "ip_v4_address": "an IPv4 address like 192.0.2.1",
    "ip_v6_address": "an IPv6 address like 2001:db8::1",
    "ip_any_address": "an IP address like 192.0.2.1",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
_MEASURES: Mapping[str, str] = {
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "bytes_too_short": "at least {min_length} bytes",
    "bytes_too_long": "at most {max_length} bytes",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
}
_DIGITS: Mapping[str, str] = {
    "decimal_max_digits": "no more than {max_digits} digits",
    "decimal_max_places": "no more than {decimal_places} digits after the point",
    "decimal_whole_digits": "no more than {whole_digits} digits before the point",
}
_WRITTEN_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def predicate(detail: Any) -> str | None:
    """What a value must, as in ``be an integer``; None where pydantic's own words have to do.

    Args:
        detail: one entry of ``ValidationError.errors()``.
    """
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind in {"string_too_short", "too_short", "bytes_too_short"} and not value:
        return "not be empty"
    if kind in _MEASURES:
        words = _MEASURES[kind].format_map(context)
        return "have " + (
            words.replace("characters", "character").replace("entries", "entry") if " 1 " in words else words
        )
    if kind in _DIGITS:
        return "be a number with " + _DIGITS[kind].format_map(context)
    if kind.startswith("date") and isinstance(value, str) and _WRITTEN_DATE.match(value) and "parsing" in kind:
        return "be " + _KINDS[kind].replace(" like", " that exists, like").removesuffix(" (year-month-day)")
    if kind in _KINDS:
        return "be " + _KINDS[kind].format_map(context)
    words = detail["msg"]
    return words.removeprefix("Input should ") if words.startswith("Input should be ") else None
