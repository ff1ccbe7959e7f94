"""HTTP+SSE, the transport of 2024-11-05: one stream for all messages, and a POST for each.

A POST may reach another worker than the one with the stream, so messages go through the event store. The session's
topic also has control entries: ``call <key>`` adds the stored stream of a call to this one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial

from django.db import Error as DatabaseError
from django.utils.encoding import escape_uri_path

from django_mcp.core import database
from django_mcp.core.concurrency import create_background_task, free_pool, retry_database
from django_mcp.core.failures import as_call_error, must_propagate
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.models import Event as StreamEvent
from django_mcp.models import Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import ProtocolError, TooManyRequests
from django_mcp.protocol.jsonrpc import Message, Notification, Request, encode_error, parse
from django_mcp.pubsub import event_store
from django_mcp.pubsub.follower import Subscription, follow
from django_mcp.pubsub.stream_slots import StreamSlot
from django_mcp.revisions.base import (
    ACCEPTED,
    KEEP_ALIVE,
    EventStream,
    MCPRequest,
    MCPResponse,
    SSEEvent,
    encode_failure,
)
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy.handler import (
    LegacyRevision,
    NotServed,
    Unavailable,
    error_response,
    greet,
    named_session,
)
from django_mcp.revisions.legacy.sessions import SessionNotFound
from django_mcp.revisions.legacy.streams import call_stream, session_stream
from django_mcp.revisions.subscriptions import SlotStream

logger = logging.getLogger("django_mcp")


class JoinedStreams:
    """The merged messages of several streams."""

    def __init__(self) -> None:
        # One place: a slow client makes the streams wait and does not use memory.
        self._events: asyncio.Queue[SSEEvent | None] = asyncio.Queue(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, stream: EventStream, *, ends: bool = False) -> None:
        """Add a stream; its event ids are dropped, as this transport has none.

        Args:
            stream: closed at the end.
            ends: everything ends with this stream, whose keep-alives are used.
        """
        task = asyncio.get_running_loop().create_task(self._forward(stream, ends=ends))
        # An event loop keeps weak references to its tasks only.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def events(self) -> AsyncGenerator[SSEEvent, None]:
        while (event := await self._events.get()) is not None:
            yield event

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, stream: EventStream, *, ends: bool) -> None:
        try:
            async with aclosing(stream):
                async for event in stream:
                    if event.data:
                        await self._events.put(SSEEvent(event.data))
                    elif ends:
                        await self._events.put(event)
        except Exception:
            logger.exception("an HTTP+SSE stream failed")
            ends = True  # the client cannot use a stream with a gap
        if ends:
            await self._events.put(None)


STREAM, MESSAGES = "/sse", "/messages"
"""URL paths below the endpoint's."""
BEFORE_HANDSHAKE = versions.LEGACY[-1]
CALL, INITIALIZED = "call", "initialized"
"""Control entries; JSON-RPC messages never begin with a letter."""
CALLS = "calls over HTTP+SSE"
"""Calls that wait are counted separately from the streams, of which one has the messages of many calls."""

REVISION = LegacyRevision()


def topic(session: Session) -> str:
    return f"sse:{session.pk}"


async def open_events(mcp_request: MCPRequest) -> MCPResponse:
    """Answer a GET: open a session with its stream.

    Raises:
        Unavailable: the database is not available.
        TooManyRequests: the caller has too many open streams.
    """
    if not mcp_request.response.can_hold:
        return _needs_asgi()
    slot = StreamSlot(mcp_request.principal)
    try:
        session_id, session = await mcp_request.runner.own.sync(partial(_open, mcp_request))
    except DatabaseError as error:
        log_rate_limited(logging.ERROR, "no session could be opened: %s", error)
        raise Unavailable("Sessions are temporarily unavailable. Retry later.") from None
    path = str(mcp_request.get_django_request().path).rstrip("/").removesuffix(STREAM) + MESSAGES
    address = f"{escape_uri_path(path)}?session_id={session_id}"
    mcp_request = mcp_request._replace(headers={headers.SESSION: session_id}, stream_kind=CALLS)
    return MCPResponse(200, stream=SlotStream(_events(address, session, mcp_request, slot), slot))


async def receive_message(mcp_request: MCPRequest) -> MCPResponse:
    """Answer a POST: its response goes to the stream of the session in the URL.

    Raises:
        SessionNotFound: the caller has no such session.
        InvalidRequest: the body is not a message.
    """
    if not mcp_request.response.can_hold:
        return _needs_asgi()
    mcp_request = mcp_request._replace(
        headers={headers.SESSION: mcp_request.get_django_request().GET.get("session_id", "")}
    )
    session = await named_session(mcp_request)
    message = None if type(mcp_request.body) is list else parse(mcp_request.body)
    mcp_request = mcp_request._replace(response=SSEResponse(session), stream_kind=CALLS)
    create_background_task(_serve(message, session, mcp_request))
    return ACCEPTED


class SSEResponse:
    """Connection of a POST to its session's stream in any process."""

    takes_events = can_hold = is_live = True
    is_request = False

    def __init__(self, session: Session) -> None:
        self.opened = False
        self._session = session

    def send(self, event: SSEEvent) -> None:
        key = event.id.rpartition(".")[0]
        # The call is announced once. Its events are read from its stored stream.
        if key and not self.opened:
            self.opened = True
            create_background_task(_store_messages(self._session, f"{CALL} {key}"))

    def close(self) -> None:
        """Do nothing: the stream belongs to the session."""

    def watch(self, gone: object) -> None:
        """Do nothing: cancellations come as messages."""


