"""Spans and metrics of OpenTelemetry, where it is installed.

Semantic conventions for MCP: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from django_mcp.audit.outcomes import Ended
from django_mcp.core.context import Context
from django_mcp.models import ToolCall
from django_mcp.version import __version__

try:
    from opentelemetry import metrics, propagate, trace
except ImportError:
    is_installed = False
else:
    is_installed = True

FAILURES = {ToolCall.Outcome.ERROR, ToolCall.Outcome.FAILED, ToolCall.Outcome.REFUSED, ToolCall.Outcome.TIMED_OUT}
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Those that the conventions ask for, in seconds."""
LOOK_SECONDS = 1.0
"""After how long it is seen that a site has set up traces or metrics, which it does as it starts."""
_NAMED = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}


class Span:
    """Of one call; that which is there without OpenTelemetry too.

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


class _Measured(Span):
    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        _duration().record(seconds, {**_attributes(context), **_error(ended, code)})


class _Recorded(Span):
    def __init__(self, span: Any) -> None:
        self._span = span
        found = span.get_span_context()
        self.trace_id = trace.format_trace_id(found.trace_id) if found.trace_flags.sampled else ""

    def end(self, context: Context, ended: Ended, seconds: float, code: int | None) -> None:
        about, failed = _attributes(context), _error(ended, code)
        uri = {"mcp.resource.uri": str(context.params["uri"])} if "uri" in context.params else {}
        self._span.update_name(_name(context))
        self._span.set_attributes({**about, **failed, **uri, "jsonrpc.request.id": str(context.request_id)})
        if failed:
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, ended.error[:1000]))
        self._span.end()
        _duration().record(seconds, {**about, **failed})


class Wanted:
    """What the site has set up.

    Attributes:
        spans: somebody takes them.
        metrics: likewise.
    """

    def __init__(self) -> None:
        self.spans = self.metrics = False
        self._due = 0.0

    def look(self) -> "Wanted":
        """Bring it up to date, if the last look was a while ago: each one reads the environment."""
        if is_installed and self._due <= time.monotonic():
            self._due = time.monotonic() + LOOK_SECONDS
            self.spans = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
            self.metrics = type(metrics.get_meter_provider()).__name__ != "_ProxyMeterProvider"
        return self

    def forget(self) -> None:
        """Look when asked the next time."""
        self._due = 0.0


wanted = Wanted()


def spanned(context: Context) -> AbstractContextManager[Span]:
    """A span around a call, which ends with ``Span.end``; in the caller's trace, where the call says which that is."""
    if wanted.spans:
        return _spanned(context)
    return nullcontext(_Measured() if wanted.metrics else Span())


@contextmanager
def _spanned(context: Context) -> Iterator[Span]:
    carried = context.trace
    parent = propagate.extract(carried) if "traceparent" in carried else None
    span = _tracer().start_span(context.method, context=parent, kind=trace.SpanKind.SERVER)
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield _Recorded(span)


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
    return {"error.type": "timeout" if ended.outcome == ToolCall.Outcome.TIMED_OUT else "tool_error"}


@cache
def _tracer() -> Any:
    return trace.get_tracer("django_mcp", __version__)


@cache
def _duration() -> Any:
    return metrics.get_meter("django_mcp", __version__).create_histogram(
        "mcp.server.operation.duration",
        unit="s",
        description="How long requests took, from when they were received until their answer was made.",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )
