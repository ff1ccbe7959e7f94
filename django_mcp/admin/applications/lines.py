"""Applications with what is known of them, for the list: as many queries for three hundred as for one."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.auth.toolkit import get_application_model
from django_mcp.models import ClientPolicy, ToolCall
from django_mcp.oauth import consent
from django_mcp.oauth.connected_apps import Summary, held_at_endpoints, logins_began, name_of, summaries

SHORT = 32
"""Characters of a client id in the list."""
MOST_WORDS = 5
"""That are searched for."""
STATES = (
    ("", gettext_lazy("all")),
    ("access", gettext_lazy("has access now")),
    ("blocked", gettext_lazy("blocked")),
)


@dataclass
class Line:
    """An application.

    Attributes:
        application: with ``mcp_blocked`` and ``mcp_last_call``.
        summary: of the access it has; None for none.
        began: when its oldest login began that goes on.
    """

    application: Any
    summary: Summary | None
    began: datetime.datetime | None

    @property
    def name(self) -> str:
        """What it calls itself."""
        return name_of(self.application)

    @property
    def origin(self) -> str:
        """How this site came to know it."""
        return consent.origin(self.application)

    @property
    def short_id(self) -> str:
        """The beginning of its client id."""
        return Truncator(self.application.client_id).chars(SHORT)

    @property
    def people_words(self) -> str:
        """In whose name it has access."""
        if self.summary is None:
            return _("nobody")
        if self.summary.acts_for_itself:
            return _("the application itself")
        return ngettext("%d person", "%d people", self.summary.people) % self.summary.people

    @property
    def since(self) -> datetime.datetime | None:
        """Since when somebody lets it in."""
        if self.summary is None:
            return None
        return min(self.summary.since, self.began or self.summary.since)


class Choosing:
    """Which applications are asked for, as the address says: plain GET parameters.

    Args:
        given: the parameters. What makes no sense is left aside.
    """

    def __init__(self, given: QueryDict) -> None:
        self.query = given.get("q", "").replace("\0", "").strip()
        state = given.get("state", "")
        self.state = state if state in dict(STATES) else ""
        self.states = STATES

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.query or self.state)

    def apply(self, applications: QuerySet[Any]) -> QuerySet[Any]:
        """Those with all words in their names, client ids, or the names of people who let them in."""
        for word in self.query.split()[:MOST_WORDS]:
            name = f"user__{get_user_model().USERNAME_FIELD}__icontains"
            of_people = held_at_endpoints().filter(**{name: word}).values("application")
            applications = applications.filter(
                Q(name__icontains=word) | Q(client_id__icontains=word) | Q(pk__in=of_people)
            )
        blocked = ClientPolicy.objects.filter(blocked=True).values("client_id")
        if self.state == "blocked":
            return applications.filter(client_id__in=blocked)
        return applications.exclude(client_id__in=blocked) if self.state == "access" else applications


class Lines(Sequence[Line]):
    """Those that are asked for, the last renewed first, then those without access, the newest first.

    What is known of all is two queries; what is shown of a page of them are two more.
    """

    def __init__(self, choosing: Choosing) -> None:
        self._choosing = choosing

    @cached_property
    def _summaries(self) -> dict[Any, Summary]:
        return summaries()

    @cached_property
    def _keys(self) -> list[Any]:
        rows = self._choosing.apply(get_application_model().objects.order_by("-created", "-pk"))
        keys, known = list(rows.values_list("pk", flat=True)), self._summaries
        if self._choosing.state == "access":
            keys = [key for key in keys if key in known]
        return sorted(keys, key=lambda key: -known[key].renewed.timestamp() if key in known else 0)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, which: Any) -> Any:
        keys = self._keys[which]
        return list(self._of(keys)) if isinstance(which, slice) else next(self._of([keys]))

    def _of(self, keys: Sequence[Any]) -> Iterator[Line]:
        rows = with_facts(get_application_model().objects.all()).in_bulk(keys)
        began = logins_began("application", application__in=keys)
        for key in keys:
            if key in rows:
                yield Line(rows[key], self._summaries.get(key), began.get(key))


def with_facts(applications: QuerySet[Any]) -> QuerySet[Any]:
    """With whether they are blocked, as ``mcp_blocked``, and when they last called, as ``mcp_last_call``; without
    their secrets.
    """
    same = {"client_id": OuterRef("client_id")}
    calls = ToolCall.objects.filter(**same).order_by("-called").values("called")
    found: QuerySet[Any] = applications.defer("client_secret").annotate(
        mcp_blocked=Exists(ClientPolicy.objects.filter(blocked=True, **same)),
        mcp_last_call=Subquery(calls[:1]),
    )
    return found
