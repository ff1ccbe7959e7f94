"""Authentication with access tokens of this site's authorization server, in one query.

The toolkit's check accepts tokens without audience, of inactive users and unapproved clients, and its public
registration token (``docs/decisions/0012``).
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import router
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.version import get_version_tuple
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.api_keys import is_key
from django_mcp.auth.base import InvalidToken, Misconfigured, OwnAuthentication, RequestHead, bearer
from django_mcp.auth.grant_types import SERVICES
from django_mcp.auth.protected_resource import base_url, canonical, resource_of
from django_mcp.conf import settings
from django_mcp.core.database import Prepared
from django_mcp.core.permissions import expanded
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

MIN_TOOLKIT = "3.4.1"
"""The oldest django-oauth-toolkit with resource indicators and client metadata documents as MCP needs them.

A site that is an OAuth provider already may have an older one, and use other authentication classes.
"""


def outdated_toolkit() -> str | None:
    """Return the version of django-oauth-toolkit if it is older than ``MIN_TOOLKIT``, else None."""
    from importlib import metadata  # noqa: PLC0415 - few sites need it to start

    try:
        found = metadata.version("django-oauth-toolkit")
    except metadata.PackageNotFoundError:  # a check says that it must be in INSTALLED_APPS
        return None
    return found if get_version_tuple(found) < get_version_tuple(MIN_TOOLKIT) else None


def has_toolkit() -> bool:
    return apps.is_installed("oauth2_provider") and outdated_toolkit() is None


class OAuth2Authentication(OwnAuthentication, is_exact=True):
    """Access tokens of django-oauth-toolkit, in the ``Authorization`` header."""

    def require_installed(self) -> None:
        if (found := outdated_toolkit()) is not None:
            error = Misconfigured(
                _("OAuth2Authentication needs django-oauth-toolkit %(least)s or later, and %(found)s is installed.")
                % {"least": MIN_TOOLKIT, "found": found}
            )
            error.hint = _(
                "Upgrade it: pip install 'django-oauth-toolkit>=%(least)s'. With the older one, use "
                "'django_mcp.APIKeyAuthentication', 'django_mcp.SessionAuthentication' or "
                "django_mcp.JWTAuthentication."
            ) % {"least": MIN_TOOLKIT}
            raise error

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        token = bearer(head.headers)
        if token is None or is_key(token):
            return None
        row, principal = _find_principal(token, server)
        if not is_usable(row.application, head):
            raise InvalidToken
        return principal

    @sensitive_variables()
    def authenticate_key(self, key: str, server: MCPServer) -> Principal:
        return _find_principal(key, server)[1]

    def find_ended(self, principals: Sequence[Principal], server: MCPServer) -> Iterable[Principal]:  # noqa: ARG002
        mine = [principal for principal in principals if principal.kind in KINDS and principal.credential]
        if not mine:
            return []
        rows = _with_policy(pk__in={principal.credential for principal in mine}, expires__gt=timezone.now())
        # A replica may lag.
        rows = rows.using(router.db_for_write(rows.model)).select_related("user", "application")
        now = {str(row.pk): row for row in rows}
        return [
            principal
            for principal in mine
            if (current := _principal_of(now.get(principal.credential), principal.resource)) is None
            or (current.kind, current.id, current.scopes, current.read_only)
            != (principal.kind, principal.id, principal.scopes, principal.read_only)
        ]

    def credential_key(self, head: RequestHead) -> str | None:
        token = bearer(head.headers)
        if token is None or is_key(token):
            return ""
        # A swapped application model may read more of the request.
        return token if _decides_alone() else None

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        # A system check reports a missing BASE_URL (django_mcp.E010).
        return (base_url(),) if settings.BASE_URL else ()


KINDS = ("oauth", "client")
"""Kinds of principals that an application's tokens make."""


@sensitive_variables("token")
def _find_principal(token: str, server: MCPServer) -> tuple[Any, Principal]:
    """Return the row of a valid token with its caller, or raise ``InvalidToken``."""
    row = find_token(token)
    principal = _principal_of(row, resource_of(server))
    if principal is None:
        raise InvalidToken
    return row, principal


def _principal_of(row: Any, wanted: str) -> Principal | None:
    if row is None or row.application is None or not is_for(row.resource, wanted):
        return None
    policy = Policy(row.policy)
    scopes = frozenset(row.scope.split())
    if policy.blocked or registration_scope() in scopes:
        return None
    acts_for_itself = row.application.authorization_grant_type in SERVICES
    if acts_for_itself and (policy.service_account is None or policy.service_account != row.user_id):
        return None
    if row.user is None or not row.user.is_active:
        return None
    return Principal(
        kind="client" if acts_for_itself else "oauth",
        id=f"{row.user_id}:{row.application_id}",
        user=row.user,
        scopes=scopes if policy.scopes is None else expanded(scopes) & expanded(policy.scopes),
        client_id=row.application.client_id,
        credential=str(row.pk),
        expires=row.expires,
        steps_up=not acts_for_itself,
        resource=wanted,
        read_only=policy.read_only,
    )


