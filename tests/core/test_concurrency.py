"""Worker threads: many jobs, several event loops, and callers that go away."""

import asyncio
import contextvars
import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError

from django_mcp.conf import settings
from django_mcp.core import concurrency
from django_mcp.core.concurrency import NoThread, Pool, shared_pool

LONG = 30
"""Seconds after which a test gives up; none waits that long unless something is broken."""

MakePool = Callable[[int], Pool]

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")


def run(pool: Pool, *jobs: Callable[[], Any]) -> list[Any]:
    """The results of *jobs*, all handed in at once, on an event loop of their own."""

    async def main() -> list[Any]:
        return list(await asyncio.wait_for(asyncio.gather(*map(pool.sync, jobs)), LONG))

    return asyncio.run(main())


class Gate:
    """A job that stays in its thread until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self.open.wait(LONG)
        return "through"


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Makes pools whose threads end with the test."""
    pools: list[Pool] = []

    def make(size: int) -> Pool:
        pools.append(Pool(size))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def little_to_collect() -> Iterator[None]:
    """The garbage collector goes through what the test makes, and not through all there is."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_a_job_runs_in_another_thread_and_its_result_comes_back(make_pool: MakePool) -> None:
    ((thread, value),) = run(make_pool(2), lambda: (threading.get_ident(), "result"))
    assert value == "result"
    assert thread != threading.get_ident()


def test_any_value_comes_back_as_it_is(make_pool: MakePool) -> None:
    values = [None, 0, False, [], ValueError("returned, not raised")]
    found = run(make_pool(1), *(lambda value=value: value for value in values))
    assert [one is other for one, other in zip(found, values, strict=True)] == [True] * len(values)


@pytest.mark.parametrize("size", [1, 3])
def test_a_thousand_jobs_each_get_their_own_result(make_pool: MakePool, size: int) -> None:
    assert run(make_pool(size), *(lambda number=number: number * 2 for number in range(1000))) == list(
        range(0, 2000, 2)
    )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_as_many_jobs_run_at_once_as_there_are_threads_and_no_more(make_pool: MakePool, size: int) -> None:
    pool = make_pool(size)
    together = threading.Barrier(size)
    threads = run(pool, *(lambda: (together.wait(LONG), threading.get_ident())[1] for _ in range(size * 4)))
    assert len(set(threads)) == size


def test_no_more_threads_are_started_than_are_needed(make_pool: MakePool) -> None:
    """One may be started while another is just about to say that it is free."""
    pool = make_pool(50)
    assert len({run(pool, threading.get_ident)[0] for _ in range(20)}) < 10


def test_a_pool_that_was_idle_grows_when_jobs_come_at_once(make_pool: MakePool) -> None:
    pool = make_pool(4)
    for _ in range(10):
        run(pool, threading.get_ident)
    together = threading.Barrier(4)
    assert len(run(pool, *[lambda: together.wait(LONG)] * 4)) == 4


def test_the_threads_end_with_the_process(make_pool: MakePool) -> None:
    (thread,) = run(make_pool(1), threading.current_thread)
    assert thread.daemon
    assert thread.name.startswith("django-mcp-")


def test_several_event_loops_share_a_pool_and_each_gets_its_own_results(make_pool: MakePool) -> None:
    pool = make_pool(3)
    answers: dict[int, list[Any]] = {}

    def client(number: int) -> None:
        jobs = [lambda value=value: (number, value) for value in range(200)]
        answers[number] = run(pool, *jobs)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert answers == {number: [(number, value) for value in range(200)] for number in range(6)}


def test_a_loop_after_another_is_served_by_the_same_threads(make_pool: MakePool) -> None:
    pool = make_pool(1)
    assert run(pool, threading.get_ident) == run(pool, threading.get_ident)


def test_an_event_loop_that_is_gone_is_not_kept(make_pool: MakePool, little_to_collect: None) -> None:
    pool = make_pool(1)

    async def main() -> weakref.ref[asyncio.AbstractEventLoop]:
        await pool.sync(lambda: None)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    run(pool, lambda: None)
    gc.collect()
    assert loop() is None


def fail(error: BaseException) -> Callable[[], Any]:
    def job() -> Any:
        raise error

    return job


class OddError(BaseException): ...


def test_what_a_job_raises_is_raised_where_it_is_awaited(make_pool: MakePool) -> None:
    pool = make_pool(1)

    async def main() -> None:
        for error in (ValueError("x"), KeyError(1), RuntimeError(), TimeoutError()):
            with pytest.raises(type(error)) as caught:
                await asyncio.wait_for(pool.sync(fail(error)), LONG)
            assert caught.value is error
        assert await pool.sync(lambda: "alive") == "alive"

    asyncio.run(main())


def test_a_job_that_raises_stop_iteration_does_not_leave_its_caller_waiting(make_pool: MakePool) -> None:
    pool = make_pool(1)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(pool.sync(lambda: next(iter([]))), 5)
        assert await pool.sync(lambda: "alive") == "alive"

    asyncio.run(main())


def test_nothing_a_job_raises_goes_wrong_behind_everybodys_back(make_pool: MakePool) -> None:
    pool = make_pool(1)
    unheard: list[Any] = []

    async def main() -> list[Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        errors = [StopIteration(), StopAsyncIteration(), GeneratorExit(), asyncio.CancelledError(), OddError()]
        futures = [asyncio.ensure_future(pool.sync(fail(error))) for error in errors]
        futures.append(asyncio.ensure_future(pool.sync(lambda: "fine")))
        done, _ = await asyncio.wait(futures, timeout=5)
        await asyncio.gather(*done, return_exceptions=True)
        return [future in done for future in futures]

    assert asyncio.run(main()) == [True] * 6
    assert unheard == []


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, OddError])
def test_a_job_that_wants_to_end_the_process_does_not_end_its_thread(
    make_pool: MakePool, error: type[BaseException]
) -> None:
    pool = make_pool(1)

    async def main() -> None:
        before = await pool.sync(threading.get_ident)
        with pytest.raises(RuntimeError, match=error.__name__):
            await pool.sync(fail(error()))
        assert await pool.sync(threading.get_ident) == before

    asyncio.run(main())


def test_a_failed_job_among_others_fails_alone(make_pool: MakePool) -> None:
    pool = make_pool(2)

    async def main() -> list[Any]:
        jobs = [pool.sync(fail(ValueError(str(n)))) if n % 3 == 0 else pool.sync(lambda n=n: n) for n in range(60)]
        return await asyncio.gather(*jobs, return_exceptions=True)

    answers = asyncio.run(main())
    assert [str(each) for each in answers] == [str(number) for number in range(60)]
    assert [number for number, each in enumerate(answers) if isinstance(each, ValueError)] == list(range(0, 60, 3))


def test_context_variables_of_the_caller_are_seen_and_changes_stay_inside(make_pool: MakePool) -> None:
    pool = make_pool(1)

    def job() -> str:
        seen = variable.get()
        variable.set("the job's")
        return seen

    async def caller(name: str) -> str:
        variable.set(name)
        seen = await pool.sync(job)
        assert variable.get() == name
        return seen

    async def main() -> list[str]:
        return list(await asyncio.gather(caller("one"), caller("two"), pool.sync(variable.get)))

    assert asyncio.run(main()) == ["one", "two", "nobody's"]


def test_a_caller_that_goes_away_does_not_disturb_the_others(make_pool: MakePool, gate: Gate) -> None:
    pool = make_pool(1)

    async def main() -> None:
        stays = [asyncio.ensure_future(pool.sync(gate)), *(asyncio.ensure_future(pool.sync(int)) for _ in range(3))]
        leaves = [asyncio.ensure_future(pool.sync(lambda: "unheard")) for _ in range(3)]
        await asyncio.sleep(0)
        for each in leaves:
            each.cancel()
        gate.open.set()
        assert await asyncio.wait_for(asyncio.gather(*stays), LONG) == ["through", 0, 0, 0]
        assert all(each.cancelled() for each in leaves)
        assert await pool.sync(lambda: "alive") == "alive"

    asyncio.run(main())


def test_a_caller_that_goes_away_while_its_job_runs_frees_nothing_until_the_job_ends(
    make_pool: MakePool, gate: Gate
) -> None:
    """A thread cannot be stopped; the next job waits for it, or another thread takes it."""
    pool = make_pool(2)

    async def main() -> None:
        leaves = asyncio.ensure_future(pool.sync(gate))
        await asyncio.to_thread(gate.entered.wait, LONG)
        leaves.cancel()
        await asyncio.wait([leaves])
        assert await asyncio.wait_for(pool.sync(lambda: "alive"), LONG) == "alive"
        gate.open.set()

    asyncio.run(main())


def test_a_loop_closed_before_its_job_ends_does_not_end_the_thread(make_pool: MakePool, gate: Gate) -> None:
    pool = make_pool(1)

    async def leave_early() -> None:
        asyncio.ensure_future(pool.sync(gate))  # noqa: RUF006 - left alone is what it is
        await asyncio.to_thread(gate.entered.wait, LONG)

    asyncio.run(leave_early())
    gate.open.set()
    assert run(pool, lambda: "alive") == ["alive"]


def test_a_job_that_fails_after_its_loop_was_closed_does_not_end_the_thread(make_pool: MakePool, gate: Gate) -> None:
    pool = make_pool(1)

    def late() -> None:
        gate()
        raise ValueError("nobody hears this")

    async def leave_early() -> None:
        asyncio.ensure_future(pool.sync(late))  # noqa: RUF006 - left alone is what it is
        await asyncio.to_thread(gate.entered.wait, LONG)

    asyncio.run(leave_early())
    gate.open.set()
    assert run(pool, lambda: "alive") == ["alive"]


def test_what_a_job_used_is_let_go_when_it_is_done(make_pool: MakePool, little_to_collect: None) -> None:
    pool = make_pool(1)

    class Bulky: ...

    bulky = Bulky()
    gone = weakref.ref(bulky)
    run(pool, lambda bulky=bulky: bulky is None)
    run(pool, lambda: None)
    del bulky
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("size", [1, 4])
def test_a_closed_pool_has_no_threads_left(size: int) -> None:
    pool = Pool(size)
    together = threading.Barrier(size)
    threads = run(pool, *[lambda: (together.wait(LONG), threading.current_thread())[1]] * size)
    assert all(thread.is_alive() for thread in threads)
    pool.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_pool_is_closed_only_when_its_jobs_are_done(make_pool: MakePool, gate: Gate) -> None:
    pool = make_pool(1)
    done: list[str] = []

    async def leave_early() -> None:
        for job in (lambda: done.append(gate()), *[lambda: done.append("next")] * 3):
            asyncio.ensure_future(pool.sync(job))  # noqa: RUF006 - left alone is what it is
        await asyncio.to_thread(gate.entered.wait, LONG)

    asyncio.run(leave_early())
    gate.open.set()
    pool.close()
    assert done == ["through", "next", "next", "next"]


def test_a_pool_that_is_closed_ends_though_somebody_begins_something_meanwhile(make_pool: MakePool, gate: Gate) -> None:
    """A thread that was begun then hears first that threads are to end, and it is not the one that is meant."""
    pool, begun = make_pool(1), threading.Event()
    pool.post(gate)
    assert gate.entered.wait(LONG)
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    while pool._threads:  # it has taken them out
        threading.Event().wait(0.001)
    pool.post(begun.set)
    assert begun.wait(LONG)
    gate.open.set()
    closing.join(LONG)
    assert not closing.is_alive()
    assert run(pool, lambda: "alive") == ["alive"]


# Threads that cannot be started, and errors outside of jobs


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the threads whose start fails, as in a container with a limit of processes."""
    numbers: list[int] = []
    start, count = threading.Thread.start, itertools.count(1)

    def start_or_fail(thread: threading.Thread) -> None:
        if thread.name.startswith("django-mcp-") and next(count) in numbers:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    return numbers


