"""The edge for a client on the same machine, which starts the site and talks to it over standard input and output.

One message a line (2026-07-28, stdio; 2025-11-25, Transports, stdio).
"""

import asyncio
import signal
from contextlib import suppress
from functools import partial

from django.conf import settings as django_settings
from django.http import HttpRequest

from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.endpoint.connection import GRACE_SECONDS, Connection
from django_mcp.endpoint.lines import LineReader, LineWriter


def serve(server: MCPServer, principal: Principal, incoming: int, outgoing: int) -> None:
    """Serve an endpoint on two file descriptors until the client closes its end, or SIGTERM."""
    asyncio.run(_converse(server, principal, incoming, outgoing))


async def _converse(server: MCPServer, principal: Principal, incoming: int, outgoing: int) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stopped.set)
    writer = LineWriter(outgoing, partial(loop.call_soon_threadsafe, stopped.set))
    connection = Connection(server, principal, partial(django_request, server), writer.write)
    reading = loop.create_task(connection.read(LineReader(incoming, settings.MAX_BODY_BYTES)))
    stopping = loop.create_task(stopped.wait())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await connection.end()
    finally:
        stopping.cancel()
        reading.cancel()
        writer.close(GRACE_SECONDS)
    if not reading.cancelled() and reading.done():
        reading.result()


def django_request(server: MCPServer) -> HttpRequest:
    """A Django request for code that wants one. No HTTP brought it, so its host is the first one the site allows."""
    names = (host.lstrip(".") for host in django_settings.ALLOWED_HOSTS if "*" not in host)
    request = HttpRequest()
    request.method = "POST"
    request.path = request.path_info = path_of(server)
    request.META = {"REQUEST_METHOD": "POST", "SERVER_NAME": next(names, "localhost"), "SERVER_PORT": "80"}
    return request
