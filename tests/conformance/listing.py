"""Whether the server offers every fixture: without that, scenarios pass that tested nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance.wire import Legacy, Modern


class Fixtures(NamedTuple):
    """What must be listed.

    Attributes:
        member: where in the result the entries are.
        identifier: what tells an entry from others.
        names: the identifiers that there must be.
    """

    member: str
    identifier: str
    names: Sequence[str]


TOOLS = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_tool_with_logging",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "json_schema_2020_12_tool",
    "test_x_mcp_header",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    # Of scenarios in open pull requests: 308, 73, 436 and 438.
    "sep_2106_array_output_tool",
    "sep_2106_primitive_output_tool",
    "test_event_replay",
    "test_multiple_reconnections",
    "test_tool_slow",
    "test_tool_fast",
]
PROMPTS = [
    "test_simple_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_input_required_result_prompt",
]
RESOURCES = [
    "test://static-text",
    "test://static-binary",
    "test://watched-resource",
    "skill://git-workflow/SKILL.md",
]
TEMPLATES = ["test://template/{id}/data", "skill://git-workflow/{+path}"]

FIXTURES: Mapping[str, Fixtures] = {
    "tools/list": Fixtures("tools", "name", TOOLS),
    "prompts/list": Fixtures("prompts", "name", PROMPTS),
    "resources/list": Fixtures("resources", "uri", RESOURCES),
    "resources/templates/list": Fixtures("resourceTemplates", "uriTemplate", TEMPLATES),
}
FIRST = {"tools/list": "test_simple_text", "resources/list": "test://static-text"}
"""What has to come first, for there are scenarios that take the first there is."""


def missing(url: str) -> list[str]:
    """What is not offered as it should be, to clients of either era; a line each.

    Raises:
        WireError: the server gave no list.
    """
    complaints = []
    for client in (Legacy(url), Modern(url)):
        for method, fixtures in FIXTURES.items():
            entries = client.list(method, fixtures.member)
            complaints += [f"{client.version} {method}: {each}" for each in complaints_of(method, entries)]
        client.close()
    return complaints


def complaints_of(method: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with one list."""
    fixtures = FIXTURES[method]
    names = [entry.get(fixtures.identifier) for entry in entries]
    complaints = [f"{name} is missing" for name in fixtures.names if name not in names]
    complaints += [f"{name} is there twice" for name in fixtures.names if names.count(name) > 1]
    if method in FIRST and names[:1] != [FIRST[method]]:
        complaints.append(f"{FIRST[method]} is not the first entry")
    return complaints