@pytest.mark.parametrize("size", [1, 3])
def test_a_job_whose_thread_cannot_be_started_fails_and_the_next_one_does_not(
    make_pool: MakePool, refused: list[int], size: int
) -> None:
    pool = make_pool(size)
    refused[:] = [1]
    ran: list[str] = []
    with pytest.raises(NoThread, match="limit of threads"):
        run(pool, lambda: ran.append("refused"))
    assert run(pool, lambda: "alive") == ["alive"]
    assert ran == []


def test_a_background_job_whose_thread_cannot_be_started_fails_where_it_is_begun(
    make_pool: MakePool, refused: list[int]
) -> None:
    pool, done = make_pool(1), threading.Event()
    refused[:] = [1]
    with pytest.raises(NoThread):
        pool.post(done.set)
    assert not done.is_set()
    pool.post(done.set)
    assert done.wait(LONG)


def test_jobs_wait_for_the_threads_there_are_if_no_more_can_be_started(
    make_pool: MakePool, refused: list[int], gate: Gate
) -> None:
    pool = make_pool(3)
    refused[:] = [2, 3]

    async def main() -> list[Any]:
        first = asyncio.ensure_future(pool.sync(gate))
        await asyncio.to_thread(gate.entered.wait, LONG)
        others = [asyncio.ensure_future(pool.sync(lambda number=number: number)) for number in range(2)]
        await asyncio.sleep(0)
        gate.open.set()
        return list(await asyncio.wait_for(asyncio.gather(first, *others), LONG))

    assert asyncio.run(main()) == ["through", 0, 1]


