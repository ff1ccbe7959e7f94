"""Connected apps: listing and revoking the access of OAuth clients."""

import datetime
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import router, transaction
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.csrf import csrf_protect

from django_mcp.auth.api_keys import revoke_key
from django_mcp.auth.grant_types import SERVICES
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.auth.toolkit import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
)
from django_mcp.core.database import keys_of
from django_mcp.core.server import servers
from django_mcp.models import APIKey
from django_mcp.oauth import consent
from django_mcp.oauth.consent import add_security_headers, clean_name, render_page, server_title
from django_mcp.pubsub.publish import end_access


@dataclass
class Authorization:
    """The access of an application for one user.

    Attributes:
        since: creation of the oldest token.
        renewed: creation of the newest token.
        user: the user; of a client that acts for itself the service account.
    """

    application: Any
    since: datetime.datetime
    renewed: datetime.datetime
    user: Any = None
    scopes: set[str] = field(default_factory=set)
    resources: dict[str, None] = field(default_factory=dict)

    def add(self, token: Any) -> None:
        self.since = min(self.since, token.created)
        self.renewed = max(self.renewed, token.created)
        self.scopes.update(token.scope.split())
        self.resources.update(dict.fromkeys(token.resource if isinstance(token.resource, list) else ()))


class Summary(NamedTuple):
    """The access of an application to endpoints.

    Attributes:
        people: number of users; 0 if it acts for itself.
        since: creation of the oldest valid or renewable access token.
        renewed: creation of the newest.
    """

    people: int
    acts_for_itself: bool
    since: datetime.datetime
    renewed: datetime.datetime


def name_of(application: Any) -> str:
    return clean_name(application.name) or _("An application without a name")


def acts_for_itself(application: Any) -> bool:
    return application.authorization_grant_type in SERVICES


# Queries


def active_tokens() -> QuerySet[Any]:
    """Return access tokens that are valid or renewable."""
    now, life = timezone.now(), refresh_token_expire_timedelta()
    renewable = get_refresh_token_model().objects.filter(access_token=OuterRef("pk"), revoked=None)
    tokens: QuerySet[Any] = get_access_token_model().objects.filter(application__isnull=False).defer("token")
    if life:
        tokens = tokens.filter(expires__gt=now - life)
    return tokens.filter(Q(expires__gt=now) | Exists(renewable))


def active_endpoint_tokens() -> QuerySet[Any]:
    # Only tokens with a user and a resource open endpoints.
    return active_tokens().filter(user__isnull=False).exclude(resource=[])


def renewable_tokens(**of: Any) -> QuerySet[Any]:
    """Return valid refresh tokens. Their lifetime starts when the access token expires.

    Args:
        of: lookups.
    """
    tokens: QuerySet[Any] = get_refresh_token_model().objects.filter(**of, revoked=None, access_token__isnull=False)
    life = refresh_token_expire_timedelta()
    return tokens.filter(access_token__expires__gt=timezone.now() - life) if life else tokens


def logins_began(by: str, **of: Any) -> dict[Any, datetime.datetime]:
    """Return when active logins began: the creation of their oldest refresh token. One query.

    Args:
        by: keys of the result: ``"application"`` or ``"user"``.
        of: lookups.
    """
    good = renewable_tokens(**of)
    families = good.exclude(token_family=None).values("token_family")
    rows = get_refresh_token_model().objects.filter(Q(pk__in=good.values("pk")) | Q(token_family__in=families), **of)
    return dict(rows.order_by().values_list(by).annotate(Min("created")))


def authorizations(user: Any) -> list[Authorization]:
    """Return the applications with access for a user, last renewed first.

    Clients that act for themselves are left out: administrators chose their service account.
    """
    tokens = active_tokens().filter(user=user).exclude(application__authorization_grant_type__in=SERVICES)
    found: dict[Any, Authorization] = {}
    for token in tokens.select_related("application"):
        new = Authorization(token.application, token.created, token.created, user)
        found.setdefault(token.application_id, new).add(token)
    return _in_order(found, logins_began("application", user=user))


def users_of(application: Any) -> QuerySet[Any]:
    """Return the users of an application as ``{"user": primary key, "renewed": datetime}``, last renewed first."""
    rows: QuerySet[Any] = active_endpoint_tokens().filter(application=application).order_by().values("user")
    rows = rows.annotate(renewed=Max("created"))
    return rows.order_by("-renewed", "user")


def authorizations_of(application: Any, users: Collection[Any]) -> list[Authorization]:
    """Return an application's access for users, given by primary key, last renewed first. Three queries."""
    known = get_user_model()._default_manager.in_bulk(list(users))  # noqa: SLF001 - Django's documented API
    found: dict[Any, Authorization] = {}
    for token in active_endpoint_tokens().filter(application=application, user__in=users):
        if token.user_id in known:
            new = Authorization(application, token.created, token.created, known[token.user_id])
            found.setdefault(token.user_id, new).add(token)
    return _in_order(found, logins_began("user", application=application, user__in=users))


