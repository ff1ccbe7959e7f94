"""Questions to the client, their answers, and the state between rounds.

A tool that asks runs again from the top with the answers so far. Between rounds only this state is kept: in a signed
string that travels with the question, or in the database, depending on the protocol version.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from django_mcp.primitives.base import FormError, ToolError, sendable
from django_mcp.protocol.content import Content, PromptMessage, TextContent, check_uri, read_content
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import encode

T = TypeVar("T")

MAX_TRIES = 3
"""Invalid answers to one question after which the call ends."""


MAX_ROUNDS = 25
"""Rounds per call. A call that needs more asks a different question each time."""


class InputRequired(BaseException):
    """Ends a round because answers are missing.

    Derives from ``BaseException``, so that ``except Exception`` in a tool does not catch it.

    Args:
        requests: question's key -> ``{"method": …, "params": …}`` (2026-07-28, InputRequests).
    """

    def __init__(self, requests: dict[str, dict[str, Any]]) -> None:
        super().__init__(", ".join(requests))
        self.requests = requests


class Dialogue:
    """The questions and answers of a call.

    Attributes:
        id: unguessable id of the call, the same in all rounds.
        round: 0 for the first.
        answers: question's key -> the client's unvalidated result.
        asked: question's key -> digest of the question.
        tries: question's key -> number of invalid answers.
        progress: the last reported progress, if all rounds are one request to the client.
        task: id of the task that asks, if the call waits for one.
    """

    __slots__ = ("_id", "answers", "asked", "progress", "round", "task", "tries")

    def __init__(
        self,
        id: str | None = None,  # noqa: A002
        round: int = 0,  # noqa: A002
        answers: Mapping[str, Any] | None = None,
        asked: Mapping[str, str] | None = None,
        tries: Mapping[str, int] | None = None,
        progress: float | None = None,
        task: str | None = None,
    ) -> None:
        self._id = id
        self.round = round
        self.answers = dict(answers or {})
        self.asked = dict(asked or {})
        self.tries = dict(tries or {})
        self.progress = progress
        self.task = task

    @property
    def id(self) -> str:
        # Created on first use, because most calls ask nothing.
        if self._id is None:
            self._id = secrets.token_urlsafe(16)
        return self._id

    def answer(self, responses: Mapping[str, Any]) -> None:
        # The client may send more answers than requested, and repeat some.
        self.answers.update(responses)

    def to_json(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Dialogue`` for the next round."""
        saved: dict[str, Any] = {
            "id": self.id,
            "round": self.round + 1,
            "answers": self.answers,
            "asked": self.asked,
            "tries": self.tries,
        }
        return saved if self.task is None else {**saved, "task": self.task}


def merged(group: BaseExceptionGroup[Any]) -> InputRequired | None:
    """Return one exception for the questions of all tasks of a ``TaskGroup``, or None if another one failed."""
    asking, others = group.split(InputRequired)
    if asking is None or others is not None:
        return None
    requests: dict[str, dict[str, Any]] = {}
    waiting: list[BaseException] = [asking]
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
        elif isinstance(error, InputRequired):
            requests.update(error.requests)
    return InputRequired(requests)


Action = Literal["accept", "decline", "cancel"]


class Question(Generic[T]):
    """A request to the client.

    Attributes:
        key: identifies the question within its call. By default made from its content, so that an answer never serves a
            different question.
        method: the JSON-RPC method.
        needs: the required client capability, such as ``"elicitation.url"``.
    """

    method: ClassVar[str]
    needs: str
    key: str | None

    @cached_property
    def params(self) -> dict[str, Any]:
        """Return the parameters of the request."""
        raise NotImplementedError

    def bind(self, ctx: Any) -> Self:
        """Return the question as the caller of *ctx* is asked it."""
        del ctx
        return self

    def read(self, answer: Mapping[str, Any]) -> T:
        """Return the value of an answer.

        Raises:
            FormError: the answer is invalid; the question may be asked again.
            InvalidParams: the result has the wrong shape.
        """
        raise NotImplementedError

    def again(self, problems: Sequence[str]) -> dict[str, Any]:
        """Return the parameters to ask once more after an invalid answer."""
        del problems
        return self.params

    def binary_characters(self) -> int:
        """Return the number of characters of binary content in ``params``."""
        return 0

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(encode([self.method, self.essence])).hexdigest()[:16]

    @property
    def essence(self) -> Any:
        """Return what distinguishes the question from others."""
        return self.params

    @property
    def required(self) -> dict[str, dict[str, Any]]:
        """Return ``needs`` as a ``ClientCapabilities`` object."""
        whole, _, part = self.needs.partition(".")
        return {whole: {part: {}} if part else {}}

    @property
    def refusal(self) -> str:
        return f"This call requires a client that supports {self.needs!r}. Your client did not declare this capability."


