"""System checks of view and form tools, which are completed after startup, and of ``admin_tools``."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.urls import NoReverseMatch
from django.utils.translation import gettext as _

from django_mcp.core.late_tools import LateTool
from django_mcp.core.server import every_server
from django_mcp.integrations.requests import reverse_url, stand_in_request, unsaved_superuser

if TYPE_CHECKING:
    from django_mcp.integrations.admin_site.tools import AdminTools


def check_view_tools() -> list[CheckMessage]:
    """Check that view, form and serializer tools can be completed: URL, method and arguments."""
    tools = [tool for server in every_server() for tool in server.tools.values() if isinstance(tool, LateTool)]
    found = [(tool.name, problem) for tool in tools if (problem := _problem(tool)) is not None]
    return [
        Error(_("Tool %(name)r: %(problem)s") % {"name": name, "problem": problem}, id="django_mcp.E029")
        for name, problem in found
    ]


def _problem(tool: LateTool) -> str | None:
    failure = tool.find_failure()
    if failure is None or isinstance(failure, DatabaseError):  # checks are run before migrate, too
        return None
    return (
        str(failure)
        if isinstance(failure, ImproperlyConfigured)
        else _("its definition cannot be built: %(why)r.") % {"why": failure}
    )


def _admins() -> "list[AdminTools]":
    if not apps.is_installed("django.contrib.admin"):
        return []
    from django_mcp.integrations.admin_site.tools import declared  # noqa: PLC0415 - few sites have them

    return declared()


def check_admin_names() -> Iterator[CheckMessage]:
    """Report tools of ``admin_tools`` that are left out because of their names."""
    for offered in _admins():
        for tool in offered.unnamed:
            if tool.other is None:
                text = _(
                    "%(server)r leaves out the tool %(name)r of the admin %(site)r: a name has at most 64 characters."
                )
                hint = _("Give the action or model a shorter name, or leave it out with exclude=[…].")
            else:
                text = _(
                    "%(server)r leaves out the tool %(name)r of the admin %(site)r: %(other)s already has the name."
                )
                hint = _(
                    "Rename the other one, or offer the admin in a namespace: "
                    "admin_tools(server=staff.namespace('admin'))."
                )
            names = {"server": tool.server, "name": tool.name, "site": offered.site.name, "other": ""}
            names |= {"other": tool.other.label} if tool.other is not None else {}
            yield Error(text % names, hint=hint, obj=tool.server, id="django_mcp.E079")


def check_admin_urls() -> Iterator[CheckMessage]:
    """Report an ``AdminSite`` that is offered as tools and has no URLs: its pages are what they call."""
    for offered in _admins():
        try:
            reverse_url(f"{offered.site.name}:index")
        except NoReverseMatch:
            yield Error(
                _("admin_tools offers the admin %(site)r, and no URL leads to it, so each of its tools fails.")
                % {"site": offered.site.name},
                hint=_("Add it to the URLconf: path('%(site)s/', site.urls).") % {"site": offered.site.name},
                id="django_mcp.E078",
            )


def check_admin_searches() -> Iterator[CheckMessage]:
    """Report searches and filters of the admin that would tell what a hidden field holds."""
    for offered in _admins():
        for model, option, path, field in offered.hidden_options():
            about = {"admin": type(offered.admin_of(model)).__name__, "option": option, "path": path}
            what = (
                _("the tool has no 'query'") if option == "search_fields" else _("the tool does not have this filter")
            )
            yield Warning(
                _("%(option)s of %(admin)s has %(path)r, which looks like a secret and is hidden, so %(what)s.")
                % {**about, "what": what},
                hint=_("Remove it there, or open the field: admin_tools(show=[%(field)r]).") % {"field": field},
                id="django_mcp.W065",
            )


def check_admin_forms(databases: Sequence[str]) -> Iterator[CheckMessage]:  # noqa: ARG001 - forms may query any
    """Report forms of the admin that cannot be made without a row: nothing describes their fields."""
    from django_mcp.integrations.admin_site.schemas import try_form  # noqa: PLC0415 - few sites have them

    superuser = unsaved_superuser()
    for offered in _admins():
        for model in offered.names if offered.writes else ():
            admin = offered.admin_of(model)
            error = None if admin is None else try_form(admin, stand_in_request(superuser))
            if error is not None and not isinstance(error, DatabaseError):
                yield Warning(
                    _(
                        "The form of %(admin)s cannot be made without a row (%(error)s), so its tools describe no "
                        "fields."
                    )
                    % {"admin": type(admin).__name__, "error": f"{type(error).__name__}: {error}"},
                    hint=_("Let get_form(), get_fieldsets(), the form and inlines accept a row that is not saved."),
                    id="django_mcp.W066",
                )


ALWAYS = (check_view_tools, check_admin_names, check_admin_urls, check_admin_searches)
DATABASE = (check_admin_forms,)