def _needs_asgi() -> MCPResponse:
    error = NotServed("HTTP+SSE needs an ASGI server, which can keep streams open. Use Streamable HTTP.")
    return MCPResponse(error.http_status, encode_error(None, error), [("Allow", "OPTIONS")])


def _open(mcp_request: MCPRequest) -> tuple[str, Session]:
    server, principal = mcp_request.server, mcp_request.principal
    session_id = sessions.open_session(server, principal, BEFORE_HANDSHAKE, None, None)
    if session_id is None:
        raise Unavailable("HTTP+SSE needs a database, and this site has none. Use Streamable HTTP.")
    return session_id, sessions.find_session(session_id, server, principal)


def _end(session: Session) -> None:
    StreamEvent.objects.filter(topic=topic(session)).delete()
    sessions.end_session(session)


async def _store_messages(session: Session, *entries: str) -> None:
    await retry_database(free_pool(), partial(event_store.append, [(topic(session), entry) for entry in entries]))


@database.retry_conflicts
def _store_initialized(session: Session) -> None:
    # A client may send the notification several times, to several processes.
    with database.atomic():
        is_live = Session.objects.select_for_update().filter(pk=session.pk).exists()  # one after the other
        if is_live and not StreamEvent.objects.filter(topic=topic(session), data=INITIALIZED).exists():
            event_store.append([(topic(session), INITIALIZED)])


# Messages


async def _serve(message: Message | None, session: Session, mcp_request: MCPRequest) -> None:
    answer = await _answer(message, session, mcp_request)
    if answer.stream is not None:
        async with aclosing(answer.stream) as stream:
            # A stored stream is read by the process that has the session's connection.
            if not mcp_request.response.opened:
                async for event in stream:
                    if event.data:
                        await _store_messages(session, event.data.decode())
    if answer.body and (message is None or isinstance(message, Request)):
        await _store_messages(session, answer.body.decode())
    elif isinstance(message, Notification) and message.method == "notifications/initialized":
        await retry_database(free_pool(), partial(_store_initialized, session))


async def _answer(message: Message | None, session: Session, mcp_request: MCPRequest) -> MCPResponse:
    request = message if isinstance(message, Request) else None
    try:
        if request is not None and request.method == "initialize":
            return await _initialize(request, session, mcp_request)
        return await REVISION.serve(mcp_request)
    except ProtocolError as error:
        return MCPResponse(error.http_status, encode_error(error.request_id, error))
    except BaseException as error:
        if must_propagate(error):
            raise
        return MCPResponse(500, encode_failure(None if request is None else request.id, as_call_error(error)))


async def _initialize(request: Request, session: Session, mcp_request: MCPRequest) -> MCPResponse:
    try:
        version, body = await greet(request, mcp_request)
    except ProtocolError as error:
        return error_response(request, error)
    client, declared = request.params.get("clientInfo"), request.params.get("capabilities")
    update = partial(
        Session.objects.filter(pk=session.pk).update,
        version=version,
        client=client if isinstance(client, dict) else {},
        capabilities=declared if isinstance(declared, dict) else {},
    )
    await mcp_request.runner.own.sync(update)
    return MCPResponse(200, body)


# The stream


async def _events(
    address: str, session: Session, mcp_request: MCPRequest, slot: StreamSlot
) -> AsyncGenerator[SSEEvent, None]:
    subscription = await follow(topic(session), principal=mcp_request.principal, server=mcp_request.server)
    joined = JoinedStreams()
    try:
        yield SSEEvent(address.encode(), kind="endpoint")
        joined.add(_session_events(session, mcp_request, subscription, joined, slot), ends=True)
        async with aclosing(joined.events()) as events:
            async for event in events:
                yield event
    finally:
        subscription.close()
        await joined.close()
        with suppress(DatabaseError):  # it expires then
            await free_pool().sync(partial(_end, session))


async def _session_events(
    session: Session, mcp_request: MCPRequest, subscription: Subscription, joined: JoinedStreams, slot: StreamSlot
) -> AsyncGenerator[SSEEvent, None]:
    run = partial(retry_database, free_pool())
    hears = False
    async with aclosing(subscription.entries()) as entries:
        async for found in entries:
            if found is None:
                yield KEEP_ALIVE
                try:
                    await named_session(mcp_request)  # so that it does not expire
                except SessionNotFound:
                    return
                except Unavailable:
                    continue
            elif not found.data[0].isalpha():
                yield SSEEvent(found.data.encode())
            elif found.data == INITIALIZED and not hears:
                hears = True
                await run(session.refresh_from_db)
                joined.add(session_stream(session, mcp_request, None, slot))
            elif found.data.startswith(CALL):
                refused = await _join_call(session, found.data.removeprefix(f"{CALL} "), mcp_request, joined)
                if refused is not None:
                    yield refused


async def _join_call(session: Session, key: str, mcp_request: MCPRequest, joined: JoinedStreams) -> SSEEvent | None:
    run = partial(retry_database, free_pool())
    call = await run(session.calls.filter(key=key).first)
    if call is None:
        return None
    try:
        stream = call_stream(call, 0, mcp_request)
    except TooManyRequests as error:
        await run(partial(calls.end_call, call, []))
        return SSEEvent(encode_error(call.request_id, error))
    joined.add(stream)
    return None
