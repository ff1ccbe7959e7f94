"""What a session is named by, and what GET and DELETE do with it (2025-11-25, Transports)."""

import logging
from functools import partial

from django.db import Error as DatabaseError

from django_mcp.core.failures import log_seldom
from django_mcp.eras.base import Answer, Inbound
from django_mcp.eras.legacy import sessions
from django_mcp.eras.legacy.sessions import SessionNotFound
from django_mcp.eras.legacy.streams import open_get
from django_mcp.models import Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import encode_error, id_of


class Unavailable(ProtocolError):
    """Sessions cannot be looked up now."""

    code = -32603
    http_status = 503
    broken_envelope = True


class NotServed(ProtocolError):
    """An HTTP method that has nothing to give here."""

    code = -32600
    http_status = 405


async def named_session(inbound: Inbound) -> Session:
    """The session a request names.

    Raises:
        SessionNotFound: there is none such for this caller.
        Unavailable: the database does not answer.
    """
    session_id = inbound.headers[headers.SESSION]
    try:
        return await inbound.runner.sync(partial(sessions.find_session, session_id, inbound.server, inbound.principal))
    except SessionNotFound:
        raise SessionNotFound(id_of(inbound.body)) from None
    except DatabaseError as error:
        log_seldom(logging.ERROR, "sessions cannot be read: %s", error)
        raise Unavailable("Sessions cannot be looked up at the moment. Try again.") from None


async def open_stream(inbound: Inbound) -> Answer:
    """A GET: a stream to go on with, or one of changes.

    Raises:
        ProtocolError: there is none, and the status says why.
    """
    if _is_modern(inbound) or headers.SESSION not in inbound.headers:
        return _not_served("GET")
    session = await named_session(inbound)
    answer = await open_get(session, inbound.headers.get(headers.LAST_EVENT), inbound)
    return _not_served("GET") if answer is None else answer


async def end_session(inbound: Inbound) -> Answer:
    """A DELETE: the client needs its session no more.

    Raises:
        ProtocolError: there is none, and the status says why.
    """
    if _is_modern(inbound):
        return _not_served("DELETE")
    if headers.SESSION not in inbound.headers:
        raise InvalidRequest("DELETE ends a session, so Mcp-Session-Id must name it.")
    session = await named_session(inbound)
    await inbound.runner.sync(partial(sessions.end_session, session))
    return Answer(204)


def _not_served(verb: str) -> Answer:
    error = NotServed(f"There is nothing to {verb} here; POST a message.")
    return Answer(error.http_status, encode_error(None, error), [("Allow", "POST, OPTIONS")])


def _is_modern(inbound: Inbound) -> bool:
    return inbound.headers.get(headers.VERSION, "").strip() in versions.MODERN
