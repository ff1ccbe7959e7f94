"""``Principal``: the caller of a request."""

import datetime
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request. Never contains the credential itself.

    Attributes:
        kind: authentication method: ``"public"``, ``"oauth"``, ``"client"`` (an application acting for itself),
            ``"api_key"``, ``"session"``, ``"external"``, or that of a site's own authentication class.
        id: stable and unique within *kind*. What belongs to a caller is bound to ``(kind, id)``.
        user: the Django user, or ``AnonymousUser``.
        scopes: the granted scopes; None for a credential without scopes.
        client_id: the OAuth client, or None.
        credential: primary key of the token or key, for the request log.
        expires: expiry of the credential, which also ends streams.
        read_only: True if the credential opens only tools that change nothing (``@tool(read_only=True)``).
        steps_up: True if the client can request more scopes, so that primitives which lack only scopes are listed.
        resource: canonical identifier of the endpoint as the caller addressed it, with which its tokens are compared
            again without a request; "" for credentials that name none.
    """

    kind: str
    id: str
    user: Any = field(repr=False)
    scopes: frozenset[str] | None = None
    client_id: str | None = None
    credential: str = ""
    expires: datetime.datetime | None = None
    steps_up: bool = False
    read_only: bool = False
    resource: str = ""

    @property
    def is_anonymous(self) -> bool:
        """Return True for callers of a public endpoint, who are indistinguishable and so own nothing."""
        return self.kind == "public"


def display_name(user: Any) -> str:
    """Return how people know a user: the username, and the e-mail address if it is another one.

    Sites whose users sign in by e-mail may have random usernames.
    """
    name = str(user.get_username())
    email = str(getattr(user, user.get_email_field_name(), None) or "")
    return name if not email or email.casefold() == name.casefold() else f"{name} ({email})"
