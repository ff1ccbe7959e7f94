"""Spans and metrics of OpenTelemetry, where a site uses it.

Semantic conventions for MCP: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mcp.audit.outcomes import Ended
    from django_mcp.core.context import Context

LOOK_SECONDS = 1.0
"""After how long it is seen that a site has set up traces or metrics, which it does as it starts."""
MODULES = frozenset({"opentelemetry.metrics", "opentelemetry.trace"})
SET_UP_BY = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""Environment variables that have OpenTelemetry set itself up when it is first asked."""


class Span:
    """Of one call; that which is there without OpenTelemetry too.

    Attributes:
        trace_id: of the trace it belongs to; empty where it is not recorded.
    """

    trace_id = ""

    def end(self, context: "Context", ended: "Ended", seconds: float, code: int | None) -> None:
        """Say what came of the call.

        Args:
            context: of the call.
            ended: what came of it.
            seconds: how long it took.
            code: of the JSON-RPC error.
        """


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
        if self._due <= time.monotonic():
            self._due = time.monotonic() + LOOK_SECONDS
            try:
                self._look()
            except ImportError:  # it is wanted, and not installed
                self.spans = self.metrics = False
        return self

    def _look(self) -> None:
        if not is_used():
            self.spans = self.metrics = False
            return
        from django_mcp.audit import spans  # noqa: PLC0415 - most sites do not use it

        self.spans, self.metrics = spans.takes_spans(), spans.takes_metrics()

    def forget(self) -> None:
        """Look when asked the next time."""
        self._due = 0.0


wanted = Wanted()


def is_used() -> bool:
    """Whether anybody in this process has to do with OpenTelemetry: who sets something up has imported it."""
    return not MODULES.isdisjoint(sys.modules) or any(name in os.environ for name in SET_UP_BY)


def spanned(context: "Context") -> AbstractContextManager[Span]:
    """A span around a call, which ends with ``Span.end``; in the caller's trace, where the call says which that is."""
    if not wanted.spans and not wanted.metrics:
        return nullcontext(Span())
    from django_mcp.audit import spans  # noqa: PLC0415 - most sites do not use it

    return spans.spanned(context) if wanted.spans else nullcontext(spans.Measured())
