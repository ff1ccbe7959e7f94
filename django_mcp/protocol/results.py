"""What a method gives back, before a client's protocol version puts its own marks on it."""

from typing import Any


class Result:
    """A method's result.

    Attributes:
        fields: the JSON object, in the newest protocol version's shape, without what only a version adds.
        ttl_ms: how long a client may keep it, in milliseconds; None where the method is not cacheable.
        public: the answer is the same for every caller (2026-07-28, Caching, Cache Scope Field).
        encoded: for a result that many requests share, its encodings by protocol version; else None.
    """

    __slots__ = ("encoded", "fields", "public", "ttl_ms")

    def __init__(
        self, fields: dict[str, Any], *, ttl_ms: int | None = None, public: bool = False, shared: bool = False
    ) -> None:
        self.fields = fields
        self.ttl_ms = ttl_ms
        self.public = public
        self.encoded: dict[str, bytes] | None = {} if shared else None
