"""Calls as clients make them, and what a site does beside them: whatever queries these lead to are looked at."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.growth.callers import TOKEN, WITHIN
from benchmarks.growth.watching import Watch, unseen
from benchmarks.scale.client import TASKS, Client

PATH = "/mcp"
BATCH = 50
"""Rows of each table that are cleared at once: as many at each size, for there have to be so many each time."""
Act = Callable[[Client, str], object]
"""What a client does; the second argument is a word that is not used twice."""


def call_with_key(client: Client, word: str) -> None:
    """A modern call; policies are read again, and the use of the key is noted."""
    from django_mcp.core.policies import policy_cache  # noqa: PLC0415 - Django is set up
    from django_mcp.models import APIKey  # noqa: PLC0415

    with unseen():
        APIKey.objects.filter(name="growth").update(last_used=None)
    policy_cache.expire()
    assert client.call("add", a=len(word), b=1)["structuredContent"] == len(word) + 1


def call_with_token(client: Client, word: str) -> None:
    """A modern call with an OAuth token."""
    from dataclasses import replace  # noqa: PLC0415

    replace(client, credential=TOKEN).call("add", a=len(word), b=1)


def call_in_session(client: Client, word: str) -> None:
    """A session from its beginning to its end, with a call in it, and a stream of changes."""
    from django_mcp.revisions.legacy import sessions  # noqa: PLC0415 - Django is set up

    sessions.CLEAR_EVERY = 10**9  # clearing is looked at by itself
    talk = client.open()
    talk.call("add", a=1, b=len(word))
    stream = talk.listen()
    events = stream.events()
    first = next(events)
    client.call("announce")
    told = next(events)
    assert told.message["method"].endswith("list_changed"), told
    stream.close()
    with talk.listen(first.id) as resumed:
        events = resumed.events()
        assert next(each for each in events if each.message).message == told.message
    talk.leave()


def ask_in_session(client: Client, word: str) -> None:
    """A question in a stream, its answer, and the stream taken up again."""
    talk = client.open()
    with talk.legacy("tools/call", {"name": "ask", "arguments": {"what": word}}) as reply:
        question = next(each for each in reply.events() if each.message.get("method") == "elicitation/create")
        talk.answer(question.message, {"value": word})
    with talk.listen(question.id) as resumed:
        assert any("result" in each.message for each in resumed.events())
    with talk.legacy("tools/call", {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": 1}}) as reply:
        assert sum(1 for each in reply.events() if each.message) == 4
    talk.legacy("notifications/cancelled", {"requestId": 1}).close()


def ask_modern(client: Client, word: str) -> None:
    """A question as a result, and the call made again with the answer."""
    asking = Client(client.port, PATH, capabilities={"elicitation": {}})
    params = {"name": "ask", "arguments": {"what": word}}
    asked = asking.modern("tools/call", params).result()
    answers = {key: {"action": "accept", "content": {"value": word}} for key in asked["inputRequests"]}
    again = {**params, "requestState": asked["requestState"], "inputResponses": answers}
    assert not asking.modern("tools/call", again).result().get("isError")


def repeat(client: Client, word: str) -> None:
    """A call with an idempotency key, twice."""
    assert client.call("put", key=word) == client.call("put", key=word)


def work(client: Client, word: str) -> None:
    """A task: made, asked for, listened to, listed and given up; and one that is waited for."""
    knowing = Client(client.port, PATH, capabilities={"extensions": {TASKS: {}}})
    params = {"name": "report", "arguments": {"pages": len(word)}}
    task_id = knowing.modern("tools/call", params).result()["taskId"]
    heard = knowing.modern("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    end = time.monotonic() + WITHIN
    while knowing.modern("tasks/get", {"taskId": task_id}).result()["status"] == "working":
        assert time.monotonic() < end
    heard.close()
    knowing.modern("tasks/cancel", {"taskId": task_id}).close()
    client.call("report", pages=len(word))
    talk = client.open()
    talk.legacy("tasks/list").close()
    talk.leave()


def ask_for_approval(client: Client, word: str) -> None:
    """A call that waits for approval, is approved and made; and one like it that is approved beforehand."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - Django is set up

    from django_mcp.approvals.decisions import approve  # noqa: PLC0415
    from django_mcp.models import Approval  # noqa: PLC0415

    params = {"name": "discard", "arguments": {"what": word}}
    client.modern("tools/call", params).close()
    with unseen():
        ticket = _soon(lambda: Approval.objects.filter(tool="discard").order_by("-pk")[0])
        approver = get_user_model()._default_manager.get(username="approver")  # noqa: SLF001 - Django's documented API
    assert approve(ticket, approver, names=["what"], calls=2, seconds=60)
    for _ in range(2):
        assert not client.modern("tools/call", params).result().get("isError")


def keep_house(client: Client, word: str) -> None:  # noqa: ARG001 - as all others
    """What a site does now and then, or processes do beside calls."""
    from django_mcp.approvals.approval_requests import expire_all  # noqa: PLC0415
    from django_mcp.approvals.notices import deliver_due, seconds_left  # noqa: PLC0415 - Django is set up
    from django_mcp.pubsub.cleanup import clear  # noqa: PLC0415
    from django_mcp.tasks.backends import recover_all  # noqa: PLC0415

    clear(BATCH)
    expire_all()
    recover_all()
    deliver_due()
    seconds_left()


ACTS: tuple[Act, ...] = (
    call_with_key,
    call_with_token,
    call_in_session,
    ask_in_session,
    ask_modern,
    repeat,
    work,
    ask_for_approval,
    keep_house,
)


def drive(watch: Watch, port: int, times: int, word: str) -> Iterator[str]:
    """Do everything so often, watched; the name of what comes next."""
    client = Client(port, PATH)
    for act in ACTS:
        yield act.__name__
        act(client, f"{word}-{act.__name__}-first")  # what is done once for all calls is done
        with watch.on(act.__name__.replace("_", " ")):
            for number in range(times):
                act(client, f"{word}-{act.__name__}-{number}")


def _soon(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + WITHIN
    while True:
        try:
            return look()
        except LookupError:
            assert time.monotonic() < end