def summaries() -> dict[Any, Summary]:
    """Return summaries by primary key of the application. One query.

    ``since`` comes from stored access tokens; ``logins_began`` knows when renewed logins began.
    """
    grant = "application__authorization_grant_type"
    rows = active_endpoint_tokens().order_by().values_list("application", grant)
    rows = rows.annotate(Count("user", distinct=True), Min("created"), Max("created"))
    return {
        application: Summary(0 if kind in SERVICES else users, kind in SERVICES, since, renewed)
        for application, kind, users, since, renewed in rows
    }


def _in_order(found: dict[Any, Authorization], began: dict[Any, datetime.datetime]) -> list[Authorization]:
    for key, authorization in found.items():
        authorization.since = min(authorization.since, began.get(key, authorization.since))
    return sorted(found.values(), key=lambda authorization: authorization.renewed, reverse=True)


def titles_of(resources: Iterable[str]) -> list[str]:
    titles = {resource_of(server): server_title(server) for server in servers()}
    return list(dict.fromkeys(titles.get(_canonical(uri), uri) for uri in resources))


def _canonical(uri: str) -> str:
    try:
        return canonical(uri)
    except ValueError:
        return uri


# Revocation


def revoke_access(user: Any, application: Any) -> None:
    """Revoke an application's codes and tokens for a user, and end its streams and tasks.

    Args:
        application: primary key.
    """
    with transaction.atomic(using=router.db_for_write(get_access_token_model())):
        _revoke(user=user, application=application)
        end_access("oauth", f"{user.pk}:{application}")


def revoke_all_access(application: Any) -> int:
    """Revoke an application's codes and tokens, end its streams and tasks, and return the number of users.

    Args:
        application: primary key.
    """
    token_model = get_access_token_model()
    with transaction.atomic(using=router.db_for_write(token_model)):
        users: set[Any] = set()
        live = get_refresh_token_model().objects.filter(revoked=None)
        for rows in (get_grant_model().objects, token_model.objects, live):
            of_application = rows.filter(application=application, user__isnull=False).order_by()
            users.update(of_application.values_list("user", flat=True).distinct())
        _revoke(application=application)
        for user in users:
            for kind in ("oauth", "client"):  # the client's grant type may have changed
                end_access(kind, f"{user}:{application}")
    return len(users)


def _revoke(**of: Any) -> None:
    """Delete codes and access tokens, and revoke refresh tokens.

    Families are revoked as a whole: a token that was just replaced is still usable.
    """
    model = get_refresh_token_model()
    get_grant_model().objects.filter(**of).delete()
    live = model.objects.filter(**of, revoked__isnull=True)
    for family in set(live.exclude(token_family=None).values_list("token_family", flat=True)):
        model.revoke_family(family)
    for token in live.filter(token_family=None):
        token.revoke()
    get_access_token_model().objects.filter(**of).delete()


@method_decorator(csrf_protect, name="dispatch")
class AccessView(LoginRequiredMixin, View):
    """``/o/access/``: a user's connected applications and API keys."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return add_security_headers(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest) -> HttpResponse:
        context = {
            "applications": [authorization_context(authorization) for authorization in authorizations(request.user)],
            "keys": [key_context(key) for key in live_keys(request.user)],
            "messages": messages.get_messages(request),
        }
        return render_page(request, "oauth/access.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        done = ""
        for application in keys_of(get_application_model(), [request.POST.get("application")]):
            revoke_access(request.user, application)
            done = _("The application no longer has access.")
        for key in live_keys(request.user).filter(pk__in=keys_of(APIKey, [request.POST.get("key")])):
            revoke_key(key)
            done = _("The API key no longer works.")
        if done:
            messages.success(request, done, fail_silently=True)
        return HttpResponseRedirect(request.path)


def authorization_context(authorization: Authorization) -> dict[str, Any]:
    application = authorization.application
    uris = [uri for uri in application.redirect_uris.split() if uri]
    return {
        "id": application.pk,
        "name": name_of(application),
        "origin": consent.origin(application),
        "hosts": list(dict.fromkeys(consent.destination(uri).text for uri in uris)),
        "endpoints": titles_of(authorization.resources),
        "scopes": consent.describe_scopes(authorization.scopes),
        "since": authorization.since,
        "renewed": authorization.renewed,
    }


def live_keys(user: Any) -> QuerySet[APIKey]:
    return APIKey.objects.filter(user=user, revoked=None, expires__gt=timezone.now()).order_by("name", "pk")


def key_context(key: APIKey) -> dict[str, Any]:
    names = {server.name: server_title(server) for server in servers()}
    return {
        "id": key.pk,
        "name": clean_name(key.name),
        "prefix": key.prefix,
        "endpoints": [names[name] for name in key.endpoints if name in names],
        "scopes": consent.describe_scopes(key.scopes),
        "created": key.created,
        "last_used": key.last_used,
        "expires": key.expires,
    }