class Policy:
    """A ``ClientPolicy`` as JSON, or None without one."""

    def __init__(self, row: dict[str, Any] | None) -> None:
        row = row or {}
        self.blocked = bool(row.get("blocked"))
        self.read_only = bool(row.get("read_only"))
        self.service_account: int | None = row.get("service_account")
        self.scopes = _set(row.get("scopes"))


def renewed(principal: Principal, server: MCPServer) -> Principal | None:
    """Return the principal with the current scopes, or None if the client is blocked or the user's grant was revoked.

    The scopes are those that the token had, that the user grants the client at the endpoint now, and that the client's
    policy allows. Expiry is no revocation: revoked tokens are deleted (RFC 7009), and refreshed ones have a successor.
    """
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app registry

    row = ClientPolicy.objects.filter(client_id=principal.client_id).values().first()
    policy = Policy(None if row is None else {**row, "service_account": row["service_account_id"]})
    acts_for_itself = principal.kind == "client"
    if (
        policy.blocked
        or (acts_for_itself and policy.service_account != principal.user.pk)
        or (granted := _granted(principal, principal.resource or resource_of(server))) is None
    ):
        return None
    scopes = principal.scopes
    for limit in (granted, policy.scopes):
        if scopes is not None and limit is not None and not scopes <= limit:
            scopes = expanded(scopes) & expanded(limit)
    return dataclasses.replace(principal, scopes=scopes, read_only=policy.read_only)


def _granted(principal: Principal, wanted: str) -> frozenset[str] | None:
    from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model  # noqa: PLC0415

    access = get_access_token_model()._default_manager  # noqa: SLF001 - swapped models have no types
    access = access.using(router.db_for_write(access.model))
    theirs = Q(user=principal.user.pk, application__client_id=principal.client_id)
    # An expired token counts. One that is gone was revoked, or has a successor.
    rows = list(access.filter(pk=principal.credential))
    if not rows:
        refresh = get_refresh_token_model()._default_manager  # noqa: SLF001 - likewise
        refresh = refresh.using(router.db_for_write(refresh.model))
        renewable = refresh.filter(theirs, revoked=None).values("access_token")
        rows = list(access.filter(theirs, Q(expires__gt=timezone.now()) | Q(pk__in=renewable)))
    scopes = [row.scope.split() for row in rows if is_for(row.resource, wanted)]
    # Without any token the user's grant was revoked.
    return frozenset[str]().union(*scopes) if scopes else None


def find_token(token: str) -> Any:
    return _LIVE.first(checksum=hashlib.sha256(token.encode()).hexdigest(), now=timezone.now())


def _live(checksum: str, now: datetime) -> QuerySet[Any]:
    return _with_policy(token_checksum=checksum, expires__gt=now)


def _with_policy(**wanted: Any) -> QuerySet[Any]:
    from django_mcp.auth.toolkit import get_access_token_model  # noqa: PLC0415
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app registry

    policies = ClientPolicy.objects.filter(client_id=OuterRef("application__client_id"))
    policy = policies.values(
        policy=JSONObject(
            blocked="blocked", scopes="scopes", read_only="read_only", service_account="service_account_id"
        )
    )
    tokens: QuerySet[Any] = get_access_token_model()._default_manager.filter(**wanted)  # noqa: SLF001 - documented API
    return tokens.annotate(policy=Subquery(policy))  # type: ignore[no-any-return] # swapped models have no types


_LIVE = Prepared(_live, related=["user", "application"], checksum=str, now=datetime)


def is_for(resources: Any, wanted: str) -> bool:
    """Return True for a token of the endpoint *wanted*. One without resource is for none (RFC 8707, section 2)."""
    for resource in resources if isinstance(resources, list) else ():
        try:
            if canonical(resource) == wanted:
                return True
        except (ValueError, TypeError, AttributeError):
            continue
    return False


def is_usable(application: Any, head: RequestHead) -> bool:
    return _decides_alone() or bool(application.is_usable(head.get_django_request()))


def _decides_alone() -> bool:
    # A swapped model may override is_usable().
    from django_mcp.auth.toolkit import AbstractApplication, get_application_model  # noqa: PLC0415

    return get_application_model().is_usable is AbstractApplication.is_usable


def registration_scope() -> str:
    # Tokens with it are not accepted as access tokens.
    from django_mcp.auth.toolkit import oauth2_settings  # noqa: PLC0415

    return str(oauth2_settings.DCR_REGISTRATION_SCOPE)


def _set(value: Any) -> frozenset[str] | None:
    if isinstance(value, str):
        value = json.loads(value)
    return None if value is None else frozenset(map(str, value))
