"""``subscriptions/listen``: one stream of the changes a client asked for (2026-07-28, Subscriptions)."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from django_mcp.core.channel import Channel
from django_mcp.core.resources import known_resources
from django_mcp.eras.base import Answer, Event, Inbound, capabilities, context_for, notification
from django_mcp.eras.hearing import Hearing
from django_mcp.eras.parked import ParkedStream, StreamSlot
from django_mcp.protocol import meta as envelope
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import MAX_STRING_LENGTH, Request, encode_result
from django_mcp.pubsub import publish
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, position
from django_mcp.tasks.extension import NAME

if TYPE_CHECKING:
    from django_mcp.eras.modern.task_hearing import TaskHearing


TASKS = "notifications/tasks"
MOST_URIS = 1000
"""Resources one subscription may name."""

KINDS = {f"{kind}ListChanged": kind for kind in publish.KINDS}


async def listen(request: Request, client: Mapping[str, Any], inbound: Inbound) -> Answer:
    """Open the stream.

    Args:
        request: the request.
        client: the capabilities that the client declares in it.
        inbound: the POST it came in.

    Raises:
        MethodNotFound: this edge cannot hold a stream open.
        InvalidParams: the filter is malformed.
        MissingClientCapability: it names tasks, and the client does not know any.
        TooManyRequests: the caller has too many open streams.
    """
    if not inbound.wire.can_hold:
        raise MethodNotFound("'subscriptions/listen' needs an ASGI server; this one answers each request at once.")
    if not inbound.wire.takes_events:
        raise InvalidRequest("'subscriptions/listen' answers with a stream: Accept must list text/event-stream.")
    asked = request.params.get("notifications")
    if not isinstance(asked, dict):
        raise InvalidParams('"params.notifications" must be an object that names what to listen to.')
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or len(uris) > MOST_URIS or not all(isinstance(uri, str) for uri in uris):
        raise InvalidParams(f'"params.notifications.resourceSubscriptions" must be at most {MOST_URIS} URIs.')
    if any(len(uri) > MAX_STRING_LENGTH for uri in uris):
        text = f'"params.notifications.resourceSubscriptions" has a URI of more than {MAX_STRING_LENGTH} characters.'
        raise InvalidParams(text)
    slot = StreamSlot(inbound.principal)
    declared = capabilities(inbound.server, inbound.wire)
    context = context_for(inbound, request, None, client, Channel())
    honoured: dict[str, Any] = {
        name: True for name, kind in KINDS.items() if asked.get(name) is True and kind in declared
    }
    if uris and "resources" in declared:
        known = await known_resources(context, uris)
        if known:
            honoured["resourceSubscriptions"] = known
    tasks = None
    if "taskIds" in asked and NAME in inbound.server.extensions:
        from django_mcp.eras.modern.task_hearing import TaskHearing  # noqa: PLC0415 - most sites have no tasks

        tasks = TaskHearing(context, asked["taskIds"])
        honoured["taskIds"] = await tasks.find()
    listening = Listening(request.id, honoured, tasks, inbound)
    listening.slot = slot
    return Answer(200, stream=listening)


class Listening(ParkedStream):
    """The stream.

    Args:
        request_id: of the request that opened it.
        honoured: what of its filter is listened to.
        tasks: what it hears of tasks, where it asked for any.
        inbound: the POST the request came in.
    """

    __slots__ = ("_began", "_hearing", "_honoured", "_principal", "_request_id", "_server", "_tasks")

    def __init__(
        self, request_id: RequestId, honoured: Mapping[str, Any], tasks: "TaskHearing | None", inbound: Inbound
    ) -> None:
        super().__init__()
        self._request_id = request_id
        self._honoured: Mapping[str, Any] | None = honoured
        self._tasks = tasks
        self._server, self._principal = inbound.server, inbound.principal
        self._hearing = Hearing(inbound, _methods(frozenset(honoured)), honoured.get("resourceSubscriptions", ()))
        self._began = 0

    async def begin(self) -> AsyncGenerator[Event, None]:
        """The acknowledgement, and how the tasks are."""
        self._began = await position()
        topics = [publish.topic(self._server), *(() if self._tasks is None else self._tasks.topics)]
        self.subscription = await follow(*topics, principal=self._principal)
        self.subscription.wants = self.wants
        acknowledged = {"_meta": self._meta, "notifications": self._honoured}
        self._honoured = None
        yield Event(notification("notifications/subscriptions/acknowledged", acknowledged))
        if self._tasks is not None:
            for event in self._states(await self._tasks.now()):
                yield event

    def wants(self, entry: Entry) -> bool:
        """Whether an entry of the log may be told."""
        if self._tasks is not None and entry.topic in self._tasks.topics:
            return self._tasks.wants(entry)
        # What changed before anybody listened is none of its business.
        return entry.id > self._began and self._hearing.wants(entry)

    async def tell(self, entries: Sequence[Entry]) -> Sequence[Event]:
        """Changes, and what happened to tasks."""
        tasks, meta = self._tasks, self._meta
        changed = [entry for entry in entries if tasks is None or entry.topic not in tasks.topics]
        told = await self._hearing.told(changed)
        said = [Event(notification(each.method, {**each.params, "_meta": meta})) for each in told]
        return said if tasks is None else [*said, *self._states(await tasks.told(entries))]

    def part(self) -> Sequence[Event]:
        """The response to the request that opened it."""
        own = {**self._meta, envelope.SERVER_INFO: self._server.implementation}
        return [Event(encode_result(self._request_id, {"resultType": "complete", "_meta": own}))]

    @property
    def _meta(self) -> dict[str, Any]:
        return {envelope.SUBSCRIPTION: self._request_id}

    def _states(self, states: Iterable[Mapping[str, Any]]) -> list[Event]:
        return [Event(notification(TASKS, {**state, "_meta": self._meta})) for state in states]


@cache
def _methods(names: frozenset[str]) -> frozenset[str]:
    """The notifications of lists, of names in a filter; one set for all streams that asked for the same."""
    return frozenset(publish.list_changed_method(kind) for name, kind in KINDS.items() if name in names)