def test_a_pool_grows_to_its_size_once_threads_can_be_started_again(make_pool: MakePool, refused: list[int]) -> None:
    pool = make_pool(3)
    refused[:] = [1, 3]
    with pytest.raises(NoThread):
        run(pool, int)
    run(pool, int, int, int)
    together = threading.Barrier(3)
    assert len(run(pool, *[lambda: together.wait(LONG)] * 3)) == 3


def test_a_job_that_comes_while_a_thread_fails_to_start_is_not_left_waiting(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was queued for that thread, if the thread was counted before it started."""
    pool, done, starting = make_pool(1), threading.Event(), threading.Event()
    start, fails = threading.Thread.start, iter([True])
    others: list[threading.Thread] = []

    def start_or_fail(thread: threading.Thread) -> None:
        if thread.name.startswith("django-mcp-") and next(fails, False):
            other = threading.Thread(target=pool.post, args=(done.set,))
            others.append(other)
            start(other)
            other.join(0.05)  # it waits for this one, or has queued its job
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    with pytest.raises(NoThread):
        pool.post(starting.set)
    assert done.wait(LONG)
    others[0].join(LONG)
    assert not starting.is_set()


def test_an_error_of_the_connections_pool_does_not_end_a_thread(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = iter([OSError("the pool is closed"), SystemExit(), OddError()])

    def fail_thrice(_: Any) -> None:
        if (error := next(errors, None)) is not None:
            raise error

    monkeypatch.setattr(concurrency, "pooled_aliases", lambda: ["default"])
    monkeypatch.setattr(concurrency, "give_back", fail_thrice)
    pool = make_pool(1)
    assert [run(pool, lambda: "alive") for _ in range(5)] == [["alive"]] * 5
    assert "outside of its jobs" in caplog.text


def test_a_connection_that_cannot_be_checked_fails_one_job_and_does_not_end_a_thread(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([OperationalError("the host has no name")])

    def fail_once(_: float) -> tuple[()]:
        for error in errors:
            raise error
        return ()

    monkeypatch.setattr(concurrency, "refresh_connections", fail_once)
    pool = make_pool(1)
    with pytest.raises(OperationalError):
        run(pool, int)
    assert run(pool, lambda: "alive") == ["alive"]


def test_a_log_that_fails_for_a_background_job_does_not_end_a_thread(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_log(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(concurrency.logger, "error", fail_to_log)
    monkeypatch.setattr(concurrency.logger, "exception", fail_to_log)
    pool = make_pool(1)
    pool.post(fail(ValueError("of the job")))
    assert run(pool, lambda: "alive") == ["alive"]


@pytest.mark.slow  # forks, which no test should do in a process with others' threads
def test_a_forked_process_has_threads_of_its_own_and_jobs_of_its_own_only() -> None:
    """Servers such as gunicorn load the site, which may use a pool, before they fork."""
    script = """
        import asyncio, os, threading, django
        from django.conf import settings
        apps = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"]
        settings.configure(DATABASES={}, INSTALLED_APPS=apps)
        django.setup()
        from django_mcp.core.concurrency import Pool
        pool, gate = Pool(2), threading.Event()
        asyncio.run(pool.sync(int))
        for _ in range(5):
            pool.post(gate.wait)
        child = os.fork()
        if child == 0:
            print(asyncio.run(asyncio.wait_for(pool.sync(lambda: len(pool._threads)), 20)), flush=True)
            os._exit(0)
        gate.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(asyncio.run(pool.sync(lambda: "parent")))
    """
    told = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("1\nparent\n", "")


def test_a_closed_pool_starts_again_when_it_is_needed(make_pool: MakePool) -> None:
    pool = make_pool(2)
    for _ in range(3):
        assert run(pool, *[lambda: "alive"] * 5) == ["alive"] * 5
        pool.close()


def test_a_pool_nobody_used_can_be_closed(make_pool: MakePool) -> None:
    make_pool(3).close()


def test_a_coroutine_function_stays_on_the_loop(make_pool: MakePool) -> None:
    async def where() -> int:
        return threading.get_ident()

    async def main() -> int:
        return await make_pool(1).coroutine(where)

    assert asyncio.run(main()) == threading.get_ident()


def test_a_process_has_one_pool_of_as_many_threads_as_the_site_set() -> None:
    assert shared_pool() is shared_pool()
    assert shared_pool().size == settings.WORKER_THREADS
