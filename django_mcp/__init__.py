"""A Model Context Protocol endpoint for any Django site.

Everything public is exported here, except ``django_mcp.asgi.mcp_application`` and ``django_mcp.urls``.
"""

from django_mcp.adapters.forms import form_tool
from django_mcp.adapters.templates import prompt_template
from django_mcp.adapters.views import view_tool
from django_mcp.auth.api_keys import APIKeys
from django_mcp.auth.base import Authenticator, Head, InvalidToken
from django_mcp.auth.external import ExternalTokens
from django_mcp.auth.oauth import OAuth
from django_mcp.auth.public import Public
from django_mcp.auth.session import SiteSession
from django_mcp.core.channel import Cancelled
from django_mcp.core.context import Context
from django_mcp.core.decorators import prompt, resource, tool
from django_mcp.core.dialogue import InputRequired
from django_mcp.core.permissions import notify_rights_changed
from django_mcp.core.principal import Principal
from django_mcp.core.questions import Elicitation, Elicited, Root, Roots, Sampled, Sampling, URLElicitation
from django_mcp.core.registry import MCPServer, server
from django_mcp.core.signals import call_logged
from django_mcp.exposure.admin_sites import from_admin
from django_mcp.exposure.declaration import ModelResource
from django_mcp.exposure.instances import Rows
from django_mcp.exposure.publishing import publish
from django_mcp.exposure.registration import register
from django_mcp.primitives.generators import Progress
from django_mcp.primitives.mirrors import Header
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.secrets import Secret
from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.uploads import Upload
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
from django_mcp.skills.declaration import skill
from django_mcp.version import __version__

__all__ = [
    "APIKeys",
    "Annotations",
    "AudioContent",
    "Authenticator",
    "Cancelled",
    "Context",
    "Elicitation",
    "Elicited",
    "EmbeddedResource",
    "ExternalTokens",
    "Head",
    "Header",
    "Icon",
    "ImageContent",
    "InputRequired",
    "InvalidToken",
    "MCPServer",
    "ModelResource",
    "OAuth",
    "Principal",
    "Progress",
    "PromptMessage",
    "Public",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Roots",
    "Rows",
    "Sampled",
    "Sampling",
    "Secret",
    "SiteSession",
    "TextContent",
    "ToolError",
    "ToolResult",
    "ToolResultContent",
    "ToolUseContent",
    "URLElicitation",
    "Upload",
    "__version__",
    "call_logged",
    "form_tool",
    "from_admin",
    "notify_rights_changed",
    "prompt",
    "prompt_template",
    "publish",
    "register",
    "resource",
    "server",
    "skill",
    "tool",
    "view_tool",
]
