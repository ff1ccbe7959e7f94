"""System checks of task backends."""

from collections.abc import Iterator
from typing import Any

import django
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext as _

from django_mcp.conf import settings
from django_mcp.core.server import every_server
from django_mcp.tasks import backends
from django_mcp.tasks.backends import DEFAULT, PROCESS, has_default


def check_backend() -> list[CheckMessage]:
    """Check that the backend exists and its workers are used."""
    try:
        return list(_problems(settings.TASK_BACKEND))
    except ImproperlyConfigured:  # reported by another check
        return []


def _problems(alias: str | None) -> Iterator[CheckMessage]:
    if alias == PROCESS or (alias is None and not _is_default_used()):
        return
    if alias is not None and alias not in _aliases():
        hint = _('Use an alias of TASKS or "process" for the serving process, or remove the setting.')
        yield _error(
            _('DJANGO_MCP["TASK_BACKEND"] is %(alias)r, which is not an alias in TASKS.') % {"alias": alias}, hint
        )
    elif backends.framework() is None:
        yield from _without_framework(alias)
    else:
        yield from _of_backend(alias or DEFAULT)


def _aliases() -> dict[str, Any]:
    return getattr(django_settings, "TASKS", {})


def _is_default_used() -> bool:
    has_tasks = any(tool.task is not None for server in every_server() for tool in server.tools.values())
    return has_tasks and has_default()


def _without_framework(alias: str | None) -> Iterator[CheckMessage]:
    text = _('Django %(version)s has no Tasks framework, and "django_tasks" is not in INSTALLED_APPS') % {
        "version": django.get_version()
    }
    hint = _('Install django-tasks, and add "django_tasks" to INSTALLED_APPS.')
    if alias is not None:
        yield _error(_('DJANGO_MCP["TASK_BACKEND"] is %(alias)r, but %(text)s.') % {"alias": alias, "text": text}, hint)
    else:
        yield Warning(
            _("%(text)s: the setting TASKS is ignored, and tasks run in the serving process.") % {"text": text},
            hint=hint,
            id="django_mcp.W015",
        )


def _of_backend(alias: str) -> Iterator[CheckMessage]:
    try:
        queues = backends.backend(alias).queues
    except Exception as error:  # noqa: BLE001 - backends may raise anything
        yield _error(
            _("TASKS[%(alias)r] cannot be used: %(error)s") % {"alias": alias, "error": error},
            _("Correct the setting TASKS."),
        )
        return
    if queues and settings.TASK_QUEUE not in queues:
        text = _('DJANGO_MCP["TASK_QUEUE"] is %(queue)r, which is not a queue of TASKS[%(alias)r].') % {
            "queue": settings.TASK_QUEUE,
            "alias": alias,
        }
        yield _error(text, _("Use one of: %(queues)s.") % {"queues": ", ".join(sorted(queues))})


def _error(text: str, hint: str) -> Error:
    return Error(text, hint=hint, id="django_mcp.E030")


ALWAYS = (check_backend,)
