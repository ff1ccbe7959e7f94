"""Tools that only answer: every kind of content, errors, schemas and headers."""

from typing import Annotated

from django_mcp import (
    AudioContent,
    EmbeddedResource,
    HeaderParam,
    ImageContent,
    ResourceContents,
    TextContent,
    ToolError,
    server,
    tool,
)
from tests.conformance.authentication import required
from tests.conformance.samples import PNG, WAV
from tests.conformance.scopes import TOOL


@tool(read_only=True, scopes=required(TOOL))
async def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


@tool(read_only=True)
def test_image_content() -> ImageContent:
    """An image."""
    return ImageContent(PNG, "image/png")


@tool(read_only=True)
async def test_audio_content() -> AudioContent:
    """A sound."""
    return AudioContent(WAV, "audio/wav")


@tool(read_only=True)
def test_embedded_resource() -> EmbeddedResource:
    """The contents of a resource."""
    return EmbeddedResource(
        ResourceContents("This is an embedded resource content.", "test://embedded-resource", "text/plain")
    )


@tool(read_only=True)
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """A text, an image and a resource."""
    data = ResourceContents('{"test":"data","value":123}', "test://mixed-content-resource", "application/json")
    return [TextContent("Multiple content types test:"), ImageContent(PNG, "image/png"), EmbeddedResource(data)]


@tool
def test_error_handling() -> str:
    """Fails, in words for the model."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_trigger_tool_change() -> str:
    """Announces that the list of tools has changed."""
    server.notify_list_changed("tools")
    return "The change of the tools was announced."


@tool
def test_trigger_prompt_change() -> str:
    """Announces that the list of prompts has changed."""
    server.notify_list_changed("prompts")
    return "The change of the prompts was announced."


@tool(read_only=True)
def test_x_mcp_header(region: Annotated[str, HeaderParam("Region")] = "") -> str:  # noqa: PT028 - no test of ours
    """Gives back an argument that is mirrored into a header."""
    return f"Region: {region}"


JSON_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(read_only=True, input_schema=JSON_SCHEMA_2020_12)
def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "",  # noqa: N803 - the name is the suite's
    phone: str = "",
    email: str = "",
) -> str:
    """Has an input schema with all that JSON Schema 2020-12 brought."""
    return f"{name}, {address}, {contactMethod}: {phone or email}"


@tool(read_only=True)
def sep_2106_array_output_tool() -> list[dict[str, str]]:
    """An array as structured content."""
    return [{"hour": "09:00", "conditions": "sunny"}, {"hour": "10:00", "conditions": "cloudy"}]


@tool(read_only=True)
def sep_2106_primitive_output_tool() -> float:
    """A number as structured content."""
    return 42
