"""The request log: entries of calls, saved before the caller gets the answer, and OpenTelemetry."""
