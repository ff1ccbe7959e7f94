"""``subscriptions/listen``: one stream of subscribed changes (2026-07-28, Subscriptions)."""

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import checks_pool, on_event_loop, retry_database
from django_mcp.core.context import Context
from django_mcp.core.resources import readable_uris
from django_mcp.protocol import meta as envelope
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import MAX_STRING_LENGTH, Request, encode, encode_result
from django_mcp.pubsub import publish
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, position
from django_mcp.pubsub.stream_slots import StreamSlot, size_of
from django_mcp.revisions.base import MCPRequest, MCPResponse, SSEEvent, capabilities, encode_notification
from django_mcp.revisions.subscriptions import ParkedStream, SubscriptionFilter
from django_mcp.tasks import store
from django_mcp.tasks.api import look_up
from django_mcp.tasks.extension import NAME, detailed, is_declared, not_declared

TASKS = "notifications/tasks"
MAX_URIS = 1000
"""Maximum number of resources per subscription."""

KINDS = {f"{kind}ListChanged": kind for kind in publish.KINDS}


async def listen(request: Request, client: Mapping[str, Any], mcp_request: MCPRequest) -> MCPResponse:
    """Open the stream.

    Raises:
        MethodNotFound: the transport cannot hold a stream open.
        InvalidParams: the filter is malformed.
        MissingClientCapability: the filter names tasks, but the client does not declare them.
        TooManyRequests: the caller has too many open streams.
    """
    if not mcp_request.response.can_hold:
        raise MethodNotFound("'subscriptions/listen' needs an ASGI server; this WSGI server keeps no streams open.")
    if not mcp_request.response.takes_events:
        raise InvalidRequest("'subscriptions/listen' answers with a stream: Accept must list text/event-stream.")
    asked = request.params.get("notifications")
    if not isinstance(asked, dict):
        raise InvalidParams('"params.notifications" must be an object that names the notifications to receive.')
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or len(uris) > MAX_URIS or not all(isinstance(uri, str) for uri in uris):
        raise InvalidParams(f'"params.notifications.resourceSubscriptions" must be at most {MAX_URIS} URIs.')
    if any(len(uri) > MAX_STRING_LENGTH for uri in uris):
        text = f'"params.notifications.resourceSubscriptions" has a URI of more than {MAX_STRING_LENGTH} characters.'
        raise InvalidParams(text)
    slot = StreamSlot(mcp_request.principal, size=size_of(uris))
    declared = capabilities(mcp_request.server, mcp_request.response)
    context = Context(mcp_request, request, Channel(), capabilities=client)
    honoured: dict[str, Any] = {
        name: True for name, kind in KINDS.items() if asked.get(name) is True and kind in declared
    }
    if uris and "resources" in declared:
        known = await readable_uris(context, uris)
        if known:
            honoured["resourceSubscriptions"] = known
    tasks = None
    if "taskIds" in asked and NAME in mcp_request.server.extensions:
        tasks = TaskSubscriptionFilter(context, asked["taskIds"])
        honoured["taskIds"] = await tasks.keep_known()
    stream = ListenStream(request.id, honoured, tasks, mcp_request, slot)
    stream.slot = slot
    return MCPResponse(200, stream=stream)


