"""``Context``: the call as tools, resources and prompts see it, with what they can do in it."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

from django.utils.functional import Promise

from django_mcp.conf import settings
from django_mcp.core.channel import LEVELS, is_wanted
from django_mcp.core.concurrency import on_event_loop, run_off_loop
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
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.request import RequestContext
from django_mcp.core.resources import read_here
from django_mcp.primitives.base import FormError, ToolError, is_translated, translated
from django_mcp.primitives.output import json_start, shortened
from django_mcp.protocol.content import ResourceContents

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


LEAST_LIMIT = 10_000
"""Characters that a message or questions may have even if the results of a tool are shorter."""
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that may ask the client (2026-07-28, Multi Round-Trip Requests, Supported Requests)."""

CONFIRMATION = {
    "type": "object",
    # Required and without a default: some clients accept empty forms without asking.
    "properties": {"confirm": {"type": "boolean", "title": "Yes, go ahead"}},
    "required": ["confirm"],
}


class Context(RequestContext):
    """A call, passed to tools, resources and prompts as the parameter annotated ``Context``.

    Methods that ask the client (``elicit``, ``confirm``, ``sample``, ``roots``, ``ask``) are plain calls in sync and
    async functions alike. Each returns the answer or ends the round: the function runs again from the top when the
    answer has arrived. So ask before you act, or wrap the act in ``once``.

    Attributes:
        server: the endpoint's ``MCPServer``.
        principal: the caller.
        capabilities: capabilities that the client declared.
        request_id: the JSON-RPC id.
        method: the JSON-RPC method.
        params: the parameters of the request.
    """

    __slots__ = ()

    # Reading resources

    def read(self, uri: str) -> list[ResourceContents]:
        """Return the contents of a resource of this endpoint, with the caller's permissions.

        Raises:
            ResourceNotFound: the resource does not exist for the caller. Do not catch it.
            RuntimeError: called on the event loop (use ``aread``).
            Cancelled: the client no longer waits.
        """
        if on_event_loop():
            msg = "ctx.read blocks, so it cannot be called on the event loop; in async functions: await ctx.aread(…)"
            raise RuntimeError(msg)
        self.check_cancelled()
        return read_here(self, uri)

    async def aread(self, uri: str) -> list[ResourceContents]:
        """``read`` for async functions."""
        return await run_off_loop(self.site_runner, partial(self.read, uri))

    # Notifications

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the progress, if the client asked for it. Values that do not increase are not sent.

        Args:
            progress: progress so far.
            total: final value, if known, in the same unit.
            message: for people. Cut with a mark if it is longer than a result may be (``MAX_OUTPUT_CHARS``).

        Raises:
            Cancelled: the client no longer waits.
        """
        self.check_cancelled()
        message = None if message is None else self._cut(str(message), "progress")  # it may be a lazy translation
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
        """Send a log message to the client, if it wants this level. For the site's own log, use ``logging``.

        Args:
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``, ``alert`` or ``emergency``.
            data: a str or any JSON value, which the client reads. If it is longer than a result may be
                (``MAX_OUTPUT_CHARS``), the first characters of its text or JSON, with a mark.
            logger: name of the logger.

        Raises:
            Cancelled: the client no longer waits.
            ValueError: unknown level.
        """
        self.check_cancelled()
        if level not in LEVELS:
            msg = f"{level!r} is not a log level; use one of {', '.join(LEVELS)}"
            raise ValueError(msg)
        if is_wanted(level, self.channel.log_level):
            named = {} if logger is None else {"logger": self._cut(logger, "log")}
            # Cut first: a long value is not copied for the lazy translations in it, which may be long themselves.
            said = str(data) if isinstance(data, Promise) else self._cut(data, "log")
            said = translated(said) if is_translated(said) else said
            self.channel.notify("notifications/message", {"level": level, **named, "data": self._cut(said, "log")})

    def close_stream(self) -> None:
        """Close the connection of a long call, if the protocol supports this; the client fetches the result later."""
        self.channel.close_connection()

    # Questions

    def supports(self, capability: str) -> bool:
        """Return True if the client declared a capability, such as ``"sampling"`` or ``"elicitation.url"``."""
        whole, _, part = capability.partition(".")
        declared = self.capabilities.get(whole)
        if not isinstance(declared, dict):
            return False
        if whole == "elicitation" and part in {"", "form"}:
            return not declared or "form" in declared  # an empty object means forms
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
        """Return the answers to several questions, which the client gets together.

        Raises:
            InputRequired: answers are missing. Do not catch it.
            MissingClientCapability, ToolError: the client does not support a question.
            ToolError: the client answered with an error, or three times with invalid input.
            ValueError: the questions are together longer than a result may be (``MAX_OUTPUT_CHARS``,
                ``MAX_BINARY_BYTES``).
        """
        self.check_cancelled()
        if self.method not in ASKING:
            msg = f"{self.method} cannot ask the client; only {', '.join(sorted(ASKING))} can"
            raise RuntimeError(msg)
        missing: dict[str, dict[str, Any]] = {}
        bound = [question.bind(self) for question in questions]
        self._check_size(bound)
        values = [self._answer(question, missing) for question in bound]
        if missing:
            if self.channel.dialogue.round >= MAX_ROUNDS:
                raise ToolError(
                    f"The call asked for input {MAX_ROUNDS} times, the maximum, and answers are still missing."
                )
            raise InputRequired(missing)
        return tuple(values)

    def _check_size(self, questions: Iterable[Question[Any]]) -> None:
        """Check the questions before they are encoded, signed or stored."""
        most, most_bytes = self._message_limit(), settings.MAX_BINARY_BYTES
        characters = binary = 0
        for question in questions:
            own = question.binary_characters()
            binary += own
            if most is not None:
                characters += len(json_start(question.params, most + own)) - own
        if most is not None and characters > most:
            msg = (
                f"The questions to the client have more than {most:,} characters, the limit (DJANGO_MCP: "
                "MAX_OUTPUT_CHARS, or the tool's max_output_chars). Ask about less, or link to a page."
            )
            raise ValueError(msg)
        if most_bytes is not None and (size := binary * 3 // 4) > most_bytes:  # Base64
            msg = (
                f"The questions to the client have {size:,} bytes of binary content; the limit is {most_bytes:,} "
                "(DJANGO_MCP: MAX_BINARY_BYTES)."
            )
            raise ValueError(msg)

    def _message_limit(self) -> int | None:
        """Return how many characters a message or questions may have: as many as a result, and enough for a form."""
        tool = self.server.tools.get(self.params["name"]) if self.method == "tools/call" else None
        most = settings.MAX_OUTPUT_CHARS if tool is None or tool.max_output_chars is None else tool.max_output_chars
        return max(most, LEAST_LIMIT) if most else None

    def _cut(self, value: Any, kind: str) -> Any:
        """Return a message, cut if it is longer than a result may be."""
        found = shortened(value, self._message_limit())
        if found is not value:
            about = self.params.get("name", self.method)
            text = "a %s message of %s is longer than MAX_OUTPUT_CHARS and was cut"
            log_rate_limited(logging.WARNING, text, kind, str(about)[:200])
        return found

    def _answer(self, question: Question[Any], missing: dict[str, dict[str, Any]]) -> Any:
        dialogue, key, params = self.channel.dialogue, self._key(question), question.params
        answer = dialogue.answers.get(key)
        # Ignore an answer to another question with the same key.
        if key in dialogue.answers and dialogue.asked.get(key, question.digest) == question.digest:
            try:
                return question.read(raw(key, answer))
            except FormError as error:
                tries = dialogue.tries[key] = dialogue.tries.get(key, 0) + 1
                if tries >= MAX_TRIES:
                    raise ToolError(f"The answers do not match what was asked. {error}") from None
                params = question.again(error.problems)
                del dialogue.answers[key]
        if not self.supports(question.needs):
            raise self.channel.missing_capability(question)
        dialogue.asked[key] = question.digest
        missing[key] = {"method": question.method, "params": params}
        return None

    def _key(self, question: Question[Any]) -> str:
        if question.key is not None:
            return question.key
        if self._seen is None:
            self._seen = Counter()
        # Derived from the content, so that it is the same in each round.
        key = f"{question.method.partition('/')[0]}-{question.digest}"
        self._seen[key] += 1
        return key if self._seen[key] == 1 else f"{key}-{self._seen[key]}"

    def elicit(
        self, message: str, schema: Any, *, form_kwargs: Mapping[str, Any] | None = None, key: str | None = None
    ) -> ElicitResult[Any]:
        """Return the person's answer to a form. See ``Elicitation`` and ``ask``."""
        answer: ElicitResult[Any] = self.ask(Elicitation(message, schema, form_kwargs=form_kwargs, key=key))[0]
        return answer

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult[None]:
        """Ask the person to visit a page, and return whether they agreed. See ``URLElicitation`` and ``ask``."""
        return self.ask(URLElicitation(message, url, key=key))[0]

    def confirm(self, message: str, *, key: str | None = None) -> bool:
        """Return True if the person says yes. This is not an approval: a client may answer on its own."""
        answer = self.ask(Elicitation(message, CONFIRMATION, key=key))[0]
        return answer.data is not None and answer.data["confirm"] is True

    def sample(self, messages: Any, **options: Any) -> SamplingResult:
        """Return a completion of *messages* by the client's model. See ``Sampling`` for the options, and ``ask``."""
        return self.ask(Sampling(messages, **options))[0]

    def roots(self, *, key: str | None = None) -> list[Root]:
        """Return the client's roots. See ``ask``."""
        return self.ask(Roots(key=key))[0]

    # Effects

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Call a function once, even if the tool runs again; its result is stored for this call.

        Commits what the tool wrote before. What *function* writes to the default database is committed with the record
        of its result. Other effects happen at most once: if the process dies before it stores the result, the call ends
        with an error.

        Args:
            key: identifies the function within the call.
            function: takes no arguments; returns a JSON value.

        Raises:
            ToolError: it was started in an earlier round and its result is unknown.
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
        """Call *function* if the tool's transaction is rolled back; the counterpart of ``transaction.on_commit``.

        For effects outside the database, such as a saved file: ``ctx.on_rollback(lambda: photo.delete(save=False))``.
        Not called for what ``once`` has committed.

        Args:
            function: takes no arguments; runs after the rollback. Its exceptions are logged.

        Raises:
            RuntimeError: the tool has no transaction, because it is async or has ``atomic=False``. Use ``try`` there.
        """
        if self.transaction is None:
            msg = "ctx.on_rollback needs the tool's transaction; an async tool, or one with atomic=False, has none"
            raise RuntimeError(msg)
        self.transaction.on_rollback(function)

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]]) -> T:
        """``once`` for coroutine functions, in async tools."""
        self.check_cancelled()
        return await self.channel.aonce(key, function, self.runner)
