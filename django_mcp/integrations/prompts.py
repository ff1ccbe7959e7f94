"""``prompt_template``: prompts from Django templates."""

import inspect
import re
import secrets
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import PurePosixPath
from types import NoneType
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.backends.django import Template as DjangoTemplate
from django.template.context import make_context
from django.template.loader import get_template
from django.utils.functional import Promise
from django.utils.safestring import mark_safe

from django_mcp.core.context import Context
from django_mcp.core.decorators import servers_of
from django_mcp.core.resources import link_here
from django_mcp.core.server import Where
from django_mcp.primitives.base import is_text
from django_mcp.primitives.function import EMPTY, Parameter, read_docstring
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.content import Content, EmbeddedResource, PromptMessage, Role

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class Messages:
    """Collects the messages of the template tags during one rendering.

    Each tag returns a mark for the position of its message. The mark is random for each rendering, so that no caller
    can send one.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mark = f"\ue000{secrets.randbits(64)}-{{}}\ue001"  # digits, which no template filter changes
        self._parts: list[tuple[Role, str] | list[Content]] = []

    def add(self, role: Role, text: str) -> str:
        """Add a message and return its mark. *text* may contain marks."""
        return self._marked((role, text))

    def embed(self, uri: str, variables: dict[str, Any]) -> str:
        """Add a resource's content and return its mark. ``{name}`` in *uri* becomes the percent-encoded variable."""
        return self._marked([EmbeddedResource(content) for content in self._context.read(_expanded(uri, variables))])

    def link(self, uri: str, variables: dict[str, Any]) -> str:
        return self._marked([link_here(self._context, _expanded(uri, variables))])

    def _marked(self, part: tuple[Role, str] | list[Content]) -> str:
        self._parts.append(part)
        return self._mark.format(len(self._parts) - 1)

    def split(self, text: str, role: Role = "user") -> Iterator[PromptMessage]:
        pieces = re.split(self._mark.format(r"(\d+)"), text)
        for plain, index in zip(pieces[::2], [*pieces[1::2], None], strict=True):
            if plain.strip():
                yield PromptMessage(plain.strip(), role)
            if index is not None:
                yield from self._messages(self._parts[int(index)], role)

    def _messages(self, part: tuple[Role, str] | list[Content], role: Role) -> Iterator[PromptMessage]:
        if isinstance(part, tuple):
            yield from self.split(part[1], part[0])
        else:
            yield from (PromptMessage(block, role) for block in part)


rendering: ContextVar[Messages | None] = ContextVar("rendering", default=None)
"""Messages of the prompt template that is being rendered."""


def _expanded(uri: str, variables: dict[str, Any]) -> str:
    if not variables:
        return uri
    return _VARIABLE.sub(lambda found: quote(str(variables[found[2]]), safe="/" if found[1] else ""), uri)


CONTEXT = "_context"
"""Parameter that takes the call's context. Template variables must not begin with an underscore."""

# One that nothing closes ends with the template, so that the search does not go on behind it.
_COMMENT = re.compile(r"\{%\s*comment\b[^%]*%\}(.*?)(?:\{%\s*endcomment\s*%\}|\Z)", re.DOTALL)
_MARKUP = (".html", ".htm", ".xhtml", ".xml", ".svg")


def prompt_template(
    template: str,
    *,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    server: Where = None,
    **options: Any,
) -> None:
    """Offer a template as a prompt: ``prompt_template("travel/plan.md", arguments={"city": "Where to go."})``.

    The first ``{% comment %}`` of the template is the description of the prompt; its ``Args:`` section describes the
    arguments, as in a docstring. Only HTML and XML templates are autoescaped.

    Args:
        template: template name, as for ``get_template``.
        name: 1 to 64 letters, digits, ``_`` or ``-``. Default: the file name up to its first dot.
        arguments: variables that callers provide, each with a description or an annotation such as ``Literal["kind",
            "sharp"]``. Required unless the annotation has a default or allows None.
        server: one or several endpoints to register at. Default: ``django_mcp.server``.
        **options: options of ``prompt``: ``title``, ``description``, ``completions``, ``permission``, ….

    Raises:
        ImproperlyConfigured: the template does not exist or has a syntax error, or its comment describes an argument
            that *arguments* does not name.
    """
    source = _Template(template, name or PurePosixPath(template).name.partition(".")[0])
    for endpoint in servers_of(server):
        checked = Arguments(source.parameters(arguments or {}), source.label)
        endpoint.add(Prompt(source, context_type=Context, arguments=checked, **options))


class _Template:
    __signature__ = inspect.Signature([inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY)])

    def __init__(self, template: str, name: str) -> None:
        self.template = template
        self.__name__ = name
        self.__doc__ = ""
        self.label = f"prompt_template({template!r})"
        try:
            loaded = get_template(template)
            if isinstance(loaded, DjangoTemplate):
                comment = _COMMENT.search(loaded.template.source)
                self.__doc__ = inspect.cleandoc(comment[1]) if comment else ""
        except TemplateDoesNotExist as error:
            msg = f"{self.label}: template {error} does not exist."
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
        template = get_template(self.template)  # cached by Django; reloaded in development
        is_markup = self.template.endswith(_MARKUP)
        if isinstance(template, DjangoTemplate):
            escapes = is_markup and template.backend.engine.autoescape
            return template.template.render(make_context(values, context.request, autoescape=escapes))
        if not is_markup:
            values = {name: mark_safe(value) if isinstance(value, str) else value for name, value in values.items()}  # noqa: S308
        return template.render(values, context.request)

    def parameters(self, arguments: Mapping[str, Any]) -> list[Parameter]:
        if wrong := [name for name in arguments if not name.isidentifier() or name.startswith("_")]:
            msg = f"{self.label}: {wrong[0]!r} is not a valid name of a template variable."
            raise ImproperlyConfigured(msg)
        if missing := [name for name in self._described if name not in arguments]:
            msg = (
                f"{self.label}: its comment describes {', '.join(map(repr, missing))}, but arguments= does not name "
                f"{'it' if len(missing) == 1 else 'them'}. Add each variable: arguments={{{missing[0]!r}: str}}."
            )
            raise ImproperlyConfigured(msg)
        return [self._parameter(name, declared) for name, declared in arguments.items()]

    def _parameter(self, name: str, declared: Any) -> Parameter:
        if isinstance(declared, str | Promise):
            words: Any = declared if is_text(declared) else self._described.get(name)
            return Parameter(name, str, EMPTY, words)
        parameter = Parameter(name, declared, EMPTY, self._described.get(name))
        # A default in the annotation's Field takes precedence.
        is_optional = parameter.required and _allows_none(declared)
        return parameter._replace(default=None) if is_optional else parameter


def _allows_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _allows_none(get_args(annotation)[0])
    return NoneType in get_args(annotation)
