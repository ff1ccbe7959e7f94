"""The limit of a caller's open responses in a process: streams, and calls that wait for a person or a task."""

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from django_mcp.conf import settings
from django_mcp.core.after_fork import FreshLock, clear_after_fork
from django_mcp.core.principal import Principal
from django_mcp.protocol.errors import TooManyRequests

RETRY_SECONDS = 60
"""Retry delay for a caller with too many open streams."""
MAX_SUBSCRIBED_BYTES = 16 * 1024 * 1024
"""Memory for the URIs to which a caller's open streams in this process subscribe."""
URI_BYTES = 250
"""Memory for a URI besides its characters: the string, its place in a set, and among all interned strings."""

_Caller = tuple[str, str, str]
_slots: defaultdict[_Caller, dict[Hashable, dict[int, int]]] = clear_after_fork(defaultdict(dict))
"""Slots in use in this process with the memory of their URIs, by caller and key."""
_lock = FreshLock(threading.RLock)
"""The Django view opens streams in threads. Reentrant, as the garbage collector may close a slot anywhere."""


def size_of(uris: Iterable[str]) -> int:
    return sum(len(uri) + URI_BYTES for uri in uris)


class StreamSlot:
    """One of a caller's open responses in this process; released when closed or garbage collected.

    Whatever holds a response open has one: a stream, and a call that waits (``pubsub.waiting``).

    Args:
        principal: the caller.
        size: see ``size_of``, of the resources to which the stream subscribes.
        key: identifies what is read. Slots with the same key count once: a call that waits and the stream that resumes
            it, or a stream and the one that replaces it. None for a key of its own.
        kind: slots of another kind are counted separately.

    Raises:
        TooManyRequests: the caller has ``MAX_STREAMS_PER_CALLER`` open streams, or they subscribe to too much.
    """

    __slots__ = ("_caller", "key")

    def __init__(self, principal: Principal, *, size: int = 0, key: Hashable = None, kind: str = "") -> None:
        self._caller: _Caller | None = None
        self.key = id(self) if key is None else key
        caller = principal.kind, principal.id, kind
        with _lock:
            taken = _slots.get(caller, {})
            if self.key not in taken and len(taken) >= settings.MAX_STREAMS_PER_CALLER:
                most = settings.MAX_STREAMS_PER_CALLER
                reason = f"You have {most} open streams, the maximum. Close one of them."
                raise TooManyRequests(RETRY_SECONDS, reason)
            if size and _total(taken, but=self.key) + size > MAX_SUBSCRIBED_BYTES:
                reason = "Your open streams subscribe to too many resources. Close one of them."
                raise TooManyRequests(RETRY_SECONDS, reason)
            _slots[caller].setdefault(self.key, {})[id(self)] = size
            self._caller = caller

    def resize(self, size: int) -> bool:
        """Replace the size; return False if the caller's streams subscribe to too much."""
        with _lock:
            if self._caller is None:
                return True
            taken = _slots[self._caller]
            taken[self.key][id(self)] = size
            return _total(taken) <= MAX_SUBSCRIBED_BYTES

    def close(self) -> None:
        """Release the slot."""
        with _lock:
            caller, self._caller = self._caller, None
            taken = None if caller is None else _slots.get(caller)
            if caller is None or taken is None:  # closed, or of the process that this one was forked from
                return
            holders = taken.get(self.key, {})
            holders.pop(id(self), None)
            if not holders:
                taken.pop(self.key, None)
            if not taken:
                _slots.pop(caller, None)

    __del__ = close  # a stream that never began is not closed


def _total(taken: Mapping[Hashable, Mapping[int, int]], but: Hashable = None) -> int:
    # Of copies: the garbage collector may close a slot meanwhile, in this thread.
    return sum(max([*holders.values()], default=0) for key, holders in [*taken.items()] if key != but)
