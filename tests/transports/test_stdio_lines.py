"""Lines in and out of file descriptors."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.transports.stdio import MAX_WAITING_BYTES, LineReader, LineWriter
from tests.exchange import eventually


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe: to read from, and to write to."""
    reading, writing = os.pipe()
    yield reading, writing
    for each in (reading, writing):
        try:
            os.close(each)
        except OSError:  # the test has closed it
            continue


def lines_of(chunks: list[bytes], limit: int = 10) -> list[bytes | None]:
    """What a reader makes of chunks that come one by one."""

    async def read() -> list[bytes | None]:
        reading, writing = os.pipe()
        reader = LineReader(reading, limit)

        def write() -> None:
            for chunk in chunks:
                os.write(writing, chunk)
            os.close(writing)

        writer = threading.Thread(target=write)
        writer.start()
        lines = [line async for line in reader.lines()]
        writer.join()
        os.close(reading)
        return lines

    return asyncio.run(read())


def test_lines_are_read_whole_however_they_come(subtests: pytest.Subtests) -> None:
    cases = [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"\n\n"], [b"", b""]),
        ([b"1234567890\n"], [b"1234567890"]),
        ([b"12345678901\nb\n"], [None, b"b"]),
        ([b"123456", b"78901", b"2\nb\n"], [None, b"b"]),
        ([b"12345678901"], [None]),
        ([b"x" * 200_000, b"\nb\n"], [None, b"b"]),
    ]
    for chunks, lines in cases:
        with subtests.test(chunks=chunks, lines=lines):
            assert lines_of(chunks) == lines


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=20))
def test_what_is_read_is_what_was_written(chunks: list[bytes]) -> None:
    *whole, rest = b"".join(chunks).split(b"\n")
    expected = [*whole, rest] if rest else whole
    assert lines_of(chunks) == [line if len(line) <= 10 else None for line in expected]


def test_lines_of_many_threads_are_written_whole(ends: tuple[int, int]) -> None:
    reading, writing = ends
    writer = LineWriter(writing, lambda: None)
    words = [bytes([65 + number]) * 50_000 for number in range(8)]
    threads = [threading.Thread(target=writer.write, args=[word]) for word in words]
    for thread in threads:
        thread.start()
    with os.fdopen(os.dup(reading), "rb") as file:
        read = [file.readline().rstrip(b"\n") for _ in words]
    writer.close(10)
    assert sorted(read) == words


def test_a_reader_that_went_away_is_reported_once(ends: tuple[int, int]) -> None:
    reading, writing = ends
    os.close(reading)
    told: list[int] = []
    gone = threading.Event()

    def broken() -> None:
        told.append(1)
        gone.set()

    writer = LineWriter(writing, broken)
    writer.write(b"a")
    assert gone.wait(10)
    writer.write(b"b")
    writer.close(10)
    assert told == [1]


def test_nobody_waits_for_a_client_that_does_not_read(ends: tuple[int, int]) -> None:
    writer = LineWriter(ends[1], lambda: None)
    for _ in range(100):
        writer.write(b"x" * 10_000)
    writer.close(0.01)
    os.close(ends[0])  # lets the thread go, which would write into what has the descriptor next
    writer.close(10)


def test_little_is_kept_of_messages_for_a_client_that_does_not_read(ends: tuple[int, int]) -> None:
    reading, writing = ends
    writer = LineWriter(writing, lambda: None)
    for _ in range(100):
        writer.write(b"m" * 100_000, is_optional=True)
    writer.write(b"r" * 3_000_000)
    writer.write(b"m", is_optional=True)
    got = bytearray()
    while got.count(b"\n") < 2 or not got.endswith(b"r\n"):
        got += os.read(reading, 65536)
    messages, response = got[:-1].split(b"\n")[:-1], got[:-1].split(b"\n")[-1]
    assert 100_000 <= sum(map(len, messages)) <= MAX_WAITING_BYTES + 200_000
    assert len(response) == 3_000_000, "which is never left out"
    eventually(lambda: writer._queued == writer._written)
    writer.write(b"later", is_optional=True)
    writer.close(10)
    assert os.read(reading, 100) == b"later\n", "once it reads there is room again"


def test_what_cannot_be_read_any_more_has_ended() -> None:
    async def read() -> list[bytes | None]:
        reading, writing = os.pipe()
        os.close(reading)
        os.close(writing)
        return [line async for line in LineReader(reading, 10).lines()]

    assert asyncio.run(read()) == []
