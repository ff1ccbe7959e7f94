"""What a client says about its session: how much log it wants, which resources it watches, which call it gives up."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from django_mcp.core import database
from django_mcp.core.channel import LEVELS
from django_mcp.core.concurrency import detached, patiently, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.resources import known_resources
from django_mcp.eras.legacy import calls, sessions
from django_mcp.eras.legacy.channel import LegacyChannel
from django_mcp.models import Session
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestId, ResourceNotFound
from django_mcp.protocol.jsonrpc import MAX_FILTER_BYTES
from django_mcp.pubsub import event_store
from django_mcp.pubsub.follower import follow

PATIENCE_SECONDS = 0.05
"""How long a call runs before it listens for its cancellation; most are done by then."""
MOST_SUBSCRIPTIONS = 1000


async def set_level(context: Context, session: Session | None) -> dict[str, Any]:
    """``logging/setLevel``. Without a session there is nothing to remember it in, and nothing is logged."""
    if "logging" not in context.server.capabilities:
        raise MethodNotFound("Nothing on this server writes a log for clients.")
    level = context.params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f'"params.level" must be one of {", ".join(LEVELS)}.')
    if session is not None:
        update = Session.objects.filter(pk=session.pk).update
        await context.runner.sync(partial(update, log_level=level))
    return {}


async def subscribe(context: Context, session: Session | None) -> dict[str, Any]:
    """``resources/subscribe``: to a resource the caller may know of."""
    uri, session = _subscription(context, session)
    if not await known_resources(context, [uri]):
        raise ResourceNotFound(uri)
    await context.runner.sync(partial(_change, session, "subscribed", uri))
    return {}


async def unsubscribe(context: Context, session: Session | None) -> dict[str, Any]:
    """``resources/unsubscribe``; also from what was never subscribed to."""
    uri, session = _subscription(context, session)
    await context.runner.sync(partial(_change, session, "unsubscribed", uri))
    return {}


HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
}


def _subscription(context: Context, session: Session | None) -> tuple[str, Session]:
    if "resources" not in context.server.capabilities:
        raise MethodNotFound(f"Unknown method {context.method!r}.")
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"params.uri" must be a string.')
    if session is None:
        raise InvalidRequest(f"{context.method} needs a session: send 'initialize', and Mcp-Session-Id from then on.")
    return uri, session


def _change(session: Session, what: str, uri: str) -> None:
    """Note it in the session, and tell the stream that may be open for it."""
    with database.atomic():
        locked = Session.objects.select_for_update().get(pk=session.pk)
        uris = [each for each in locked.subscriptions if each != uri]
        if what == "subscribed":
            uris.append(uri)
        if len(uris) > MOST_SUBSCRIPTIONS:
            raise InvalidParams(f"A session holds at most {MOST_SUBSCRIPTIONS} subscriptions.")
        if what == "subscribed" and sum(map(len, uris)) > MAX_FILTER_BYTES:
            raise InvalidParams(f"The URIs that a session subscribes to have at most {MAX_FILTER_BYTES} characters.")
        locked.subscriptions = uris
        locked.save(update_fields=["subscriptions"])
        event_store.append([(sessions.topic(session), json.dumps({what: uri}))])


def cancel(session: Session, params: Mapping[str, Any]) -> None:
    """Give up a call, wherever it runs or waits (2025-11-25, Cancellation). What is unknown is ignored."""
    request_id = params.get("requestId")
    if type(request_id) is int or type(request_id) is str:
        if (channel := _running.get((session.pk, request_id))) is not None:
            channel.withdraw()
        calls.withdraw(session, request_id)
        event_store.append([(sessions.topic(session), json.dumps({"cancelled": request_id}))])


_running: dict[tuple[int, RequestId], LegacyChannel] = {}
"""Calls of this process. They are told at once: a tool that writes may hold the lock the log is written with."""


def expect(session: Session, channel: LegacyChannel) -> None:
    """From now on let a cancellation that comes to this process reach a call that runs here."""
    key = session.pk, channel.request.id

    def forget(_: object) -> None:
        if _running.get(key) is channel:
            del _running[key]

    _running[key] = channel
    if channel.task is not None:
        channel.task.add_done_callback(forget)


def watch(session: Session, channel: LegacyChannel) -> None:
    """From now on let a cancellation reach a call that runs here, from whichever worker the client's word came to."""
    watching = detached(_watch(session, channel))
    if channel.task is not None:
        channel.task.add_done_callback(lambda _: watching.cancel())


async def _watch(session: Session, channel: LegacyChannel) -> None:
    stream = sessions.topic(session)
    subscription = await follow(stream)
    try:
        for entry in await patiently(shared_pool(), partial(event_store.after, 0, [stream])):
            if _stops(entry, channel):
                channel.cancel()
        async with aclosing(subscription.entries()) as entries:
            async for found in entries:
                if found is not None and _stops(found, channel):
                    channel.cancel()
                    return
    except asyncio.CancelledError:  # the call is done
        pass
    finally:
        subscription.close()


def _stops(entry: event_store.Entry, channel: LegacyChannel) -> bool:
    told = json.loads(entry.data)
    return "ended" in told or ("cancelled" in told and told["cancelled"] == channel.request.id)
