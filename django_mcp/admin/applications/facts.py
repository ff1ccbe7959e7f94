"""What the page of an application says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mcp.admin.applications.lines import with_facts
from django_mcp.auth.toolkit import get_application_model
from django_mcp.models import ClientPolicy, ToolCall
from django_mcp.oauth import consent
from django_mcp.oauth.connected_apps import Access, accesses_of, acts_for_itself, titles_of


@dataclass
class Holder:
    """One of the people who let an application in.

    Attributes:
        access: what it has of them.
        last_call: of the application in their name.
    """

    access: Access
    last_call: Any

    @property
    def key(self) -> str:
        """What the form calls them."""
        return str(self.access.user.pk)

    @property
    def name(self) -> str:
        """What people call them."""
        return str(self.access.user.get_username())

    @property
    def endpoints(self) -> list[str]:
        """By their titles."""
        return titles_of(self.access.resources)

    @property
    def scopes(self) -> list[consent.ScopeText]:
        """In words."""
        return consent.in_words(self.access.scopes)


def find(client_id: str) -> Any:
    """An application with ``mcp_blocked`` and ``mcp_last_call``; None for none."""
    if "\0" in client_id:
        return None
    return with_facts(get_application_model().objects.filter(client_id=client_id)).first()


def holders(application: Any, users: Sequence[Any]) -> list[Holder]:
    """What is shown of some of its people. Four queries.

    Args:
        application: which.
        users: their primary keys.
    """
    accesses = accesses_of(application, users)
    calls = ToolCall.objects.filter(client_id=application.client_id, user=OuterRef("pk")).order_by("-called")
    rows = get_user_model()._default_manager.filter(pk__in=users)  # noqa: SLF001 - Django's documented API
    last = dict(
        rows.order_by().annotate(mcp_last_call=Subquery(calls.values("called")[:1])).values_list("pk", "mcp_last_call")
    )
    return [Holder(each, last.get(each.user.pk)) for each in accesses]


def hosts_of(application: Any) -> list[str]:
    """Where it has people sent."""
    return list(dict.fromkeys(_place_words(consent.destination(uri)) for uri in application.redirect_uris.split()))


def _place_words(place: consent.Destination) -> str:
    """For somebody else than the user, at whose computer the program is."""
    if place.kind == "loopback":
        return _("a program on the user’s computer")
    if place.kind == "program":
        return _("a program on the user’s computer that opens “%s” links") % place.detail
    return place.text


def document_of(application: Any) -> str:
    """The address at which it describes itself; empty for one that does not."""
    return str(application.client_id) if application.registration_source == "cimd" else ""


def policy_words(application: Any, policy: ClientPolicy | None) -> list[str]:
    """What the site's owner decided about it."""
    if policy is None:
        nothing = _("Nobody has decided anything about it: it may do what its users agree to.")
        return (
            [_("Nobody has decided whom it acts as, so its tokens open nothing.")]
            if acts_for_itself(application)
            else [nothing]
        )
    lines = [_("Blocked: none of its tokens is accepted.") if policy.blocked else _("Not blocked.")]
    lines.append(_scope_words(policy.scopes))
    lines.append(_tool_words(policy.tools))
    if policy.acts_as is not None:
        lines.append(_("For itself it acts as %s.") % policy.acts_as.get_username())
    elif acts_for_itself(application):
        lines.append(_("Nobody has decided whom it acts as, so its tokens open nothing."))
    return lines


def _scope_words(scopes: Sequence[str] | None) -> str:
    if scopes is None:
        return _("Scopes: no limit.")
    return _("Scopes at most: %s.") % ("; ".join(each.text for each in consent.in_words(scopes)) or _("none"))


def _tool_words(tools: Sequence[str] | None) -> str:
    if tools is None:
        return _("Tools: all.")
    if not tools:
        return _("Tools: none.")
    return ngettext("Only the tool %s.", "Only the tools %s.", len(tools)) % ", ".join(tools)
