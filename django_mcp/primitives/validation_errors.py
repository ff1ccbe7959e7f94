"""Texts of validation errors, from which a model can correct its call."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from django_mcp.protocol.json_schema import alternatives

_MAX_SHOWN = 60
_PLAIN = re.compile(r"[\w .,:+-]+")
"""Text that needs no escapes in JSON."""
_NAMED = re.compile(r"'((?:[^'\\]|\\.?)*+)('?)", re.DOTALL)
"""Matches a quoted text also up to the end, where nothing closes it: else each quote would be followed to the end."""


MAX_WORD = 100
"""Characters of a word that are compared with others."""
MAX_WORDS = 5000
"""Words that one is compared with, which takes a few µs each. Clients send some of them, such as names of arguments."""
MAX_COMPARED = 20
"""Words with which one is compared letter by letter, which takes 50 µs each."""


def close_matches(word: str, words: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the best of *words* that resemble *word*, as ``difflib.get_close_matches`` does, in bounded time."""
    word = word[:MAX_WORD]
    pairs = set(pairwise(word))

    def count_shared_pairs(other: str) -> int:
        return len(pairs.intersection(pairwise(other)))

    possible = [other for other in islice(words, MAX_WORDS) if len(other) <= MAX_WORD]
    if len(possible) > MAX_COMPARED:
        possible = nlargest(MAX_COMPARED, possible, key=count_shared_pairs)
    return difflib.get_close_matches(word, possible, n, cutoff)


def hint(wanted: str, value: Any, *, is_optional: bool) -> str:
    """Return the end of a sentence: a suggestion, or a full stop.

    Args:
        wanted: the requirement, such as ``be an array``.
        value: the value sent.
        is_optional: the argument may be omitted.
    """
    if value is None:
        return "; omit it instead." if is_optional else "."
    if isinstance(value, str) and ("be an array" in wanted or "be an object" in wanted) and _is_json(value):
        return "; send the JSON value itself, not a string that contains it."
    if (mended := _mended(wanted, value)) is not None:
        return f"; write {mended}." if len(mended) < _MAX_SHOWN else "."
    if isinstance(value, str) and (named := [name for name, closed in _NAMED.findall(wanted) if closed]):
        folded = {name.casefold(): name for name in named}
        close = close_matches(value[:MAX_WORD].casefold(), folded)
        return f". Did you mean {folded[close[0]]!r}?" if close else "."
    return "."


def _mended(wanted: str, value: Any) -> str | None:
    if wanted == "be an array" and (not isinstance(value, str) or _PLAIN.fullmatch(value)):
        return to_json([value]).decode()
    if wanted == "be a string" and isinstance(value, int | float):
        return f'"{to_json(value).decode()}"'
    return None


def _is_json(text: str) -> bool:
    try:
        return text.lstrip()[:1] in {"{", "["} and from_json(text) is not None
    except ValueError:
        return False


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
    "int_parsing_size": "an integer with fewer digits",
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
    "datetime_past": "a date and time in the past",
    "datetime_future": "a date and time in the future",
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
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
}
_DIGITS: Mapping[str, str] = {
    "decimal_max_digits": "no more than {max_digits} digits",
    "decimal_max_places": "no more than {decimal_places} digits after the decimal point",
    "decimal_whole_digits": "no more than {whole_digits} digits before the decimal point",
}
_WRITTEN_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def predicate(detail: Any) -> str | None:
    """Return a requirement such as ``be an integer`` for an entry of ``ValidationError.errors()``; None if unknown."""
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind in {"string_too_short", "too_short", "bytes_too_short"} and not value:
        return "not be empty"
    if kind in _MEASURES:
        words = _MEASURES[kind].format_map(context)
        return "have " + (
            words.replace("characters", "character").replace("items", "item") if " 1 " in words else words
        )
    if kind in _DIGITS:
        return "be a number with " + _DIGITS[kind].format_map(context)
    if kind.startswith("date") and isinstance(value, str) and _WRITTEN_DATE.match(value) and "parsing" in kind:
        return "be " + _KINDS[kind].replace(" like", " that exists, like").removesuffix(" (year-month-day)")
    if kind in _KINDS:
        if "expected" in context:
            context = {**context, "expected": _as_json(context["expected"])}
        return "be " + _KINDS[kind].format_map(context)
    words = detail["msg"]
    return words.removeprefix("Input should ") if words.startswith("Input should be ") else None


