"""The same document for people."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from textwrap import indent, shorten
from typing import Any

Style = Callable[[str], str]
WIDTH = 100
HEADINGS = {"tools": "Tools", "resources": "Resources", "templates": "Resource templates", "prompts": "Prompts"}
HINTS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open world",
}
"""Those that are false are in the JSON document only."""


class Text:
    """Lines about an endpoint.

    Args:
        heading: makes a heading stand out.
        hidden: does so for what a caller does not see.
        whole: print descriptions and schemas in full.
    """

    def __init__(self, heading: Style, hidden: Style, *, whole: bool) -> None:
        self._heading, self._hidden, self._whole = heading, hidden, whole

    def lines(self, told: Mapping[str, Any]) -> Iterator[str]:
        """All of them."""
        yield self._heading(f"{told['name']}  {told['url'] or told['path']}")
        yield f"  callers:       {', '.join(told['authentication']) or 'nobody: it has no authentication'}"
        if told["scopes"]:
            yield f"  scopes:        {' '.join(told['scopes'])}"
        yield f"  transports:    {', '.join(told['transports'])}"
        yield f"  capabilities:  {', '.join(told['capabilities']) or 'none'}"
        if told["models"]:
            yield f"  models:        {', '.join(told['models'])} (their rows are in resources/list too)"
        if told["caller"] is not None:
            yield from self._caller(told)
            if told["caller"]["refused_because"] and not self._whole:
                return
        for kind, title in HEADINGS.items():
            if told[kind]:
                yield ""
                yield self._heading(f"  {title} ({self._counted(told[kind])})")
                for each in told[kind]:
                    yield from self._entry(each)

    def _caller(self, told: Mapping[str, Any]) -> Iterator[str]:
        caller = told["caller"]
        through = f" through the client {caller['client']}" if caller["client"] else ""
        scopes = "" if caller["scopes"] is None else f", with the scopes: {' '.join(caller['scopes']) or 'none'}"
        yield f"  as seen by:    {caller['user'] or 'everybody'}{through}{scopes}"
        if caller["refused_because"]:
            yield self._hidden(f"  REFUSED:       {caller['refused_because']}; nothing here exists for this caller")
        if told["searched"]:
            yield "  too many tools to list: tools/list gives search_tools, call_tool, and those marked here as listed"

    @staticmethod
    def _counted(entries: list[Mapping[str, Any]]) -> str:
        seen = [each["listed"] for each in entries if each["listed"] is not None]
        return f"{sum(seen)} of {len(seen)} listed" if seen else str(len(entries))

    def _entry(self, each: Mapping[str, Any]) -> Iterator[str]:
        name = each.get("uri") or each["name"]
        marks = ", ".join(_marks(each))
        line = f"    {name}{f'  [{marks}]' if marks else ''}"
        if each["usable"] is False:
            how = "listed, but cannot be called yet" if each["listed"] else "hidden"
            yield self._hidden(f"  - {line[4:]}  {how}: {'; '.join(each['hidden_because'])}")
        elif each["listed"] is False:
            yield f"{line}  (not listed, can be found and called)"
        else:
            yield line
        described = each["title"] if not self._whole and each["title"] else each["description"]
        if described:
            yield indent(described if self._whole else shorten(described, WIDTH, placeholder=" …"), " " * 8)
        yield from (f"        {line}" for line in _needs(each))
        yield from (self._hidden(f"        some clients refuse it: {line}") for line in each.get("problems", ()))
        if self._whole:
            yield from _schemas(each)


def _marks(each: Mapping[str, Any]) -> Iterable[str]:
    yield from (words for hint, words in HINTS.items() if each.get("hints", {}).get(hint))
    if each.get("task", "never") != "never":
        yield f"task {each['task']}"
    if each.get("decision") == "ask":
        yield "asks: somebody approves each call"


def _needs(each: Mapping[str, Any]) -> Iterable[str]:
    if each["permissions"]:
        yield f"permission: {', '.join(each['permissions'])}"
    if each["groups"]:
        yield f"group: {' or '.join(each['groups'])}"
    if each["scopes"]:
        yield f"scope: {' '.join(each['scopes'])}"
    if each["visible"]:
        yield f"visible: {each['visible']}"
    for rule in each.get("policies", ()):
        if rule["decision"] != "allow" or rule["group"] or rule["client"]:
            verb = {"allow": "allowed", "ask": "asks", "block": "blocked"}[rule["decision"]]
            yield f"policy: {verb} {rule['made']}"


def _schemas(each: Mapping[str, Any]) -> Iterable[str]:
    if "defined" in each:
        yield f"        defined: {each['defined']}"
    for key, title in (("arguments", "arguments"), ("input_schema", "input"), ("output_schema", "output")):
        if each.get(key):
            yield f"        {title}:"
            yield indent(json.dumps(each[key], indent=2, ensure_ascii=False, default=str), " " * 10)
