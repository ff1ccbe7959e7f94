"""Arguments that nobody but the function is to read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schemas = tuple[Mapping[str, Any], ...]

MOST_STEPS = 50
"""References and unions that are followed at one place of a value."""
_SAME_PLACE = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True)
class Secret:
    """Keeps an argument out of the log of calls and off the page of approvals: ``Annotated[str, Secret()]``.

    Pydantic's ``SecretStr`` and ``SecretBytes`` do so too, and a hand-written schema with ``"writeOnly": true``.
    Fields of models may be marked like arguments.
    """

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The parameter's schema, which says that it is written and never read."""
        return {**handler(core_schema), "writeOnly": True}


def mentions_secrets(schema: Any) -> bool:
    """Whether anything in a schema is marked."""
    match schema:
        case Mapping():
            return _is_marked(schema) or any(map(mentions_secrets, schema.values()))
        case list():
            return any(map(mentions_secrets, schema))
    return False


def is_secret(schemas: Schemas, root: Mapping[str, Any]) -> bool:
    """Whether what these describe is marked."""
    return any(map(_is_marked, _same_place(schemas, root)))


def declares(schemas: Schemas, name: str, root: Mapping[str, Any]) -> bool:
    """Whether any of the schemas of an object lists *name* among its ``properties``."""
    listed = (each.get("properties") for each in _same_place(schemas, root))
    return any(isinstance(each, Mapping) and name in each for each in listed)


def below(schemas: Schemas, key: str | int, root: Mapping[str, Any]) -> Schemas:
    """What describes the property *key* of an object, or the entry *key* of a list, by any of the schemas.

    Args:
        schemas: of the object or list.
        key: a name or an index.
        root: where their references lead.
    """
    return tuple(each for schema in _same_place(schemas, root) for each in _steps(schema, key))


def _is_marked(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _same_place(schemas: Iterable[Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas, and what they are made of: references and unions."""
    waiting, seen = [each for each in schemas if isinstance(each, Mapping)], 0
    while waiting and seen < MOST_STEPS:
        schema, seen = waiting.pop(), seen + 1
        yield schema
        if (target := _target(schema.get("$ref"), root)) is not None:
            waiting.append(target)
        for keyword in _SAME_PLACE:
            if isinstance(parts := schema.get(keyword), list):
                waiting += [each for each in parts if isinstance(each, Mapping)]


def _target(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    place: Any = root
    for part in reference[2:].split("/"):
        place = place.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else None


def _steps(schema: Mapping[str, Any], key: str | int) -> Iterator[Any]:
    if isinstance(key, int):
        first = schema.get("prefixItems")
        yield first[key] if isinstance(first, list) and key < len(first) else schema.get("items")
        return
    named = schema.get("properties")
    if isinstance(named, Mapping) and key in named:
        yield named[key]
        return
    yield schema.get("additionalProperties")
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        yield from patterns.values()  # whichever it fits: rather one too many than one too few
