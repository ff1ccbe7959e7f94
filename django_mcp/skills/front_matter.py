"""The front matter of ``SKILL.md``: a map of YAML that JSON can hold."""

import math
import re
from typing import Any

import yaml

FrontMatter = dict[str, Any]


class FrontMatterError(ValueError):
    """Front matter that cannot be read; its words say where and why."""


def read_front_matter(text: str) -> FrontMatter:
    """The map at the beginning of *text*.

    Raises:
        FrontMatterError: there is none, it is no YAML, or JSON cannot hold it.
    """
    lines = re.split(r"\r?\n", text)
    if lines[0].rstrip(" ") != "---":
        raise FrontMatterError("it must begin with a line '---', and name and description on the lines after it")
    ends = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip(" ") == "---"), None)
    if ends is None:
        raise FrontMatterError("its front matter has no end: a second line '---'")
    try:
        found = yaml.load("\n".join([*lines[1:ends], ""]), _Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        line = "" if at is None else f"line {at.line + 2}: "
        raise FrontMatterError(
            f"{line}{error.problem or error}. Text with ': ', '#' or quotes in it needs quotes"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise FrontMatterError(f"it is no YAML: {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise FrontMatterError("it must be a map, like 'name: plan-a-trip' on a line of its own")
    _require_json(found)
    return found


class _Loader(yaml.SafeLoader):
    """Reads dates as text, which other readers of YAML do, and refuses what they disagree about."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as its base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} is there a second time", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _require_json(value: Any) -> None:
    """Refuse what JSON cannot hold.

    Raises:
        FrontMatterError: there is something like that.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise FrontMatterError(f"the key {key!r} is no text; put it into quotes")
            _require_json(key)
            _require_json(each)
    elif isinstance(value, list):
        for each in value:
            _require_json(each)
    elif isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise FrontMatterError(f"{value!r} has half of a surrogate pair; write the character itself")
    elif not (value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))):
        raise FrontMatterError(f"{value!r} is nothing that JSON has; put it into quotes")
