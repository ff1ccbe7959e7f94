"""``prompt_template``: a template becomes a prompt."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.backends.django import Template as DjangoTemplate
from django.template.context import make_context
from django.template.loader import get_template
from django.utils.functional import Promise
from django.utils.safestring import mark_safe

from django_mcp.adapters.template_messages import Messages, rendering
from django_mcp.adapters.template_variables import GIVEN, Reading
from django_mcp.core.context import Context
from django_mcp.core.decorators import servers_of
from django_mcp.core.selection import Where
from django_mcp.primitives.function import EMPTY, Parameter, read_docstring
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.content import PromptMessage

CONTEXT = "_context"
"""The parameter that is the call's context: no variable of a template may begin like that."""

_COMMENT = re.compile(r"\{%\s*comment\b[^%]*%\}(.*?)\{%\s*endcomment\s*%\}", re.DOTALL)
_MARKUP = (".html", ".htm", ".xhtml", ".xml", ".svg")


def prompt_template(
    template: str,
    *,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    server: Where = None,
    **options: Any,
) -> None:
    """Offer a template as a prompt: ``prompt_template("travel/plan.md")``.

    Its arguments are the template's own variables; one with a ``default``, or used only where an ``{% if %}`` looked at
    it, may be left out. What Django's context processors give is none. The first ``{% comment %}`` describes the
    prompt, and its arguments in a section ``Args:`` as a docstring does. Nothing is escaped in a template that is not
    HTML or XML.

    Args:
        template: as ``get_template`` takes it.
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the file's, without what follows the dot.
        arguments: for some variables or all, the description, or an annotation such as ``Literal["kind", "sharp"]``;
            None for one that is no argument, since a context processor of the site gives it. Required where the
            template cannot be read: of another engine than Django's, or with an ``{% include %}`` of a variable.
        server: where to register, one endpoint or several; by default ``django_mcp.server``.
        **options: those of ``prompt``: ``title``, ``description``, ``completions``, ``permission``, ….

    Raises:
        ImproperlyConfigured: there is no such template, it is not well-formed, or *arguments* are not its own.
    """
    source = _Template(template, name or PurePosixPath(template).name.partition(".")[0])
    for each in servers_of(server):
        checked = Arguments(source.parameters(arguments), source.label)
        each.add(Prompt(source, context_type=Context, arguments=checked, **options))


class _Template:
    """A template as the function of a prompt. It takes whatever its arguments are checked by."""

    __signature__ = inspect.Signature([inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY)])

    def __init__(self, template: str, name: str) -> None:
        self.template = template
        self.__name__ = name
        self.__doc__ = ""
        self.label = f"prompt_template({template!r})"
        self._reading: Reading | None = None
        try:
            loaded = get_template(template)
            if isinstance(loaded, DjangoTemplate):
                self._reading = Reading(loaded.template)
                comment = _COMMENT.search(loaded.template.source)
                self.__doc__ = inspect.cleandoc(comment[1]) if comment else ""
        except TemplateDoesNotExist as error:
            msg = f"{self.label}: there is no template {error}."
            raise ImproperlyConfigured(msg) from error
        except TemplateSyntaxError as error:
            msg = f"{self.label}: {error}"
            raise ImproperlyConfigured(msg) from error
        _, self._described = read_docstring(self.__doc__)

    def __call__(self, *, _context: Context, **values: Any) -> list[PromptMessage]:
        messages = Messages(_context)
        token = rendering.set(messages)
        try:
            return list(messages.split(self._render(_context, values)))
        finally:
            rendering.reset(token)

    def _render(self, context: Context, values: dict[str, Any]) -> str:
        template = get_template(self.template)  # Django keeps it, and in development forgets it when the file changes
        is_markup = self.template.endswith(_MARKUP)
        if isinstance(template, DjangoTemplate):
            escapes = is_markup and template.backend.engine.autoescape
            return template.template.render(make_context(values, context.request, autoescape=escapes))
        if not is_markup:
            values = {name: mark_safe(each) if isinstance(each, str) else each for name, each in values.items()}  # noqa: S308
        return template.render(values, context.request)

    def parameters(self, arguments: Mapping[str, Any] | None) -> list[Parameter]:
        """The arguments: variables of the template, with what was said of them.

        Raises:
            ImproperlyConfigured: the template cannot be read for them, or has no such variable.
        """
        given = arguments or {}
        needed = self._variables(given)
        if not self._is_readable:
            if arguments is None:
                msg = f"{self.label}: its variables cannot be read, so name them: arguments={{'city': 'Which city.'}}."
                raise ImproperlyConfigured(msg)
            needed = {**dict.fromkeys(given, True), **needed}
        if unknown := [name for name in given if name not in needed]:
            known = ", ".join(map(repr, needed)) or "none"
            msg = f"{self.label}: arguments {', '.join(map(repr, unknown))}, but the template's variables are: {known}."
            raise ImproperlyConfigured(msg)
        order = dict.fromkeys([*(name for name in self._described if name in needed), *needed])
        said = {name: given.get(name, "") for name in order}
        return [self._parameter(name, needed[name], each) for name, each in said.items() if each is not None]

    @property
    def _is_readable(self) -> bool:
        return self._reading is not None and not self._reading.unread

    def _variables(self, given: Mapping[str, Any]) -> dict[str, bool]:
        """The variables that nothing else gives, and whether the template needs them."""
        found = self._reading.required if self._reading else {}
        return {name: needed for name, needed in found.items() if name not in GIVEN or name in given}

    def _parameter(self, name: str, needed: bool, said: Any) -> Parameter:
        words: Any = said if isinstance(said, str | Promise) else None
        annotation = said if words is None else str
        parameter = Parameter(name, annotation, EMPTY, words or self._described.get(name))
        # A default of the annotation's own, in its Field, goes before ours.
        return parameter if needed or not parameter.required else dataclasses.replace(parameter, default=None)
