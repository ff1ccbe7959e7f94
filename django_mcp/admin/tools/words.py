"""What a tool says of itself, in words."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db.models import Model
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.core.permissions import declared
from django_mcp.core.redaction import visible
from django_mcp.core.server import MCPServer
from django_mcp.primitives.tool import Tool

HINTS = (
    ("readOnlyHint", gettext_lazy("reads only"), gettext_lazy("writes")),
    ("destructiveHint", gettext_lazy("destructive"), gettext_lazy("not destructive")),
    ("idempotentHint", gettext_lazy("idempotent"), gettext_lazy("not idempotent")),
    ("openWorldHint", gettext_lazy("open world"), gettext_lazy("closed world")),
)
"""Each with its words for yes and for no."""


def hints_of(tool: Tool) -> list[str]:
    """Those it gives. Whether what only reads is destructive or idempotent is no question."""
    given = tool.annotations
    asked = ("readOnlyHint", "openWorldHint") if given.get("readOnlyHint") else tuple(name for name, *_rest in HINTS)
    return [str(yes if given[name] else no) for name, yes, no in HINTS if name in given and name in asked]


def description_of(tool: Tool) -> str:
    """In the language of the page, where it is translated."""
    return visible(str(tool.definition.get("description", "")))


def title_of(tool: Tool) -> str:
    """What clients show for it."""
    return visible(str(tool.definition.get("title", "")))


def callers_of(server: MCPServer, tool: Tool) -> list[str]:
    """Who may call it; all of that has to be so."""
    return list(_callers(server, tool)) or [_("everybody who may call the endpoint")]


def _callers(server: MCPServer, tool: Tool) -> Iterator[str]:
    if tool.permissions:
        listed = ", ".join(tool.permissions)
        yield ngettext("permission %s", "permissions %s", len(tool.permissions)) % listed
    if tool.groups:
        yield ngettext("group %s", "one of the groups %s", len(tool.groups)) % ", ".join(sorted(tool.groups))
    if scopes := sorted(tool.scopes | server.scopes):
        yield ngettext("scope %s", "scopes %s", len(scopes)) % ", ".join(scopes)
    if server.user_passes_test is not None:
        yield _("users for whom %s says so") % _called(server.user_passes_test)
    if tool.visible is not None:
        model = _model_of(tool)
        if model is not None and tool.is_generated:
            yield _("users who may see %s, as its declaration says") % model._meta.verbose_name_plural  # noqa: SLF001
        else:
            yield _("callers for whom %s says so") % _called(tool.visible)


def scope_words(tool: Tool) -> str:
    """Its scopes as people read them when they let a client in."""
    known = declared()
    return "; ".join(f"{known[name].text} ({name})" if name in known else name for name in sorted(tool.scopes))


def source_of(tool: Tool) -> str:
    """Where it comes from: a function, a view, or a model."""
    model = _model_of(tool)
    if model is not None and tool.is_generated:
        return _("model %s") % model._meta.label  # noqa: SLF001 - Django's documented API
    origin = _origin(tool)
    return _("view %s") % origin if isinstance(origin, str) else _called(origin)


def place_of(tool: Tool) -> str:
    """File and line; empty where there are none."""
    origin = _origin(tool)
    if isinstance(origin, str):
        return ""
    origin = getattr(origin, "view_class", None) or origin
    origin = origin if inspect.isclass(origin) or inspect.isroutine(origin) else type(origin)
    try:
        file, (_lines, line) = inspect.getsourcefile(origin), inspect.getsourcelines(origin)
    except (OSError, TypeError):
        return ""
    return f"{_short(file)}:{line or 1}" if file else ""


def _short(file: str) -> str:
    """Below the folder in which the process was started, where it is there."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _origin(tool: Tool) -> Any:
    """What somebody wrote: functions that were made for it know what they were made for. A view may be but a name."""
    call = inspect.unwrap(tool.read.call)
    owner = getattr(call, "owner", None)
    for name in ("view", "form_class"):
        owner = getattr(owner, name, owner)
    return call if owner is None else owner


def _model_of(tool: Tool) -> type[Model] | None:
    model = getattr(getattr(inspect.unwrap(tool.read.call), "owner", None), "model", None)
    return model if isinstance(model, type) and issubclass(model, Model) else None


def _called(thing: Any) -> str:
    thing = getattr(thing, "view_class", None) or getattr(thing, "func", thing)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
