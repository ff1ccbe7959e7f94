"""The methods of HTTP, and what they promise (RFC 9110, section 9.2)."""

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WITHOUT_BODY = SAFE | {"DELETE"}


def hints(method: str) -> dict[str, bool]:
    """Options of ``tool`` for a tool whose calls are requests with *method*."""
    if method in SAFE:
        return {"read_only": True}
    if method == "DELETE":
        return {"read_only": False, "destructive": True, "idempotent": True}
    return {"read_only": False, "idempotent": True} if method == "PUT" else {"read_only": False}
