"""Questions to the client, their answers, and the state between rounds.

A tool that asks is run again from the top with the answers so far. Between two rounds nothing of it is kept but
this: for one kind of client in a signed string that travels with the question, for the other in the database.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

from django_mcp.primitives.base import FormError, ToolError, sendable
from django_mcp.protocol.content import Content, PromptMessage, TextContent, check_uri, read_content
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import encode

MAX_TRIES = 3
"""How often a question is asked before answers that do not fit end the call."""


MAX_ROUNDS = 25
"""How often a call may ask; more is a question that is never the same twice."""


class InputRequired(BaseException):
    """Ends a round: the call needs answers first.

    No ``Exception``, so that an ``except Exception`` in a tool lets it through.

    Args:
        requests: question's key -> ``{"method": …, "params": …}`` (2026-07-28, InputRequests).
    """

    def __init__(self, requests: dict[str, dict[str, Any]]) -> None:
        super().__init__(", ".join(requests))
        self.requests = requests


class Dialogue:
    """Questions and answers of one call.

    Attributes:
        id: of the call, the same in all rounds; unguessable.
        round: 0 for the first.
        answers: question's key -> the client's result, as it came.
        asked: question's key -> the digest of the question it answers.
        tries: question's key -> how many answers did not fit.
        progress: what was reported last, where all rounds are one request to the client.
        task: the id of the task that asks, where the call waits for one.
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
        """Made when first asked for: most calls ask nothing."""
        if self._id is None:
            self._id = secrets.token_urlsafe(16)
        return self._id

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Add what the client said. It may answer more than it was asked, and again."""
        self.answers.update(responses)

    def to_json(self) -> dict[str, Any]:
        """For the next round; ``Dialogue(**…)`` reads it."""
        saved: dict[str, Any] = {
            "id": self.id,
            "round": self.round + 1,
            "answers": self.answers,
            "asked": self.asked,
            "tries": self.tries,
        }
        return saved if self.task is None else {**saved, "task": self.task}


def merged(group: BaseExceptionGroup[Any]) -> InputRequired | None:
    """One exception for what the tasks of a ``TaskGroup`` asked side by side; None where another failed."""
    asking, others = group.split(InputRequired)
    if asking is None or others is not None:
        return None
    requests: dict[str, dict[str, Any]] = {}
    waiting: list[BaseException] = [asking]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        elif isinstance(each, InputRequired):
            requests.update(each.requests)
    return InputRequired(requests)


T = TypeVar("T")

Action = Literal["accept", "decline", "cancel"]


class Question(Generic[T]):
    """A request to the client.

    Attributes:
        key: names the question among those of its call; by default made from its words, so that an answer never
            serves another question than the one the person saw.
        method: the JSON-RPC method.
        needs: the client capability, like ``"elicitation.url"``.
    """

    method: ClassVar[str]
    needs: str
    key: str | None

    @cached_property
    def params(self) -> dict[str, Any]:
        """The request's parameters."""
        raise NotImplementedError

    def read(self, answer: Mapping[str, Any]) -> T:
        """The value of an answer.

        Raises:
            FormError: it does not fit what was asked; the question may be put again.
            InvalidParams: it is no answer to this kind of question.
        """
        raise NotImplementedError

    def again(self, problems: Sequence[str]) -> dict[str, Any]:
        """The parameters with which to ask once more, after an answer that did not fit."""
        del problems
        return self.params

    @cached_property
    def digest(self) -> str:
        """Of all that is asked."""
        return hashlib.sha256(encode([self.method, self.essence])).hexdigest()[:16]

    @property
    def essence(self) -> Any:
        """What makes it this question and no other."""
        return self.params

    @property
    def required(self) -> dict[str, dict[str, Any]]:
        """``needs`` as a ``ClientCapabilities`` object."""
        whole, _, part = self.needs.partition(".")
        return {whole: {part: {}} if part else {}}

    @property
    def refusal(self) -> str:
        """The words for a client that did not declare it."""
        return f"This call requires a client that supports {self.needs!r}. Your client did not declare this capability."


@dataclass(frozen=True, slots=True)
class ElicitResult(Generic[T]):
    """What a person did with an elicitation.

    Attributes:
        action: ``"accept"``, ``"decline"`` (they said no) or ``"cancel"`` (they closed it without a choice).
        data: what they filled in, checked: an instance of the pydantic model, a Django form's ``cleaned_data``, or a
            dict; None unless accepted.
    """

    action: Action
    data: T | None = None

    @property
    def accepted(self) -> bool:
        """Whether they said yes."""
        return self.action == "accept"


