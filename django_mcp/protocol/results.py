"""What a method gives back, before a client's protocol version puts its own marks on it."""

from typing import Any, NamedTuple


class Result(NamedTuple):
    """A method's result.

    Attributes:
        fields: the JSON object, in the newest protocol version's shape, without what only a version adds.
        ttl_ms: how long a client may keep it, in milliseconds; None where the method is not cacheable.
        public: the answer is the same for every caller (2026-07-28, Caching, Cache Scope Field).
        encoded: for a result that many requests share, a dict for its encodings by protocol version; else None.
    """

    fields: dict[str, Any]
    ttl_ms: int | None = None
    public: bool = False
    encoded: dict[str, bytes] | None = None
