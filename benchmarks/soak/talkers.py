"""Clients whose calls take more than one message: they hear of progress, are asked, give up, or lose the connection."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from benchmarks.soak.callers import AGAIN_AFTER, PAUSE, new_uid, surely_opened
from benchmarks.soak.clients import META, Legacy, Modern, accepted, call_of, ids
from benchmarks.soak.exchanges import (
    Attempt,
    Message,
    Soak,
    Verdict,
    answer_of,
    is_error,
    judged,
    says,
    text_of,
    verdict_on,
)
from benchmarks.soak.ledger import Outcome, Rows
from benchmarks.soak.streams import Refused, Stream, out_of_order
from benchmarks.soak.wire import Broken

TASKS = "io.modelcontextprotocol/tasks"
"""The extension's name."""
STEPS = 20
"""How far ``count`` counts: a second's work."""
SLOW = 3.0
"""Seconds that a call takes which is given up."""
GIVES_UP_AFTER = 0.3
"""Seconds after which its client gives it up: it has begun, and is far from its end."""
LONGEST_TRY = 60
"""Characters that are kept of what a decision was told."""


class Talker:
    """One client, which talks again and again."""

    def __init__(self, soak: Soak, seed: int) -> None:
        self._soak = soak
        self._random = random.Random(seed)
        self._modern, self._legacy = Modern(), Legacy()

    async def live(self) -> None:
        """Go on until the end."""
        acts: list[Callable[[], Awaitable[Any]]] = [
            self.count,
            self.count_and_resume,
            self.be_asked,
            self.be_asked_on_a_stream,
            self.be_approved,
            self.have_done,
            self.hang_up,
            self.cancel,
        ]
        while not self._soak.stopping.is_set():
            for act in self._random.sample(acts, k=len(acts)):
                await surely_opened(self._soak, self._legacy)
                if self._soak.stopping.is_set():
                    return
                await act()
                await asyncio.sleep(PAUSE)

    def _attempt(self, kind: str, tool: str, rows: Rows = Rows.ONE_IF_OK) -> Attempt:
        return Attempt(self._soak, kind, new_uid(), rows, tool, ports=[self._soak.workers.next()])

    # Progress

    async def count(self) -> None:
        """A modern call that tells how far it is: all in one stream, or cut off with it."""
        attempt = self._attempt("modern call with progress", "count", Rows.NOT_COUNTED)
        meta = {"progressToken": attempt.uid, META + "logLevel": "info"}
        params = call_of("count", {"uid": attempt.uid, "to": STEPS}, _meta=meta)

        async def work() -> Verdict:
            reply = await self._modern.request(attempt.ports[0], "tools/call", params)
            if not reply.is_stream:
                return await verdict_on(reply, lambda _: "no stream, and so no progress")
            async with reply:
                messages = [event.message async for event in reply.events() if event.data]
            if not messages or "method" in messages[-1]:
                raise Broken("the stream ended without a response")
            if not is_error(messages[-1]) and (wrong := out_of_order(messages, STEPS)):
                return Outcome.WRONG, wrong
            return judged(messages[-1], says(f"counted {attempt.uid} to {STEPS}"))

        await attempt.run(work())

    async def count_and_resume(self) -> None:
        """The same of the older era, by a client that loses its connection every few messages."""
        attempt = self._attempt("legacy stream, resumed", "count", Rows.NOT_COUNTED)
        params = call_of("count", {"uid": attempt.uid, "to": STEPS}, _meta={"progressToken": attempt.uid})
        stream: Stream | None = None

        async def work() -> Verdict:
            nonlocal stream
            reply = await self._legacy.request(attempt.ports[0], "tools/call", params)
            if not reply.is_stream:
                return await verdict_on(reply, lambda _: "no stream, and so no progress")
            stream = Stream(self._soak, self._legacy, reply, drops=self._random.randint(3, 8))
            return await self._to_the_end(stream, f"counted {attempt.uid} to {STEPS}", STEPS)

        entry = await attempt.run(work())
        # One that has no end, because whatever ran it is dead, is in order all the same.
        if (
            stream is not None
            and entry.outcome is not Outcome.WRONG
            and (wrong := out_of_order(_before_error(stream.messages), STEPS))
        ):
            entry.outcome, entry.detail = Outcome.WRONG, wrong

    async def _to_the_end(self, stream: Stream, expected: str, to: int = 0) -> Verdict:
        try:
            async for message in stream.read():
                if "method" in message:
                    continue
                if to and not is_error(message) and (wrong := out_of_order(stream.messages, to)):
                    return Outcome.WRONG, wrong
                return judged(message, says(expected))
        except Refused as error:
            return Outcome.WRONG, str(error)
        raise Broken("the stream ended without a response")

    # Questions

    async def be_asked(self) -> None:
        """A modern call that asks; its answer goes to another worker."""
        attempt = self._attempt("modern call that asks", "ask_and_write")
        arguments = {"uid": attempt.uid}

        async def work() -> Verdict:
            reply = await self._modern.request(attempt.ports[0], "tools/call", call_of("ask_and_write", arguments))
            if reply.status >= 500:
                return await verdict_on(reply, lambda _: None)
            asked = await answer_of(reply)
            if is_error(asked):
                return Outcome.TOLD, text_of(asked)
            result = asked["result"]
            if result.get("resultType") != "input_required":
                return Outcome.WRONG, f"no question: {result}"
            attempt.ports.append(self._soak.workers.another(attempt.ports[0]))
            answers = {key: accepted(attempt.uid) for key in result["inputRequests"]}
            params = call_of("ask_and_write", arguments, requestState=result["requestState"], inputResponses=answers)
            reply = await self._modern.request(attempt.ports[1], "tools/call", params)
            return await verdict_on(reply, says(f"wrote {attempt.uid} for {attempt.uid}"))

        await attempt.run(work())

    async def be_asked_on_a_stream(self) -> None:
        """The same of the older era: the question on one worker's stream, the answer in a POST to another."""
        attempt = self._attempt("legacy call that asks", "ask_and_write")

        async def work() -> Verdict:
            params = call_of("ask_and_write", {"uid": attempt.uid})
            reply = await self._legacy.request(attempt.ports[0], "tools/call", params)
            if not reply.is_stream:
                return await verdict_on(reply, lambda _: "no stream, and so no question")
            stream = Stream(self._soak, self._legacy, reply)
            try:
                async for message in stream.read():
                    if message.get("method") == "elicitation/create":
                        await self._answer(attempt, message["id"])
                    elif "method" not in message:
                        return judged(message, says(f"wrote {attempt.uid} for {attempt.uid}"))
            except Refused as error:
                return Outcome.WRONG, str(error)
            raise Broken("the stream ended without a response")

        await attempt.run(work())

    async def _answer(self, attempt: Attempt, question: str) -> None:
        """Say yes, until somebody takes it: an answer that comes twice counts once."""
        while True:
            attempt.ports.append(self._soak.workers.another(attempt.ports[-1]))
            try:
                reply = await self._legacy.post(attempt.ports[-1], {"id": question, "result": accepted(attempt.uid)})
                await reply.body()
                if reply.status == 202:
                    return
            except Broken:
                pass
            await asyncio.sleep(AGAIN_AFTER)

    # Approvals and tasks

    async def be_approved(self) -> None:
        """A call that waits until a person has decided at another worker; who waits in vain sends it again."""
        attempt = self._attempt("modern call that is approved", "write_approved")
        params = call_of("write_approved", {"uid": attempt.uid})
        tries: list[str] = []

        async def work() -> Verdict:
            # Until it is answered, not until its stream begins, which it does while it waits.
            calling = asyncio.ensure_future(self._written(attempt, params))
            try:
                decided = await self._decide(attempt, calling, tries)
                outcome, detail = await calling
            finally:
                calling.cancel()
            if outcome is Outcome.TOLD and decided and "approv" in detail:
                attempt.ports.append(self._soak.workers.next())
                attempt.repeated = True
                return await self._written(attempt, params)
            return outcome, detail if outcome is Outcome.OK else f"{detail} ({', '.join(tries)})"

        await attempt.run(work())

    async def _written(self, attempt: Attempt, params: Message) -> Verdict:
        reply = await self._modern.request(attempt.ports[-1], "tools/call", params)
        return await verdict_on(reply, says(f"wrote {attempt.uid}"))

    async def _decide(self, attempt: Attempt, calling: "asyncio.Future[Any]", tries: list[str]) -> bool:
        """Approve, as soon as there is something to approve; whether that was done, and in *tries* what was said."""
        while not calling.done():
            port = self._soak.workers.another(attempt.ports[0])
            began = time.monotonic()
            try:
                reply = await self._modern.request(port, "tools/call", call_of("decide", {"uid": attempt.uid}))
                outcome, detail = await verdict_on(reply, says("decided"))
                if outcome is Outcome.OK:
                    return True
            except Broken as error:
                detail = str(error)
            tries.append(f"{port} after {time.monotonic() - began:.2f} s: {detail[:LONGEST_TRY]}")
            await asyncio.sleep(AGAIN_AFTER)
        return False

    async def have_done(self) -> None:
        """A task, which its client asks for at the other workers until it is over."""
        attempt = self._attempt("modern task", "work")
        capabilities = {META + "clientCapabilities": {"extensions": {TASKS: {}}}}

        async def work() -> Verdict:
            params = call_of("work", {"uid": attempt.uid}, _meta=capabilities)
            made = await answer_of(await self._modern.request(attempt.ports[0], "tools/call", params))
            task_id = made.get("result", {}).get("taskId")
            if task_id is None:
                return (Outcome.TOLD, text_of(made)) if is_error(made) else (Outcome.WRONG, f"no task: {made}")
            while True:
                await asyncio.sleep(AGAIN_AFTER)
                with suppress(Broken):
                    port = self._soak.workers.another(attempt.ports[0])
                    params = {"taskId": task_id, "_meta": capabilities}
                    found = await answer_of(await self._modern.request(port, "tasks/get", params))
                    status = found.get("result", {}).get("status")
                    if status == "completed":
                        return judged(found["result"], says(f"worked {attempt.uid}"))
                    if status in {"failed", "cancelled"}:
                        return Outcome.TOLD, str(found["result"].get("error") or status)

        await attempt.run(work())

    # Giving up

    async def hang_up(self) -> None:
        """A modern client closes the connection: the call is cancelled, and what it wrote is rolled back."""
        attempt = self._attempt("modern call, hung up", "", Rows.NONE)
        params = call_of("write_slowly", {"uid": attempt.uid, "seconds": SLOW})

        async def work() -> Verdict:
            asking = asyncio.ensure_future(self._modern.request(attempt.ports[0], "tools/call", params))
            done, _ = await asyncio.wait([asking], timeout=GIVES_UP_AFTER)
            if done:
                return await verdict_on(asking.result(), lambda _: "answered although it takes longer")
            asking.cancel()
            await asyncio.wait([asking])
            return Outcome.OK, ""

        await attempt.run(work())

    async def cancel(self) -> None:
        """A client of the older era says at another worker that it does not want an answer any more."""
        attempt = self._attempt("legacy call, cancelled", "", Rows.NONE)
        request = next(ids)
        params = call_of("write_slowly", {"uid": attempt.uid, "seconds": SLOW})
        message = {"id": request, "method": "tools/call", "params": params}

        async def work() -> Verdict:
            calling = asyncio.ensure_future(self._legacy.post(attempt.ports[0], message))
            done, _ = await asyncio.wait([calling], timeout=GIVES_UP_AFTER)
            if done:
                return await verdict_on(calling.result(), lambda _: "answered although it takes longer")
            if not await self._withdraw(request):
                attempt.rows = Rows.ANY  # nobody took the word, so the call may come to its end
            try:
                reply = await calling
                said = (await reply.body())[:200]
            except Broken as error:
                return Outcome.CLOSED, str(error)
            if reply.status >= 500 or b'"error"' in said or b'"isError":true' in said:
                return Outcome.TOLD, f"HTTP {reply.status} {said.decode(errors='replace')}"
            if said and attempt.rows is Rows.NONE:
                return Outcome.WRONG, f"an answer to a call that was cancelled: {said.decode(errors='replace')}"
            return Outcome.OK, ""

        await attempt.run(work())

    async def _withdraw(self, request: int) -> bool:
        """Say so to the next worker; whether it took that."""
        message = {"method": "notifications/cancelled", "params": {"requestId": request}}
        try:
            reply = await self._legacy.post(self._soak.workers.next(), message)
            await reply.body()
        except Broken:
            return False
        return reply.status == 202


def _before_error(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a stream without a response that is an error, before which some may be missing."""
    return [message for message in messages if "method" in message or not is_error(message)]
