"""Questions of a task on their way to a client that waits for its outcome, and the answers on their way back.

The task's own rows say what is open. Beside them is noted under which id whom was asked, so that each client that waits
is asked, and each once.
"""

import secrets
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from django_mcp.core import database
from django_mcp.core.channel import Channel
from django_mcp.eras.base import Event, Inbound, context_for
from django_mcp.eras.legacy.shapes import question
from django_mcp.eras.legacy.task_support import VERSION
from django_mcp.eras.legacy.tasks import related
from django_mcp.models import Call, PendingRequest, Task, TaskInput
from django_mcp.protocol.jsonrpc import JSONRPC, Request, encode
from django_mcp.tasks import store
from django_mcp.tasks.api import take_answers


class Asked(NamedTuple):
    """A question on its way to a client.

    Attributes:
        number: its place among all.
        event: the request, whose id says that the question was seen.
    """

    number: int
    event: Event


def unseen(task: Task, call: Call, seen: int) -> Sequence[Asked] | None:
    """The open questions of a task that did not reach a client yet. Blocks.

    Args:
        task: which asks.
        call: the client's, which waits.
        seen: the last question that did.

    Returns:
        them, in their order; None where the client does not wait any more.
    """
    with database.atomic():
        # Two streams of one client, the one it lost and the new one, note a question once.
        if not Call.objects.select_for_update().filter(pk=call.pk, status=Call.Status.ASKING).exists():
            return None
        asked = {each.key: each for each in call.questions.order_by("pk")}
        pairs = [(each, asked.get(each.key) or _noted(call, each)) for each in store.questions(task)]
    found = [Asked(pending.pk, _request(task, each, pending)) for each, pending in pairs if pending.pk > seen]
    return sorted(found, key=attrgetter("number"))


def _noted(call: Call, each: TaskInput) -> PendingRequest:
    return PendingRequest.objects.create(call=call, request_id=secrets.token_urlsafe(12), key=each.key)


def _request(task: Task, each: TaskInput, pending: PendingRequest) -> Event:
    asked = question(each.request, pending.request_id, VERSION)
    params = {**asked["params"], "_meta": {**asked["params"].get("_meta", {}), **related(task.task_id)}}
    message = {"jsonrpc": JSONRPC, "id": pending.request_id, **asked, "params": params}
    return Event(encode(message), id=event_id(pending.call, pending.pk))


def event_id(call: Call, seen: int) -> str:
    """Where a client goes on that saw a question, or 0 for none."""
    return f"{call.key}.{seen}"


def take(pending: PendingRequest, inbound: Inbound) -> None:
    """Give an answer to the task that asked. Blocks."""
    request = Request(pending.call.request_id, **pending.call.request)
    context = context_for(inbound, request, None, {}, Channel())
    response = pending.answer.get("result", pending.answer)  # or the error that the client answered with
    take_answers(context, request.params["taskId"], {pending.key: response})
