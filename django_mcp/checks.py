"""System checks of settings and endpoints, and the registration of the checks of all folders with Django."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.core import database
from django_mcp.core.apps import App
from django_mcp.core.server import MCPServer, servers
from django_mcp.core.throttling import RateThrottle
from django_mcp.primitives.base import NO_RATE, parse_rate
from django_mcp.primitives.compatibility import problems
from django_mcp.primitives.tool import Tool

MAX_ARGUMENTS = 60
MAX_TOOLS = 128
"""Maximum number of tools in a request to OpenAI's models, and of enabled tools in VS Code."""
OURS = "django-mcp-toolkit"


def described(server: MCPServer) -> Iterator[Tool]:
    # Some definitions need the database, and checks also run before migrate.
    return (tool for tool in server.tools.values() if tool.find_failure() is None)


def check_settings() -> list[CheckMessage]:
    """Report unknown keys of ``DJANGO_MCP``."""
    return [
        Error(
            _(conf.UNKNOWN) % {"key": key},
            hint=_(conf.MEANT) % {"meant": meant}
            if meant
            else _("Keys are %(keys)s.") % {"keys": ", ".join(conf.KEYS)},
            id="django_mcp.E001",
        )
        for key, meant in conf.misspelt().items()
    ]


def check_values() -> list[CheckMessage]:
    """Report values of ``DJANGO_MCP`` of the wrong type, invalid rates and invalid origins."""
    found: list[CheckMessage] = [
        Error(_(problem.words) % {**problem._asdict(), "wanted": _(problem.wanted)}, id="django_mcp.E003")
        for problem in conf.problems()
    ]
    if not found:
        for key in ("RATE_LIMIT", "REGISTRATION_RATE"):
            try:
                parse_rate(rate := getattr(conf.settings, key))
            except ImproperlyConfigured:
                problem = _(NO_RATE) % {"rate": rate}
                text = _("DJANGO_MCP[%(key)r]: %(problem)s") % {"key": key, "problem": problem}
                found.append(Error(text, id="django_mcp.E005"))
        path = conf.settings.THROTTLE_CLASS
        if not _is_throttle(path):
            names = {"key": "THROTTLE_CLASS", "wanted": _("the path of a subclass of RateThrottle"), "value": path}
            found.append(Error(_(conf.WRONG) % names, id="django_mcp.E003"))
        for key in ("EXCEPTION_HANDLER", "TENANT"):
            path = getattr(conf.settings, key)
            if path is not None and not _is_function(path):
                names = {"key": key, "wanted": _("the path of a function"), "value": path}
                found.append(Error(_(conf.WRONG) % names, id="django_mcp.E003"))
        found += [
            Error(
                _("%(origin)r in DJANGO_MCP['ALLOWED_ORIGINS'] is not an origin.") % {"origin": origin},
                hint=_("Give scheme, host and, if it is not the default, port: 'https://inspector.example.com'."),
                id="django_mcp.E004",
            )
            for origin in conf.settings.ALLOWED_ORIGINS
            if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s*]+", str(origin))
        ]
    return found


def _is_function(path: str) -> bool:
    try:
        return callable(import_string(path))
    except (ImportError, ValueError):
        return False


def _is_throttle(path: str) -> bool:
    try:
        found = import_string(path)
    except (ImportError, ValueError):
        return False
    return isinstance(found, type) and issubclass(found, RateThrottle)


def check_context_managers() -> list[CheckMessage]:
    """Report entries of ``CALL_CONTEXT_MANAGERS`` that are not functions: every call would fail."""
    found: list[CheckMessage] = []
    for entry in () if conf.problems() else conf.settings.CALL_CONTEXT_MANAGERS:
        try:
            is_right = callable(import_string(entry) if isinstance(entry, str) else entry)
        except ImportError:
            is_right = False
        if not is_right:
            found.append(
                Error(
                    _("%(entry)r in DJANGO_MCP['CALL_CONTEXT_MANAGERS'] is not an importable function.")
                    % {"entry": entry},
                    hint=_("Name a function that takes a request and returns a context manager: 'shop.mcp.acting'."),
                    id="django_mcp.E040",
                )
            )
    return found


SETS_USER = frozenset(
    {
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
    }
)


