"""The limit: the least an ASGI application can do and still hold an event stream, and tell all of one thing."""

from typing import Any

HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
FIRST = b'data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}\r\n\r\n'
TOLD = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\r\n\r\n'

streams: dict[int, Any] = {}


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Hold a stream for ``subscriptions/listen``; at anything else tell all streams."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])  # the server then goes on without lifespan events
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    if b"subscriptions/listen" not in body:
        for each in list(streams.values()):
            await each({"type": "http.response.body", "body": TOLD, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.body", "body": FIRST, "more_body": True})
    del body
    streams[id(send)] = send
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        del streams[id(send)]
