"""``subscriptions/listen``: one stream of the changes a client asked for (2026-07-28, Subscriptions)."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from django_mcp.core.channel import Channel
from django_mcp.core.known import known_resources
from django_mcp.eras.base import KEEP_ALIVE, Answer, Event, Inbound, capabilities, context_for, notification
from django_mcp.eras.hearing import Hearing
from django_mcp.eras.modern.task_hearing import METHOD, TaskHearing
from django_mcp.live import changes
from django_mcp.live.follower import follow, position
from django_mcp.live.log import Entry
from django_mcp.protocol import envelope
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import Request, encode_result
from django_mcp.tasks.extension import NAME

MOST_URIS = 1000
"""Resources one subscription may name."""

KINDS = {f"{kind}ListChanged": kind for kind in changes.KINDS}


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
        tasks = TaskHearing(context, asked["taskIds"])
        honoured["taskIds"] = await tasks.find()
    return Answer(200, stream=_stream(request.id, honoured, tasks, inbound))


async def _stream(
    request_id: RequestId, honoured: Mapping[str, Any], tasks: TaskHearing | None, inbound: Inbound
) -> AsyncGenerator[Event, None]:
    server = inbound.server
    meta = {envelope.SUBSCRIPTION: request_id}
    methods = {changes.list_changed_method(kind) for name, kind in KINDS.items() if name in honoured}
    hearing = Hearing(inbound, methods, honoured.get("resourceSubscriptions", ()))
    began = await position()
    topics = [changes.topic(server), *(() if tasks is None else tasks.topics)]
    subscription = await follow(*topics, principal=inbound.principal)

    def wants(entry: Entry) -> bool:
        if tasks is not None and entry.topic in tasks.topics:
            return tasks.wants(entry)
        # What changed before anybody listened is none of its business.
        return entry.id > began and hearing.wants(entry)

    subscription.wants = wants
    try:
        acknowledged = {"_meta": meta, "notifications": honoured}
        yield Event(notification("notifications/subscriptions/acknowledged", acknowledged))
        for state in await tasks.now() if tasks is not None else ():
            yield Event(notification(METHOD, {**state, "_meta": meta}))
        async with aclosing(subscription.batches()) as batches:
            async for entries in batches:
                if not entries:
                    yield KEEP_ALIVE
                changed = [entry for entry in entries if tasks is None or entry.topic not in tasks.topics]
                for told in await hearing.told(changed):
                    yield Event(notification(told.method, {**told.params, "_meta": meta}))
                for state in await tasks.told(entries) if tasks is not None else ():
                    yield Event(notification(METHOD, {**state, "_meta": meta}))
        own = {**meta, envelope.SERVER_INFO: server.implementation}
        yield Event(encode_result(request_id, {"resultType": "complete", "_meta": own}))
    finally:
        subscription.close()
