"""What a site may import, and that all of it is described."""

import ast
from collections.abc import Iterator

import pytest

import django_mcp
from tests.design.sources import Module, modules

PUBLIC = [
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


def test_the_public_names_are_these_and_no_others() -> None:
    assert django_mcp.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_imported_and_is_described(name: str) -> None:
    value = getattr(django_mcp, name)
    assert isinstance(value, str) if name == "__version__" else value.__doc__


@pytest.mark.parametrize("name", [name for name in PUBLIC if isinstance(getattr(django_mcp, name), type)])
def test_a_public_class_is_described_by_words_of_its_own(name: str) -> None:
    """A dataclass without docstring is given its signature for one."""
    assert not getattr(django_mcp, name).__doc__.startswith(f"{name}(")


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


@pytest.mark.parametrize(
    "module", [each for each in modules() if each.layer != "migrations"], ids=lambda module: module.label
)
def test_every_module_and_every_public_class_and_function_has_a_docstring(module: Module) -> None:
    assert ast.get_docstring(module.tree)
    assert [
        f"{each.name}, line {each.lineno}" for each in public_definitions(module.tree) if not ast.get_docstring(each)
    ] == []
