"""A Model Context Protocol endpoint for any Django site.

Everything public is exported here, except ``django_mcp.asgi.mcp_application`` and ``django_mcp.urls``.
"""

from django_mcp.auth.public import Public
from django_mcp.core.channel import Cancelled
from django_mcp.core.context import Context
from django_mcp.core.decorators import prompt, resource, tool
from django_mcp.core.dialogue import InputRequired
from django_mcp.core.principal import Principal
from django_mcp.core.questions import Elicitation, Elicited, Root, Roots, Sampled, Sampling, URLElicitation
from django_mcp.core.registry import MCPServer, server
from django_mcp.primitives.mirrors import Header
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import ToolError
from django_mcp.protocol.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from django_mcp.protocol.sampling import ToolResultContent, ToolUseContent
from django_mcp.version import __version__

__all__ = [
    "Annotations",
    "AudioContent",
    "Cancelled",
    "Context",
    "Elicitation",
    "Elicited",
    "EmbeddedResource",
    "Header",
    "Icon",
    "ImageContent",
    "InputRequired",
    "MCPServer",
    "Principal",
    "PromptMessage",
    "Public",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Roots",
    "Sampled",
    "Sampling",
    "TextContent",
    "ToolError",
    "ToolResult",
    "ToolResultContent",
    "ToolUseContent",
    "URLElicitation",
    "__version__",
    "prompt",
    "resource",
    "server",
    "tool",
]