class ListenStream(ParkedStream):
    """The stream of one subscription.

    Args:
        request_id: id of the request.
        honoured: the accepted part of its filter.
        tasks: filter of tasks, or None.
        mcp_request: the POST.
        slot: counts the resources.
    """

    __slots__ = ("_began", "_filter", "_honoured", "_principal", "_request_id", "_server", "_tasks")

    def __init__(
        self,
        request_id: RequestId,
        honoured: Mapping[str, Any],
        tasks: "TaskSubscriptionFilter | None",
        mcp_request: MCPRequest,
        slot: StreamSlot,
    ) -> None:
        super().__init__()
        self._request_id = request_id
        self._honoured: Mapping[str, Any] | None = honoured
        self._tasks = tasks
        self._server, self._principal = mcp_request.server, mcp_request.principal
        self._filter = SubscriptionFilter(mcp_request, _methods(frozenset(honoured)), slot)
        self._filter.add(honoured.get("resourceSubscriptions", ()))
        self._began = 0

    async def first_events(self) -> AsyncGenerator[SSEEvent, None]:
        self._began = await position()
        topics = [publish.server_topic(self._server), *(() if self._tasks is None else self._tasks.topics)]
        self.subscription = await follow(*topics, principal=self._principal, server=self._server)
        self.subscription.matches = self.matches
        acknowledged = {"_meta": self._meta, "notifications": self._honoured}
        self._honoured = None
        yield SSEEvent(encode_notification("notifications/subscriptions/acknowledged", acknowledged))
        if self._tasks is not None:
            for event in self._states(await self._tasks.current_states()):
                yield event

    def matches(self, entry: Entry) -> bool:
        if self._tasks is not None and entry.topic in self._tasks.topics:
            return self._tasks.matches(entry)
        # Earlier changes are not part of the subscription.
        return entry.id > self._began and self._filter.matches(entry)

    async def events_for(self, entries: Sequence[Entry]) -> Sequence[SSEEvent]:
        tasks, meta = self._tasks, self._meta
        changed = [entry for entry in entries if tasks is None or entry.topic not in tasks.topics]
        notifications = await self._filter.notifications_for(changed)
        events = [SSEEvent(encode_notification(sent.method, {**sent.params, "_meta": meta})) for sent in notifications]
        return events if tasks is None else [*events, *self._states(await tasks.states_for(entries))]

    def closing_events(self) -> Sequence[SSEEvent]:
        own = {**self._meta, envelope.SERVER_INFO: self._server.implementation}
        return [SSEEvent(encode_result(self._request_id, {"resultType": "complete", "_meta": own}))]

    @property
    def _meta(self) -> dict[str, Any]:
        return {envelope.SUBSCRIPTION: self._request_id}

    def _states(self, states: Iterable[Mapping[str, Any]]) -> list[SSEEvent]:
        return [SSEEvent(encode_notification(TASKS, {**state, "_meta": self._meta})) for state in states]


@cache
def _methods(names: frozenset[str]) -> frozenset[str]:
    # All streams with this filter share one set.
    return frozenset(publish.list_changed_method(kind) for name, kind in KINDS.items() if name in names)


MAX_TASKS = 100
"""Maximum number of tasks per subscription."""


class TaskSubscriptionFilter:
    """The task subscriptions of one stream.

    Attributes:
        task_ids: requested tasks, after ``keep_known`` the caller's own.
        topics: topics of their events.

    Raises:
        MissingClientCapability: the client does not declare the extension.
        InvalidParams: the ids are malformed.
    """

    def __init__(self, context: Context, asked: Any) -> None:
        if not is_declared(context.capabilities):
            raise not_declared("Subscribing to tasks")
        if (
            not isinstance(asked, list)
            or len(asked) > MAX_TASKS
            or not all(isinstance(task_id, str) for task_id in asked)
        ):
            raise InvalidParams(f'"params.notifications.taskIds" must be at most {MAX_TASKS} ids of tasks.')
        self._context = context
        self._last_states: dict[str, bytes] = {}  # digests, as a state may hold a large result
        self.task_ids: Sequence[str] = list(dict.fromkeys(asked))
        self.topics: dict[str, str] = {}

    async def keep_known(self) -> Sequence[str]:
        """Keep the tasks that exist for the caller; return their ids."""
        found = await self._read_states(self.task_ids)
        self.task_ids = [task["taskId"] for task in found]
        self.topics = {store.topic(task_id): task_id for task_id in self.task_ids}
        return self.task_ids

    def matches(self, entry: Entry) -> bool:
        # Only status changes are sent, no log messages (Tasks extension, Notifications).
        return entry.topic in self.topics and "message" not in json.loads(entry.data)

    async def current_states(self) -> list[dict[str, Any]]:
        return self._changed(await self._read_states(self.task_ids))

    async def states_for(self, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        changed = dict.fromkeys(self.topics[entry.topic] for entry in entries if entry.topic in self.topics)
        return self._changed(await self._read_states(list(changed))) if changed else []

    def _changed(self, found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        now = [(task, hashlib.sha256(encode(task)).digest()) for task in found]
        new = [(task, digest) for task, digest in now if self._last_states.get(task["taskId"]) != digest]
        self._last_states.update({task["taskId"]: digest for task, digest in new})
        return [task for task, _ in new]

    async def _read_states(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        # Under ASGI the view creates the stream outside of an event loop; the stream itself runs on one.
        runner = checks_pool() if on_event_loop() else self._context.runner
        return await retry_database(runner, partial(_states, self._context, task_ids))


def _states(context: Context, task_ids: Sequence[str]) -> list[dict[str, Any]]:
    found = (look_up(context, task_id) for task_id in task_ids)
    return [detailed(task) for task in found if task is not None]
