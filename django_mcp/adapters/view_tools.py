"""The tool of a view, whose arguments are in the URLconf."""

import logging
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver

from django_mcp.adapters.published import Published
from django_mcp.core.context import Context
from django_mcp.core.generated import function, shaped
from django_mcp.core.registry import every_server
from django_mcp.primitives.mirrors import Mirror
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import Arguments
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.translated import is_translated

logger = logging.getLogger("django_mcp")


class ViewTool(Tool):
    """A tool that is completed when it is first listed or called.

    The URLconf cannot be read while apps are still made ready: it may need any of them, and the endpoint is in it too.
    A tool that then proves to be misdeclared fails when it is called, and keeps no other from its clients; a system
    check tells of it.

    Args:
        published: the view.
        output: JSON Schema of the structured content, or None.
        description: in place of the view's docstring.
        options: of ``Tool``.
    """

    def __init__(
        self, published: Published, output: dict[str, Any] | None, *, description: str | None, **options: Any
    ) -> None:
        self._lock, self._is_whole = threading.RLock(), True
        self._problem: ImproperlyConfigured | None = None
        self._published = published
        self._returns: Any = ToolResult if output is None else shaped({"type": "object"})
        self._options = {**options, "description": description}
        super().__init__(self._function([], ""), context_type=Context, **self._options)
        if output is not None:  # as it is: pydantic would look for what it refers to
            self.output.schema = self._definition["outputSchema"] = output
        self._is_whole = False

    def _function(self, parameters: Any, words: str) -> Any:
        return function(self._published, self._options["name"], words, parameters, self._published, self._returns)

    @cached_property
    def is_translated(self) -> bool:
        """As ``Primitive`` has it; docstrings and URLconfs have no lazy translations."""
        return is_translated(self._definition)

    def find_problem(self) -> ImproperlyConfigured | None:
        """What is wrong with the declaration."""
        self._complete()
        return self._problem

    def forget(self) -> None:
        """Complete it anew, from another URLconf."""
        self._published.forget()
        self._problem, self._is_whole = None, False

    # What is completed: Tool sets these as attributes

    @property
    def definition(self) -> dict[str, Any]:
        """Its entry in a list."""
        self._complete()
        return self._definition

    @definition.setter
    def definition(self, value: dict[str, Any]) -> None:
        """What ``Tool`` has made so far."""
        self._definition = value

    @property
    def arguments(self) -> Arguments:
        """What checks the arguments."""
        self._complete()
        return self._arguments

    @arguments.setter
    def arguments(self, value: Arguments) -> None:
        """What ``Tool`` has made so far."""
        self._arguments: Arguments = value

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        """The parameters that headers repeat."""
        self._complete()
        return self._mirrors

    @mirrors.setter
    def mirrors(self, value: tuple[Mirror, ...]) -> None:
        """What ``Tool`` has made so far."""
        self._mirrors = value

    def _check_preview(self) -> None:
        """What the tool takes shows when it is completed, and so does what is wrong with its preview."""

    def _complete(self) -> None:
        if self._is_whole or not apps.ready:
            return
        with self._lock:
            if not self._is_whole:
                try:
                    self._fill()
                except ImproperlyConfigured as problem:
                    logger.error("tool %r: %s", self.name, problem)  # noqa: TRY400 - nobody needs the traceback
                    self._problem, self._arguments = problem, Misdeclared(problem)
                self._is_whole = True

    def _fill(self) -> None:
        published = self._published
        words = self._function(published.parameters(), published.words)
        options = self._options
        if not published.is_atomic:
            options = {"atomic": False, **{name: value for name, value in options.items() if value is not None}}
        whole = Tool(words, context_type=Context, **options)
        self.description = whole.description
        # Another object, for who keeps what was made of the one before.
        self._definition = {
            **self._definition,
            **{key: whole.definition[key] for key in SHOWN if key in whole.definition},
        }
        self._arguments, self._mirrors, self.atomic = whole.arguments, whole.mirrors, whole.atomic


SHOWN = ("description", "inputSchema")


class Misdeclared(Arguments):
    """Takes no arguments at all.

    Args:
        problem: what is wrong.
    """

    def __init__(self, problem: ImproperlyConfigured) -> None:
        super().__init__([], "")
        self._problem = problem

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Say to the log what is wrong.

        Raises:
            ImproperlyConfigured: always.
        """
        raise self._problem


@receiver(setting_changed)
def forget_urlconf(*, setting: str, **_: Any) -> None:
    """In tests a site may have one URLconf after the other."""
    if setting != "ROOT_URLCONF":
        return
    for server in every_server():
        for tool in server.tools.values():
            if isinstance(tool, ViewTool):
                tool.forget()
                server.pages.clear()
