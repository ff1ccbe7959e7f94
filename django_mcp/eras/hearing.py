"""What one stream is told of an endpoint's changes: what it asked for, as long as that exists for its caller.

A stream lives longer than rights and rows do. So the caller is asked about anew whenever there is something to tell:
of what does not exist for them any more they hear once, as they do of what was deleted, and then never again.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple

from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import patiently, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.resources import as_of_now, find_known, takes_queries
from django_mcp.eras.base import Inbound
from django_mcp.pubsub import publish
from django_mcp.pubsub.event_store import Entry

logger = logging.getLogger("django_mcp")

NONE: AbstractSet[str] = frozenset()
"""The empty set, which most streams have, and which is one for all of them."""


class Told(NamedTuple):
    """A notification that goes out.

    Attributes:
        id: of its entry in the log.
    """

    id: int
    method: str
    params: Mapping[str, Any]


class Hearing:
    """Of one stream.

    Args:
        inbound: the request that opened it; of it is kept only who asked.
        methods: the notifications of lists that it is to hear.
        uris: the resources it is to hear of.

    Attributes:
        uris: those it is to hear of still. Whoever knows that they exist for the caller may add some.
        lost: those it heard of for the last time.
    """

    __slots__ = ("_edge", "_methods", "_principal", "_server", "lost", "uris")

    def __init__(self, inbound: Inbound, methods: Collection[str], uris: Iterable[str] = ()) -> None:
        self.uris: AbstractSet[str] = frozenset(uris) or NONE
        self.lost: AbstractSet[str] = NONE
        self._server, self._principal = inbound.server, inbound.principal
        self._edge = inbound.edge
        self._methods = methods

    def wants(self, entry: Entry) -> bool:
        """Whether a change is among what it asked for."""
        change = publish.read(entry.data)
        if "for" in change and publish.names_of(self._principal).isdisjoint(change["for"]):
            return False
        return change["method"] in self._methods or change["params"].get("uri") in self.uris

    async def told(self, entries: Iterable[Entry]) -> list[Told]:
        """What goes out for changes that came together. The same is told but once where it is about rows."""
        asked = [entry for entry in entries if self.wants(entry)]
        wanted = [(entry.id, publish.read(entry.data)) for entry in asked]
        if after := max((change.get("after", 0) for _, change in wanted), default=0):
            await asyncio.sleep(after)
        known = await self.known(_uris(change for _, change in wanted))
        if known is None:  # which is no reason to keep silent about the others
            return [each for entry in asked for each in await self.told([entry])] if len(asked) > 1 else []
        told: dict[Any, Told] = {}
        for number, change in wanted:
            uri, about = change["params"].get("uri"), change.get("about")
            if about is not None and known.isdisjoint(about):
                continue
            if uri is not None and not self._is_heard(uri, known):
                continue
            key = number if about is None else (change["method"], uri)
            told.setdefault(key, Told(number, change["method"], change["params"]))
        return list(told.values())

    def _is_heard(self, uri: str, known: Collection[str]) -> bool:
        if uri not in self.uris:
            return False
        if uri not in known:
            self.uris -= {uri}
            self.lost |= {uri}
        return True

    async def known(self, uris: Iterable[str]) -> set[str] | None:
        """Those of *uris* that exist for the caller now; None where that cannot be found out."""
        wanted = list(dict.fromkeys(uris))
        if self._server.user_passes_test is not None and not await self._may_call():
            return None
        if not wanted:
            return set()
        server, method = self._server, "resources/subscribe"
        context = Context(server, self._principal, shared_pool(), self._edge, 0, method, {}, None, {}, Channel())
        if not takes_queries(server):
            return set(find_known(context, wanted))
        try:
            return set(await patiently(context.site_runner, partial(find_known, context, wanted, afresh=True)))
        except Exception:
            logger.exception("nothing is told to %r, for what exists for them cannot be found out", context.principal)
            return None

    async def _may_call(self) -> bool:
        """Return True if the caller may still call the endpoint."""
        look = partial(as_of_now, self._principal, self._server)
        return await patiently(shared_pool(), look) is not None


def _uris(wanted: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """All that has to be asked about to tell of changes."""
    for change in wanted:
        about: Sequence[str] = change.get("about", ())
        yield from about
        if "uri" in change["params"]:
            yield change["params"]["uri"]
