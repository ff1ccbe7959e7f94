"""Who is calling, as far as everything after authentication is concerned."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    Attributes:
        kind: how they were recognised, like ``"public"``.
        id: stable and unique within *kind*; what belongs to a caller is bound to ``(kind, id)``.
        user: the Django user, or ``AnonymousUser``.
        scopes: what the credential allows; None where it says nothing of scopes.
    """

    kind: str
    id: str
    user: Any = field(repr=False)
    scopes: frozenset[str] | None = None
