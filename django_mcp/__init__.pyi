# ruff: noqa: I001 - a line for each module
# For type checkers, and for __init__.py, which imports these names on first use.

from django_mcp.auth.api_keys import APIKeyAuthentication as APIKeyAuthentication
from django_mcp.auth.base import (
    AllowAny as AllowAny,
    BaseAuthentication as BaseAuthentication,
    InvalidToken as InvalidToken,
    RequestHead as RequestHead,
)
from django_mcp.auth.jwt import JWTAuthentication as JWTAuthentication
from django_mcp.auth.oauth import OAuth2Authentication as OAuth2Authentication
from django_mcp.auth.session import SessionAuthentication as SessionAuthentication
from django_mcp.core.channel import Cancelled as Cancelled
from django_mcp.core.context import Context as Context
from django_mcp.core.decorators import prompt as prompt, resource as resource, tool as tool, ui as ui
from django_mcp.core.elicitation import (
    ElicitResult as ElicitResult,
    Elicitation as Elicitation,
    InputRequired as InputRequired,
    Root as Root,
    Roots as Roots,
    Sampling as Sampling,
    SamplingResult as SamplingResult,
    URLElicitation as URLElicitation,
)
from django_mcp.core.permissions import notify_permissions_changed as notify_permissions_changed
from django_mcp.core.principal import Principal as Principal
from django_mcp.core.server import MCPServer as MCPServer, server as server
from django_mcp.core.signals import request_logged as request_logged
from django_mcp.integrations.admin_site.tools import admin_tools as admin_tools
from django_mcp.integrations.forms import form_tool as form_tool
from django_mcp.integrations.prompts import prompt_template as prompt_template
from django_mcp.integrations.views import view_tool as view_tool
from django_mcp.model_resources.arguments import ModelArgument as ModelArgument
from django_mcp.model_resources.model_admin import from_admin as from_admin
from django_mcp.model_resources.notifications import notify_changed as notify_changed
from django_mcp.model_resources.options import ModelResource as ModelResource
from django_mcp.model_resources.registry import register as register, unregister as unregister
from django_mcp.primitives.base import ToolError as ToolError
from django_mcp.primitives.field_schema import register_field as register_field
from django_mcp.primitives.generators import Progress as Progress
from django_mcp.primitives.markers import HeaderParam as HeaderParam, Secret as Secret, Upload as Upload
from django_mcp.primitives.output import ToolResult as ToolResult
from django_mcp.protocol.content import (
    Annotations as Annotations,
    AudioContent as AudioContent,
    EmbeddedResource as EmbeddedResource,
    Icon as Icon,
    ImageContent as ImageContent,
    PromptMessage as PromptMessage,
    ResourceContents as ResourceContents,
    ResourceLink as ResourceLink,
    TextContent as TextContent,
    ToolResultContent as ToolResultContent,
    ToolUseContent as ToolUseContent,
)
from django_mcp.skills.declaration import skill as skill
from django_mcp.version import __version__ as __version__
