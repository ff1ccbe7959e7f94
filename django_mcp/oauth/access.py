"""Where people see which programs act for them, and take it back."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.csrf import csrf_protect

from django_mcp.auth.identifiers import canonical, resource_of
from django_mcp.auth.keys import revoke_key
from django_mcp.core.registry import servers
from django_mcp.live.revocation import end_access
from django_mcp.models import APIKey
from django_mcp.oauth import consent
from django_mcp.oauth.names import clean_name
from django_mcp.oauth.pages import page, protect, title_of
from django_mcp.oauth.toolkit import (
    AbstractApplication,
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
)

CLIENT_CREDENTIALS = AbstractApplication.GRANT_CLIENT_CREDENTIALS
LONGEST_KEY = 19
"""Digits that primary keys do not reach."""


@dataclass
class Access:
    """What one application has of one user.

    Attributes:
        application: which.
        since: when its oldest token was issued that is still kept.
        renewed: when its newest was.
        scopes: of all its live tokens.
        resources: what they are good for.
    """

    application: Any
    since: datetime.datetime
    renewed: datetime.datetime
    scopes: set[str] = field(default_factory=set)
    resources: dict[str, None] = field(default_factory=dict)

    def add(self, token: Any) -> None:
        """Count an access token in."""
        self.since = min(self.since, token.created)
        self.renewed = max(self.renewed, token.created)
        self.scopes.update(token.scope.split())
        self.resources.update(dict.fromkeys(token.resource if isinstance(token.resource, list) else ()))

    def shown(self) -> dict[str, Any]:
        """As the template wants it."""
        uris = [uri for uri in self.application.redirect_uris.split() if uri]
        return {
            "id": self.application.pk,
            "name": clean_name(self.application.name) or _("An application without a name"),
            "origin": consent.origin(self.application),
            "hosts": list(dict.fromkeys(consent.destination(uri).text for uri in uris)),
            "endpoints": titles_of(self.resources),
            "scopes": consent.in_words(self.scopes),
            "since": self.since,
            "renewed": self.renewed,
        }


@method_decorator(csrf_protect, name="dispatch")
class AccessView(LoginRequiredMixin, View):
    """``/o/access/``: the applications and API keys of the user."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """With the headers of every page of ours."""
        return protect(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        context = {
            "applications": [each.shown() for each in accesses(request.user)],
            "keys": [shown_key(key) for key in live_keys(request.user)],
            "messages": messages.get_messages(request),
        }
        return page(request, "access.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Take access back from one application or key; what is not the user's is not there."""
        if (application := _number(request.POST.get("application"))) is not None:
            take_back(request.user, application)
            done = _("The application no longer has access.")
        else:
            for key in live_keys(request.user).filter(pk=_number(request.POST.get("key")) or 0):
                revoke_key(key)
            done = _("The API key no longer works.")
        messages.success(request, done, fail_silently=True)
        return HttpResponseRedirect(request.path)


def accesses(user: Any) -> list[Access]:
    """Applications with tokens of this user that can still be used or renewed, the last renewed first.

    Without clients that act for themselves: that a user lends them their rights is the site's owner's decision
    (``ClientPolicy.acts_as``), and they would just get new tokens.
    """
    found: dict[Any, Access] = {}
    live = get_access_token_model().objects.filter(user=user, expires__gt=timezone.now())
    live = live.exclude(application=None).exclude(application__authorization_grant_type=CLIENT_CREDENTIALS)
    for token in live.select_related("application"):
        found.setdefault(token.application_id, Access(token.application, token.created, token.created)).add(token)
    renewable = renewable_tokens(user)
    for row in renewable.select_related("application", "access_token"):
        found.setdefault(row.application_id, Access(row.application, row.created, row.created)).add(row.access_token)
    families = renewable.exclude(token_family=None).values("token_family")
    for row in get_refresh_token_model().objects.filter(user=user, token_family__in=families):
        if row.application_id in found:
            found[row.application_id].since = min(found[row.application_id].since, row.created)
    return sorted(found.values(), key=lambda each: each.renewed, reverse=True)


def renewable_tokens(user: Any) -> QuerySet[Any]:
    """The user's refresh tokens that are good. Their life is counted from the end of their access token's."""
    tokens: QuerySet[Any]
    tokens = get_refresh_token_model().objects.filter(user=user, revoked=None, access_token__isnull=False)
    life = refresh_token_expire_timedelta()
    return tokens.filter(access_token__expires__gt=timezone.now() - life) if life else tokens


def take_back(user: Any, application: Any) -> None:
    """Revoke all that an application has of a user: codes, refresh tokens and access tokens; end its streams and tasks.

    A refresh token goes with its whole family, for otherwise one that was just replaced could still be used.

    Args:
        user: whose.
        application: primary key.
    """
    tokens, access = get_refresh_token_model().objects, get_access_token_model()
    with transaction.atomic(using=router.db_for_write(access)):
        get_grant_model().objects.filter(user=user, application=application).delete()
        live = tokens.filter(user=user, application=application, revoked__isnull=True)
        for family in set(live.exclude(token_family=None).values_list("token_family", flat=True)):
            get_refresh_token_model().revoke_family(family)
        for token in live.filter(token_family=None):
            token.revoke()
        access.objects.filter(user=user, application=application).delete()
        end_access("oauth", f"{user.pk}:{application}")


def live_keys(user: Any) -> QuerySet[APIKey]:
    """The user's API keys that still work."""
    return APIKey.objects.filter(user=user, revoked=None, expires__gt=timezone.now()).order_by("name", "pk")


def shown_key(key: APIKey) -> dict[str, Any]:
    """An API key, as the template wants it."""
    names = {each.name: title_of(each) for each in servers()}
    return {
        "id": key.pk,
        "name": clean_name(key.name),
        "prefix": key.prefix,
        "endpoints": [names[name] for name in key.endpoints if name in names],
        "scopes": consent.in_words(key.scopes),
        "created": key.created,
        "last_used": key.last_used,
        "expires": key.expires,
    }


def titles_of(resources: Iterable[str]) -> list[str]:
    """Endpoints by their titles; what is none, or no longer, by its URL."""
    titles = {resource_of(each): title_of(each) for each in servers()}
    return list(dict.fromkeys(titles.get(_canonical(uri), uri) for uri in resources))


def _canonical(uri: str) -> str:
    try:
        return canonical(uri)
    except ValueError:
        return uri


def _number(text: str | None) -> int | None:
    """A primary key that a form names; None for what is none, or for more digits than a database takes."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < LONGEST_KEY else None
