"""Spans and metrics of calls through OpenTelemetry, where a site uses it.

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

LOOK_SECONDS = 1.0
"""After how long it is seen that a site has set up traces or metrics, which it does as it starts."""
MODULES = frozenset({"opentelemetry.metrics", "opentelemetry.trace"})
SET_UP_BY = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""Environment variables that have OpenTelemetry set itself up when it is first asked."""


class Wanted:
    """What the site has set up.

    Attributes:
        spans: somebody takes them.
        metrics: likewise.
        due: when to look again.
    """

    def __init__(self) -> None:
        self.spans = self.metrics = False
        self.due = 0.0

    def look(self) -> None:
        """Find it out. It means reading the environment, so it is done now and then."""
        self.due = time.monotonic() + LOOK_SECONDS
        found = False, False
        if is_used():
            with suppress(ImportError):  # it is wanted, and not installed
                found = takes_spans(), takes_metrics()
        self.spans, self.metrics = found

    def forget(self) -> None:
        """Look when asked the next time."""
        self.due = 0.0


wanted = Wanted()


def is_used() -> bool:
    """Whether anybody in this process has to do with OpenTelemetry: who sets something up has imported it."""
    return not MODULES.isdisjoint(sys.modules) or any(name in os.environ for name in SET_UP_BY)


def spanned(context: Context) -> AbstractContextManager["Span"]:
    """A span around a call, which ends with ``Span.end``; in the caller's trace, where the call says which that is."""
    return make_span(context) if wanted.spans else nullcontext(Span())


FAILURES = {
    RequestLog.Outcome.ERROR,
    RequestLog.Outcome.FAILED,
    RequestLog.Outcome.DENIED,
    RequestLog.Outcome.TIMED_OUT,
}
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Those that the conventions ask for, in seconds."""
_NAMED = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}


def takes_spans() -> bool:
    """Whether the site has set up somebody who takes them."""
    from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def takes_metrics() -> bool:
    """Likewise."""
    from opentelemetry import metrics  # noqa: PLC0415 - an extra of the package

    return type(metrics.get_meter_provider()).__name__ != "_ProxyMeterProvider"


class Span:
    """Of a call that is measured and not traced.

    Attributes:
        trace_id: of the trace it belongs to; empty where it is not recorded.
    """

    trace_id = ""

    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        """Say what came of the call.

        Args:
            context: of the call.
            ended: what came of it.
            seconds: how long it took.
            code: of the JSON-RPC error.
        """
        _duration().record(seconds, {**_attributes(context), **_error(ended, code)})


class Recorded(Span):
    """Of a call that is both."""

    def __init__(self, span: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra of the package

        self._span = span
        found = span.get_span_context()
        self.trace_id = trace.format_trace_id(found.trace_id) if found.trace_flags.sampled else ""

    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        """See ``Span``."""
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
    """A span around a call, in the trace that the call names."""
    from opentelemetry import propagate, trace  # noqa: PLC0415 - an extra of the package

    carried = context.trace
    parent = propagate.extract(carried) if "traceparent" in carried else None
    span = _tracer().start_span(context.method, context=parent, kind=trace.SpanKind.SERVER)
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield Recorded(span)


def _attributes(context: Context) -> Mapping[str, str]:
    """Of the span and of the metric: nothing that has many values."""
    found = {"mcp.method.name": context.method}
    if context.channel.protocol:
        found["mcp.protocol.version"] = context.channel.protocol
    if (key := _NAMED.get(context.method)) and (name := _known_name(context)):
        found[key] = name
    if context.method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    return found


def _known_name(context: Context) -> str:
    """What is called, if there is such a thing: callers may send whatever they like."""
    name = str(context.params.get("name"))
    return name if name in context.server.tools or name in context.server.prompts else ""


def _name(context: Context) -> str:
    return f"{context.method} {_known_name(context)}".strip()


def _error(ended: Ended, code: int | None) -> Mapping[str, str]:
    if ended.outcome not in FAILURES:
        return {}
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
        description="How long requests took, from when they were received until their answer was made.",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )
