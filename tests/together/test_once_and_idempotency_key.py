"""What ``ctx.once`` did is known as long as the key or call that guards it, whenever ``mcp_clear`` runs."""

# ruff: noqa: F811 - fixtures are imported

import datetime
from typing import Any

import pytest
from django.db.models import F
from django.test import override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core.elicitation import Dialogue
from django_mcp.models import Approval, Call, Event, PendingRequest, Session, Step, Task
from django_mcp.pubsub.cleanup import clear
from django_mcp.tasks import store
from django_mcp.tasks.channel import TaskChannel
from tests.behaviour.conftest import room, talk  # noqa: F401 - fixtures
from tests.behaviour.test_idempotency import OURS, server  # noqa: F401 - likewise: callers can be told apart
from tests.clients import LEGACY
from tests.conversation import Conversation, accept
from tests.exchange import Room

pytestmark = [pytest.mark.postgresql, pytest.mark.usefixtures("open_database"), pytest.mark.mariadb]

YES = accept(confirm=True)
HOUR = 3600


def lifetimes(**seconds: int) -> Any:
    return override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], **seconds})


LIFETIMES = [
    pytest.param({"IDEMPOTENCY_TTL": HOUR, "ELICITATION_TTL": 1, "TASK_TTL": 1}, id="the key lives longer"),
    pytest.param({"IDEMPOTENCY_TTL": HOUR, "ELICITATION_TTL": HOUR, "TASK_TTL": 24 * HOUR}, id="a call lives longer"),
]


@pytest.fixture(params=["cleared", "uncleared"])
def pass_time(request: pytest.FixtureRequest) -> Any:
    """Makes all that expires older, and deletes what has expired, or does not."""

    def pass_time(seconds: float) -> None:
        for model in (Step, Call, Session, Event, Task, Approval):
            model.objects.update(expires=F("expires") - datetime.timedelta(seconds=seconds))
        if request.param == "cleared":
            clear()

    return pass_time


@pytest.fixture
def charges(server: MCPServer) -> list[str]:
    """What was charged by a tool that charges and fails."""
    charges: list[str] = []

    @tool(server=server)
    def pay(ctx: Context) -> str:
        ctx.once("charge", lambda: charges.append("charged"))
        raise ToolError("The printer is on fire.")

    return charges


@pytest.mark.parametrize("seconds", LIFETIMES)
def test_each_retry_under_a_key_lets_its_acts_live_on(
    talk: Conversation,
    charges: list[str],
    pass_time: Any,
    seconds: dict[str, int],
) -> None:
    with lifetimes(**seconds):
        for _ in range(4):
            assert talk.call("pay", meta=OURS).text == "The printer is on fire."
            pass_time(0.9 * HOUR)
    assert charges == ["charged"]


@pytest.mark.parametrize("seconds", LIFETIMES)
def test_a_call_after_the_key_expired_is_a_new_call(
    talk: Conversation,
    charges: list[str],
    pass_time: Any,
    seconds: dict[str, int],
) -> None:
    with lifetimes(**seconds):
        for _ in range(2):
            talk.call("pay", meta=OURS)
            pass_time(HOUR)
    assert charges == ["charged"] * 2


@pytest.mark.every_way_in
@lifetimes(ELICITATION_TTL=HOUR, TASK_TTL=60, IDEMPOTENCY_TTL=60)
def test_an_act_is_known_in_all_rounds_of_a_call(server: MCPServer, talk: Conversation, pass_time: Any) -> None:
    charges: list[str] = []

    @tool(server=server)
    def pay(ctx: Context) -> str:
        ctx.once("charge", lambda: charges.append("charged"))
        for number in range(5):
            ctx.confirm(f"Sure, {number}?")
        return "paid"

    def answer(_: Any) -> Any:
        pass_time(0.9 * HOUR)
        return YES

    assert talk.call("pay", answers=answer).text == "paid"
    assert charges == ["charged"]


@lifetimes(ELICITATION_TTL=60, TASK_TTL=HOUR)
def test_an_act_of_a_task_is_known_as_long_as_the_task_may_run_again(pass_time: Any) -> None:
    """As one that waited for its approval before it ran."""
    charges: list[int] = []
    task = store.create(server="s", tool="t", principal_kind="k", principal_id="i", request={}, backend="process")
    task.expires = timezone.now() + datetime.timedelta(hours=24)
    task.save()
    dialogue = Dialogue("d")
    for _ in range(2):
        TaskChannel(task, dialogue).once("charge", lambda: charges.append(1))
        pass_time(23 * HOUR)
    assert charges == [1]


@lifetimes(IDEMPOTENCY_TTL=HOUR, ELICITATION_TTL=60, TASK_TTL=60)
def test_a_task_that_begins_late_lets_the_acts_of_its_key_live_on(pass_time: Any) -> None:
    """The first task of a key failed after its act; the second waits in the queue."""
    task = store.create(server="s", tool="t", principal_kind="k", principal_id="i", request={}, backend="process")
    call, arguments, charges = "c" * 64, "a" * 64, list[int]()

    def attempt(task_id: str, before: str | None) -> None:
        channel = TaskChannel(task, Dialogue(task_id))
        channel.task.task_id = task_id
        record = channel.idempotency(call, arguments)
        assert record.store_task(task_id, before)
        pass_time(0.5 * HOUR)
        assert record.claim() is None
        channel.step_key = record.step_key
        channel.once("charge", lambda: charges.append(1))
        record.release()
        pass_time(0.9 * HOUR)
        assert record.task() == task_id

    attempt("first", None)
    attempt("second", "first")
    assert charges == [1]


@lifetimes(ELICITATION_TTL=HOUR)
def test_a_question_waits_its_whole_time_and_no_longer(server: MCPServer, room: Room, pass_time: Any) -> None:
    """A call of an older version began long before it asked."""
    runs: list[str] = []

    @tool(server=server)
    def slow(ctx: Context) -> str:
        ctx.report_progress(1)
        runs.append("run")
        return str(ctx.confirm("Sure?"))

    for seconds, is_in_time in [(0.9 * HOUR, True), (HOUR, False)]:
        older = Conversation(room, LEGACY)
        runs.clear()
        call = older.begin_call("slow")
        question = next(message for message in call if "method" in message and "id" in message)
        pass_time(seconds)
        Session.objects.update(expires=timezone.now() + datetime.timedelta(hours=1))
        older.reply(question, YES)
        if is_in_time:
            assert [message["result"] for message in call if "result" in message]
        assert not PendingRequest.objects.filter(answer__isnull=False).exists()  # those of calls that ended are gone
        assert len(runs) == 1 + is_in_time