_CONSTANT = re.compile(r"""('(?:[^'\\]|\\.?)*+'?|"(?:[^"\\]|\\.?)*+"?)|\b(None|True|False)\b""", re.DOTALL)


def _as_json(expected: str) -> str:
    # Pydantic names null and truth values as Python has them.
    constants = {"None": "null", "True": "true", "False": "false"}
    return _CONSTANT.sub(lambda found: found[1] or constants[found[2]], expected)


_VOWEL = re.compile(r"(?!uni|us[ei]|usu|ut[ei]|eu|one\b|once)[aeiou]|hour|honest|heir", re.IGNORECASE)
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}


def kind_name(value: Any) -> str:
    return _NAMES.get(type(value), "a number")


def shown(value: Any) -> str:
    if isinstance(value, str):
        return shortened(repr(value), 80)
    try:
        return shortened(to_json(value).decode(), 80)
    except ValueError:  # such as a default of the site
        return shortened(repr(value), 80)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def sentence(words: str) -> str:
    # Choices may have thousands of options.
    words = shortened(words, 500)
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def with_article(noun: str) -> str:
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


def size(length: int) -> str:
    for unit, name in ((1024**2, "MiB"), (1024, "KiB")):
        if length >= unit:
            return f"{length / unit:.1f} {name}".replace(".0 ", " ")
    return f"{length} bytes"


MAX_REPORTED = 20
"""Maximum number of errors reported for a call."""
MAX_FORMS = 3
_NAME = re.compile(r"\w+")


class Problem(NamedTuple):
    """One of pydantic's errors.

    Attributes:
        path: location in the arguments.
        union: location of the union that the error belongs to, or None.
        form: member of the union, as pydantic names it.
        detail: pydantic's entry.
    """

    path: tuple[Any, ...]
    union: tuple[Any, ...] | None
    form: str
    detail: Any


def sentences(details: Iterable[Any], given: Any, schema: Mapping[str, Any]) -> list[str]:
    problems = [_problem(detail, given) for detail in details]
    told: list[str] = []
    more = 0
    for (union, _), group in groupby(problems, lambda each: (each.union, each.union is None and each.path)):
        together = list(group)
        if (
            len(told) > MAX_REPORTED
        ):  # clients send any number of unknown arguments, and each is compared with all known ones
            more += len(together) if union is None else 1
        elif union is None:
            told += [_sentence(problem, schema) for problem in together]
        else:
            told += _of_union(union, together, schema)
    return abridged(told, more)


def abridged(told: list[str], more: int = 0) -> list[str]:
    """Return the first sentences, and how many more there are. *more* of them are not in the list."""
    if len(told) + more <= MAX_REPORTED:
        return told
    kept = told[: MAX_REPORTED - 1]
    return [*kept, f"And {len(told) + more - len(kept)} more errors."]


def _problem(detail: Any, given: Any) -> Problem:
    # Parts of the location that are not in the arguments name members of a union.
    path: list[Any] = []
    union, form, value = None, "", given
    for place, part in enumerate(detail["loc"], 1):
        is_key = place == len(detail["loc"]) and detail["type"] in {"missing", "extra_forbidden"}
        if _leads_on(value, part):
            path.append(part)
            value = value[part]
        elif is_key:
            path.append(part)
        elif union is None:
            union, form = tuple(path), str(part)
    return Problem(tuple(path), union, form, detail)


def _leads_on(value: Any, part: Any) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _of_union(union: tuple[Any, ...], problems: Sequence[Problem], schema: Mapping[str, Any]) -> Iterator[str]:
    inside: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.path != union:
            inside.setdefault(problem.form, []).append(problem)
    predicates = [predicate(problem.detail) for problem in problems]
    if not inside and all(predicates):
        yield _must(union, predicates, problems[0].detail["input"], schema)
    elif len(inside) == 1:
        yield from (_sentence(problem, schema) for problem in next(iter(inside.values())))
    elif not inside:
        yield from dict.fromkeys(_sentence(problem, schema) for problem in problems)
    else:
        forms = [
            f"{_form(form)}: {' '.join(_sentence(problem, schema) for problem in group[:MAX_FORMS])}"
            for form, group in list(inside.items())[:MAX_FORMS]
        ]
        yield f"Argument {_where(union)} matches none of the accepted forms. {' '.join(forms)}"


