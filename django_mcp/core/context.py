"""``Context``: what a tool can do in the call it serves, beside reading its data."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, overload

from django_mcp.core.channel import LEVELS, is_wanted
from django_mcp.core.concurrency import aside, on_event_loop
from django_mcp.core.deadline import limit_statements
from django_mcp.core.elicitation import (
    MAX_ROUNDS,
    MAX_TRIES,
    Elicitation,
    ElicitResult,
    InputRequired,
    Question,
    Root,
    Roots,
    Sampling,
    SamplingResult,
    URLElicitation,
    raw,
)
from django_mcp.core.request import RequestContext
from django_mcp.core.resources import read_here
from django_mcp.primitives.base import FormError, ToolError, is_translated, translated
from django_mcp.protocol.content import ResourceContents

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that may ask (2026-07-28, Multi Round-Trip Requests, Supported Requests)."""

CONFIRMATION = {
    "type": "object",
    # Required and without a default: some clients accept empty forms by themselves.
    "properties": {"confirm": {"type": "boolean", "title": "Yes, go ahead"}},
    "required": ["confirm"],
}


class Context(RequestContext):
    """One call. A tool gets it through a parameter annotated ``Context``.

    What asks the client (``elicit``, ``confirm``, ``sample``, ``roots``, ``ask``) is a plain call in sync and async
    functions alike. It has the answer, or it ends the round: the function is run again from the top when the answer
    is there. So ask before you act, or wrap the act in ``once``.

    Attributes:
        server: the endpoint's ``MCPServer``.
        principal: the caller.
        capabilities: what the client declared it can do.
        request_id: the JSON-RPC id.
        method: the JSON-RPC method.
        params: the request's parameters.
    """

    __slots__ = ()

    # Reading resources

    def read(self, uri: str) -> list[ResourceContents]:
        """What a resource of this endpoint gives, read as the caller would; for ``EmbeddedResource``, say.

        Raises:
            ResourceNotFound: there is none, or none that the caller may read. Let it through.
            RuntimeError: called on the event loop (use ``aread``).
            Cancelled: nobody waits any more.
        """
        if on_event_loop():
            msg = "ctx.read blocks, so it cannot be called on the event loop; in async functions: await ctx.aread(…)"
            raise RuntimeError(msg)
        self.check_cancelled()
        return read_here(self, uri)

    async def aread(self, uri: str) -> list[ResourceContents]:
        """``read`` in async functions."""
        return await aside(self.site_runner, partial(self.read, uri))

    # Telling the client

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far it is, where the client asked to know. It must grow; what does not is not sent.

        Args:
            progress: so far.
            total: in the end, where known, in the same unit.
            message: for people.

        Raises:
            Cancelled: nobody waits any more.
        """
        self.check_cancelled()
        message = None if message is None else str(message)  # it may be a lazy translation
        self.channel.note_progress(progress, total, message)
        token, dialogue = self.meta.get("progressToken"), self.channel.dialogue
        if not (type(token) is int or type(token) is str) or (
            dialogue.progress is not None and progress <= dialogue.progress
        ):
            return
        dialogue.progress = progress
        given = {key: value for key, value in (("total", total), ("message", message)) if value is not None}
        self.channel.notify("notifications/progress", {"progressToken": token, "progress": progress, **given})

    def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants this level. The site's own log is Python's ``logging``.

        Args:
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``, ``alert`` or ``emergency``.
            data: a str or anything JSON can hold; the client reads it, so nothing it may not see.
            logger: the name of what speaks.

        Raises:
            Cancelled: nobody waits any more.
            ValueError: there is no such level.
        """
        self.check_cancelled()
        if level not in LEVELS:
            msg = f"{level!r} is no log level; use one of {', '.join(LEVELS)}"
            raise ValueError(msg)
        if is_wanted(level, self.channel.log_level):
            named = {} if logger is None else {"logger": logger}
            said = translated(data) if is_translated(data) else data
            self.channel.notify("notifications/message", {"level": level, **named, "data": said})

    def close_stream(self) -> None:
        """Let go of the connection in a long call; the client comes back for the result.

        Does nothing where the protocol has no such thing.
        """
        self.channel.let_go()

    # Asking the client

    def supports(self, capability: str) -> bool:
        """Whether the client declared a capability, like ``"sampling"``, ``"elicitation"`` or ``"elicitation.url"``."""
        whole, _, part = capability.partition(".")
        declared = self.capabilities.get(whole)
        if not isinstance(declared, dict):
            return False
        if whole == "elicitation" and part in {"", "form"}:
            return not declared or "form" in declared  # an empty object has always meant forms
        return not part or isinstance(declared.get(part), dict)

    @overload
    def ask(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]: ...
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """The answers to several questions, which the client gets all at once.

        Raises:
            InputRequired: there are answers missing. Let it through.
            MissingClientCapability, ToolError: the client cannot be asked this.
            ToolError: it answered with an error, or three times with what does not fit.
        """
        self.check_cancelled()
        if self.method not in ASKING:
            msg = f"{self.method} cannot ask the client; only {', '.join(sorted(ASKING))} can"
            raise RuntimeError(msg)
        missing: dict[str, dict[str, Any]] = {}
        values = [self._answer(question, missing) for question in questions]
        if missing:
            if self.channel.dialogue.round >= MAX_ROUNDS:
                raise ToolError(
                    f"The call asked for input {MAX_ROUNDS} times, the maximum, and answers are still missing."
                )
            raise InputRequired(missing)
        return tuple(values)

    def _answer(self, question: Question[Any], missing: dict[str, dict[str, Any]]) -> Any:
        """The value of a question's answer; where there is none yet, the request goes into *missing*."""
        dialogue, key, params = self.channel.dialogue, self._key(question), question.params
        answer = dialogue.answers.get(key)
        # An answer given to another question that was asked under the same key counts for nothing.
        if key in dialogue.answers and dialogue.asked.get(key, question.digest) == question.digest:
            try:
                return question.read(raw(key, answer))
            except FormError as error:
                tries = dialogue.tries[key] = dialogue.tries.get(key, 0) + 1
                if tries >= MAX_TRIES:
                    raise ToolError(f"The answers do not fit what was asked. {error}") from None
                params = question.again(error.problems)
                del dialogue.answers[key]
        if not self.supports(question.needs):
            raise self.channel.lacks(question)
        dialogue.asked[key] = question.digest
        missing[key] = {"method": question.method, "params": params}
        return None

    def _key(self, question: Question[Any]) -> str:
        """The question's own key, or one made of what it asks; the same again for the same question in each round."""
        if question.key is not None:
            return question.key
        if self._seen is None:
            self._seen = Counter()
        key = f"{question.method.partition('/')[0]}-{question.digest}"
        self._seen[key] += 1
        return key if self._seen[key] == 1 else f"{key}-{self._seen[key]}"

    def elicit(self, message: str, schema: Any, *, key: str | None = None) -> ElicitResult[Any]:
        """What a person filled into a form. See ``Elicitation`` and ``ask``."""
        answer: ElicitResult[Any] = self.ask(Elicitation(message, schema, key=key))[0]
        return answer

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult[None]:
        """Whether a person agreed to visit a page. See ``URLElicitation`` and ``ask``."""
        return self.ask(URLElicitation(message, url, key=key))[0]

    def confirm(self, message: str, *, key: str | None = None) -> bool:
        """Whether a person says yes. Only that: the client may answer by itself, so it is no approval."""
        answer = self.ask(Elicitation(message, CONFIRMATION, key=key))[0]
        return answer.data is not None and answer.data["confirm"] is True

    def sample(self, messages: Any, **options: Any) -> SamplingResult:
        """What the client's model says to *messages*. See ``Sampling`` for the options, and ``ask``."""
        return self.ask(Sampling(messages, **options))[0]

    def roots(self, *, key: str | None = None) -> list[Root]:
        """The client's roots. See ``ask``."""
        return self.ask(Roots(key=key))[0]

    # Acting once

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Do something that must not be done again when the tool is run again; its result is kept for this call.

        What the tool wrote before is committed with it, in a transaction of its own, and so is what *function*
        writes: an act on the default database and the note that it was done stand or fall together. An act
        elsewhere is begun at most once: where its outcome was lost with the process, the call ends with an error.

        Args:
            key: names the act within the call.
            function: takes nothing; returns something JSON can hold.

        Raises:
            ToolError: it was begun in an earlier round and its outcome is not known.
            RuntimeError: called inside ``transaction.atomic()``, or on the event loop (use ``aonce``).
        """
        self.check_cancelled()
        if on_event_loop():
            msg = "ctx.once blocks, so it cannot be called on the event loop; in async tools: await ctx.aonce(…)"
            raise RuntimeError(msg)
        if self.transaction is None:
            return self.channel.once(key, function)
        with self.transaction.suspended():
            value = self.channel.once(key, function)
        limit_statements(self.deadline)
        return value

    def on_rollback(self, function: Callable[[], object]) -> None:
        """Call *function* if the tool's transaction is rolled back: ``transaction.on_commit`` has no such twin.

        For what no database takes back, like a saved file: ``ctx.on_rollback(lambda: photo.delete(save=False))``.
        What ``once`` has committed stays, and so do functions that were given before it.

        Args:
            function: takes nothing. It runs when the rollback is done; what it raises is logged.

        Raises:
            RuntimeError: the tool has no transaction, for it is async or has ``atomic=False``; use ``try`` there.
        """
        if self.transaction is None:
            msg = "ctx.on_rollback needs the tool's transaction; an async tool, or one with atomic=False, has none"
            raise RuntimeError(msg)
        self.transaction.on_rollback(function)

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]]) -> T:
        """``once`` for coroutine functions, in async tools."""
        self.check_cancelled()
        return await self.channel.aonce(key, function, self.runner)