class Elicitation(Question[ElicitResult[Any]]):
    """A form for the person at the client (2026-07-28, Elicitation, Form Mode).

    Never for secrets: what is filled in passes through the client. ``URLElicitation`` is for those.

    Args:
        message: why they are asked.
        schema: a pydantic model or Django form class with flat fields, or a JSON Schema of the allowed shape.
        key: see ``Question``.
    """

    method = "elicitation/create"
    needs = "elicitation"

    def __init__(self, message: str, schema: Any, *, key: str | None = None) -> None:
        self.message = sendable(str(message))
        from django_mcp.primitives.elicitation_schema import form_schema  # noqa: PLC0415 - most sites ask nothing

        self.form = form_schema(schema)
        self.key = key

    @cached_property
    def params(self) -> dict[str, Any]:
        """Without ``mode``, which older clients do not know and newer ones take for ``form``."""
        return {"message": self.message, "requestedSchema": self.form.schema}

    @property
    def essence(self) -> Any:
        """The words and the fields; not what they are filled with beforehand, which may be the time of day."""
        properties = self.form.schema["properties"]
        fields = {name: {**field, "default": None} for name, field in properties.items()}
        return [self.message, fields]

    def read(self, answer: Mapping[str, Any]) -> ElicitResult[Any]:
        """What they did, with what they filled in."""
        action = _action(answer)
        if action != "accept":
            return ElicitResult(action)
        content = answer.get("content")
        if not isinstance(content, dict):
            raise FormError(["The form was accepted without content."])
        return ElicitResult(action, self.form.validate(content))

    def again(self, problems: Sequence[str]) -> dict[str, Any]:
        """The same form, with what was wrong."""
        return {**self.params, "message": f"{self.message}\n\n{' '.join(problems)}"}


class URLElicitation(Question[ElicitResult[None]]):
    """A page the person is to visit (2026-07-28, Elicitation, URL Mode).

    ``accept`` means that they agreed to open it, not that they are done there. The page must make sure that whoever
    opens it is the user who was asked, and the URL must not log anybody in.

    Args:
        message: why they should.
        url: of the page.
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
        """``mode`` is ``url``."""
        return {"mode": "url", "message": self.message, "url": self.url}

    def read(self, answer: Mapping[str, Any]) -> ElicitResult[None]:
        """What they did."""
        return ElicitResult(_action(answer))


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """What the client's model said.

    Attributes:
        content: blocks: text, images, sound, or the tools it wants to use.
        model: its name.
        stop_reason: like ``"endTurn"``, ``"maxTokens"`` or ``"toolUse"``.
    """

    content: Sequence[Content]
    model: str = ""
    stop_reason: str | None = None
    role: Literal["user", "assistant"] = "assistant"

    @property
    def text(self) -> str:
        """All text blocks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


class Sampling(Question[SamplingResult]):
    """A request to the client's model (2026-07-28, Sampling).

    Args:
        messages: a str, a content block, a ``PromptMessage``, an earlier ``SamplingResult``, a ``SamplingMessage`` as a
            mapping, or a list of these.
        max_tokens: the most the model may write.
        system_prompt, temperature, stop_sequences, model_preferences: as the specification has them; the client
            may change or ignore them.
        tools: ``Tool`` definitions as mappings; needs a client with ``sampling.tools``.
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
            "tools": [dict(each) for each in tools] or None,
            "toolChoice": tool_choice,
        }

    @cached_property
    def params(self) -> dict[str, Any]:
        """Options that were not given are left out."""
        given = {key: value for key, value in self.options.items() if value is not None}
        return cast("dict[str, Any]", sendable({"messages": [_message(each) for each in self.messages], **given}))

    def read(self, answer: Mapping[str, Any]) -> SamplingResult:
        """The model's message."""
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
    """A folder or the like within which the client's user wants work to be done."""

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
        """None."""
        return {}

    def read(self, answer: Mapping[str, Any]) -> list[Root]:
        """The roots."""
        roots = answer.get("roots")
        if not isinstance(roots, list) or not all(isinstance(each, dict) for each in roots):
            raise InvalidParams('The answer to roots/list must have "roots", an array of objects.')
        return [Root(str(each.get("uri", "")), str(each.get("name") or "")) for each in roots]


def raw(key: str, answer: Any) -> Mapping[str, Any]:
    """The client's result for a question.

    Raises:
        InvalidParams: it is no object.
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
