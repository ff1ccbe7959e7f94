"""Model Context Protocol (MCP) endpoints for Django sites.

All public names are exported here, except ``django_mcp.asgi.mcp_application`` and ``django_mcp.urls``. Their modules
are imported on first access, because few sites use all of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.auth.api_keys import APIKeyAuthentication
    from django_mcp.auth.base import AllowAny, BaseAuthentication, InvalidToken, RequestHead
    from django_mcp.auth.jwt import JWTAuthentication
    from django_mcp.auth.oauth import OAuth2Authentication
    from django_mcp.auth.session import SessionAuthentication
    from django_mcp.core.channel import Cancelled
    from django_mcp.core.context import Context
    from django_mcp.core.decorators import prompt, resource, tool, ui
    from django_mcp.core.elicitation import (
        Elicitation,
        ElicitResult,
        InputRequired,
        Root,
        Roots,
        Sampling,
        SamplingResult,
        URLElicitation,
    )
    from django_mcp.core.permissions import notify_permissions_changed
    from django_mcp.core.principal import Principal
    from django_mcp.core.server import MCPServer, server
    from django_mcp.core.signals import call_logged
    from django_mcp.integrations.forms import form_tool
    from django_mcp.integrations.prompts import prompt_template
    from django_mcp.integrations.views import view_tool
    from django_mcp.model_resources.arguments import ModelArgument
    from django_mcp.model_resources.model_admin import from_admin
    from django_mcp.model_resources.notifications import notify_changed
    from django_mcp.model_resources.options import ModelResource
    from django_mcp.model_resources.registry import register, unregister
    from django_mcp.primitives.base import ToolError
    from django_mcp.primitives.field_schema import register_field
    from django_mcp.primitives.generators import Progress
    from django_mcp.primitives.markers import HeaderParam, Secret, Upload
    from django_mcp.primitives.output import ToolResult
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
        ToolResultContent,
        ToolUseContent,
    )
    from django_mcp.skills.declaration import skill
    from django_mcp.version import __version__
else:
    from importlib import import_module

    _WHERE = {
        name: module
        for module, names in {
            "django_mcp.auth.api_keys": "APIKeyAuthentication",
            "django_mcp.auth.base": "BaseAuthentication RequestHead InvalidToken AllowAny",
            "django_mcp.auth.jwt": "JWTAuthentication",
            "django_mcp.auth.oauth": "OAuth2Authentication",
            "django_mcp.auth.session": "SessionAuthentication",
            "django_mcp.core.channel": "Cancelled",
            "django_mcp.core.context": "Context",
            "django_mcp.core.decorators": "prompt resource tool ui",
            "django_mcp.core.elicitation": (
                "Elicitation ElicitResult InputRequired Root Roots SamplingResult Sampling URLElicitation"
            ),
            "django_mcp.core.permissions": "notify_permissions_changed",
            "django_mcp.core.principal": "Principal",
            "django_mcp.core.server": "MCPServer server",
            "django_mcp.core.signals": "call_logged",
            "django_mcp.integrations.forms": "form_tool",
            "django_mcp.integrations.prompts": "prompt_template",
            "django_mcp.integrations.views": "view_tool",
            "django_mcp.model_resources.arguments": "ModelArgument",
            "django_mcp.model_resources.model_admin": "from_admin",
            "django_mcp.model_resources.notifications": "notify_changed",
            "django_mcp.model_resources.options": "ModelResource",
            "django_mcp.model_resources.registry": "register unregister",
            "django_mcp.primitives.field_schema": "register_field",
            "django_mcp.primitives.generators": "Progress",
            "django_mcp.primitives.markers": "HeaderParam Secret Upload",
            "django_mcp.primitives.output": "ToolResult",
            "django_mcp.primitives.base": "ToolError",
            "django_mcp.protocol.content": (
                "Annotations AudioContent EmbeddedResource Icon ImageContent PromptMessage "
                "ResourceContents ResourceLink TextContent ToolResultContent ToolUseContent"
            ),
            "django_mcp.skills.declaration": "skill",
            "django_mcp.version": "__version__",
        }.items()
        for name in names.split()
    }

    def __getattr__(name: str) -> Any:
        try:
            module = _WHERE[name]
        except KeyError:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg) from None
        value = globals()[name] = getattr(import_module(module), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "APIKeyAuthentication",
    "AllowAny",
    "Annotations",
    "AudioContent",
    "BaseAuthentication",
    "Cancelled",
    "Context",
    "ElicitResult",
    "Elicitation",
    "EmbeddedResource",
    "HeaderParam",
    "Icon",
    "ImageContent",
    "InputRequired",
    "InvalidToken",
    "JWTAuthentication",
    "MCPServer",
    "ModelArgument",
    "ModelResource",
    "OAuth2Authentication",
    "Principal",
    "Progress",
    "PromptMessage",
    "RequestHead",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Roots",
    "Sampling",
    "SamplingResult",
    "Secret",
    "SessionAuthentication",
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
    "notify_changed",
    "notify_permissions_changed",
    "prompt",
    "prompt_template",
    "register",
    "register_field",
    "resource",
    "server",
    "skill",
    "tool",
    "ui",
    "unregister",
    "view_tool",
]
