"""A stream goes on at another worker, with ``Last-Event-ID``: after a dropped connection, and after a dead worker."""

from collections.abc import Callable

from benchmarks.scale.client import Client, Event, Reply
from benchmarks.scale.stage import Stage, until

STEPS, SEEN = 100, 10
"""Events of a call, and how many are read before the connection is dropped."""
TRIES = 20


def dropped(stage: Stage, workers: int) -> str:
    """A call's stream, dropped and taken up at another worker.

    Raises:
        AssertionError: something is missing, comes twice, or no other worker had it.
    """
    client = stage.client(workers).open()
    params = {"name": "count", "arguments": {"to": STEPS}, "_meta": {"progressToken": 1}}
    with client.legacy("tools/call", params) as reply:
        first = reply.worker
        events = reply.events()
        seen = [each for _, each in zip(range(SEEN), events, strict=False)]
    resumed = elsewhere(lambda: client.listen(seen[-1].id), first)
    with resumed:
        seen += list(resumed.events())
    *progress, last = [each.message for each in seen if each.message]
    assert [each["params"]["progress"] for each in progress] == list(range(1, STEPS + 1)), "events are missing or twice"
    assert last["result"]["structuredContent"] == {"result": STEPS}, last
    return f"a call's stream of {STEPS} events: {SEEN} read at {first}, the rest at {resumed.worker}; each came once"


def killed(stage: Stage, workers: int) -> str:
    """A stream of changes, whose worker is killed: what happened meanwhile is told by another one.

    Raises:
        AssertionError: it is not.
    """
    client = stage.client(workers).open()
    ports = {f"127.0.0.1:{worker.port}": place for place, worker in enumerate(stage.workers)}
    with client.listen() as stream:
        events = stream.events()
        begun: Event = next(events)
        stage.kill(ports[stream.worker])
        assert list(events) == [], "a dead worker has nothing to say"
    announce(stage.client(workers))
    resumed = elsewhere(lambda: client.listen(begun.id), stream.worker)
    with resumed:
        told = next(each.message for each in resumed.events() if each.message)
    assert told["method"] == "notifications/tools/list_changed", told
    stage.revive(ports[stream.worker])
    return f"a stream of changes of {stream.worker}, killed: {resumed.worker} told what had happened meanwhile"


def announce(client: Client) -> None:
    """Have the endpoint say that its list of tools changed, whichever worker is there."""
    until(lambda: _works(client), "the change is announced")


def _works(client: Client) -> bool:
    with client.modern("tools/call", {"name": "announce", "arguments": {}}) as reply:
        return reply.status == 200


def elsewhere(ask: Callable[[], Reply], where: str) -> Reply:
    """The first good answer of a worker that is not the one named."""
    for _ in range(TRIES):
        reply = ask()
        if reply.status == 200 and reply.worker != where:
            return reply
        reply.close()
    raise AssertionError(f"no worker but {where} answered")
