"""Make a call from the playground in this process, and show its result as a model sees it."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_mcp.admin.display import MOST_CHARACTERS
from django_mcp.approvals.messages import PAGE
from django_mcp.auth.log_filter import redact
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.context import Context
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import Dialogue, InputRequired
from django_mcp.core.principal import Principal
from django_mcp.core.redaction import visible
from django_mcp.core.server import MCPServer
from django_mcp.models import Approval, Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.protocol.jsonrpc import Result, UnencodableResult, encode
from django_mcp.protocol.meta import APPROVAL
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


IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that are shown. Others can hold scripts, or are not known everywhere."""
MOST_IMAGE = 2_000_000
"""Bytes of an image that is shown."""
MOST_BLOCKS = 100
"""Content blocks, messages or contents that are shown."""
MOST_WORDS = 300
"""Characters of a name or description that are shown."""
WAITING = frozenset({"approval_required", "pending"})

Block = dict[str, Any]
Reader = Callable[[str], str]
"""Gives the address of the page that reads a resource."""


class Shown:
    """A result or error, for the template.

    Args:
        fields: the result; None where there is an error.
        error: in place of it.
        reads: for links to resources.
    """

    def __init__(self, fields: Mapping[str, Any] | None, error: ProtocolError | None, reads: Reader) -> None:
        self.fields, self.error = fields or {}, error
        self._reads = reads

    @property
    def is_error(self) -> bool:
        """Whether the model reads it as one."""
        return self.fields.get("isError") is True

    @property
    def error_text(self) -> SafeString:
        """The words of a protocol error."""
        return text_of(self.error.message if self.error else "")

    @property
    def approval(self) -> Mapping[str, Any] | None:
        """Where the call waits for somebody to approve it."""
        found = (self.fields.get("_meta") or {}).get(APPROVAL)
        if not isinstance(found, Mapping) or found.get("kind") not in WAITING:
            return None
        approval = Approval.objects.filter(ticket=str(found.get("ticket") or "")).first()
        # Made anew, for any tool may write into _meta what it likes.
        return {**found, "url": "" if approval is None else reverse(PAGE, args=[approval.pk])}

    @property
    def blocks(self) -> list[Block]:
        """Content of a tool's result, or contents of a resource."""
        found = _dicts(self.fields.get("content")) + [
            {"type": "resource", "resource": each} for each in _dicts(self.fields.get("contents"))
        ]
        return [self._block(each) for each in found[:MOST_BLOCKS]]

    @property
    def messages(self) -> list[tuple[str, Block]]:
        """Of a prompt: who speaks, and what."""
        found = _dicts(self.fields.get("messages"))[:MOST_BLOCKS]
        return [(str(each.get("role")), self._block(each.get("content"))) for each in found]

    @property
    def left_out(self) -> int:
        """How many blocks are not shown."""
        lists = (self.fields.get(name) or () for name in ("content", "contents", "messages"))
        return max(0, sum(map(len, lists)) - MOST_BLOCKS)

    @property
    def structured(self) -> SafeString | None:
        """``structuredContent``."""
        return json_of(self.fields["structuredContent"]) if "structuredContent" in self.fields else None

    @property
    def meta(self) -> SafeString | None:
        """``_meta``."""
        return json_of(self.fields["_meta"]) if self.fields.get("_meta") else None

    @property
    def raw(self) -> SafeString:
        """All of it."""
        return json_of(self.error.to_wire() if self.error else self.fields)

    def _block(self, block: Any) -> Block:
        match block:
            case {"type": "text", "text": str(text)}:
                return {"kind": "text", "text": text_of(text)}
            case {"type": "image", "data": str(data)}:
                return _image(data, str(block.get("mimeType")))
            case {"type": "audio", "data": str(data)}:
                return _note(_("Sound: %(type)s, %(size)s") % _measured(data, str(block.get("mimeType"))))
            case {"type": "resource_link", "uri": str(uri)}:
                return {**_words_of(block), "kind": "link", "uri": visible(uri), "href": self._reads(uri)}
            case {"type": "resource", "resource": {"uri": str(uri)}}:
                inner = block["resource"]
                return {**_words_of(inner), "kind": "resource", "uri": visible(uri), "inner": _contents(inner)}
        return {"kind": "text", "text": json_of(block)}


def _contents(contents: Mapping[str, Any]) -> Block:
    match contents:
        case {"text": str(text)}:
            return {"kind": "text", "text": text_of(text)}
        case {"blob": str(data)}:
            return _image(data, str(contents.get("mimeType")))
    return {"kind": "text", "text": json_of(contents)}


def _image(data: str, mime_type: str) -> Block:
    """An image; a note of what it is where it is none that is shown."""
    words = _("Binary: %(type)s, %(size)s") % _measured(data, mime_type)
    if mime_type not in IMAGES or len(data) > MOST_IMAGE * 4 // 3:
        return _note(words)
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return _note(_("An image that is no Base64"))
    words = _("Image: %(type)s, %(size)s") % _measured(data, mime_type)
    return {"kind": "image", "src": f"data:{mime_type};base64,{data}", "words": words}


def _measured(data: str, mime_type: str) -> dict[str, str]:
    return {"type": visible(mime_type[:100]), "size": filesizeformat(len(data) * 3 // 4 - data[-2:].count("="))}


def _note(words: str) -> Block:
    return {"kind": "note", "words": words}


def _words_of(block: Mapping[str, Any]) -> Block:
    found = {name: block.get(name) for name in ("name", "title", "description", "mimeType")}
    return {name: visible(redact(value)[:MOST_WORDS]) for name, value in found.items() if isinstance(value, str)}


def _dicts(value: Any) -> list[Any]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def text_of(text: str) -> SafeString:
    """A text as it stands, but for credentials and what would make a reader see something else than there is."""
    shown = visible(redact(text)[:MOST_CHARACTERS])
    if len(text) > MOST_CHARACTERS:
        shown += "\n" + _("… and %d characters more.") % (len(text) - MOST_CHARACTERS)
    return format_html('<pre class="mcp-try-value" translate="no" dir="auto" tabindex="0">{}</pre>', shown)


def json_of(value: Any) -> SafeString:
    """A JSON value, indented, in its own order."""
    return text_of(json.dumps(value, indent=2, ensure_ascii=False))


def said_of(outcome: Outcome) -> list[tuple[str, str]]:
    """What a tool told while it ran: the level, and the words."""
    return [
        (level, visible(redact(f"{logger}: {_words(data)}" if logger else _words(data))[:2000]))
        for level, logger, data in outcome.said
    ]


def _words(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
