"""The connection breaks in mid-stream: an older client comes back for the rest, a modern one has cancelled."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.conftest import Workers, until
from tests.faults.wire import Event, Legacy, Modern, Reply, text

STEPS = 100
THREADS = 8
"""As many calls of synchronous tools as can run at once."""
SPARE = 4


def some(reply: Reply, number: int) -> list[Event]:
    """The next events that carry messages; then the connection is dropped."""
    found: list[Event] = []
    with reply:
        while len(found) < number and (event := reply.event()) is not None:
            found += [event] if event.data else []
    return found


def test_no_event_of_a_call_is_lost_or_repeated_however_often_the_connection_breaks(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    seen = some(client.start("count", token=1, label=label, to=STEPS), 5)
    assert f"counted {label}" not in pair.journal(), "it was to be under way still"
    seen += some(client.at(pair[1]).listen(seen[-1].id), 5)
    seen += some(client.at(pair[0]).listen(seen[-1].id), 5)
    seen += some(client.at(pair[1]).listen(seen[-1].id), STEPS)

    *progress, result = [event.message for event in seen]
    assert [each["params"]["progress"] for each in progress] == list(range(1, STEPS + 1))
    assert text(result) == f"counted to {STEPS}"
    assert all(int(one.id.rpartition(".")[2]) < int(two.id.rpartition(".")[2]) for one, two in pairwise(seen))
    assert pair.journal().count(f"counted {label}") == 1


def test_a_call_whose_client_comes_back_after_its_end_is_told_all_it_missed(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    (first,) = some(client.start("count", token=1, label=label, to=10), 1)
    pair.saw(f"counted {label}")

    rest = [event.message for event in client.at(pair[1]).listen(first.id).events() if event.data]

    assert [each["params"]["progress"] for each in rest[:-1]] == list(range(2, 11))
    assert text(rest[-1]) == "counted to 10"


@pytest.mark.parametrize(("tool", "stopped"), [("wait_sync", "Cancelled"), ("wait_async", "CancelledError")])
def test_a_modern_client_that_goes_away_cancels_its_call(pair: Workers, label: str, tool: str, stopped: str) -> None:
    client = Modern(pair[0])
    hang_up(pair, client, tool, [label])

    pair.saw(f"{stopped} {label}, cancelled is True")
    assert text(client.call("notes", label=label)) == "0", "what the tool wrote is rolled back"


def hang_up(pair: Workers, client: Modern, tool: str, labels: list[str]) -> None:
    """Begin calls, and drop their connections."""
    connections = [client.start(tool, label=each) for each in labels]
    for each in labels:
        pair.saw(f"began {each}")
    for connection in connections:
        connection.close()


def test_fifty_cancelled_calls_leave_no_thread_and_no_database_connection_behind(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    rounds = [[f"{label}-{number}-{each}" for each in range(5)] for number in range(12)]

    def cancel(labels: list[str]) -> None:
        tool, stopped = ("wait_and_read", "Cancelled") if rounds.index(labels) % 2 else ("wait_async", "CancelledError")
        hang_up(pair, client, tool, labels)
        for each in labels:
            pair.saw(f"{stopped} {each}, cancelled is True")

    for labels in rounds[:2]:  # the threads there may be, and their connections, are made when first needed
        cancel(labels)
    before = idle(pair)
    for labels in rounds[2:]:
        cancel(labels)

    # A pool may have grown by a thread that the first rounds did not need; what each round leaves would be ten.
    most = [then + SPARE for then in before]
    until(lambda: all(now <= then for now, then in zip(idle(pair), most, strict=True)), f"{idle(pair)} <= {most}")
    assert text(client.call("plain_sync", word="fine")) == "fine"


def test_a_call_whose_client_left_before_a_thread_was_free_is_not_begun(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    others = client.tasks()
    busy = [client.start("wait_and_read", label=f"{label}-{number}") for number in range(THREADS)]
    for number in range(THREADS):
        pair.saw(f"began {label}-{number}")
    # Each call has a task, and a moment later one that watches its client.
    until(lambda: len(client.tasks() - others) == 2 * THREADS, "each client is watched")
    others |= client.tasks()
    late = client.start("wait_and_read", label=f"{label}-late")
    own = until(lambda: len(new := client.tasks() - others) == 2 and new, "its client is watched, too")

    late.close()
    until(lambda: not own & client.tasks(), "its end was noticed")
    for connection in busy:
        connection.close()
    for number in range(THREADS):
        pair.saw(f"Cancelled {label}-{number}, cancelled is True")

    assert text(client.call("plain_sync", word="next")) == "next"
    assert f"began {label}-late" not in pair.journal()


def idle(pair: Workers) -> tuple[int, int]:
    """Threads of the first process, and its open files, among them its connections to databases and clients."""
    process = Path(f"/proc/{pair.pid(0)}")
    return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))