def check_view_middleware() -> list[CheckMessage]:
    """Report entries of ``VIEW_MIDDLEWARE`` that cannot be imported, or that replace the user of the call."""
    found: list[CheckMessage] = []
    for entry in () if conf.problems() else conf.settings.VIEW_MIDDLEWARE:
        try:
            made = import_string(entry) if isinstance(entry, str) else entry
        except ImportError:
            problem = _("%(entry)r in DJANGO_MCP['VIEW_MIDDLEWARE'] cannot be imported.")
        else:
            # By name: these classes import models, which a site may not have.
            if not any(f"{base.__module__}.{base.__name__}" in SETS_USER for base in getattr(made, "__mro__", ())):
                continue
            problem = _("%(entry)r in DJANGO_MCP['VIEW_MIDDLEWARE'] replaces the caller by the user of a session.")
        hint = _("Name only middleware that the views need, such as one that sets request.profile.")
        found.append(Error(problem % {"entry": entry}, hint=hint, id="django_mcp.E063"))
    return found


def check_authentication() -> list[CheckMessage]:
    """Report endpoints without authentication."""
    return [
        Error(
            _("%(server)r has no authentication, so it is not served.") % {"server": server},
            hint=_(
                "Set DJANGO_MCP['AUTHENTICATION'] = ['django_mcp.APIKeyAuthentication'], or another class; "
                "MCPServer(authentication=[…]) is for one endpoint."
            ),
            obj=server,
            id="django_mcp.E002",
        )
        for server in servers()
        if not conf.problems() and not server.authentication
    ]


def check_descriptions() -> list[CheckMessage]:
    """Report tools without a description."""
    return [
        Warning(
            _("%(tool)s has no description, so models see only its name.") % {"tool": tool.label},
            hint=_("Write a docstring that says what it does and when to use it, or description=."),
            obj=server,
            id="django_mcp.W014",
        )
        for server in servers()
        for tool in described(server)
        if "description" not in tool.definition
    ]


def check_apps() -> list[CheckMessage]:
    """Report apps whose template is missing or invalid, and static files without an address that hosts can load."""
    found: dict[str, CheckMessage] = {}
    for server in servers():
        for app in (resource for resource in server.resources.values() if isinstance(resource, App)):
            try:
                needs_address = app.uses_static and not conf.settings.BASE_URL
            except (TemplateDoesNotExist, TemplateSyntaxError) as error:
                found[app.uri] = Error(
                    _("%(app)s: %(error)s: %(problem)s")
                    % {"app": app.label, "error": type(error).__name__, "problem": error},
                    hint=_("Correct the name or the template. Calls would show the text of the result only."),
                    obj=server,
                    id="django_mcp.E059",
                )
            else:
                if needs_address:
                    found[app.uri] = Warning(
                        _("%(app)s uses static files, and DJANGO_MCP['BASE_URL'] is not set.") % {"app": app.label},
                        hint=_("Set it to the site's public address, from which clients load them."),
                        obj=server,
                        id="django_mcp.W059",
                    )
    return list(found.values())


def check_databases() -> list[CheckMessage]:
    """Report a package database other than that of users: foreign keys cannot span databases."""
    if not database.has_database():
        return []
    own, theirs = database.own_alias(), router.db_for_write(get_user_model())
    return [
        Error(
            _("The tables of django_mcp are written to the database %(own)r, and users to %(theirs)r.")
            % {"own": own, "theirs": theirs},
            hint=_("These tables have foreign keys to users: route both to the same database."),
            id="django_mcp.E056",
        )
    ] * (own != theirs)


def check_schemas() -> list[CheckMessage]:
    """Report tools that some clients or model providers reject because of their schema."""
    return [
        Warning(
            _("Some clients drop or reject %(tool)s. %(problem)s") % {"tool": tool.label, "problem": problem},
            hint=_("Change the type, name or schema that it comes from; 'manage.py mcp_inspect' shows it."),
            obj=server,
            id="django_mcp.W027",
        )
        for server in servers()
        for tool in described(server)
        for problem in problems(tool.definition)
    ]


def check_argument_counts() -> Iterator[CheckMessage]:
    """Report tools with too many arguments for a model to choose from, in one message per endpoint."""
    for server in servers():
        counts = {tool.name: len(tool.definition["inputSchema"].get("properties", ())) for tool in described(server)}
        if large := {name: count for name, count in counts.items() if count > MAX_ARGUMENTS}:
            yield Warning(
                _("%(server)r has tools with over %(most)s arguments, which models read in each request: %(tools)s.")
                % {
                    "server": server,
                    "most": MAX_ARGUMENTS,
                    "tools": ", ".join(f"{name} ({count})" for name, count in large.items()),
                },
                hint=_("Reduce them: filters=[…] of drf_tools, filterset_fields of a ModelResource, fields of a form."),
                obj=server,
                id="django_mcp.W028",
            )


