"""System checks: what would otherwise be found by a client."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from typing import Any

from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.core import database
from django_mcp.core.checking import add, described
from django_mcp.core.registry import servers
from django_mcp.primitives.portable import problems
from django_mcp.primitives.rates import NO_RATE, parse_rate

MOST_ARGUMENTS = 60
OURS = "django-mcp-toolkit"


@add
def check_settings(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Keys of ``DJANGO_MCP`` that nobody reads."""
    return [
        Error(
            _("DJANGO_MCP has no key %(key)r.") % {"key": key},
            hint=_("Did you mean %(meant)r?") % {"meant": meant}
            if meant
            else _("Keys are %(keys)s.") % {"keys": ", ".join(conf.KEYS)},
            id="django_mcp.E001",
        )
        for key, meant in conf.misspelt().items()
    ]


@add
def check_values(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Values of ``DJANGO_MCP`` that are of the wrong kind, or an origin no browser ever sends."""
    found: list[CheckMessage] = [
        Error(_(conf.WRONG) % {**each._asdict(), "wanted": _(each.wanted)}, id="django_mcp.E003")
        for each in conf.problems()
    ]
    if not found:
        for key in ("RATE_LIMIT", "REGISTRATION_RATE"):
            try:
                parse_rate(rate := getattr(conf.settings, key))
            except ImproperlyConfigured:
                problem = _(NO_RATE) % {"rate": rate}
                text = _("DJANGO_MCP[%(key)r]: %(problem)s") % {"key": key, "problem": problem}
                found.append(Error(text, id="django_mcp.E005"))
        found += [
            Error(
                _("%(origin)r in DJANGO_MCP['ALLOWED_ORIGINS'] is no origin.") % {"origin": origin},
                hint=_("Write scheme, host and, where it is not the usual one, port: 'https://inspector.example.com'."),
                id="django_mcp.E004",
            )
            for origin in conf.settings.ALLOWED_ORIGINS
            if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s*]+", str(origin))
        ]
    return found


@add
def check_context_managers(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Entries of ``CALL_CONTEXT_MANAGERS`` that are no function: every call would fail."""
    found: list[CheckMessage] = []
    for each in () if conf.problems() else conf.settings.CALL_CONTEXT_MANAGERS:
        try:
            is_right = callable(import_string(each) if isinstance(each, str) else each)
        except ImportError:
            is_right = False
        if not is_right:
            found.append(
                Error(
                    _("%(entry)r in DJANGO_MCP['CALL_CONTEXT_MANAGERS'] is no function that can be imported.")
                    % {"entry": each},
                    hint=_("Name a function that takes a request and returns a context manager: 'shop.mcp.acting'."),
                    id="django_mcp.E040",
                )
            )
    return found


@add
def check_authentication(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Endpoints that nobody may call, because nobody said who may."""
    return [
        Error(
            _("%(server)r has no authentication, so it will not start.") % {"server": server},
            hint=_(
                "Give MCPServer(authentication=[…]) or DJANGO_MCP['AUTHENTICATION']; "
                "['django_mcp.Public'] lets everybody in."
            ),
            obj=server,
            id="django_mcp.E002",
        )
        for server in servers()
        if not conf.problems() and not server.authentication
    ]


@add
def check_descriptions(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tools that say nothing of themselves."""
    return [
        Warning(
            _("%(tool)s has no description: a model has nothing but its name to go by.") % {"tool": tool.label},
            hint=_("Write a docstring that says what it does and when to use it, or description=."),
            obj=server,
            id="django_mcp.W014",
        )
        for server in servers()
        for tool in described(server)
        if "description" not in tool.definition
    ]


@add
def check_databases(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tables in another database than the users that their rows point to: no database keeps such a relation."""
    if not database.has_database():
        return []
    own, theirs = database.own_alias(), router.db_for_write(get_user_model())
    return [
        Error(
            _("The tables of django_mcp are written to the database %(own)r, and users to %(theirs)r.")
            % {"own": own, "theirs": theirs},
            hint=_("Rows of django_mcp point to users: let the router send both to one database."),
            id="django_mcp.E056",
        )
    ] * (own != theirs)


@add
def check_schemas(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tools that some client or provider of models leaves out because of their schema."""
    return [
        Warning(
            _("Some clients leave out or refuse %(tool)s. %(problem)s") % {"tool": tool.label, "problem": problem},
            hint=_("Change the type, the name or the schema that it comes from; 'manage.py mcp_inspect' shows it."),
            obj=server,
            id="django_mcp.W027",
        )
        for server in servers()
        for tool in described(server)
        for problem in problems(tool.definition)
    ]


@add
def check_argument_counts(app_configs: Sequence[Any] | None, **options: Any) -> Iterator[CheckMessage]:  # noqa: ARG001
    """Tools with more arguments than a model can choose from, in one message for each endpoint."""
    for server in servers():
        counts = {tool.name: len(tool.definition["inputSchema"].get("properties", ())) for tool in described(server)}
        if large := {name: count for name, count in counts.items() if count > MOST_ARGUMENTS}:
            yield Warning(
                _("%(server)r has tools of over %(most)s arguments, which a model reads with each request: %(tools)s.")
                % {
                    "server": server,
                    "most": MOST_ARGUMENTS,
                    "tools": ", ".join(f"{name} ({count})" for name, count in large.items()),
                },
                hint=_("Choose among them: filters=[…] of api_tools, filters of a ModelResource, fields of a form."),
                obj=server,
                id="django_mcp.W028",
            )


packages_distributions = cache(metadata.packages_distributions)
"""Read once per process: it takes a third of a second."""


@add
def check_distributions(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Other distributions that install a package of the same name over ours."""
    others = sorted(set(packages_distributions().get("django_mcp", ())) - {OURS})
    return [
        Warning(
            _("%(others)s installs a package 'django_mcp' too; whichever was installed last is used.")
            % {"others": ", ".join(others)},
            hint=_("pip uninstall %(others)s, then pip install --force-reinstall %(ours)s.")
            % {"others": " ".join(others), "ours": OURS},
            id="django_mcp.W001",
        )
    ] * bool(others)
