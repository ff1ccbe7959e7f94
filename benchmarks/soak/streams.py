"""A stream of the older era as its client has it: cut off now and then, and taken up again at another worker."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from benchmarks.soak.clients import Legacy
from benchmarks.soak.exchanges import Message, Soak
from benchmarks.soak.wire import Broken, Event, Reply

COME_BACK_AFTER = 0.1
"""Seconds before a client comes back for the rest."""


class Refused(Exception):
    """A stream cannot be taken up; the message has the server's words."""


class Stream:
    """The events of one call, over as many connections as it takes.

    Args:
        soak: what clients share.
        client: whose call it is.
        reply: the answer to the POST, as it began.
        drops: after how many messages of each connection the client loses it; 0 for never.
    """

    def __init__(self, soak: Soak, client: Legacy, reply: Reply, drops: int = 0) -> None:
        self._soak, self._client, self._reply, self._drops = soak, client, reply, drops
        self._last = ""
        self.messages: list[Message] = []
        self._seen: set[str] = set()

    async def read(self) -> AsyncIterator[Message]:
        """All messages to the response. Whoever waits limits the time.

        Raises:
            Refused: the stream no longer exists.
            Broken: it broke before it had an id to come back with.
        """
        reply: Reply | None = self._reply
        while True:
            try:
                if reply is None:
                    reply = await self._resume()
                async with reply:
                    async for message in self._connection(reply):
                        yield message
                        if "method" not in message:
                            return
            except Broken:
                if not self._last:
                    raise
            reply = None
            await asyncio.sleep(COME_BACK_AFTER)

    async def _connection(self, reply: Reply) -> AsyncIterator[Message]:
        number = 0
        async for event in reply.events():
            self._note(event)
            if event.data:
                self.messages.append(event.message)
                yield event.message
                number += 1
                if number == self._drops:
                    return

    def _note(self, event: Event) -> None:
        if not event.id:
            return
        if event.id in self._seen:
            raise Refused(f"event {event.id} came twice")
        self._seen.add(event.id)
        self._last = event.id

    async def _resume(self) -> Reply:
        """The rest, from the next worker.

        Raises:
            Broken: not this time.
            Refused: never again.
        """
        reply = await self._client.listen(self._soak.workers.next(), self._last)
        if reply.status == 200 and reply.is_stream:
            self._soak.ledger.resumptions += 1
            return reply
        said = (await reply.body())[:200].decode(errors="replace")
        if reply.status >= 500:
            raise Broken(said)
        raise Refused(f"HTTP {reply.status} to Last-Event-ID: {said}")


def out_of_order(messages: Sequence[Message], to: int) -> str | None:
    """What is wrong with what ``count`` told, up to where it came: each number once, in order, and the log between.

    Args:
        messages: as they came, the response included if it came.
        to: how far it was to count.
    """
    told = [message for message in messages if "method" in message]
    found = [_number(message) for message in told]
    expected = [each for number in range(1, to + 1) for each in _said_at(number)]
    whole = len(told) < len(messages)
    if found != expected[: len(found)] or (whole and len(found) != len(expected)):
        return f"expected {expected}, got {found}, {'then' if whole else 'without'} a response"
    return None


def _said_at(number: int) -> list[tuple[str, int]]:
    said = [("notifications/progress", number)]
    return [*said, ("notifications/message", number)] if number % 5 == 0 else said


def _number(message: Message) -> tuple[str, int]:
    params = message["params"]
    return message["method"], params["progress"] if "progress" in params else params["data"]["number"]
