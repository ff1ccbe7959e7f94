"""``subscriptions/listen``: one stream of the changes a client asked for (2026-07-28, Subscriptions)."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from django_mcp.core.channel import Channel
from django_mcp.core.known import known_resources
from django_mcp.eras.base import KEEP_ALIVE, Answer, Event, Inbound, capabilities, context_for, notification
from django_mcp.eras.hearing import Hearing
from django_mcp.live import changes
from django_mcp.live.follower import follow, position
from django_mcp.protocol import envelope
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import Request, encode_result

MOST_URIS = 1000
"""Resources one subscription may name."""

KINDS = {f"{kind}ListChanged": kind for kind in changes.KINDS}


async def listen(request: Request, inbound: Inbound) -> Answer:
    """Open the stream.

    Raises:
        MethodNotFound: this edge cannot hold a stream open.
        InvalidParams: the filter is malformed.
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
    honoured: dict[str, Any] = {
        name: True for name, kind in KINDS.items() if asked.get(name) is True and kind in declared
    }
    if uris and "resources" in declared:
        known = await known_resources(context_for(inbound, request, None, {}, Channel()), uris)
        if known:
            honoured["resourceSubscriptions"] = known
    return Answer(200, stream=_stream(request.id, honoured, inbound))


async def _stream(request_id: RequestId, honoured: Mapping[str, Any], inbound: Inbound) -> AsyncGenerator[Event, None]:
    server = inbound.server
    meta = {envelope.SUBSCRIPTION: request_id}
    methods = {changes.list_changed_method(kind) for name, kind in KINDS.items() if name in honoured}
    hearing = Hearing(inbound, methods, honoured.get("resourceSubscriptions", ()))
    began = await position()
    subscription = await follow(changes.topic(server), principal=inbound.principal)
    # What changed before anybody listened is none of its business.
    subscription.wants = lambda entry: entry.id > began and hearing.wants(entry)
    try:
        acknowledged = {"_meta": meta, "notifications": honoured}
        yield Event(notification("notifications/subscriptions/acknowledged", acknowledged))
        async with aclosing(subscription.batches()) as batches:
            async for entries in batches:
                if not entries:
                    yield KEEP_ALIVE
                for told in await hearing.told(entries):
                    yield Event(notification(told.method, {**told.params, "_meta": meta}))
        own = {**meta, envelope.SERVER_INFO: server.implementation}
        yield Event(encode_result(request_id, {"resultType": "complete", "_meta": own}))
    finally:
        subscription.close()
