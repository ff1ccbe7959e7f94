"""Authentication with access tokens of this site's authorization server, in one query.

The toolkit's check accepts tokens without audience, of inactive users and unapproved clients, and its public
registration token (``docs/decisions/0012``).
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import router
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.utils import timezone

from django_mcp.auth.api_keys import is_key
from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead, bearer
from django_mcp.auth.protected_resource import base_url, canonical, resource_of
from django_mcp.conf import settings
from django_mcp.core.database import Prepared
from django_mcp.core.permissions import expanded
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer


class OAuth2Authentication(BaseAuthentication):
    """Access tokens of django-oauth-toolkit, in the ``Authorization`` header."""

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return user and client of a token for this endpoint.

        Raises:
            InvalidToken: the token is invalid.
        """
        token = bearer(head.headers)
        if token is None or is_key(token):
            return None
        row = find_token(token)
        if row is None or row.application is None or not is_for(row.resource, server):
            raise InvalidToken
        policy = Policy(row.policy)
        scopes = frozenset(row.scope.split())
        if policy.blocked or registration_scope() in scopes or not is_usable(row.application, head):
            raise InvalidToken
        acts_for_itself = row.application.authorization_grant_type == "client-credentials"
        if acts_for_itself and (policy.service_account is None or policy.service_account != row.user_id):
            raise InvalidToken
        if row.user is None or not row.user.is_active:
            raise InvalidToken
        return Principal(
            kind="client" if acts_for_itself else "oauth",
            id=f"{row.user_id}:{row.application_id}",
            user=row.user,
            scopes=scopes if policy.scopes is None else expanded(scopes) & expanded(policy.scopes),
            client_id=row.application.client_id,
            credential=str(row.pk),
            expires=row.expires,
            steps_up=not acts_for_itself,
        )

    def shown(self, head: RequestHead) -> str | None:
        """Return the token, or None if a swapped application model reads more."""
        token = bearer(head.headers)
        if token is None or is_key(token):
            return ""
        return token if _decides_alone() else None

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        """Return this site. A system check reports a missing ``BASE_URL`` (``django_mcp.E010``)."""
        return (base_url(),) if settings.BASE_URL else ()


class Policy:
    """A ``ClientPolicy`` as JSON, or None without one."""

    def __init__(self, row: dict[str, Any] | None) -> None:
        row = row or {}
        self.blocked = bool(row.get("blocked"))
        self.service_account: int | None = row.get("service_account")
        self.scopes = _set(row.get("scopes"))


def renewed(principal: Principal, server: MCPServer) -> Principal | None:  # noqa: ARG001 - see core.resources.renewers
    """Return the principal with the client's current policy, or None if it is blocked or the user's grant was revoked.

    Expiry is no revocation: revoked tokens are deleted (RFC 7009), and refreshed ones have a successor.
    """
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app registry

    row = ClientPolicy.objects.filter(client_id=principal.client_id).values().first()
    policy = Policy(None if row is None else {**row, "service_account": row["service_account_id"]})
    acts_for_itself = principal.kind == "client"
    if (
        policy.blocked
        or (acts_for_itself and policy.service_account != principal.user.pk)
        or not _is_granted(principal)
    ):
        return None
    scopes = principal.scopes
    if scopes is not None and policy.scopes is not None:
        scopes = expanded(scopes) & expanded(policy.scopes)
    return dataclasses.replace(principal, scopes=scopes)


def _is_granted(principal: Principal) -> bool:
    from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model  # noqa: PLC0415

    access = get_access_token_model()._default_manager  # noqa: SLF001 - swapped models have no types
    access = access.using(router.db_for_write(access.model))
    if access.filter(pk=principal.credential).exists():
        return True
    theirs = {"user": principal.user.pk, "application__client_id": principal.client_id}
    refresh = get_refresh_token_model()._default_manager  # noqa: SLF001 - likewise
    refresh = refresh.using(router.db_for_write(refresh.model)).filter(**theirs, revoked=None)
    return bool(access.filter(**theirs, expires__gt=timezone.now()).exists() or refresh.exists())


def find_token(token: str) -> Any:
    """Return a valid token with user, application and policy, or None. One query."""
    return _LIVE.first(checksum=hashlib.sha256(token.encode()).hexdigest(), now=timezone.now())


def _live(checksum: str, now: datetime) -> QuerySet[Any]:
    from django_mcp.auth.toolkit import get_access_token_model  # noqa: PLC0415
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app registry

    policies = ClientPolicy.objects.filter(client_id=OuterRef("application__client_id"))
    policy = policies.values(
        policy=JSONObject(blocked="blocked", scopes="scopes", service_account="service_account_id")
    )
    live: QuerySet[Any] = get_access_token_model().objects.filter(token_checksum=checksum, expires__gt=now)
    return live.annotate(policy=Subquery(policy))  # type: ignore[no-any-return] # swapped models have no types


_LIVE = Prepared(_live, related=["user", "application"], checksum=str, now=datetime)


def is_for(resources: Any, server: MCPServer) -> bool:
    """Return True for a token of this endpoint. One without resource is for none (RFC 8707, section 2)."""
    wanted = resource_of(server)
    for resource in resources if isinstance(resources, list) else ():
        try:
            if canonical(resource) == wanted:
                return True
        except (ValueError, TypeError, AttributeError):
            continue
    return False


def is_usable(application: Any, head: RequestHead) -> bool:
    """Return True if the application may be used, which a swapped model may decide."""
    return _decides_alone() or bool(application.is_usable(head.edge()))


def _decides_alone() -> bool:
    """Return True unless a swapped model overrides ``is_usable``."""
    from django_mcp.auth.toolkit import AbstractApplication, get_application_model  # noqa: PLC0415

    return get_application_model().is_usable is AbstractApplication.is_usable


def registration_scope() -> str:
    """Return the scope of registration tokens, which are not accepted."""
    from django_mcp.auth.toolkit import oauth2_settings  # noqa: PLC0415

    return str(oauth2_settings.DCR_REGISTRATION_SCOPE)


def _set(value: Any) -> frozenset[str] | None:
    if isinstance(value, str):
        value = json.loads(value)
    return None if value is None else frozenset(map(str, value))
