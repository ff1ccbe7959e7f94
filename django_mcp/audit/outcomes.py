"""The words for what became of a request, and the groups in which charts, figures and filters count it.

``RequestLog.Outcome`` has the label of each single outcome. Every page takes its words from these two tables.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_mcp.models import RequestLog

_O = RequestLog.Outcome


class Group(NamedTuple):
    """Outcomes that are counted together.

    Attributes:
        label: as in "outcome: …".
        heading: above their number.
        value: of the request log's filter.
        outcomes: that it contains.
    """

    label: Any
    heading: Any
    value: str
    outcomes: tuple[str, ...]


GROUPS: Mapping[str, Group] = {
    "ok": Group(_O.OK.label, _("Succeeded"), "ok", (_O.OK,)),
    "error": Group(_("error"), _("Errors"), "handled", (_O.ERROR, _O.FAILED, _O.TIMED_OUT)),
    "crash": Group(_O.CRASHED.label, _("Crashes"), "crashed", (_O.CRASHED,)),
    "denied": Group(_("rejected or denied"), _("Rejected or denied"), "not_run", (_O.REJECTED, _O.DENIED)),
    "waiting": Group(_O.WAITING.label, _("Pending approval"), "waiting", (_O.WAITING,)),
    "other": Group(_("other"), _("Other"), "others", (_O.ASKED, _O.TASK, _O.CANCELLED)),
}
"""The groups by key. An error is one that the caller may correct; a crash is an exception of the site's code."""

FAILED = Group(_("failed"), _("Failed"), "errors", (*GROUPS["error"].outcomes, *GROUPS["crash"].outcomes))
"""Errors and crashes together."""
FAILURES = ("error", "crash")
"""Keys of the groups that ``FAILED`` consists of."""

GROUP_OF: Mapping[str, str] = {str(outcome): key for key, group in GROUPS.items() for outcome in group.outcomes}
"""The key of the group of each outcome."""

FILTERS: Mapping[str, Group] = {
    group.value: group for group in (FAILED, *GROUPS.values()) if group.value not in RequestLog.Outcome.values
}
"""Values of the log's filter that stand for several outcomes."""
