"""One request and what came of it, in the words of the ledger."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.soak.ledger import Entry, Ledger, Outcome, Rows
from benchmarks.soak.wire import Broken, Reply
from benchmarks.soak.workers import Workers

PATIENCE = 30.0
"""Seconds for which a client waits for one answer."""

Message = Mapping[str, Any]
Verdict = tuple[Outcome, str]
Check = Callable[[Message], str | None]
"""Says what is wrong with a JSON-RPC response that is no error, or None."""


@dataclass
class Soak:
    """What all clients share.

    Attributes:
        stopping: set when no client is to begin anything more.
    """

    workers: Workers
    ledger: Ledger
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Attempt:
    """Something that a client does, until it is over and in the ledger."""

    soak: Soak
    kind: str
    uid: str = ""
    rows: Rows = Rows.NOT_COUNTED
    tool: str = ""
    logged: str = "ok"
    repeated: bool = False
    insists: bool = False
    ports: list[int] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def over(self, outcome: Outcome, detail: str = "") -> Entry:
        """Note what came of it."""
        return self.soak.ledger.add(
            Entry(
                kind=self.kind,
                ports=tuple(dict.fromkeys(self.ports)),
                began=self.began,
                ended=time.monotonic(),
                outcome=outcome,
                detail=detail,
                uid=self.uid,
                rows=self.rows,
                tool=self.tool,
                logged=self.logged,
                repeated=self.repeated or self.insists,
                insists=self.insists,
            )
        )

    async def run(self, work: Awaitable[Verdict]) -> Entry:
        """Wait for what comes of it, as long as a client does, and note that."""
        try:
            outcome, detail = await asyncio.wait_for(work, PATIENCE)
        except TimeoutError:
            outcome, detail = Outcome.SILENT, f"nothing within {PATIENCE:.0f} s"
        except Broken as error:
            outcome, detail = Outcome.CLOSED, str(error)
        return self.over(outcome, detail)


def text_of(message: Message) -> str:
    """What a tool said, or the words of an error."""
    if "error" in message:
        return f"{message['error'].get('code')} {message['error'].get('message')}"
    blocks = message.get("result", {}).get("content", [])
    return "".join(block.get("text", "") for block in blocks)


def is_error(message: Message) -> bool:
    """Whether it is a JSON-RPC error, or the error of a tool."""
    return "error" in message or bool(message.get("result", {}).get("isError"))


def judged(message: Message, check: Check) -> Verdict:
    """The verdict on a response that came."""
    if is_error(message):
        return Outcome.TOLD, text_of(message)
    if "result" not in message:
        return Outcome.WRONG, f"neither a result nor an error: {json.dumps(message)[:200]}"
    wrong = check(message)
    return (Outcome.OK, "") if wrong is None else (Outcome.WRONG, wrong)


async def answer_of(reply: Reply) -> Message:
    """The response in a reply: its body, or the last message of its stream.

    Raises:
        Broken: it was cut off.
    """
    if not reply.is_stream:
        return parsed(await reply.body())
    last: Message | None = None
    async with reply:
        async for event in reply.events():
            if event.data:
                last = event.message
    if last is None or "method" in last:
        raise Broken("the stream ended without a response")
    return last


def parsed(body: bytes) -> Message:
    """A body as JSON; what is no JSON is no response either."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"not JSON": body[:200].decode(errors="replace")}


async def verdict_on(reply: Reply, check: Check) -> Verdict:
    """What came of a request, by its reply."""
    if reply.status >= 500:
        return Outcome.TOLD, f"HTTP {reply.status} {(await reply.body())[:200].decode(errors='replace')}"
    return judged(await answer_of(reply), check)


def says(expected: str) -> Check:
    """A check that a tool says this."""

    def check(message: Message) -> str | None:
        found = text_of(message)
        return None if found == expected else f"expected {expected!r}, got {found[:200]!r}"

    return check


def lists(member: str, name: str) -> Check:
    """A check that a list has something of that name."""

    def check(message: Message) -> str | None:
        names = {each.get("name") for each in message["result"].get(member, ())}
        return None if name in names else f"expected {name!r} in {member}, got {sorted(map(str, names))}"

    return check
