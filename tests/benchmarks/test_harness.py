"""The benchmark must not flatter: it catches every wrong answer, and its ratios are what they are said to be."""

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.catalogue import TOOLS
from benchmarks.load import MAX_ERRORS, measure
from benchmarks.measurement import Measurement, group_cpu, quantile
from benchmarks.process import ProcessFailedError, RunningServer, free_port, run
from benchmarks.shapes import MODERN, SHAPES, Request
from benchmarks.targets import TARGETS, Server, Target, selected
from benchmarks.wire import join_chunks, parse_head

Answer = Callable[[dict], bytes | None]
"""From a request to the bytes that a test's server sends back; None closes the connection."""


def http(body: bytes, status: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def result(request: dict, total: int, request_id: int | None = None) -> bytes:
    content = [{"type": "text", "text": str(total)}]
    answer = {
        "jsonrpc": "2.0",
        "id": request["id"] if request_id is None else request_id,
        "result": {"content": content, "structuredContent": {"result": total}},
    }
    return json.dumps(answer).encode()


def total(request: dict) -> int:
    arguments = request["params"]["arguments"]
    return arguments["a"] + arguments["b"]


def right(request: dict) -> bytes:
    return http(result(request, total(request)))


def visit(answer: Answer, *, shape: str = "modern-add", patience: float = 5) -> Measurement:
    """Measure a server that answers with ``answer``."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            sent = answer(json.loads(await reader.readexactly(length)))
            if sent is None:
                return
            writer.write(sent)
            if b"Connection: close" in sent:
                return

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await converse(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def go() -> Measurement:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await measure(
                port, SHAPES[shape], connections=4, warm_up=0, seconds=60, patience=patience, enough=20
            )

    return bounded(go())


def bounded(work: Awaitable[Measurement]) -> Measurement:
    async def within() -> Measurement:
        return await asyncio.wait_for(work, 20)

    return asyncio.run(within())


def once_wrong(wrong: Answer) -> Answer:
    """Answer the third request with ``wrong``, and all others rightly."""
    seen = 0

    def answer(request: dict) -> bytes | None:
        nonlocal seen
        seen += 1
        return wrong(request) if seen == 3 else right(request)

    return answer


class TestLoad:
    def test_right_answers_are_counted(self):
        found = visit(right)
        assert found.errors == 0
        assert found.answers >= 20
        assert found.rate == found.answers / found.seconds
        assert 0 < found.p50_ms <= found.p99_ms

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda r: http(result(r, total(r) + 1)), "expected the sum"),
            (lambda r: http(result(r, total(r), r["id"] + 1)), "was answered as"),
            (lambda r: http(result(r, total(r)), "500 Internal Server Error"), "HTTP status 500"),
            (lambda r: None, "connection lost before the answer"),
            (lambda r: right(r)[:-5], "no answer within"),
            (lambda r: http(b"<html>"), "expected the sum"),
            (lambda r: b"gibberish\r\n\r\n", "not HTTP"),
            (lambda r: b"HTTP/1.1 200 OK\r\n\r\n{}", "neither Content-Length"),
            (lambda r: right(r) * 2, "more than was asked for"),
        ],
        ids=["sum", "id", "500", "dropped", "cut off", "html", "gibberish", "no length", "twice"],
    )
    def test_one_wrong_answer_is_an_error(self, wrong, message):
        found = visit(once_wrong(wrong), patience=0.1)
        assert found.errors == 1
        assert message in found.messages[0]

    def test_a_server_that_is_always_wrong_is_left_soon(self):
        found = visit(lambda request: http(result(request, -1)))
        assert MAX_ERRORS <= found.errors < MAX_ERRORS + 4  # some answers are under way when it is left
        assert found.answers == 0
        assert len(found.messages) == 3
        assert found.seconds < 20

    def test_a_server_that_always_hangs_up_is_left_at_once(self):
        found = visit(lambda request: None)
        assert found.errors == 4
        assert found.seconds < 20

    def test_nobody_listens(self):
        found = bounded(measure(free_port(set()), SHAPES["modern-add"], connections=4, warm_up=0, seconds=60))
        assert found.errors == 4
        assert "could not connect" in found.messages[0]

    def test_an_announced_close_is_no_error(self):
        found = visit(lambda r: http(result(r, total(r)), extra="Connection: close\r\n"))
        assert found.errors == 0
        assert found.answers > 0

    def test_a_body_in_chunks_is_read(self):
        def chunked(request: dict) -> bytes:
            body = result(request, total(request))
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

        assert visit(chunked).errors == 0
        assert "more than was asked for" in visit(once_wrong(lambda r: chunked(r) * 2)).messages[0]

    def test_a_list_is_checked(self):
        names = [tool.__name__ for tool in TOOLS]

        def listed(shown: list[str]) -> Answer:
            def answer(request: dict) -> bytes:
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in shown]
                message = {"jsonrpc": "2.0", "id": request["id"], "result": {"tools": tools}}
                return http(json.dumps(message).encode())

            return answer

        assert visit(listed(names), shape="modern-list").errors == 0
        assert "got 49" in visit(listed(names[1:]), shape="modern-list").messages[0]


class TestShapes:
    def test_requests_differ(self):
        requests = SHAPES["modern-add"].requests(50, "127.0.0.1:1")
        assert len({request.id for request in requests}) == 50
        assert len({request.total for request in requests}) > 40

    def test_a_modern_call_says_so_in_headers_and_body(self):
        [request] = SHAPES["modern-aadd"].requests(1, "127.0.0.1:1")
        head, _, body = request.encoded.partition(b"\r\n\r\n")
        assert b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: aadd\r\n" in head
        assert json.loads(body)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN

    def test_a_legacy_call_has_nothing_modern(self):
        [request] = SHAPES["legacy-aadd"].requests(1, "127.0.0.1:1")
        assert b"MCP-Protocol-Version: 2025-11-25" in request.encoded
        assert b"_meta" not in request.encoded
        assert b"Mcp-Method" not in request.encoded

    def test_a_list_that_was_right_once_is_not_trusted_with_another_id(self):
        check = SHAPES["modern-list"].check()
        tools = [{"name": tool.__name__, "inputSchema": {"type": "object"}} for tool in TOOLS]
        body = json.dumps({"id": 1_000_001, "result": {"tools": tools}}).encode()
        assert check(body, Request(b"", 1_000_001, 0)) is None
        assert check(body.replace(b"1000001", b"1000002"), Request(b"", 1_000_002, 0)) is None
        assert "was answered as" in check(body, Request(b"", 1_000_002, 0))
        assert "got 49" in check(body.replace(b'"add"', b'"aadd"'), Request(b"", 1_000_001, 0))

    def test_heads(self):
        assert parse_head(b"HTTP/1.1 200 OK\r\ncontent-length: 5") == (200, 5, False)
        assert parse_head(b"HTTP/1.1 404 Not Found\r\nConnection: Close\r\nContent-Length: 0") == (404, 0, True)
        assert parse_head(b"HTTP/1.0 200 OK\r\nCONTENT-LENGTH:7").closes
        assert parse_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked") == (200, None, False)

    def test_chunks(self):
        whole = b"4\r\nab\r\n\r\nB\r\nhello world\r\n0\r\n\r\n"
        assert join_chunks(whole) == (b"ab\r\nhello world", len(whole))
        assert all(join_chunks(whole[:end]) is None for end in range(len(whole)))
        with pytest.raises(ValueError, match="invalid literal"):
            join_chunks(b"{}\r\n")


def measured(rate: float) -> Measurement:
    return Measurement(answers=int(rate), seconds=1, p50_ms=1, p99_ms=2, load_busy=0.5, errors=0, messages=[])


class TestReport:
    def test_a_ratio_is_taken_within_a_round(self):
        rounds = [
            {"ours": measured(500), "sdk": measured(100)},  # 5
            {"ours": measured(60), "sdk": measured(10)},  # 6: the machine was slow, the ratio is not
            {"ours": measured(900), "sdk": measured(300)},  # 3
        ]
        assert report.ratio(rounds, "ours", "sdk") == report.Ratio(median=5, least=3, most=6)

    def test_processor_time_is_compared_too(self):
        target = Target("ours", Server("", ""), "modern-add", relative_to="sdk")
        ours = dataclasses.replace(measured(400), server_cpu=0.5)  # something else had half of the core
        sdk = dataclasses.replace(measured(100), server_cpu=1.0)
        [row] = report.rows([target], [{"ours": ours, "sdk": sdk}])
        assert row.ratio.median == 4
        assert row.cpu_ratio.median == 8
        assert row.server_busy == 0.5
        assert row.cpu_us == 1250
        assert "50%?" in report.text_table([row])

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")
    def test_processor_time_is_that_of_a_group(self):
        assert group_cpu(os.getpgrp()) > 0
        assert group_cpu(None) is None

    def test_rounds_without_both_are_left_out(self):
        rounds = [{"ours": measured(4), "sdk": measured(1)}, {"ours": measured(9)}, {"sdk": measured(9)}]
        assert report.ratio(rounds, "ours", "sdk") == report.Ratio(4, 4, 4)
        assert report.ratio(rounds, "ours", "other") is None

    def test_a_promise_is_kept_or_missed(self, subtests: pytest.Subtests) -> None:
        for rate, missed in [(499, True), (500, False)]:
            with subtests.test(rate=rate, missed=missed):
                target = Target("ours", Server("", ""), "modern-add", relative_to="sdk", at_least=5.0)
                [row] = report.rows([target], [{"ours": measured(rate), "sdk": measured(100)}])
                assert row.too_slow is missed
                assert ("MISSED" in report.text_table([row])) is missed

    def test_a_promise_about_the_slowest_answers_is_kept_or_missed(self, subtests: pytest.Subtests) -> None:
        for p99_ms, missed in [(26.0, True), (25.0, False)]:
            with subtests.test(p99_ms=p99_ms, missed=missed):
                target = Target("ours", Server("", ""), "modern-add", relative_to="sdk", p99_at_most=0.25)
                ours = dataclasses.replace(measured(100), p99_ms=p99_ms)
                [row] = report.rows([target], [{"ours": ours, "sdk": dataclasses.replace(measured(100), p99_ms=100.0)}])
                assert row.too_late is missed
                assert ("0.26 MISSED" if missed else "0.25") in report.text_table([row])

    def test_a_target_that_failed_keeps_no_promise(self):
        target = Target("ours", Server("", ""), "modern-add", at_least=5.0, p99_at_most=0.25)
        [row] = report.rows([target], [{}, {}])
        assert row.too_slow
        assert row.too_late
        assert "failed" in report.markdown([row], "", report.facts(pinned=True))

    def test_quantiles(self):
        assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
        assert quantile([float(n) for n in range(1, 101)], 0.99) == 99.0
        assert quantile([7.0], 0.99) == 7.0
        assert quantile([], 0.5) == 0.0


class TestTargets:
    def test_names_are_unique_and_what_they_name_exists(self):
        names = [target.name for target in TARGETS]
        assert len(set(names)) == len(names)
        assert {target.relative_to for target in TARGETS} <= set(names)
        assert {target.shape for target in TARGETS} <= set(SHAPES)

    def test_a_selection_keeps_what_it_is_compared_to(self):
        assert [target.name for target in selected("daphne")] == [
            "sdk add on uvicorn",
            "aadd on daphne",
            "add on daphne",
        ]
        assert selected(None) == TARGETS
        assert selected("no such") == ()

    def test_every_server_offers_fifty_tools(self):
        assert len(TOOLS) == len({tool.__name__ for tool in TOOLS}) == 50
        assert all(tool.__doc__ for tool in TOOLS)


class TestProcesses:
    def test_a_server_is_ended(self, tmp_path):
        port = free_port(set())
        server = RunningServer(["http.server", "--bind", "127.0.0.1", str(port)], port, None, {}, tmp_path)
        try:
            server.wait_until_ready()
        finally:
            server.end()
        with pytest.raises(ProcessLookupError):
            os.killpg(server.pid, 0)

    def test_a_server_that_does_not_start_says_why(self, tmp_path):
        server = RunningServer(["no_such_module"], free_port(set()), None, {}, tmp_path)
        try:
            with pytest.raises(ProcessFailedError, match="no_such_module"):
                server.wait_until_ready()
        finally:
            server.end()

    @pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not pin processes")
    def test_a_child_is_pinned_and_its_parent_is_not(self, tmp_path):
        (tmp_path / "where.py").write_text("import os; print(os.sched_getaffinity(0))")
        before = os.sched_getaffinity(0)
        core = min(before)
        printed = run(["where"], core, {"PYTHONPATH": str(tmp_path)}, within=20)
        assert printed.strip() == str({core})
        assert os.sched_getaffinity(0) == before

    def test_a_process_that_fails_silently_is_an_error(self):
        with pytest.raises(ProcessFailedError, match="ended with 1"):
            run(["no_such_module"], None, {}, within=20)


def test_the_generator_needs_nothing_but_the_standard_library(tmp_path):
    """It must run where only the package under test is installed."""
    (tmp_path / "probe.py").write_text(
        "import sys; before = set(sys.modules)\n"
        "import benchmarks.load, benchmarks.runner, benchmarks.report, benchmarks.__main__\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - {'benchmarks'}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    assert run(["probe"], None, {"PYTHONPATH": path}, within=20).strip() == "[]"
