"""Admin of OAuth clients: their users, revocation and policies. Requires django-oauth-toolkit."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import IntegrityError
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.base import VirtualModelAdmin, has_word, page_of, page_queries, revocation_effects, user_lookups
from django_mcp.admin.client_policies import ClientLimitsForm, is_wider
from django_mcp.admin.tool_policies import (
    TOO_LATE,
    USED,
    WeakenedPolicy,
    confirm_weakening,
    consume_undo_token,
    find_weakened,
    posted_fields,
    read_undo_token,
    undo_button,
)
from django_mcp.admin.tool_rows import load_tool_rows
from django_mcp.approvals.tool_policies import parse_tools
from django_mcp.auth.oauth import KINDS
from django_mcp.auth.toolkit import get_application_model
from django_mcp.core import database
from django_mcp.core.database import keys_of
from django_mcp.core.principal import display_name
from django_mcp.models import ClientPolicy, OAuthClient, RequestLog
from django_mcp.oauth import consent
from django_mcp.oauth.connected_apps import (
    Authorization,
    Summary,
    active_endpoint_tokens,
    acts_for_itself,
    authorizations_of,
    logins_began,
    name_of,
    revoke_access,
    revoke_all_access,
    summaries,
    titles_of,
    users_of,
)


class ClientActions:
    """Changes by one user to one OAuth client, with messages and history entries."""

    def __init__(self, model_admin: Any, request: HttpRequest, application: Any) -> None:
        self._admin, self._request, self._application = model_admin, request, application

    def revoke(self, key: str) -> None:
        """Revoke the access on behalf of the user with this primary key, given as a string."""
        user = _user(key)
        if user is None:
            self._message_user(_("This user no longer exists."), messages.WARNING)
            return
        if acts_for_itself(self._application):
            self.revoke_all()
            return
        with database.atomic():
            revoke_access(user, self._application.pk)
            self._note(_("Access of %s revoked.") % user.get_username())
        names = {"application": name_of(self._application), "user": user.get_username()}
        self._message_user(_("Access of client %(application)s on behalf of %(user)s is revoked.") % names)

    def revoke_all(self) -> None:
        with database.atomic():
            number = revoke_all_access(self._application.pk)
            words = ngettext("All access revoked, of %d user.", "All access revoked, of %d users.", number)
            self._note(words % number)
        self._message_user(_("All access of client %s is revoked.") % name_of(self._application))

    def block(self, *, blocked: bool) -> None:
        client_id = self._application.client_id
        done = _("Blocked.") if blocked else _("No longer blocked.")
        with database.atomic():
            # Locked, for two administrators who block and limit the client at the same time.
            row = ClientPolicy.objects.select_for_update().filter(client_id=client_id).first()
            if blocked is (row is not None and row.blocked):
                self._message_user(_("Nothing changed: this is already the policy."), messages.INFO)
                return
            row = row or ClientPolicy(client_id=client_id)
            row.blocked = blocked
            # Not update(): a receiver of save() renews the open streams.
            row.save(update_fields=None if row.pk is None else ["blocked"])
            self._admin.log_change(self._request, row, done)
            self._note(done)
        name = name_of(self._application)
        self._message_user((_("Client %s is blocked.") if blocked else _("Client %s is no longer blocked.")) % name)

    def limit(self, form: ClientLimitsForm, address: str) -> None:
        """Save the limits of a valid form whose instance is locked, and offer to undo it on the page at *address*."""
        row = form.instance
        if not form.changed:
            self._message_user(_("Nothing changed: this is already the policy."), messages.INFO)
            return
        before = {name: form.before[name] for name in form.changed}
        after = {name: form.cleaned_data[name] for name in form.changed}
        self._save(row, after)
        words = _("Limits of client %s saved.") % name_of(self._application)
        self._message_user(undo_button(self._request, words, address, [before, after]))

    def undo(self, nonce: str, row: ClientPolicy, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Restore limits that are still what the user's own change made; *row* is locked."""
        if not consume_undo_token(nonce):
            self._message_user(str(USED), messages.WARNING)
        elif not is_still(row, after):
            self._message_user(str(CHANGED), messages.ERROR)
        else:
            self._save(row, before)
            self._message_user(_("Limits of client %s restored.") % name_of(self._application))

    def _save(self, row: ClientPolicy, limits: Mapping[str, Any]) -> None:
        for name, value in limits.items():
            setattr(row, name, value)
        done = _("Limits changed.")
        # Only these columns: the client may have been blocked since the page was loaded.
        row.save(update_fields=None if row.pk is None else [*limits])
        self._admin.log_change(self._request, row, done)
        self._note(done)

    def _note(self, words: str) -> None:
        self._admin.log_change(self._request, _logged(self._application), words)

    def _message_user(self, words: "str | SafeString", level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _logged(application: Any) -> OAuthClient:
    """Return what the history of a client is kept of. The proxy has no table; ``LogEntry`` stores this id."""
    row = OAuthClient(client_id=application.client_id)
    row.pk = row.client_id
    return row


def _user(key: str) -> Any:
    model = get_user_model()
    return model._default_manager.filter(pk__in=keys_of(model, [key])).first()  # noqa: SLF001 - Django's documented API


MAX_NAME = 255
"""Maximum characters of a client's name on its page: all that are stored."""
SHORT = 32
"""Maximum characters of a client id in the list."""
MAX_WORDS = 5
"""Maximum number of search terms."""
STATES = (
    ("", gettext_lazy("in use")),
    ("access", gettext_lazy("has access")),
    ("blocked", gettext_lazy("blocked")),
    ("unused", gettext_lazy("unused registrations")),
)


@dataclass
class ClientRow:
    """A row of the list.

    Attributes:
        application: the application, annotated by ``with_facts``.
        summary: its access, or None.
        began: start of its oldest active login.
    """

    application: Any
    summary: Summary | None
    began: datetime.datetime | None

    @property
    def name(self) -> str:
        return name_of(self.application)

    @property
    def origin(self) -> str:
        return consent.origin(self.application)

    @property
    def short_id(self) -> str:
        return Truncator(self.application.client_id).chars(SHORT)

    @property
    def people_words(self) -> str:
        if self.summary is None:
            return _("none")
        if self.summary.acts_for_itself:
            return _("the client itself")
        return ngettext("%d user", "%d users", self.summary.people) % self.summary.people

    @property
    def since(self) -> datetime.datetime | None:
        if self.summary is None:
            return None
        return min(self.summary.since, self.began or self.summary.since)


class ClientFilterForm:
    """Search terms and state from the query string. Invalid values are ignored."""

    def __init__(self, given: QueryDict) -> None:
        self.query = given.get("q", "").replace("\0", "").strip()
        state = given.get("state", "")
        self.state = state if state in dict(STATES) else ""
        self.states = STATES

    @property
    def is_narrowed(self) -> bool:
        return bool(self.query or self.state)

    def apply(self, applications: QuerySet[Any]) -> QuerySet[Any]:
        """Return the applications whose name, client id or users match all search terms."""
        for word in self.query.split()[:MAX_WORDS]:
            tokens = active_endpoint_tokens()
            of_people = tokens.filter(has_word(tokens.model, user_lookups(), word)).values("application")
            is_named = has_word(applications.model, ("name", "client_id"), word)
            applications = applications.filter(is_named | Q(pk__in=of_people))
        blocked = ClientPolicy.objects.filter(blocked=True).values("client_id")
        if self.state == "blocked":
            return applications.filter(client_id__in=blocked)
        return applications.exclude(client_id__in=blocked) if self.state == "access" else applications


class ClientRows(Sequence[ClientRow]):
    """The filtered clients: those with access by last renewal, then the others by creation.

    Lazy: two queries for the order, and two more for each page.
    """

    def __init__(self, filter_form: ClientFilterForm) -> None:
        self._filter_form = filter_form

    @cached_property
    def _summaries(self) -> dict[Any, Summary]:
        return summaries()

    @cached_property
    def _unused(self) -> set[Any]:
        """Clients that registered themselves, have no access, made no request in the log, and are not blocked."""
        applications, same = get_application_model(), {"client_id": OuterRef("client_id")}
        rows = applications.objects.exclude(registration_source=applications.RegistrationSource.MANUAL).exclude(
            Exists(ClientPolicy.objects.filter(blocked=True, **same)) | Exists(RequestLog.objects.filter(**same))
        )
        return set(rows.values_list("pk", flat=True)) - {*self._summaries}

    @property
    def unused_number(self) -> int:
        return len(self._unused)

    @cached_property
    def _keys(self) -> list[Any]:
        rows = self._filter_form.apply(get_application_model().objects.order_by("-created", "-pk"))
        keys, known = list(rows.values_list("pk", flat=True)), self._summaries
        if self._filter_form.state == "access":
            keys = [key for key in keys if key in known]
        elif self._filter_form.state == "unused":
            keys = [key for key in keys if key in self._unused]
        elif not self._filter_form.is_narrowed:
            keys = [key for key in keys if key not in self._unused]
        return sorted(keys, key=lambda key: -known[key].renewed.timestamp() if key in known else 0)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, which: Any) -> Any:
        keys = self._keys[which]
        return list(self._of(keys)) if isinstance(which, slice) else next(self._of([keys]))

    def _of(self, keys: Sequence[Any]) -> Iterator[ClientRow]:
        rows = with_facts(get_application_model().objects.all()).in_bulk(keys)
        began = logins_began("application", application__in=keys)
        for key in keys:
            if key in rows:
                yield ClientRow(rows[key], self._summaries.get(key), began.get(key))


