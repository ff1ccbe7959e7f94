"""A call from a page: in this process and thread, as whoever is logged in, and otherwise like any other."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest

from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.context import Context
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import Dialogue, InputRequired
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.protocol.jsonrpc import Result, UnencodableResult, encode
from django_mcp.pubsub.once import StepChannel
from django_mcp.tasks.extension import shown

CLIENT = {"name": "Django admin"}
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""Whoever looks at the page can be asked; there is no model, and there are no roots."""
MOST_SAID = 200
"""Messages and steps of progress that are kept."""
_KEPT = ("REMOTE_ADDR", "SCRIPT_NAME", "SERVER_NAME", "SERVER_PORT")
_NOT_KEPT = ("HTTP_REFERER", "HTTP_X_CSRFTOKEN")


@dataclass
class Outcome:
    """What came of a call.

    Attributes:
        fields: the result, as JSON has it.
        error: in place of one.
        questions: question's key -> request, where answers are needed first.
        task: id of the task that it became.
        said: what the tool told of itself meanwhile: ``(level, logger, data)``, or ``("progress", "", words)``.
        milliseconds: how long it took.
        size: of the result, in bytes of JSON.
    """

    fields: dict[str, Any] | None = None
    error: ProtocolError | None = None
    questions: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    said: list[tuple[str, str, Any]] = field(default_factory=list)
    milliseconds: float = 0.0
    size: int = 0


class PageChannel(StepChannel):
    """Keeps what the tool says for the page.

    Args:
        has_tasks: the tool's calls can go on in the background.
    """

    log_level = "debug"
    waits = False

    def __init__(self, *, has_tasks: bool = False) -> None:
        self.has_tasks = has_tasks
        self.said: list[tuple[str, str, Any]] = []
        self.task = ""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Keep a log message. Progress comes by ``note_progress``, whether or not a client asked for it.

        Raises:
            TypeError: it has no JSON form.
        """
        if method == "notifications/message":
            try:
                data = json.loads(encode(params["data"]))
            except UnencodableResult as error:
                msg = f"{method} cannot be sent as JSON: {error}"
                raise TypeError(msg) from None
            self._say(params["level"], params.get("logger", ""), data)

    def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep how far it is."""
        far = f"{progress:g}" if total is None else f"{progress:g} / {total:g}"
        self._say("progress", "", f"{far} {message or ''}".strip())

    def _say(self, level: str, logger: str, data: Any) -> None:
        if len(self.said) < MOST_SAID:
            self.said.append((level, logger, data))

    def wants_task(self, support: str) -> bool:  # noqa: ARG002 - the same for optional and required
        """A page cannot wait: whatever can go on in the background does."""
        return self.has_tasks

    def task_made(self, task: Task) -> Result:
        """What says which task it became."""
        self.task = task.task_id
        return Result({"resultType": "task", **shown(task)})


class PageRequest(HttpRequest):
    """The request of the page as tools get to see it: where the site is and who asks, without what was typed."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__()
        self.method = "POST"
        self.path, self.path_info = request.path, request.path_info
        self.META = {name: value for name, value in request.META.items() if _is_kept(name)}
        self.META["REQUEST_METHOD"] = "POST"
        self._page_scheme = request.scheme

    def _get_scheme(self) -> str | None:
        return self._page_scheme


def _is_kept(name: str) -> bool:
    return name in _KEPT or (name.startswith("HTTP_") and name not in _NOT_KEPT)


def principal_of(user: Any) -> Principal:
    """The caller: like one whom the endpoint knows by the session of the site."""
    return Principal(kind="session", id=str(user.pk), user=user)


def context_for(
    request: HttpRequest, server: MCPServer, method: str, params: dict[str, Any], channel: PageChannel | None = None
) -> Context:
    """The context of a call from a page."""
    made = PageRequest(request)
    return Context(
        server,
        principal_of(request.user),
        INLINE,
        lambda: made,
        "try",
        method,
        params,
        CLIENT,
        CAPABILITIES,
        channel or PageChannel(),
    )


def call(context: Context, dialogue: Dialogue | None = None) -> Outcome:
    """Serve a call.

    Args:
        context: of the call.
        dialogue: what was asked and answered before.
    """
    channel = context.channel
    assert isinstance(channel, PageChannel)  # noqa: S101
    if dialogue is not None:
        channel.dialogue = dialogue
    outcome, began = Outcome(said=channel.said), time.perf_counter()
    try:
        encoded = _encoded(run_inline(dispatch(context)))
        outcome.fields, outcome.size, outcome.task = json.loads(encoded), len(encoded), channel.task
    except InputRequired as needed:
        outcome.questions = json.loads(encode(needed.requests))
    except ProtocolError as error:
        outcome.error = error
    except Cancelled:
        outcome.error = InternalError("The call was cancelled.")
    outcome.milliseconds = (time.perf_counter() - began) * 1000
    return outcome


def _encoded(result: Result) -> bytes:
    try:
        return encode(result.fields)
    except UnencodableResult as error:
        raise InternalError(f"The result cannot be sent as JSON: {error}") from None
