"""Write the tables of the reference pages from the code: ``python -m tests.reference.write``.

A table stands between ``<!-- begin: name -->`` and ``<!-- end -->``; the rest of a page is written by hand.
"""

import inspect
import os
import re
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import django

from tests.reference.docstrings import (
    attributes,
    call,
    code,
    default,
    markdown,
    parameter_rows,
    summary,
    table,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "model-resource",
    "decorators",
    "server",
    "context",
    "test-kit",
    "commands",
    "messages",
    "listing",
    "clients/accepted",
)
BLOCK = re.compile(r"(<!-- begin: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
OF_THE_PACKAGE = {
    *("channel", "crash", "deadline", "grant", "history", "inline", "is_large", "is_relayed", "relay"),
    *("runner", "site_runner", "consume_state", "transaction"),
}
"""Attributes of ``Context`` that tools have no use for."""
COMMANDS = (
    "startmcp",
    "mcp_inspect",
    "mcp_call",
    "mcp_config",
    "mcp_doctor",
    "mcp_listing",
    "mcp_stdio",
    "mcp_key",
    "mcp_clear",
    "mcp_notify",
)

Tables = dict[str, Callable[[], str]]


def _parameters(function: Any) -> Callable[[], str]:
    return lambda: table(("parameter", "default", "description"), parameter_rows(function))


def model_options() -> str:
    """Return the options of ``ModelResource``."""
    from django_mcp import ModelResource

    described = attributes(ModelResource)
    rows = [
        (code(name), default(getattr(ModelResource, name)), markdown(described.get(name, "")))
        for name in ModelResource.__annotations__
        if not name.startswith("_")
    ]
    return table(("option", "default", "description"), rows)


def model_hooks() -> str:
    """Return the methods of ``ModelResource`` that a site may override."""
    from django_mcp import ModelResource
    from django_mcp.model_resources.options import HOOKS

    rows = [(call(name, function), summary(function)) for name in HOOKS for function in [vars(ModelResource)[name]]]
    return table(("method", "description"), rows)


def members(cls: type, *, left_out: Collection[str] = ()) -> str:
    """Return the public attributes, properties and methods that a class and its bases define."""
    described = {name: text for name, text in attributes(cls).items() if name not in left_out}
    rows: dict[str, tuple[str, str]] = {name: (code(name), markdown(text)) for name, text in described.items()}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in vars(base).items():
            if name.startswith("_") or name in left_out:
                continue
            if inspect.isfunction(value):
                rows[name] = call(name, getattr(cls, name)), summary(getattr(cls, name))
            elif isinstance(value, property) or hasattr(value, "func"):
                rows[name] = code(name), summary(value)
    return table(("name", "description"), rows.values())


def _members(name: str, **options: Any) -> Callable[[], str]:
    def write() -> str:
        import django_mcp.test

        found = getattr(django_mcp.test, name, None) or getattr(django_mcp, name)
        return members(found, **options)

    return write


def _options(parser: ArgumentParser, known: set[str]) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, inner in action.choices.items():
                yield from ((f"{code(name)} {shown}", text) for shown, text in _options(inner, known))
        elif action.dest != "help" and not known.intersection(action.option_strings):
            yield _shown(action), markdown(_help(action))


def _shown(action: Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.nargs == 0:
        return code(action.option_strings[-1])
    if action.nargs == "?" and action.option_strings:
        metavar = f"[{metavar}]"
    return code(f"{action.option_strings[-1]} {metavar}" if action.option_strings else metavar)


def _help(action: Action) -> str:
    text = str(action.help or "")
    values = {"choices": ", ".join(map(str, action.choices or ())), "default": action.default}
    return text % values if "%(" in text else text


def _command(name: str) -> Callable[[], str]:
    def write() -> str:
        from django.core.management import load_command_class
        from django.core.management.base import BaseCommand

        command = load_command_class("django_mcp", name)
        known = {text for action in BaseCommand().create_parser("", "")._actions for text in action.option_strings}
        rows = [*_options(command.create_parser("manage.py", name), known)]
        return table(("option", "description"), rows) if rows else ""

    return write


def tables() -> Tables:
    """Return a function for each table, by its name."""
    import django_mcp
    from django_mcp.contrib.drf import drf_tools
    from django_mcp.contrib.ninja import ninja_tools
    from django_mcp.test import MCPClient
    from tests.reference import generated_tools, messages

    found: Tables = {"model-options": model_options, "model-hooks": model_hooks}
    for name in ("tool", "resource", "prompt", "form_tool", "view_tool", "admin_tools", "prompt_template", "skill"):
        found[name] = _parameters(getattr(django_mcp, name))
    found |= {"drf_tools": _parameters(drf_tools), "ninja_tools": _parameters(ninja_tools)}
    found |= {"server-parameters": _parameters(django_mcp.MCPServer), "server-methods": server_methods}
    found["context"] = _members("Context", left_out=OF_THE_PACKAGE)
    found["client-parameters"] = _parameters(MCPClient)
    found["client-methods"] = methods_of_client
    for name in ("Outcome", "CallResult", "ResourceResult", "PromptResult", "CompletionResult", "Notifications"):
        found[name] = own_members(name)
    found |= {f"command-{name}": _command(name) for name in COMMANDS}
    found |= {"listing-rules": listing_rules, "limits": limits}
    found |= {"messages": messages.sections, "generated-tools": generated_tools.section}
    return found


def listing_rules() -> str:
    """Return the rules of directories."""
    from django_mcp.listing.rules import RULES

    rows = [
        (rule.id, ", ".join(rule.source), "refused" if rule.refuses else "consider", rule.what, sources(rule.source))
        for rule in RULES
    ]
    return table(("rule", "directory", "severity", "what", "source"), rows)


def limits() -> str:
    """Return what clients and providers do not accept."""
    from django_mcp.primitives.compatibility import LIMITS

    rows = [
        (
            ", ".join(f"[{name}](https://{page})" for name, page in limit.by.items()),
            limit.what % {"detail": "…"},
            limit.kept or "–",
            "yes" if limit.is_checked and (limit.find or limit.id in {"description", "object", "top-level"}) else "–",
        )
        for limit in LIMITS
    ]
    return table(("who", "does not accept", "generated tools", "W027"), rows)


def sources(of_rule: Mapping[str, str]) -> str:
    """Return links to the pages of a rule."""
    addresses = {page: page.removeprefix("docs/") for page in of_rule.values() if page.startswith("docs/")}
    return ", ".join(
        f"[{page.split('/')[-1]}]({addresses.get(page, f'https://{page}')})" for page in dict.fromkeys(of_rule.values())
    )


def server_methods() -> str:
    """Return the methods of ``MCPServer`` that a site calls."""
    from django_mcp import MCPServer

    methods = {
        name: getattr(MCPServer, name) for name in ("namespace", "notify_list_changed", "notify_resource_updated")
    }
    return table(("method", "description"), [(call(name, method), summary(method)) for name, method in methods.items()])


def methods_of_client() -> str:
    """Return the methods of ``MCPClient``."""
    from django_mcp.test import MCPClient

    rows = [
        (call(name, value), summary(value))
        for name, value in vars(MCPClient).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    return table(("method", "description"), rows)


def own_members(name: str) -> Callable[[], str]:
    """Return a function for the members that a class has and its first base has not."""

    def write() -> str:
        import django_mcp.test
        from django_mcp.test import Outcome

        cls = getattr(django_mcp.test, name)
        left_out = {"kind", "name", "fail", "request"}
        if cls is not Outcome and issubclass(cls, Outcome):
            left_out |= {*dir(Outcome), *attributes(Outcome)} - set(vars(cls))
        return members(cls, left_out=left_out)

    return write


def written(page: str, found: Tables) -> str:
    """Return *page* with each table as it should be."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{found[match[2]]()}\n{match[3]}", page)


def main() -> None:
    """Write all pages."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    found = tables()
    for name in PAGES:
        path = DOCS / f"{name}.md"
        path.write_text(written(path.read_text(), found))


if __name__ == "__main__":
    main()
