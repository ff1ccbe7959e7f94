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
        steps_up: True if the client can request more scopes, so that primitives which lack only scopes are listed.
    """

    kind: str
    id: str
    user: Any = field(repr=False)
    scopes: frozenset[str] | None = None
    client_id: str | None = None
    credential: str = ""
    expires: datetime.datetime | None = None
    steps_up: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Return True for callers of a public endpoint, who are indistinguishable and so own nothing."""
        return self.kind == "public"
