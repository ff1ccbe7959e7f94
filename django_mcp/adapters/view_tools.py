"""The tool of a view, whose arguments are in the URLconf."""

from typing import Any

from django.core.signals import setting_changed
from django.dispatch import receiver

from django_mcp.adapters.late_tools import LateTool
from django_mcp.adapters.published import Published
from django_mcp.core.context import Context
from django_mcp.core.server import every_server
from django_mcp.core.signatures import function, shaped
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool


class ViewTool(LateTool):
    """A tool that is completed when the URLconf can be read.

    Args:
        published: the view.
        output: JSON Schema of the structured content, or None.
        description: in place of the view's docstring.
        options: of ``Tool``.
    """

    def __init__(
        self, published: Published, output: dict[str, Any] | None, *, description: str | None, **options: Any
    ) -> None:
        self._published = published
        self._returns: Any = ToolResult if output is None else shaped({"type": "object"})
        self._options = {**options, "description": description}
        super().__init__(self._function([], ""), **self._options)
        if output is not None:  # as it is: pydantic would look for what it refers to
            self._output.schema = self._definition["outputSchema"] = output

    def _function(self, parameters: Any, words: str) -> Any:
        return function(self._published, self._options["name"], words, parameters, self._published, self._returns)

    def forget(self) -> None:
        """Complete it anew, from another URLconf."""
        self._published.forget()
        super().forget()

    def made(self) -> Tool:
        """See ``LateTool``."""
        published = self._published
        words = self._function(published.parameters(), published.words)
        options = self._options
        if not published.is_atomic:
            options = {"atomic": False, **{name: value for name, value in options.items() if value is not None}}
        return Tool(words, context_type=Context, **options)


@receiver(setting_changed)
def forget_urlconf(*, setting: str, **_: Any) -> None:
    """In tests a site may have one URLconf after the other."""
    if setting != "ROOT_URLCONF":
        return
    for server in every_server():
        for tool in server.tools.values():
            if isinstance(tool, ViewTool):
                tool.forget()
                server.pages = {}
