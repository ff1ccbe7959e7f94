"""Clients with a stream open all the time: each waits for a change that it has announced at another worker."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from benchmarks.soak.callers import AGAIN_AFTER, new_uid, surely_opened
from benchmarks.soak.clients import Client, Legacy, Modern, call_of
from benchmarks.soak.exchanges import Attempt, Soak, Verdict, answer_of, is_error, text_of, verdict_on
from benchmarks.soak.ledger import Entry, Outcome
from benchmarks.soak.wire import Broken, Event, Reply

EVERY = 1.0
"""Seconds between two announcements."""
ROUNDS = 15
"""Announcements that one stream hears before its client opens another."""
HEARD_WITHIN = 25.0
"""Seconds within which a change has to be heard: longer than the log is left unread without a ring."""


class Listener:
    """One client that listens."""

    def __init__(self, soak: Soak, client: Client) -> None:
        self._soak, self._client = soak, client
        self._news = ""
        self._port = 0
        self._events: AsyncIterator[Event] | None = None
        self._reply: Reply | None = None
        self._last: str | None = None
        self._announced = self._noticed = 0

    async def live(self) -> None:
        """Go on until the end."""
        while not self._soak.stopping.is_set():
            if not await self._open():
                await asyncio.sleep(AGAIN_AFTER)
                continue
            for _ in range(ROUNDS):
                if self._soak.stopping.is_set() or not await self._hear():
                    break
                await asyncio.sleep(EVERY)
            self._close()

    def _close(self) -> None:
        self._last, self._announced, self._noticed = None, 0, 0
        if self._reply is not None:
            self._reply.close()
        self._reply = self._events = None

    async def _open(self) -> bool:
        """Open a stream; whether that went well."""
        self._news = new_uid()
        attempt = Attempt(
            self._soak, f"{self._client.revision} stream of changes, opened", ports=[self._soak.workers.next()]
        )
        entry = await attempt.run(self._opened(attempt))
        return entry.outcome is Outcome.OK

    async def _opened(self, attempt: Attempt) -> Verdict:
        uri, port = f"soak://news/{self._news}", attempt.ports[0]
        if isinstance(self._client, Legacy):
            await surely_opened(self._soak, self._client)
            verdict = await verdict_on(
                await self._client.request(port, "resources/subscribe", {"uri": uri}), lambda _: None
            )
            if verdict[0] is not Outcome.OK:
                return verdict
        return await self._begin(port, uri)

    async def _begin(self, port: int, uri: str) -> Verdict:
        """Have a stream, from its first event on."""
        if isinstance(self._client, Legacy):
            reply = await self._client.listen(port, self._last)
        else:
            wanted = {"notifications": {"resourceSubscriptions": [uri]}}
            reply = await self._client.request(port, "subscriptions/listen", wanted)
        if not reply.is_stream:
            return await verdict_on(reply, lambda _: "no stream")
        self._reply, self._port, self._events = reply, port, reply.events()
        async for event in self._events:
            self._last = event.id or None
            expected = isinstance(self._client, Legacy) or "acknowledged" in event.data
            return (Outcome.OK, "") if expected else (Outcome.WRONG, f"not acknowledged: {event.data[:200]}")
        raise Broken("the stream ended before its first event")

    async def _hear(self) -> bool:
        """Announce a change elsewhere, and wait for it; whether the stream still stands."""
        self._announced += 1
        told = await self._announce()
        if told.outcome is not Outcome.OK:
            return True
        attempt = Attempt(self._soak, f"{self._client.revision} change, heard", ports=[self._port])
        entry = await attempt.run(self._heard(told.began))
        return entry.outcome is Outcome.OK

    async def _announce(self) -> Entry:
        """What came of it."""
        attempt = Attempt(self._soak, "modern call of announce", self._news, tool="announce", repeated=True)
        attempt.ports.append(self._soak.workers.another(self._port))

        async def work() -> Verdict:
            params = call_of("announce", {"uid": self._news})
            answer = await answer_of(await Modern().request(attempt.ports[0], "tools/call", params))
            return (Outcome.TOLD, text_of(answer)) if is_error(answer) else (Outcome.OK, "")

        return await attempt.run(work())

    async def _heard(self, began: float) -> Verdict:
        """Wait for the change, on this stream or on what takes it up.

        Args:
            began: when it was asked for, in seconds of ``time.monotonic``.
        """
        try:
            async with asyncio.timeout(HEARD_WITHIN):
                while True:
                    with suppress(Broken):
                        if verdict := await self._next():
                            if self._noticed > self._announced:
                                return Outcome.WRONG, f"{self._noticed} notices of {self._announced} changes"
                            self._soak.ledger.heard.append((began, time.monotonic() - began))
                            return verdict
                    if not isinstance(self._client, Legacy):
                        raise Broken("the stream ended; a modern client opens another, and looks what it missed")
                    await self._resume()
        except TimeoutError:
            return Outcome.SILENT, f"not heard within {HEARD_WITHIN:.0f} s"

    async def _next(self) -> Verdict | None:
        """Read up to the change; None where the stream ended."""
        if self._events is None:
            return None
        async for event in self._events:
            self._last = event.id or self._last
            if event.data and event.message.get("method") == "notifications/resources/updated":
                found = event.message["params"]["uri"]
                if found == f"soak://news/{self._news}":
                    self._noticed += 1
                    return Outcome.OK, ""
        return None

    async def _resume(self) -> None:
        """Take the stream up at the next worker, from the last event on: what was announced meanwhile is told."""
        await asyncio.sleep(AGAIN_AFTER)
        with suppress(Broken):
            outcome, _ = await self._begin(self._soak.workers.next(), "")
            self._soak.ledger.resumptions += outcome is Outcome.OK