def _form(form: str) -> str:
    return f"As {form}" if _NAME.fullmatch(form) else "In another form"


def written(path: Iterable[Any]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _where(path: Sequence[Any]) -> str:
    return repr(shortened(written(path), 100))


def _sentence(problem: Problem, schema: Mapping[str, Any]) -> str:
    detail = problem.detail
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return f"{missing_argument(problem.path)}{_misspelt(problem, schema)}"
        case "extra_forbidden":
            return _unknown(problem, schema)
        case "union_tag_not_found":
            return missing_argument([*problem.path, context["discriminator"].strip("'")])
        case "union_tag_invalid":
            inner = _where([*problem.path, context["discriminator"].strip("'")])
            return f"Argument {inner} must be one of {context['expected_tags']}, not {shown(context['tag'])}."
    if (wanted := predicate(detail)) is not None:
        return _must(problem.path, [wanted], detail["input"], schema, context.get("actual_length"))
    words = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").strip().rstrip(".")
    return f"{about_argument(problem.path, shortened(words, 500))} (received {shown(detail['input'])})."


def _must(
    path: Sequence[Any], predicates: Sequence[Any], value: Any, schema: Mapping[str, Any], length: int | None = None
) -> str:
    first, *others = dict.fromkeys(predicates)
    wanted = shortened(" or ".join([first, *(other.removeprefix("be ") for other in others)]), 500)
    sentence = f"Argument {_where(path)} must {wanted}"
    if wanted.startswith("not "):
        return f"{sentence}."
    measured = length
    if measured is None and wanted.startswith("have ") and hasattr(value, "__len__"):
        measured = len(value)
    is_optional = len(path) == 1 and path[0] not in schema.get("required", ())
    given = shown(value) if measured is None else measured
    return f"{sentence}, not {given}{hint(wanted, value, is_optional=is_optional) if measured is None else '.'}"


def _unknown(problem: Problem, schema: Mapping[str, Any]) -> str:
    return unknown_argument(problem.path, _properties(schema, problem.path[:-1]))


def about_argument(path: Sequence[Any], words: str) -> str:
    """Return a sentence about an argument; *words* begin with ``must`` or stand alone."""
    return f"Argument {_where(path)}{'' if words.startswith('must ') else ':'} {words}"


def missing_argument(path: Sequence[Any]) -> str:
    return f"Missing argument {_where(path)}."


def unknown_argument(path: Sequence[Any], known: Sequence[str]) -> str:
    close = close_matches(str(path[-1]), known)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    takes = "It takes" if len(path) == 1 else f"{_where(path[:-1])} takes"
    offer = f"{takes} {', '.join(map(repr, known))}." if known else f"{takes} no arguments."
    return f"Unknown argument {_where(path)}.{hint} {shortened(offer, 1000)}"


def _misspelt(problem: Problem, schema: Mapping[str, Any]) -> str:
    if len(problem.path) == 1 or not isinstance(problem.detail["input"], Mapping):
        return ""
    known = _properties(schema, problem.path[:-1])
    given = (str(key) for key in problem.detail["input"] if key not in known)
    close = close_matches(str(problem.path[-1]), given)
    return f" Did you misspell it as {shown(close[0])}?" if close else ""


def _properties(schema: Mapping[str, Any], path: Sequence[Any]) -> list[str]:
    positions = alternatives(schema, schema)
    for part in path:
        inner = [
            position.get("properties", {}).get(part) or position.get("additionalProperties")
            if isinstance(part, str)
            else position.get("items")
            for position in positions
        ]
        positions = [form for found in inner if isinstance(found, Mapping) for form in alternatives(found, schema)]
    return list(dict.fromkeys(name for position in positions for name in position.get("properties", {})))
