"""Others hear of calls too: receivers of a signal, and OpenTelemetry."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_mcp import MCPServer, request_logged
from django_mcp.audit import otel
from django_mcp.audit.recorder import Recorder
from django_mcp.models import RequestLog
from tests.clients import Client
from tests.exchange import eventually

Log = Callable[[], list[RequestLog]]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def heard() -> Iterator[list[RequestLog]]:
    heard: list[RequestLog] = []

    def hear(sender: MCPServer, entry: RequestLog, **_: Any) -> None:
        heard.append(entry)

    request_logged.connect(hear)
    yield heard
    request_logged.disconnect(hear)


def test_a_signal_tells_what_the_row_has(
    call_log: Log, site: MCPServer, client: Client, heard: list[RequestLog]
) -> None:
    client.call("fail", why="rain")
    call = eventually(lambda: heard[0] if heard else None, "no signal")
    [row] = call_log()
    assert (call.name, call.outcome, call.error, call.arguments) == (row.name, row.outcome, row.error, row.arguments)


def test_a_receiver_that_fails_fails_alone(
    call_log: Log, site: MCPServer, client: Client, heard: list[RequestLog]
) -> None:
    done = threading.Event()

    def break_down(**_: Any) -> None:
        done.set()
        raise RuntimeError("the receiver is broken")

    request_logged.connect(break_down)
    try:
        assert client.call("add", a=1).text == "2"
        assert done.wait(10)
    finally:
        request_logged.disconnect(break_down)
    eventually(lambda: heard or None, "others do not hear of it")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    otel._tracer.cache_clear()
    otel.wanted.forget()
    yield exporter
    otel._tracer.cache_clear()
    otel.wanted.forget()
    provider.shutdown()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Any]]]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    otel._duration.cache_clear()
    otel.wanted.forget()

    def points() -> list[Any]:
        data = reader.get_metrics_data()
        found = data.resource_metrics[0].scope_metrics[0].metrics
        assert [each.name for each in found] == ["mcp.server.operation.duration"]
        return list(found[0].data.data_points)

    yield points
    otel._duration.cache_clear()
    otel.wanted.forget()
    provider.shutdown()


def test_a_call_is_a_span_of_its_callers_trace(
    call_log: Log, site: MCPServer, client: Client, spans: InMemorySpanExporter
) -> None:
    params = {"name": "add", "arguments": {"a": 1}, "_meta": {"traceparent": TRACE}}
    client.request("tools/call", params)
    [span] = spans.get_finished_spans()
    assert (span.name, span.kind) == ("tools/call add", trace.SpanKind.SERVER)
    assert trace.format_trace_id(span.context.trace_id) == "0af7651916cd43dd8448eb211c80319c"
    assert trace.format_span_id(span.parent.span_id) == "b7ad6b7169203331"
    assert span.attributes["mcp.method.name"] == "tools/call"
    assert span.attributes["gen_ai.tool.name"] == "add"
    assert span.attributes["gen_ai.operation.name"] == "execute_tool"
    assert span.attributes["mcp.protocol.version"] == client.version
    assert span.status.is_unset
    assert call_log()[0].trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_a_row_has_the_trace_that_began_with_the_call(
    call_log: Log, site: MCPServer, client: Client, spans: InMemorySpanExporter
) -> None:
    client.request("tools/list")
    [span] = spans.get_finished_spans()
    assert span.name == "tools/list"
    assert call_log()[0].trace_id == trace.format_trace_id(span.context.trace_id)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "called"),
    [("fail", {"why": "rain"}, "tool_error", "tools/call fail"), ("nothing", {}, "-32602", "tools/call")],
)
def test_a_failure_has_its_kind(
    call_log: Log,
    site: MCPServer,
    client: Client,
    spans: InMemorySpanExporter,
    measured: Callable[[], list[Any]],
    name: str,
    arguments: Any,
    kind: str,
    called: str,
) -> None:
    client.call(name, **arguments)
    [span] = spans.get_finished_spans()
    assert (span.name, span.attributes["error.type"]) == (called, kind)
    assert span.status.status_code is trace.StatusCode.ERROR
    [point] = measured()
    assert point.count == 1
    assert point.attributes["error.type"] == kind


def test_a_span_has_no_secret_either(
    call_log: Log, site: MCPServer, client: Client, spans: InMemorySpanExporter
) -> None:
    client.call("sign_in", login={"name": "ada", "pass_phrase": ["hush-1"]}, again=[], code=["hush-2"], note="")
    client.request("resources/read", {"uri": "crm://ada:hush-3@house/people?password=hush-4"})
    ended = spans.get_finished_spans()
    assert len(ended) == 2
    assert all(span.status.description for span in ended)
    assert "hush" not in "".join(span.to_json() for span in ended)


def test_a_site_without_a_log_has_spans(
    call_log: Log, make_server: Any, site: MCPServer, client: Client, spans: InMemorySpanExporter
) -> None:
    Client(make_server("quiet", log_requests=False), client.version, client.edge).request("tools/list")
    assert [each.name for each in spans.get_finished_spans()] == ["tools/list"]
    assert call_log() == []


def test_all_works_where_opentelemetry_is_not_installed(
    call_log: Log, site: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "is_used", lambda: True)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "django_mcp.audit.otel")
    otel.wanted.forget()
    client.call("add", a=1)
    assert len(call_log()) == 1


def test_where_nobody_takes_spans_or_metrics_and_there_is_no_log_calls_are_not_watched(
    call_log: Log, site: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    otel.wanted.forget()
    monkeypatch.setattr(site, "_log_requests", False)
    monkeypatch.setattr(Recorder, "_record", None)
    assert client.call("add", a=1).text == "2"


def test_a_call_is_measured_where_there_is_no_log(
    call_log: Log,
    site: MCPServer,
    client: Client,
    measured: Callable[[], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "_log_requests", False)
    client.call("add", a=1)
    assert call_log() == []
    assert [point.attributes["gen_ai.tool.name"] for point in measured()] == ["add"]