@dataclass(frozen=True, slots=True)
class ElicitResult(Generic[T]):
    """A person's answer to an elicitation.

    Attributes:
        action: ``"accept"``, ``"decline"`` or ``"cancel"`` (dismissed without a choice).
        data: the validated input: an instance of the pydantic model, a Django form's ``cleaned_data``, or a dict; None
            unless accepted.
    """

    action: Action
    data: T | None = None

    @property
    def accepted(self) -> bool:
        """Return True if the person accepted."""
        return self.action == "accept"


django_forms: list[Callable[..., Any]] = []
"""The class that makes an elicitation form of a context, a Django form class and its keyword arguments."""


class Elicitation(Question[ElicitResult[Any]]):
    """A form for the person at the client (2026-07-28, Elicitation, Form Mode).

    Not for secrets, because the input passes through the client; use ``URLElicitation`` for those.

    Args:
        message: the reason for asking.
        schema: a pydantic model or Django form class with flat fields, or a JSON Schema of the allowed shape. The rows
            that a Django form offers are those that the caller may see, as in ``form_tool``.
        form_kwargs: additional arguments of a Django form class, such as ``{"user": ctx.user}``.
        key: see ``Question``.
    """

    method = "elicitation/create"
    needs = "elicitation"

    def __init__(
        self, message: str, schema: Any, *, form_kwargs: Mapping[str, Any] | None = None, key: str | None = None
    ) -> None:
        self.message = sendable(str(message))
        # Most sites ask nothing.
        from django.forms import BaseForm  # noqa: PLC0415

        from django_mcp.primitives.elicitation_schema import form_schema  # noqa: PLC0415

        self._is_django = isinstance(schema, type) and issubclass(schema, BaseForm)
        if form_kwargs is not None and not self._is_django:
            msg = f"form_kwargs are the arguments of a Django form class; {schema!r} is none"
            raise TypeError(msg)
        self._given, self._kwargs = schema, form_kwargs
        self.form: Any = None if self._is_django else form_schema(schema)  # a Django form is made for each caller
        self.key = key

    def bind(self, ctx: Any) -> Self:
        if not self._is_django:
            return self
        bound = copy(self)
        bound.form = django_forms[0](ctx, self._given, self._kwargs)
        return bound

    @cached_property
    def params(self) -> dict[str, Any]:
        # Older clients do not know "mode". Without it, this is a form.
        return {"message": self.message, "requestedSchema": self.form.schema}

    @property
    def essence(self) -> Any:
        # Defaults are left out, because they may change between rounds.
        properties = self.form.schema["properties"]
        fields = {name: {**field, "default": None} for name, field in properties.items()}
        return [self.message, fields]

    def read(self, answer: Mapping[str, Any]) -> ElicitResult[Any]:
        action = _action(answer)
        if action != "accept":
            return ElicitResult(action)
        content = answer.get("content")
        if not isinstance(content, dict):
            raise FormError(["The form was accepted without content."])
        return ElicitResult(action, self.form.validate(content))

    def again(self, problems: Sequence[str]) -> dict[str, Any]:
        return {**self.params, "message": f"{self.message}\n\n{' '.join(problems)}"}


