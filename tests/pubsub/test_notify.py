"""Notification of other processes: what it costs the writer, and what becomes of it while the layer is away."""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp.pubsub import event_store, follower, notify
from django_mcp.pubsub.notify import Listener, _Sender
from tests.exchange import WITHIN, eventually


class Layer:
    """A channel layer that counts what is sent, by event loop."""

    def __init__(self) -> None:
        self.sent: list[asyncio.AbstractEventLoop] = []
        self.may_send, self.sending = threading.Event(), threading.Event()
        self.may_send.set()
        self.error: Exception | None = None

    async def group_send(self, group: str, message: Any) -> None:
        self.sending.set()
        while not self.may_send.is_set():  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.001)
        self.sent.append(asyncio.get_running_loop())
        if self.error is not None:
            raise self.error


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Layer]:
    made, sender = Layer(), _Sender()
    monkeypatch.setattr(notify, "shared_layer", lambda: made)
    monkeypatch.setattr(notify, "_sender", sender)
    monkeypatch.setattr(notify, "_outage", notify._Outage())
    yield made
    made.may_send.set()
    sender.flush()


def test_a_thousand_notices_without_an_event_loop_are_sent_over_one_connection(layer: Layer) -> None:
    for _ in range(1000):
        notify.notify_readers()
    notify._sender.flush()
    assert len(set(layer.sent)) == 1, "a layer has a connection for each event loop"
    assert 1 <= len(layer.sent) <= 1000


def test_a_writer_does_not_wait_for_the_layer_and_nothing_piles_up(layer: Layer) -> None:
    layer.may_send.clear()
    notify.notify_readers()
    assert layer.sending.wait(WITHIN)
    for _ in range(1000):
        notify.notify_readers()
    layer.may_send.set()
    notify._sender.flush()
    assert len(layer.sent) == 2, "all that came meanwhile are one"


def test_a_layer_that_is_away_costs_one_connection_a_second(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    paused, may_go_on = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        assert seconds == notify.RETRY_SECONDS
        paused.set()
        assert may_go_on.wait(WITHIN)

    monkeypatch.setattr(notify.time, "sleep", pause)
    layer.error = ConnectionError("refused")
    notify.notify_readers()
    assert paused.wait(WITHIN)
    for _ in range(100):
        notify.notify_readers()
    assert len(layer.sent) == 2, "it was tried again once"
    layer.error = None
    may_go_on.set()
    notify._sender.flush()
    assert len(layer.sent) == 3
    assert [record.levelname for record in caplog.records if "channel layer" in record.message] == ["WARNING"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 warns of threads
def test_a_process_that_was_forked_notifies_too(layer: Layer) -> None:
    notify.notify_readers()
    notify._sender.flush()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        notify.notify_readers()
        notify._sender.flush()
        os.write(write, b"sent" if len(layer.sent) == 2 else b"not sent")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"sent"
    for each in (read, write):
        os.close(each)


def test_whatever_comes_out_of_a_layer_costs_one_notice(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "RETRY_SECONDS", 0)
    layer.error = asyncio.CancelledError()  # type: ignore[assignment] # as of a task that was cancelled elsewhere
    notify.notify_readers()
    notify._sender.flush()
    layer.error = None
    notify.notify_readers()
    notify._sender.flush()
    assert len(layer.sent) == 2
    assert not notify.is_layer_unavailable()


def test_a_thread_that_cannot_be_started_costs_one_notice(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", fail)
        notify.notify_readers()
    notify.notify_readers()
    notify._sender.flush()
    assert len(layer.sent) == 1


@pytest.mark.usefixtures("open_database")
def test_event_loops_that_are_closed_are_not_kept() -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def listen() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        subscription = await follower.follow("a topic")
        await asyncio.to_thread(event_store.append, [("a topic", "x")])
        async for entry in subscription.entries():
            if entry is not None:
                subscription.close()

    for _ in range(5):
        asyncio.run(asyncio.wait_for(listen(), WITHIN))
    gc.collect()
    assert [each for each in loops if each() is not None] == []


LAYERS = ["channels_redis.core.RedisChannelLayer", "channels_redis.pubsub.RedisPubSubChannelLayer"]


@pytest.mark.needs("REDIS_URL")
@pytest.mark.parametrize("backend", LAYERS)
def test_a_layer_of_redis_is_used_again_after_the_last_stream_and_after_an_hour(
    settings: Any, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": backend, "CONFIG": {"hosts": [os.environ["REDIS_URL"]], "prefix": "test-notify"}}
    }
    monkeypatch.setattr(notify, "_outage", notify._Outage())

    async def main() -> None:
        heard = asyncio.Event()
        listener = Listener(heard.set)

        async def until_it_works() -> None:
            async with asyncio.timeout(WITHIN):
                while not listener.works:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.005)

        async def is_heard() -> None:
            heard.clear()
            await notify.shared_layer().group_send(notify.GROUP, notify.MESSAGE)
            async with asyncio.timeout(WITHIN):
                await heard.wait()

        for _ in range(3):
            listener.start()
            await until_it_works()
            await is_heard()
            await listener.stop()
        monkeypatch.setattr(notify, "RETRY_SECONDS", 0.01)
        monkeypatch.setattr(notify, "RENEW_SECONDS", 0.05)
        listener.start()
        await until_it_works()
        for _ in range(5):  # each perhaps while it joins again
            await asyncio.sleep(0.06)
            assert not notify.is_layer_unavailable()
            await is_heard()
        await listener.stop()

    asyncio.run(main())


def test_who_is_waited_for_at_the_end_is_the_last_notice(layer: Layer) -> None:
    """A command commits, and its process ends."""
    layer.may_send.clear()
    notify.notify_readers()
    ended = threading.Thread(target=notify._sender.flush)
    ended.start()
    assert layer.sending.wait(WITHIN)
    assert ended.is_alive()
    layer.may_send.set()
    ended.join(WITHIN)
    eventually(lambda: len(layer.sent) == 1)


def test_a_process_is_in_the_group_once_however_often_the_layer_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    members: set[str] = set()

    class Group:
        made = attempts = 0
        is_away = False

        async def new_channel(self) -> str:
            self.made += 1
            return f"channel {self.made}"

        async def group_add(self, group: str, channel: str) -> None:
            self.attempts += 1
            if self.is_away:
                raise ConnectionError("refused")
            members.add(channel)

        async def receive(self, channel: str) -> object:
            raise ConnectionError("refused")

    layer = Group()
    monkeypatch.setattr(notify, "shared_layer", lambda: layer)
    monkeypatch.setattr(notify, "_outage", notify._Outage())
    monkeypatch.setattr(notify, "RETRY_SECONDS", 0.001)

    async def attempts(more: int) -> None:
        wanted = layer.attempts + more
        async with asyncio.timeout(WITHIN):
            while layer.attempts < wanted:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.001)

    async def main() -> None:
        listener = Listener(lambda: None)
        listener.start()
        for is_away in (False, True, False, True, False):
            layer.is_away = is_away
            await attempts(5)
        await listener.stop()

    asyncio.run(main())
    assert len(members) == 1
