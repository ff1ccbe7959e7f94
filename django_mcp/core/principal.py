"""Who is calling, as far as everything after authentication is concerned."""

import datetime
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request. It never carries the credential itself.

    Attributes:
        kind: how they were recognised: ``"public"``, ``"oauth"``, ``"client"`` (an application that acts for itself),
            ``"api_key"``, ``"session"``, ``"external"``, or what an authenticator of the site calls it.
        id: stable and unique within *kind*; what belongs to a caller is bound to ``(kind, id)``.
        user: the Django user, or ``AnonymousUser``.
        scopes: what the credential allows, as it was granted; None where it says nothing of scopes.
        client_id: the OAuth client that calls, or None.
        credential: primary key of the token or key, for the log of calls.
        expires: when the credential does; no stream outlives it.
        tools: names of the only tools the client may use; None for all.
        steps_up: the client can ask its user for more scopes, so what lacks nothing else is shown to it.
    """

    kind: str
    id: str
    user: Any = field(repr=False)
    scopes: frozenset[str] | None = None
    client_id: str | None = None
    credential: str = ""
    expires: datetime.datetime | None = None
    tools: frozenset[str] | None = None
    steps_up: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Return True for callers of an endpoint for everybody, who cannot be told apart: nothing belongs to one."""
        return self.kind == "public"
