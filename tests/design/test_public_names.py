"""What a site may import, and that all of it is described."""

import ast
import inspect

import django_mcp
from tests.design.sources import modules

PUBLIC = [
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
    "admin_tools",
    "form_tool",
    "from_admin",
    "notify_changed",
    "notify_permissions_changed",
    "prompt",
    "prompt_template",
    "register",
    "register_field",
    "request_logged",
    "resource",
    "server",
    "skill",
    "tool",
    "ui",
    "unregister",
    "view_tool",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert django_mcp.__all__ == PUBLIC


def test_a_public_name_can_be_imported_and_is_described_by_words_of_its_own() -> None:
    """A dataclass without docstring is given its signature for one."""
    described = {name: getattr(django_mcp, name).__doc__ or "" for name in PUBLIC if name != "__version__"}
    assert [name for name, words in described.items() if not words or words.startswith(f"{name}(")] == []


def test_every_module_says_what_it_owns() -> None:
    written = [module for module in modules() if module.layer != "migrations"]
    assert [module.label for module in written if not ast.get_docstring(module.tree)] == []


def test_what_sites_call_has_a_docstring() -> None:
    """The reference is made of them. Inside the package, what the signature says needs none."""
    missing = [
        f"{name}.{method}"
        for name in PUBLIC
        if inspect.isclass(given := getattr(django_mcp, name))
        for method, function in vars(given).items()
        if inspect.isfunction(function) and not method.startswith("_") and not inspect.getdoc(getattr(given, method))
    ]
    assert missing == []
