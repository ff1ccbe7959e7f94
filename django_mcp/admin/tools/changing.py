"""Decisions as people make them on the pages of tools: done, told, and noted in the history of the tool."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mcp.admin.tools.forms import OverrideForm
from django_mcp.admin.tools.lines import Line
from django_mcp.approvals import tool_policies
from django_mcp.approvals.tool_policies import decide
from django_mcp.core import database
from django_mcp.models import ToolPolicy, Tools

DEFAULT = "default"
DECISIONS = (DEFAULT, *ToolPolicy.Decision.values)


class Changing:
    """What one person changes.

    Args:
        model_admin: of the pages.
        request: theirs.
    """

    def __init__(self, model_admin: Any, request: HttpRequest) -> None:
        self._admin, self._request = model_admin, request

    def decide(self, lines: Iterable[Line], decision: str) -> None:
        """Decide about tools, for everybody; all of it or nothing."""
        with database.atomic():
            changed = [each for each in lines if self._decide(each, decision)]
        if not changed:
            self._tell(_("Nothing was changed: that counts already."), messages.INFO)
        elif len(changed) == 1:
            told = {"tool": changed[0].key, "decision": _words(decision)}
            self._tell(_("Tool %(tool)s: %(decision)s. It counts from now on.") % told)
        else:
            words = ngettext("%(number)d tool: %(decision)s.", "%(number)d tools: %(decision)s.", len(changed))
            self._tell(words % {"number": len(changed), "decision": _words(decision)})

    def _decide(self, line: Line, decision: str) -> bool:
        if decision == (DEFAULT if line.own is None else line.own.decision):
            return False
        value = None if decision == DEFAULT else decision
        decide(line.server, line.tool, value, user=self._request.user)
        self._note(line, _("For everybody: %s.") % _words(decision))
        return True

    def override(self, line: Line, form: OverrideForm) -> None:
        """Decide for a group or a client; the form is valid."""
        given = form.cleaned_data
        who = _whom(given["group"], given["client_id"])
        with database.atomic():
            decide(
                line.server,
                line.tool,
                given["decision"],
                group=given["group"],
                client_id=given["client_id"],
                user=self._request.user,
            )
            self._note(line, f"{who}: {_words(given['decision'])}.")
        self._tell(f"{who}: {_words(given['decision'])}.")

    def remove(self, line: Line, pk: str) -> None:
        """Take an override back."""
        row = next((each for each in line.overrides if str(each.pk) == pk), None)
        if row is None:
            self._tell(_("There is no such override any more."), messages.WARNING)
            return
        who = _whom(row.group, row.client_id)
        with database.atomic():
            decide(line.server, line.tool, None, group=row.group, client_id=row.client_id, user=self._request.user)
            self._note(line, _("%s: no override any more.") % who)
        self._tell(_("%s: no override any more.") % who)

    def forget(self, rows: Iterable[ToolPolicy], pk: str) -> None:
        """Take back what was decided about a tool that is not there."""
        row = next((each for each in rows if str(each.pk) == pk), None)
        if row is None:
            self._tell(_("There is no such decision any more."), messages.WARNING)
            return
        key, who = f"{row.server}.{row.tool}", whom(row)
        with database.atomic():
            row.delete()
            self._note_of(row.server, row.tool, _("%s: no decision any more.") % who)
        self._tell(_("Tool %(tool)s, %(who)s: no decision any more.") % {"tool": key, "who": who})

    def accept(self, line: Line, digest: str) -> None:
        """Say that a tool is right as it was shown. Where it became another one meanwhile, that is not said of it."""
        if digest != tool_policies.known(line.tool).digest:
            self._tell(_("The tool changed again meanwhile. Look at it once more."), messages.WARNING)
            return
        with database.atomic():
            tool_policies.accept(line.server, line.tool, self._request.user)
            self._note(line, _("Accepted as it is now."))
        self._tell(_("Tool %s is accepted as it is now.") % line.key)

    def _note(self, line: Line, words: str) -> None:
        self._note_of(line.server.name, line.tool.key, words)

    def _note_of(self, server: str, tool: str, words: str) -> None:
        row: Any = Tools(server=server, tool=tool)
        row.pk = f"{server}.{tool}"  # of no table; the history goes by it
        self._admin.log_change(self._request, row, words)

    def _tell(self, words: str, level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _words(decision: str) -> str:
    return _("default") if decision == DEFAULT else str(ToolPolicy.Decision(decision).label)


def whom(row: ToolPolicy) -> str:
    """Whom a decision is for."""
    return _("Everybody") if row.group is None and not row.client_id else _whom(row.group, row.client_id)


def _whom(group: Any, client_id: str) -> str:
    """Whom an override is for."""
    if group is None:
        return _("Client %s") % client_id
    words = _("Group %s") % group.name
    return words if not client_id else _("%(group)s with client %(client)s") % {"group": words, "client": client_id}