def with_facts(applications: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate ``mcp_blocked`` and ``mcp_last_call``, and defer the client secret."""
    same = {"client_id": OuterRef("client_id")}
    calls = RequestLog.objects.filter(**same).order_by("-started_at").values("started_at")
    found: QuerySet[Any] = applications.defer("client_secret").annotate(
        mcp_blocked=Exists(ClientPolicy.objects.filter(blocked=True, **same)),
        mcp_last_call=Subquery(calls[:1]),
    )
    return found


@dataclass
class Holder:
    """A user who authorized a client."""

    access: Authorization
    last_call: Any

    @property
    def key(self) -> str:
        return str(self.access.user.pk)

    @property
    def name(self) -> str:
        return display_name(self.access.user)

    @property
    def endpoints(self) -> list[str]:
        return titles_of(self.access.resources)

    @property
    def scopes(self) -> list[consent.ScopeText]:
        return consent.describe_scopes(self.access.scopes)


def of_client(application: Any) -> Q:
    return Q(principal_kind__in=KINDS, principal_id__endswith=f":{application.pk}")


def find(client_id: str) -> Any:
    """Return the application annotated by ``with_facts``, or None."""
    if "\0" in client_id:
        return None
    return with_facts(get_application_model().objects.filter(client_id=client_id)).first()


def holders(application: Any, users: Sequence[Any]) -> list[Holder]:
    """Return the holders for the users with these primary keys. Four queries."""
    accesses = authorizations_of(application, users)
    calls = RequestLog.objects.filter(client_id=application.client_id, user=OuterRef("pk")).order_by("-started_at")
    rows = get_user_model()._default_manager.filter(pk__in=users)  # noqa: SLF001 - Django's documented API
    last = dict(
        rows.order_by()
        .annotate(mcp_last_call=Subquery(calls.values("started_at")[:1]))
        .values_list("pk", "mcp_last_call")
    )
    return [Holder(access, last.get(access.user.pk)) for access in accesses]


def hosts_of(application: Any) -> list[str]:
    return list(dict.fromkeys(_place_words(consent.destination(uri)) for uri in application.redirect_uris.split()))


def _place_words(place: consent.Destination) -> str:
    # In the third person: the program runs on the user's computer, not the reader's.
    if place.kind == "loopback":
        return _("a program on the user’s computer")
    if place.kind == "program":
        return _("a program on the user’s computer that opens “%s” links") % place.detail
    return place.text


def document_of(application: Any) -> str:
    return str(application.client_id) if application.registration_source == "cimd" else ""


def is_still(row: ClientPolicy, limits: Mapping[str, Any]) -> bool:
    return all(sort(getattr(row, name)) == sort(value) for name, value in limits.items())


def sort(limit: Collection[str] | None) -> list[str] | None:
    # None is no limit.
    return None if limit is None else sorted(limit)


def find_weakened_limits(
    application: Any, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[WeakenedPolicy]:
    """Yield what limits of a client would give more than now."""
    if "tools" in after:
        limits = {application.client_id: parse_tools(after["tools"])}
        yield from find_weakened(load_tool_rows(with_calls=False), limits=limits)
    if "scopes" in after and is_wider(before["scopes"], after["scopes"]):
        who = _("Client %s") % name_of(application)
        now, then = _scope_words(before["scopes"]), _scope_words(after["scopes"])
        yield WeakenedPolicy(_("Scopes"), "", who, now, then, is_tool=False)


CHANGED = gettext_lazy(
    "Nothing was changed: the limits of this client were changed since. Check them, then decide again."
)


def policy_words(application: Any, policy: ClientPolicy | None) -> list[str]:
    acts_alone = acts_for_itself(application)
    found = []
    if policy is not None:
        found.append(_("Blocked: all its tokens are rejected.") if policy.blocked else _("Not blocked."))
        if policy.read_only:
            found.append(_("Only tools that change nothing, resources and prompts."))
        found.append(_scope_words(policy.scopes))
        found.append(_tool_words(parse_tools(policy.tools)))
    if policy is not None and policy.service_account is not None:
        found.append(_("Service account: %s.") % policy.service_account.get_username())
    elif acts_alone:
        found.append(_("It has no service account, so its tokens give no access."))
    return found or [_("No policy: limited only by what its users authorize.")]


def _scope_words(scopes: Sequence[str] | None) -> str:
    if scopes is None:
        return _("Scopes: no limit.")
    return _("Maximum scopes: %s.") % ("; ".join(scope.text for scope in consent.describe_scopes(scopes)) or _("none"))


def _tool_words(tools: Collection[tuple[str, str]] | None) -> str:
    if tools is None:
        return _("Tools: all.")
    if not tools:
        return _("Tools: none.")
    named = ", ".join(sorted(f"{tool} ({server})" for server, tool in tools))
    return ngettext("Only the tool %s.", "Only the tools %s.", len(tools)) % named


PER_PAGE = 100


class OAuthClientAdmin(VirtualModelAdmin):
    """Pages of OAuth clients, with the permissions to view and change client policies."""

    template_dir, permission_model = "oauthclient", "clientpolicy"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        # Under the names that the admin index and history links use.
        return [
            path("", view(self.list_view), name="django_mcp_oauthclient_changelist"),
            path("<path:object_id>/change/", view(self.application_view), name="django_mcp_oauthclient_change"),
            path("<path:object_id>/history/", view(self.history_view), name="django_mcp_oauthclient_history"),
            path("<path:object_id>/block/", view(self.block_view), name="django_mcp_oauthclient_block"),
            path("<path:object_id>/revoke/", view(self.revoke_view), name="django_mcp_oauthclient_revoke"),
        ]

    # List

    def list_view(self, request: HttpRequest) -> HttpResponseBase:
        """List all OAuth clients.

        Raises:
            PermissionDenied: the user may not view client policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        filter_form = ClientFilterForm(request.GET)
        rows = ClientRows(filter_form)
        page = Paginator(rows, PER_PAGE).get_page(request.GET.get("p"))
        context = {
            "filter_form": filter_form,
            "unused": 0 if filter_form.is_narrowed else rows.unused_number,
            "page": page,
            "page_queries": page_queries(request, page),
            "number": get_application_model().objects.count() if filter_form.is_narrowed else page.paginator.count,
            "can_view_log": self.can_view_log(request),
            "rows": [(row, self.address_of(row.application.client_id)) for row in page],
        }
        return self.page(request, "list", capfirst(str(self.opts.verbose_name_plural)), context)

    # Detail

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:  # noqa: ARG002
        application = find(object_id)
        return None if application is None else _logged(application)

    def application_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show a client and its users. On POST, revoke one user's access, limit, block or unblock the client.

        Raises:
            PermissionDenied: the user may not view or change client policies.
        """
        application = self._find(request, object_id)
        if application is None:
            return self._no_such(request, object_id)
        rows = ClientPolicy.objects.filter(client_id=application.client_id)
        limits_tools = request.user.has_perm("django_mcp.change_toolpolicy")
        if request.method == "POST":
            if not self.has_change_permission(request):
                raise PermissionDenied
            try:
                with database.atomic():
                    # Locked, as the form compares its limits with those that the page showed.
                    row = rows.select_for_update().first() or ClientPolicy(client_id=application.client_id)
                    sent = request.POST if "limits" in request.POST else None
                    limits = ClientLimitsForm(sent, instance=row, limits_tools=limits_tools)
                    answer = self._change(request, application, limits)
            except IntegrityError:  # another administrator created this client's policy meanwhile
                self.message_user(request, CHANGED, messages.ERROR)
                answer = HttpResponseRedirect(request.get_full_path())
            if answer is not None:
                return answer
        policy = rows.select_related("service_account").first()
        if request.method != "POST":
            instance = policy or ClientPolicy(client_id=application.client_id)
            limits = ClientLimitsForm(instance=instance, limits_tools=limits_tools)
        page = Paginator(users_of(application), PER_PAGE).get_page(request.GET.get("p"))
        context = {
            **self._about(application),
            "whole_name": consent.clean_name(application.name, MAX_NAME) or name_of(application),
            "origin": consent.origin(application),
            "document": document_of(application),
            "hosts": hosts_of(application),
            "policy_words": policy_words(application, policy),
            "limits": limits,
            "policy_address": self._policy_address(request, application, policy),
            "has_policy": policy is not None,
            "holders": holders(application, [row["user"] for row in page]),
            "page": page,
            "page_queries": page_queries(request, page),
            "can_view_log": self.can_view_log(request),
            "calls_address": self._calls_address(application),
            "toolkit_address": page_of(request, self.admin_site, get_application_model(), application.pk),
            "revoke_address": self.address("oauthclient_revoke", quote(application.client_id)),
            "block_address": self.address("oauthclient_block", quote(application.client_id)),
        }
        return self.page(request, "detail", name_of(application), context)

    def _change(self, request: HttpRequest, application: Any, limits: ClientLimitsForm) -> HttpResponse | None:
        """Do what was asked, and return the response; None if the form of limits has errors to show."""
        given, changing = request.POST, ClientActions(self, request, application)
        if "limits" in given:
            if not limits.is_valid():
                return None
            wanted = {name: limits.cleaned_data[name] for name in limits.changed}
            asking = confirm_weakening(
                self, request, find_weakened_limits(application, limits.before, wanted), posted_fields(given)
            )
            if asking is not None:
                return asking
            changing.limit(limits, request.path)
        elif "undo" in given:
            return self._undo(request, application, changing, limits.instance)
        elif "revoke" in given:
            changing.revoke(given["revoke"])
        elif given.get("blocked") in {"yes", "no"}:
            changing.block(blocked=given["blocked"] == "yes")
        return HttpResponseRedirect(request.get_full_path())

    def _undo(
        self, request: HttpRequest, application: Any, changing: ClientActions, row: ClientPolicy
    ) -> HttpResponse | None:
        found = read_undo_token(request, request.POST["undo"])
        if found is None:
            self.message_user(request, TOO_LATE, messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        nonce, (before, after) = found
        if "tools" in after and not request.user.has_perm("django_mcp.change_toolpolicy"):
            raise PermissionDenied
        if is_still(row, after):
            more = find_weakened_limits(application, after, before)
            asking = confirm_weakening(self, request, more, [("undo", request.POST["undo"])])
            if asking is not None:
                return asking
        changing.undo(nonce, row, before, after)
        return HttpResponseRedirect(request.get_full_path())

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Confirm the revocation of all access; revoke it on POST.

        Raises:
            PermissionDenied: the user may not change client policies.
        """
        application = self._find_to_change(request, object_id)
        if application is None:
            return self._no_such(request, object_id)
        if request.method == "POST":
            ClientActions(self, request, application).revoke_all()
            return HttpResponseRedirect(self.address_of(application.client_id))
        return self.page(request, "revoke", _("Revoke all access"), self._revocation_context(application))

    def block_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Confirm that a client is blocked or unblocked, with what ends. The page of the client does it.

        Raises:
            PermissionDenied: the user may not change client policies.
        """
        application = self._find_to_change(request, object_id)
        if application is None:
            return self._no_such(request, object_id)
        registers = application.registration_source == application.RegistrationSource.DCR
        title = _("Unblock client") if application.mcp_blocked else _("Block client")
        return self.page(
            request, "block_confirmation", title, {**self._revocation_context(application), "registers": registers}
        )

    def _find_to_change(self, request: HttpRequest, object_id: str) -> Any:
        application = self._find(request, object_id)
        if not self.has_change_permission(request):
            raise PermissionDenied
        return application

    def _revocation_context(self, application: Any) -> dict[str, Any]:
        return {
            **self._about(application),
            "people": users_of(application).count(),
            "effects": revocation_effects(of_client(application)),
            "address": self.address_of(application.client_id),
        }

    def _find(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return find(unquote(object_id))

    def _no_such(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]

    def _about(self, application: Any) -> dict[str, Any]:
        return {
            "application": application,
            "name": name_of(application),
            "acts_for_itself": acts_for_itself(application),
        }

    def _policy_address(self, request: HttpRequest, application: Any, policy: ClientPolicy | None) -> str:
        if policy is not None:
            return self.address("clientpolicy_change", policy.pk)
        address = self.address("clientpolicy_add")
        if not address or not request.user.has_perm("django_mcp.add_clientpolicy"):
            return ""
        return f"{address}?{urlencode({'client_id': application.client_id})}"

    def _calls_address(self, application: Any) -> str:
        listing = self.address("requestlog_changelist")
        return f"{listing}?{urlencode({'client_id': application.client_id})}" if listing else ""
