"""Clients that ask one thing after the other: rows, lists, readings, and much that is no request at all."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from benchmarks.soak.clients import BASE, PATH, Client, Legacy, Modern, call_of, encoded
from benchmarks.soak.exchanges import Attempt, Check, Soak, Verdict, lists, parsed, says, verdict_on
from benchmarks.soak.ledger import Entry, Outcome, Rows
from benchmarks.soak.wire import Broken, send

PAUSE = 0.15
"""Seconds that a client thinks, on average. It is the same all the time, so what is held ought to be too."""
SESSION_LIFE = 60
"""Requests after which a client of the older era ends its session and opens another."""
AGAIN_AFTER = 0.25
"""Seconds before something is sent again."""
AGAIN_FOR = 40
"""How often a call with a key is sent at most."""
INTERNAL_ERROR = -32603
OVERSIZE = 100_000
"""Bytes of a body that the site refuses, see its settings."""


def new_uid() -> str:
    """An id that nobody else has."""
    return secrets.token_hex(8)


async def opened(soak: Soak, client: Legacy) -> bool:
    """Give a client a session; whether it has one."""
    attempt = Attempt(soak, "legacy initialize", ports=[soak.workers.next()])
    found = ""

    async def work() -> Verdict:
        nonlocal found
        reply = await client.initialize(attempt.ports[0])
        found = reply.headers.get("mcp-session-id", "")
        verdict = await verdict_on(reply, lambda _: None)
        return verdict if found or verdict[0] is not Outcome.OK else (Outcome.TOLD, "a handshake without a session")

    await attempt.run(work())
    client.session = found
    return bool(found)


async def surely_opened(soak: Soak, client: Legacy) -> None:
    """Give a client a session, however often that takes."""
    while not client.session:
        if not await opened(soak, client):
            await asyncio.sleep(AGAIN_AFTER)


class Caller:
    """One client, which does something at random again and again."""

    def __init__(self, soak: Soak, client: Client, seed: int) -> None:
        self._soak, self._client = soak, client
        self._random = random.Random(seed)
        self._done = 0
        acts: list[tuple[Callable[[], Awaitable[Any]], int]] = [
            (self.write, 6),
            (self.write_async, 2),
            (self.write_keyed, 3),
            (self.fail, 1),
            (self.echo, 3),
            (self.list_something, 3),
            (self.read_something, 2),
            (self.misbehave, 3),
        ]
        self._acts = [act for act, _ in acts]
        self._weights = [weight for _, weight in acts]

    async def live(self) -> None:
        """Go on until the end."""
        while not self._soak.stopping.is_set():
            await self._keep_session()
            (act,) = self._random.choices(self._acts, self._weights)
            await act()
            self._done += 1
            await asyncio.sleep(PAUSE * (0.5 + self._random.random()))

    async def _keep_session(self) -> None:
        """Of the older era: open one, and end it after a while. Calls do not need one, so nothing waits for it."""
        client = self._client
        if not isinstance(client, Legacy):
            return
        if client.session and self._done % SESSION_LIFE == SESSION_LIFE - 1:
            attempt = Attempt(self._soak, "legacy end of session", ports=[self._soak.workers.next()])

            async def work() -> Verdict:
                reply = await client.end(attempt.ports[0])
                body = (await reply.body())[:200].decode(errors="replace")
                if reply.status >= 500:
                    return Outcome.TOLD, f"HTTP {reply.status} {body}"
                right = reply.status in {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT}
                return (Outcome.OK, "") if right else (Outcome.WRONG, f"HTTP {reply.status} {body}")

            # One that was refused lives on, and this client forgets it, as clients do.
            await attempt.run(work())
            client.session = ""
        if not client.session:
            await opened(self._soak, client)

    def _attempt(self, what: str, **more: Any) -> Attempt:
        return Attempt(self._soak, f"{self._client.revision} {what}", ports=[self._soak.workers.next()], **more)

    async def _ask(self, attempt: Attempt, method: str, params: dict[str, Any], check: Check) -> Entry:
        async def work() -> Verdict:
            return await verdict_on(await self._client.request(attempt.ports[0], method, params), check)

        return await attempt.run(work())

    async def _call(self, attempt: Attempt, check: Check) -> Entry:
        return await self._ask(attempt, "tools/call", call_of(attempt.tool, {"uid": attempt.uid}), check)

    # What it does

    async def write(self) -> None:
        """Write a row; and if it was written, the next worker must know of it."""
        await self._write("write")

    async def write_async(self) -> None:
        """The same, by a coroutine."""
        await self._write("awrite")

    async def _write(self, tool: str) -> None:
        uid = new_uid()
        attempt = self._attempt(f"call of {tool}", uid=uid, tool=tool, rows=Rows.ONE_IF_OK)
        written = await self._call(attempt, says(f"wrote {uid}"))
        if written.outcome is Outcome.OK:
            await self._call(self._attempt("call of read", uid=uid, tool="read"), says("1"))

    async def write_keyed(self) -> None:
        """Write a row under a key, and repeat that until it is answered."""
        uid = new_uid()
        attempt = self._attempt("call with a key", uid=uid, tool="write_keyed", rows=Rows.ONE_IF_OK, insists=True)
        params, check = call_of("write_keyed", {"uid": uid}), says(f"wrote {uid}")
        verdict: Verdict = Outcome.CLOSED, ""
        for number in range(AGAIN_FOR):
            if number:
                await asyncio.sleep(AGAIN_AFTER)
                attempt.ports.append(self._soak.workers.next())
            try:
                reply = await asyncio.wait_for(self._client.request(attempt.ports[-1], "tools/call", params), 30)
                verdict = await verdict_on(reply, check)
            except (Broken, TimeoutError) as error:
                verdict = Outcome.CLOSED, str(error)
            if verdict[0] in {Outcome.OK, Outcome.WRONG}:
                break
        attempt.over(*verdict)

    async def fail(self) -> None:
        """Call a tool that writes and fails: it leaves nothing."""
        uid = new_uid()
        attempt = self._attempt("call that fails", uid=uid, tool="write_and_fail", rows=Rows.NONE, logged="error")

        async def work() -> Verdict:
            params = call_of("write_and_fail", {"uid": uid})
            reply = await self._client.request(attempt.ports[0], "tools/call", params)
            outcome, detail = await verdict_on(reply, lambda _: "it did not fail")
            return (Outcome.OK, "") if detail == f"failed {uid}" else (outcome, detail)

        await attempt.run(work())

    async def echo(self) -> None:
        """Call a tool that needs no database."""
        uid = new_uid()
        await self._call(self._attempt("call of echo", uid=uid, tool="echo"), says(f"heard {uid}"))

    async def list_something(self) -> None:
        """One of the lists."""
        method, member, name = self._random.choice(
            [
                ("tools/list", "tools", "write"),
                ("resources/templates/list", "resourceTemplates", "news"),
                ("prompts/list", "prompts", "greeting"),
            ]
        )
        await self._ask(self._attempt(method), method, {}, lists(member, name))

    async def read_something(self) -> None:
        """A resource, or a prompt."""
        name = new_uid()
        if self._random.random() < 0.5:
            check: Check = lambda m: None if f"news of {name}" in str(m["result"]) else "not what was asked for"  # noqa: E731
            await self._ask(self._attempt("resources/read"), "resources/read", {"uri": f"soak://news/{name}"}, check)
        else:
            check = lambda m: None if f"Hello {name}!" in str(m["result"]) else "not what was asked for"  # noqa: E731
            params = {"name": "greeting", "arguments": {"name": name}}
            await self._ask(self._attempt("prompts/get"), "prompts/get", params, check)

    async def misbehave(self) -> None:
        """Send something that has to be refused, in the one right way."""
        name, (headers, body, status, code) = self._random.choice(list(self._bad().items()))
        attempt = self._attempt(f"bad: {name}")

        async def work() -> Verdict:
            reply = await send(attempt.ports[0], "POST", PATH, headers, body)
            found, said = reply.status, await reply.body()
            if found >= 500:
                return Outcome.TOLD, f"HTTP {found} {said[:200].decode(errors='replace')}"
            error = parsed(said).get("error")
            error = error if isinstance(error, dict) else {}  # that of 413 and 415 is a text
            if error.get("code") == INTERNAL_ERROR:  # while the log cannot be written, nothing else is looked at
                return Outcome.TOLD, error["message"]
            right = found == status and (code is None or error.get("code") == code)
            return (Outcome.OK, "") if right else (Outcome.WRONG, f"HTTP {found} {said[:200].decode(errors='replace')}")

        await attempt.run(work())

    def _bad(self) -> dict[str, tuple[dict[str, str], bytes, int, int | None]]:
        """By name: headers, body, and the status and the JSON-RPC code that answer them."""
        client = self._client
        if isinstance(client, Modern):
            headers, body = client.compose("tools/call", call_of("echo", {"uid": "bad"}))
            unknown = client.compose("no/such/method", {})
            missing = {name: value for name, value in headers.items() if name != "Mcp-Method"}
            own = {"unknown method": (*unknown, 404, -32601), "missing header": (missing, body, 400, -32020)}
        else:
            headers = client.headers
            body = encoded({"id": 1, "method": "tools/call", "params": call_of("echo", {"uid": "bad"})})
            unknown_method = encoded({"id": 1, "method": "no/such/method", "params": {}})
            stranger = {**headers, "Mcp-Session-Id": "x" * 43}
            own = {
                "unknown method": (headers, unknown_method, 200, -32601),
                "unknown session": (stranger, body, 404, -32600),
            }
        return {
            **own,
            "broken JSON": (headers, body[:-7], 400, -32700),
            "too large": (headers, body + b" " * OVERSIZE, 413, None),
            "not JSON": ({**headers, "Content-Type": "text/plain"}, body, 415, None),
            "no key": ({n: v for n, v in headers.items() if n != "Authorization"}, body, 401, None),
            "bad key": ({**headers, "Authorization": BASE["Authorization"][:-3] + "abc"}, body, 401, None),
        }
