"""Calls that have to be approved, and what their callers read."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.db import connections
from django.http import HttpRequest

from django_mcp import MCPServer, Principal
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.context import Context
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import Dialogue
from django_mcp.core.request import CallSource
from django_mcp.models import Approval, ApprovalEvent, Task
from django_mcp.protocol.jsonrpc import Request, Result
from django_mcp.protocol.meta import ClientInfo
from django_mcp.pubsub.once import StepChannel
from django_mcp.tasks.worker import heartbeat
from tests.behaviour.users import as_user
from tests.clients import Answer, Client
from tests.exchange import eventually

T = TypeVar("T")
Calls = list[dict[str, Any]]
People = dict[str, Any]
META = "django-mcp/approval"
PAID = "Paid 5 to the-landlord."


def call(client: Client, user: Any, /, tool: str = "pay", **arguments: Any) -> Answer:
    """Call a tool as somebody."""
    return client.request("tools/call", {"name": tool, "arguments": arguments}, headers=as_user(user))


def kind_of(result: dict[str, Any]) -> str:
    """Why a call was not run."""
    assert result["isError"] is True, result
    assert META in result.get("_meta", {}), result
    told: str = result["_meta"][META]["kind"]
    return told


def kind(answer: Answer) -> str:
    return kind_of(answer.result)


def the_ticket() -> Approval:
    """The only one."""
    return Approval.objects.get()


def newest() -> Approval:
    found = Approval.objects.order_by("pk").last()
    assert found is not None
    return found


def events(approval: Approval) -> list[str]:
    """What happened to an approval request."""
    return list(ApprovalEvent.objects.filter(approval=approval).order_by("pk").values_list("kind", flat=True))


def serve(server: MCPServer, user: Any, name: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A call without the way there, in this thread: what its caller reads.

    Args:
        server: the endpoint.
        user: who calls.
        name: of the tool.
        arguments: of the call.
        options: ``client_id``, ``kind`` or ``id`` of the principal; ``channel``; the parameter ``task``.
    """
    channel: Channel = options.pop("channel", None) or StepChannel()
    if channel._dialogue is None:
        channel.dialogue = Dialogue()
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if "task" in options:
        params["task"] = options.pop("task")
    given = {"kind": "test", "id": getattr(user, "username", "nobody"), "user": user or AnonymousUser(), **options}
    info = ClientInfo("tests", "1")
    context = Context(
        CallSource(server, Principal(**given), INLINE, HttpRequest), Request(1, "tools/call", params), channel, info
    )
    return dict(run_inline(dispatch(context)).fields)


class WantsTask(StepChannel):
    """Of a client that knows tasks."""

    def wants_task(self, support: str) -> bool:
        return True

    def announce_task(self, task: Task) -> Result:
        return Result({"resultType": "task", "taskId": task.task_id})


def finished(task: Task) -> Task:
    """A task, once it is over and nobody is at it any more."""

    def look() -> bool:
        task.refresh_from_db()
        return task.is_over and not heartbeat.holds(task.task_id)

    eventually(look, f"{task} does not end")
    return task


def at_once(*jobs: Callable[[], T]) -> list[T | Exception]:
    """What several give that are done side by side, each in a thread of its own."""
    start = Barrier(len(jobs))

    def one(job: Callable[[], T]) -> T | Exception:
        try:
            start.wait(10)
            return job()
        except Exception as error:  # noqa: BLE001 - which is what it gives
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(one, jobs))


def texts(results: Iterable[dict[str, Any]]) -> list[str]:
    """What results say."""
    return [each["content"][0]["text"] for each in results]