class URLElicitation(Question[ElicitResult[None]]):
    """A page for the person to visit (2026-07-28, Elicitation, URL Mode).

    ``accept`` means that they agreed to open it, not that they finished there. The page must verify that its visitor is
    the user who was asked, and the URL must not sign anyone in.

    Args:
        message: the reason for asking.
        url: URL of the page.
        key: see ``Question``.
    """

    method = "elicitation/create"
    needs = "elicitation.url"

    def __init__(self, message: str, url: str, *, key: str | None = None) -> None:
        self.message = sendable(str(message))
        self.url = check_uri(url)
        self.key = key

    @cached_property
    def params(self) -> dict[str, Any]:
        return {"mode": "url", "message": self.message, "url": self.url}

    def read(self, answer: Mapping[str, Any]) -> ElicitResult[None]:
        return ElicitResult(_action(answer))


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """A message of the client's model.

    Attributes:
        content: blocks: text, images, audio, or tool uses.
        model: name of the model.
        stop_reason: such as ``"endTurn"``, ``"maxTokens"`` or ``"toolUse"``.
    """

    content: Sequence[Content]
    model: str = ""
    stop_reason: str | None = None
    role: Literal["user", "assistant"] = "assistant"

    @property
    def text(self) -> str:
        """Return all text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


class Sampling(Question[SamplingResult]):
    """A request to the client's model (2026-07-28, Sampling).

    Args:
        messages: a str, a content block, a ``PromptMessage``, an earlier ``SamplingResult``, a ``SamplingMessage`` as a
            mapping, or a list of these.
        max_tokens: maximum number of tokens to generate.
        system_prompt, temperature, stop_sequences, model_preferences: as specified; the client may ignore them.
        tools: ``Tool`` definitions as mappings; requires ``sampling.tools``.
        tool_choice: ``{"mode": "auto" | "required" | "none"}``.
        key: see ``Question``.
    """

    method = "sampling/createMessage"

    def __init__(
        self,
        messages: Any,
        *,
        max_tokens: int = 1000,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] = (),
        model_preferences: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> None:
        self.messages = messages if isinstance(messages, list | tuple) else [messages]
        self.key = key
        self.needs = "sampling.tools" if tools or tool_choice else "sampling"
        self.options = {
            "maxTokens": max_tokens,
            "systemPrompt": system_prompt,
            "temperature": temperature,
            "stopSequences": list(stop_sequences) or None,
            "modelPreferences": model_preferences,
            "tools": [dict(tool) for tool in tools] or None,
            "toolChoice": tool_choice,
        }

    @cached_property
    def params(self) -> dict[str, Any]:
        given = {key: value for key, value in self.options.items() if value is not None}
        return cast("dict[str, Any]", sendable({"messages": [_message(message) for message in self.messages], **given}))

    def binary_characters(self) -> int:
        contents = [message.get("content") for message in self.params["messages"]]
        blocks = [block for content in contents for block in (content if isinstance(content, list) else [content])]
        held = [block.get("resource", block) for block in blocks if isinstance(block, Mapping)]
        data = [part.get("data", part.get("blob")) for part in held if isinstance(part, Mapping)]
        return sum(len(text) for text in data if isinstance(text, str))

    def read(self, answer: Mapping[str, Any]) -> SamplingResult:
        blocks = answer.get("content")
        blocks = blocks if isinstance(blocks, list) else [blocks]
        try:
            content = tuple(read_content(block) for block in blocks)
        except ValueError as error:
            raise InvalidParams(f"The answer to sampling/createMessage has unreadable content: {error}") from None
        model, stop, role = answer.get("model"), answer.get("stopReason"), answer.get("role")
        return SamplingResult(
            content,
            model if isinstance(model, str) else "",
            stop if isinstance(stop, str) else None,
            "user" if role == "user" else "assistant",
        )


@dataclass(frozen=True, slots=True)
class Root:
    """A location, such as a folder, in which the client's user wants work to be done."""

    uri: str
    name: str = ""


class Roots(Question[list[Root]]):
    """The client's roots (2026-07-28, Roots)."""

    method = "roots/list"
    needs = "roots"

    def __init__(self, *, key: str | None = None) -> None:
        self.key = key

    @cached_property
    def params(self) -> dict[str, Any]:
        return {}

    def read(self, answer: Mapping[str, Any]) -> list[Root]:
        roots = answer.get("roots")
        if not isinstance(roots, list) or not all(isinstance(root, dict) for root in roots):
            raise InvalidParams('The answer to roots/list must have "roots", an array of objects.')
        return [Root(str(root.get("uri", "")), str(root.get("name") or "")) for root in roots]


def raw(key: str, answer: Any) -> Mapping[str, Any]:
    """Return the client's result for a question.

    Raises:
        InvalidParams: not an object.
        ToolError: the client answered with an error.
    """
    if not isinstance(answer, dict):
        raise InvalidParams(f"The answer to {key!r} must be an object, the result of the request it answers.")
    error = answer.get("error")
    if isinstance(error, dict) and "message" in error:
        raise ToolError(f"The client could not answer: {str(error['message'])[:500]}")
    return answer


def _action(answer: Mapping[str, Any]) -> Action:
    match answer.get("action"):
        case "accept" | "decline" | "cancel" as action:
            return action  # type: ignore[no-any-return]
    raise InvalidParams('The answer to elicitation/create must have "action": "accept", "decline" or "cancel".')


def _message(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, SamplingResult):
        blocks = [block.to_wire() for block in given.content]
        return {"role": given.role, "content": blocks[0] if len(blocks) == 1 else blocks}
    if isinstance(given, PromptMessage):
        return given.to_wire()
    return PromptMessage(given).to_wire()