def check_tool_counts() -> Iterator[CheckMessage]:
    """Report endpoints that list more tools than some clients take."""
    for server in servers():
        count = sum(tool.is_for_model(shows_apps=False) for tool in server.tools.values())
        if count > MAX_TOOLS and not 0 < server.search_above <= MAX_TOOLS:
            yield Warning(
                _(
                    "%(server)r lists %(count)s tools. Models read those that a caller may use in each request, and "
                    "some clients take at most %(most)s."
                )
                % {"server": server, "count": count, "most": MAX_TOOLS},
                hint=_(
                    "Let models search them: MCPServer(search_tools=40), or DJANGO_MCP['TOOL_SEARCH_THRESHOLD'] = 40; "
                    "or publish a selection at another endpoint."
                ),
                obj=server,
                id="django_mcp.W029",
            )


@cache
def installing(package: str) -> frozenset[str]:
    """Return the names of the distributions that install a package.

    ``importlib.metadata.packages_distributions`` says so too, but parses what it knows of every file: a tenth of a
    second for each command of the site.
    """
    from importlib import metadata  # noqa: PLC0415 - not needed to serve

    line = f"\n{package}/__init__.py,"
    return frozenset(
        distribution.metadata["Name"]
        for distribution in metadata.distributions()
        if line in f"\n{distribution.read_text('RECORD')}"
        or package in (distribution.read_text("top_level.txt") or "").split()  # of older ones, and of eggs
    )


def check_distributions() -> list[CheckMessage]:
    """Report other distributions that install a package named ``django_mcp``."""
    others = sorted(installing("django_mcp") - {OURS})
    return [
        Warning(
            _("%(others)s installs a package 'django_mcp' too; whichever was installed last is used.")
            % {"others": ", ".join(others)},
            hint=_("pip uninstall %(others)s, then pip install --force-reinstall %(ours)s.")
            % {"others": " ".join(others), "ours": OURS},
            id="django_mcp.W001",
        )
    ] * bool(others)


OWN = (
    check_settings,
    check_values,
    check_context_managers,
    check_view_middleware,
    check_authentication,
    check_descriptions,
    check_apps,
    check_databases,
    check_schemas,
    check_argument_counts,
    check_tool_counts,
    check_distributions,
)


# Registration with Django


@register("django_mcp")
def check_always(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    return [*_messages(OWN), *_of_folders("ALWAYS")]


@register("django_mcp", deploy=True)
def check_deploy(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    return _of_folders("DEPLOY")


@register(Tags.database)
def check_database(
    app_configs: Sequence[Any] | None,  # noqa: ARG001
    databases: Sequence[str] | None = None,
    **options: Any,  # noqa: ARG001
) -> list[CheckMessage]:
    """Run the checks that may query *databases*: of ``manage.py check --database`` and ``migrate``."""
    return _of_folders("DATABASE", databases) if databases else []


def _of_folders(when: str, *arguments: Any) -> list[CheckMessage]:
    """Return the messages of all folders' checks. The modules are imported here because serving needs none of them.

    Skipped while ``DJANGO_MCP`` is invalid: the checks would raise, which hides all other messages.

    Args:
        when: name of a tuple of check functions that these modules may define.
        arguments: passed to each function.
    """
    from django_mcp.approvals import checks as approvals  # noqa: PLC0415
    from django_mcp.auth import checks as auth  # noqa: PLC0415
    from django_mcp.integrations import checks as integrations  # noqa: PLC0415
    from django_mcp.listing import checks as listing  # noqa: PLC0415
    from django_mcp.model_resources import checks as model_resources  # noqa: PLC0415
    from django_mcp.oauth import checks as oauth  # noqa: PLC0415
    from django_mcp.skills import checks as skills  # noqa: PLC0415
    from django_mcp.tasks import checks as tasks  # noqa: PLC0415

    if not _is_readable():
        return []
    folders = (approvals, auth, model_resources, oauth, tasks, skills, integrations, listing)
    return _messages(chain.from_iterable(getattr(folder, when, ()) for folder in folders), *arguments)


def _messages(checks: Iterable[Callable[..., Iterable[CheckMessage]]], *arguments: Any) -> list[CheckMessage]:
    return [message for check in checks for message in check(*arguments)]


def _is_readable() -> bool:
    return not conf.problems()
