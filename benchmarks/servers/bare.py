"""The limit: the least an ASGI application can do and still answer a ``tools/call`` rightly.

No routing, no validation, no error handling: read the body, parse it, add, write an answer of fixed shape.
Nothing that speaks MCP through the same server on the same core can be faster.
"""

from typing import Any

from pydantic_core import from_json


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer any request as a call of ``add``."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])  # the server then goes on without lifespan events
    body = b""
    more = True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    request = from_json(body)
    arguments = request["params"]["arguments"]
    total = arguments["a"] + arguments["b"]
    answer = (
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%d"}],'
        b'"structuredContent":{"result":%d},"isError":false}}' % (request["id"], total, total)
    )
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))],
        }
    )
    await send({"type": "http.response.body", "body": answer})
