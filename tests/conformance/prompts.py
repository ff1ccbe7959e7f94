"""Prompts."""

from collections.abc import Iterable

from django_mcp import EmbeddedResource, ImageContent, PromptMessage, ResourceContents, prompt
from tests.conformance.authentication import required
from tests.conformance.samples import PNG
from tests.conformance.scopes import PROMPT


@prompt(scopes=required(PROMPT))
async def test_simple_prompt() -> str:
    """A text."""
    return "This is a simple prompt for testing."


def values(value: str) -> Iterable[str]:
    """What an argument may become that begins with *value*."""
    return [each for each in ("testValue1", "testValue2") if each.startswith(value)]


@prompt(completions={"arg1": values})
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A text with its arguments in it.

    Args:
        arg1: The first.
        arg2: The second.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:  # noqa: N803 - the suite's name
    """A resource to process.

    Args:
        resourceUri: The URI of the resource.
    """
    contents = ResourceContents("Embedded resource content for testing.", resourceUri, "text/plain")
    return [PromptMessage(EmbeddedResource(contents)), PromptMessage("Please process the embedded resource above.")]


@prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """An image to look at."""
    return [PromptMessage(ImageContent(PNG, "image/png")), PromptMessage("Please analyze the image above.")]
