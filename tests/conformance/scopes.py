"""The scopes and tokens of the scope challenge scenario (SEP-2350, pull request 481 of the conformance suite)."""

from collections.abc import Mapping, Sequence

BASELINE = "mcp:conformance:baseline"
TOOL = ["mcp:conformance:tools:call", "mcp:conformance:tools:test_simple_text"]
RESOURCE = ["mcp:conformance:resources:read", "mcp:conformance:resources:static"]
EXPANDED = ["mcp:conformance:resources:read", "mcp:conformance:resources:template:123"]
PROMPT = ["mcp:conformance:prompts:get", "mcp:conformance:prompts:test_simple_prompt"]

LOW, FULL = "mcp-conformance-scope-low", "mcp-conformance-scope-full"
TOKENS: Mapping[str, Sequence[str]] = {LOW: [BASELINE], FULL: [BASELINE, *TOOL, *RESOURCE, *EXPANDED, *PROMPT]}
