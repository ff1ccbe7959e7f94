"""OpenTelemetry spans and metrics of calls, for sites that use it.

Semantic conventions for MCP: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

from django_mcp.audit.entry import Ended, error_of
from django_mcp.core.context import Context
from django_mcp.core.redaction import redact_uri
from django_mcp.models import RequestLog
from django_mcp.version import __version__

CHECK_SECONDS = 1.0
"""Seconds between checks whether the site has configured traces or metrics."""
MODULES = frozenset({"opentelemetry.metrics", "opentelemetry.trace"})
SET_UP_BY = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""Environment variables with which OpenTelemetry configures itself on first use."""


class Wanted:
    """The signals that the site has configured.

    Attributes:
        spans: spans are exported.
        metrics: metrics are exported.
        due: monotonic time of the next check.
    """

    def __init__(self) -> None:
        self.spans = self.metrics = False
        self.due = 0.0

    def look(self) -> None:
        # It reads the environment, so it runs only now and then.
        self.due = time.monotonic() + CHECK_SECONDS
        found = False, False
        if is_used():
            with suppress(ImportError):  # configured by environment variables, but not installed
                found = takes_spans(), takes_metrics()
        self.spans, self.metrics = found

    def forget(self) -> None:
        self.due = 0.0


wanted = Wanted()


def is_used() -> bool:
    return not MODULES.isdisjoint(sys.modules) or any(name in os.environ for name in SET_UP_BY)


def spanned(context: Context) -> AbstractContextManager["Span"]:
    """Return a span around a call, in the caller's trace if it sends one. Close it with ``Span.end``."""
    return make_span(context) if wanted.spans else nullcontext(Span())


FAILURES = {
    RequestLog.Outcome.ERROR,
    RequestLog.Outcome.FAILED,
    RequestLog.Outcome.CRASHED,
    RequestLog.Outcome.REJECTED,
    RequestLog.Outcome.DENIED,
    RequestLog.Outcome.TIMED_OUT,
}
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Bucket boundaries in seconds, as the conventions require."""
_NAMED = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}


def takes_spans() -> bool:
    from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def takes_metrics() -> bool:
    from opentelemetry import metrics  # noqa: PLC0415 - an extra of the package

    return type(metrics.get_meter_provider()).__name__ != "_ProxyMeterProvider"


class Span:
    """A call that is measured but not traced: its trace id is empty."""

    trace_id = ""

    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        """Record the outcome of the call; *code* is that of a JSON-RPC error."""
        _duration().record(seconds, {**_attributes(context), **_error(ended, code)})


class Recorded(Span):
    """A call that is measured and traced."""

    def __init__(self, span: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

        self._span = span
        found = span.get_span_context()
        self.trace_id = trace.format_trace_id(found.trace_id) if found.trace_flags.sampled else ""

    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

        failed = _error(ended, code)
        uri = {"mcp.resource.uri": redact_uri(str(context.params["uri"]))} if "uri" in context.params else {}
        self._span.update_name(_name(context))
        about = {**_attributes(context), **failed, **uri, "jsonrpc.request.id": str(context.request_id)}
        self._span.set_attributes(about)
        if failed:
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, error_of(context, ended)))
        self._span.end()
        super().end(context, ended, seconds, code)


@contextmanager
def make_span(context: Context) -> Iterator[Span]:
    """Start a span around a call, in the trace that the request names."""
    from opentelemetry import propagate, trace  # noqa: PLC0415 - an extra of the package

    carried = context.trace
    parent = propagate.extract(carried) if "traceparent" in carried else None
    span = _tracer().start_span(context.method, context=parent, kind=trace.SpanKind.SERVER)
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield Recorded(span)


def _attributes(context: Context) -> Mapping[str, str]:
    # All of low cardinality.
    found = {"mcp.method.name": context.method}
    if context.channel.protocol:
        found["mcp.protocol.version"] = context.channel.protocol
    if (key := _NAMED.get(context.method)) and (name := _known_name(context)):
        found[key] = name
    if context.method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    return found


def _known_name(context: Context) -> str:
    # Callers may send any name.
    name = str(context.params.get("name"))
    return name if name in context.server.tools or name in context.server.prompts else ""


def _name(context: Context) -> str:
    return f"{context.method} {_known_name(context)}".strip()


def _error(ended: Ended, code: int | None) -> Mapping[str, str]:
    if ended.outcome not in FAILURES:
        return {}
    if ended.crash.type:  # as the conventions want it: the exception's class, of low cardinality
        status = {} if code is None else {"rpc.response.status_code": str(code)}
        return {"error.type": ended.crash.type, **status}
    if code is not None:
        return {"error.type": str(code), "rpc.response.status_code": str(code)}
    return {"error.type": "timeout" if ended.outcome == RequestLog.Outcome.TIMED_OUT else "tool_error"}


@cache
def _tracer() -> Any:
    from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

    return trace.get_tracer("django_mcp", __version__)


@cache
def _duration() -> Any:
    from opentelemetry import metrics  # noqa: PLC0415 - an extra of the package

    return metrics.get_meter("django_mcp", __version__).create_histogram(
        "mcp.server.operation.duration",
        unit="s",
        description="Duration of requests, from their receipt until the response is ready.",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )
