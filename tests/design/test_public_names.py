"""What a site may import, and that all of it is described."""

import ast
from collections.abc import Iterator

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


def test_the_public_names_are_these_and_no_others() -> None:
    assert django_mcp.__all__ == PUBLIC


def test_a_public_name_can_be_imported_and_is_described_by_words_of_its_own() -> None:
    """A dataclass without docstring is given its signature for one."""
    described = {name: getattr(django_mcp, name).__doc__ or "" for name in PUBLIC if name != "__version__"}
    assert [name for name, words in described.items() if not words or words.startswith(f"{name}(")] == []


def public_definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for each in ast.iter_child_nodes(node):
        # Django's "Meta" is no class of its own, and migrations are written by a command.
        public = isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and each.name != "Meta"
        if public and not each.name.startswith("_"):
            if any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in each.decorator_list):
                continue
            yield each
            if isinstance(each, ast.ClassDef):
                yield from public_definitions(each)


def test_every_module_and_every_public_class_and_function_has_a_docstring() -> None:
    written = [module for module in modules() if module.layer != "migrations"]
    assert [module.label for module in written if not ast.get_docstring(module.tree)] == []
    assert [
        f"{module.label}:{each.lineno} {each.name}"
        for module in written
        for each in public_definitions(module.tree)
        if not ast.get_docstring(each)
    ] == []
