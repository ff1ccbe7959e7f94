"""What is wrong with arguments, in sentences from which a caller can repair the call."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from django_mcp.primitives.hints import hint
from django_mcp.primitives.predicates import predicate
from django_mcp.primitives.words import shortened, shown

MOST = 20
"""Problems of one call that are told; whoever makes more has misunderstood something that a few of them show."""
MOST_FORMS = 3
_NAME = re.compile(r"\w+")


class Problem(NamedTuple):
    """One of pydantic's complaints.

    Attributes:
        path: where in the arguments.
        union: where the union is that it is about one form of, if it is.
        form: of that union, as pydantic calls it.
        detail: pydantic's.
    """

    path: tuple[Any, ...]
    union: tuple[Any, ...] | None
    form: str
    detail: Any


def sentences(details: Iterable[Any], given: Any, schema: Mapping[str, Any]) -> list[str]:
    """One sentence for each thing that is wrong.

    Args:
        details: as ``ValidationError.errors()`` has them.
        given: the arguments.
        schema: their JSON Schema.
    """
    problems = [_problem(detail, given) for detail in details]
    told: list[str] = []
    for (union, _), group in groupby(problems, lambda each: (each.union, each.union is None and each.path)):
        together = list(group)
        told += [_sentence(each, schema) for each in together] if union is None else _of_union(union, together, schema)
    return abridged(told)


def abridged(told: list[str]) -> list[str]:
    """As many of the sentences as are told, and how many more there are."""
    if len(told) <= MOST:
        return told
    return [*told[: MOST - 1], f"And {len(told) - MOST + 1} more mistakes."]


def _problem(detail: Any, given: Any) -> Problem:
    """Where it is. What of pydantic's location leads nowhere in the arguments is the name of a union's form."""
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
    """What to tell of a value that fits no form of a union: what it may be, or what is wrong in the form it has."""
    inside: dict[str, list[Problem]] = {}
    for each in problems:
        if each.path != union:
            inside.setdefault(each.form, []).append(each)
    predicates = [predicate(each.detail) for each in problems]
    if not inside and all(predicates):
        yield _must(union, predicates, problems[0].detail["input"], schema)
    elif len(inside) == 1:
        yield from (_sentence(each, schema) for each in next(iter(inside.values())))
    elif not inside:
        yield from dict.fromkeys(_sentence(each, schema) for each in problems)
    else:
        forms = [
            f"{_form(form)}: {' '.join(_sentence(each, schema) for each in group[:MOST_FORMS])}"
            for form, group in list(inside.items())[:MOST_FORMS]
        ]
        yield f"Argument {_where(union)} has none of the forms it may have. {' '.join(forms)}"


def _form(form: str) -> str:
    return f"As {form}" if _NAME.fullmatch(form) else "In another form"


def written(path: Iterable[Any]) -> str:
    """A place in JSON as one writes it in most languages, like ``guests[0].name``."""
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
    return f"{about_argument(problem.path, shortened(words, 500))} (it was {shown(detail['input'])})."


def _must(
    path: Sequence[Any], predicates: Sequence[Any], value: Any, schema: Mapping[str, Any], length: int | None = None
) -> str:
    """Like ``Argument 'nights' must be an integer or null, not 'many'.``, with what to write instead behind it."""
    first, *others = dict.fromkeys(predicates)
    wanted = shortened(" or ".join([first, *(each.removeprefix("be ") for each in others)]), 500)
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
    """What is wrong with the argument at *path*: words that go on from its name, like ``must be …``, or their own."""
    return f"Argument {_where(path)}{'' if words.startswith('must ') else ':'} {words}"


def missing_argument(path: Sequence[Any]) -> str:
    """The sentence for an argument at *path* that must be given."""
    return f"Missing argument {_where(path)}."


def unknown_argument(path: Sequence[Any], known: Sequence[str]) -> str:
    """The sentence for an argument at *path* that there is not, where there are *known* ones."""
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    takes = "It takes" if len(path) == 1 else f"{_where(path[:-1])} takes"
    offer = f"{takes} {', '.join(map(repr, known))}." if known else f"{takes} no arguments."
    return f"Unknown argument {_where(path)}.{hint} {shortened(offer, 1000)}"


def _misspelt(problem: Problem, schema: Mapping[str, Any]) -> str:
    """Whether something else was given under nearly that name, where unknown names are not complaints themselves."""
    if len(problem.path) == 1 or not isinstance(problem.detail["input"], Mapping):
        return ""
    known = _properties(schema, problem.path[:-1])
    given = [str(key) for key in problem.detail["input"] if key not in known]
    close = difflib.get_close_matches(str(problem.path[-1]), given, n=1)
    return f" Did you misspell it as {shown(close[0])}?" if close else ""


def _properties(schema: Mapping[str, Any], path: Sequence[Any]) -> list[str]:
    """The names that an object at *path* may have, as far as the schema tells."""
    positions: list[Mapping[str, Any]] = _alternatives(schema, schema)
    for part in path:
        inner = [
            position.get("properties", {}).get(part) or position.get("additionalProperties")
            if isinstance(part, str)
            else position.get("items")
            for position in positions
        ]
        positions = [each for found in inner if isinstance(found, Mapping) for each in _alternatives(found, schema)]
    return list(dict.fromkeys(name for position in positions for name in position.get("properties", {})))


def _alternatives(position: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a schema may mean: itself, what it refers to, or each of its alternatives."""
    if "$ref" in position:
        return _alternatives(schema["$defs"][position["$ref"].rpartition("/")[2]], schema)
    forms = [*position.get("anyOf", ()), *position.get("oneOf", ())]
    return [position, *(each for form in forms for each in _alternatives(form, schema))]
