"""``subscriptions/listen``: one stream of the changes a client asked for (2026-07-28, Subscriptions)."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from django_mcp.core.channel import Channel
from django_mcp.core.methods import known_resources
from django_mcp.core.registry import MCPServer
from django_mcp.eras.base import KEEP_ALIVE, Answer, Event, Inbound, capabilities, context_for, notification
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
    return Answer(200, stream=_stream(request.id, honoured, inbound.server))


async def _stream(request_id: RequestId, honoured: Mapping[str, Any], server: MCPServer) -> AsyncGenerator[Event, None]:
    meta = {envelope.SUBSCRIPTION: request_id}
    methods = {changes.list_changed_method(kind) for name, kind in KINDS.items() if name in honoured}
    uris = set(honoured.get("resourceSubscriptions", ()))
    began = await position()
    subscription = await follow(changes.topic(server))
    try:
        acknowledged = {"_meta": meta, "notifications": honoured}
        yield Event(notification("notifications/subscriptions/acknowledged", acknowledged))
        async with aclosing(subscription.entries()) as entries:
            async for entry in entries:
                if entry is None:
                    yield KEEP_ALIVE
                    continue
                change = json.loads(entry.data)
                if entry.id <= began:  # was so before anybody listened
                    continue
                if change["method"] in methods or change["params"].get("uri") in uris:
                    yield Event(notification(change["method"], {**change["params"], "_meta": meta}))
        own = {**meta, envelope.SERVER_INFO: server.implementation}
        yield Event(encode_result(request_id, {"resultType": "complete", "_meta": own}))
    finally:
        subscription.close()
