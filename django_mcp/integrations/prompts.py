"""``prompt_template``: Django templates as prompts."""

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
from django_mcp.primitives.function import EMPTY, Parameter, read_docstring
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.content import Content, EmbeddedResource, PromptMessage, Role

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class Messages:
    """What the tags of one rendering say.

    A tag puts a mark into the text where its message belongs. The mark is drawn anew for each rendering, so nothing
    a caller sends can be taken for one.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mark = f"\ue000{secrets.randbits(64)}-{{}}\ue001"  # digits, which no filter turns into anything else
        self._parts: list[tuple[Role, str] | list[Content]] = []

    def add(self, role: Role, text: str) -> str:
        """The mark of a message. *text* may have marks itself."""
        return self._marked((role, text))

    def embed(self, uri: str, variables: dict[str, Any]) -> str:
        """The mark of a resource: *uri*, with each ``{name}`` replaced by the variable, percent-encoded."""
        return self._marked([EmbeddedResource(each) for each in self._context.read(_expanded(uri, variables))])

    def link(self, uri: str, variables: dict[str, Any]) -> str:
        """The mark of a link to a resource."""
        return self._marked([link_here(self._context, _expanded(uri, variables))])

    def _marked(self, part: tuple[Role, str] | list[Content]) -> str:
        self._parts.append(part)
        return self._mark.format(len(self._parts) - 1)

    def split(self, text: str, role: Role = "user") -> Iterator[PromptMessage]:
        """The messages in a rendered text, in their order. What stands outside of all tags is *role*'s."""
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
"""The messages of the prompt whose template is being rendered."""


def _expanded(uri: str, variables: dict[str, Any]) -> str:
    if not variables:
        return uri
    return _VARIABLE.sub(lambda found: quote(str(variables[found[2]]), safe="/" if found[1] else ""), uri)


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
    """Offer a template as a prompt: ``prompt_template("travel/plan.md", arguments={"city": "Where to go."})``.

    The first ``{% comment %}`` of the template describes the prompt, and its arguments in a section ``Args:`` as a
    docstring does. Nothing is escaped in a template that is not HTML or XML.

    Args:
        template: as ``get_template`` takes it.
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the file's, without what follows the dot.
        arguments: the variables that the template takes from the caller, each with its description or an annotation
            such as ``Literal["kind", "sharp"]``. Required, unless the annotation has a default or allows None.
        server: where to register, one endpoint or several; by default ``django_mcp.server``.
        **options: those of ``prompt``: ``title``, ``description``, ``completions``, ``permission``, ….

    Raises:
        ImproperlyConfigured: there is no such template, it is not well-formed, or its comment describes an argument
            that *arguments* does not name.
    """
    source = _Template(template, name or PurePosixPath(template).name.partition(".")[0])
    for each in servers_of(server):
        checked = Arguments(source.parameters(arguments or {}), source.label)
        each.add(Prompt(source, context_type=Context, arguments=checked, **options))


class _Template:
    """A template as the function of a prompt. It takes whatever its arguments are checked by."""

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

    def parameters(self, arguments: Mapping[str, Any]) -> list[Parameter]:
        """Return the parameters of the prompt.

        Raises:
            ImproperlyConfigured: the comment describes an argument that *arguments* does not name, or one cannot be
                the name of a variable.
        """
        if wrong := [name for name in arguments if not name.isidentifier() or name.startswith("_")]:
            msg = f"{self.label}: {wrong[0]!r} cannot be the name of a variable in a template."
            raise ImproperlyConfigured(msg)
        if missing := [name for name in self._described if name not in arguments]:
            msg = (
                f"{self.label}: its comment describes {', '.join(map(repr, missing))}, but arguments= does not name "
                f"{'it' if len(missing) == 1 else 'them'}. Name each variable: arguments={{{missing[0]!r}: str}}."
            )
            raise ImproperlyConfigured(msg)
        return [self._parameter(name, said) for name, said in arguments.items()]

    def _parameter(self, name: str, said: Any) -> Parameter:
        if isinstance(said, str | Promise):
            words: Any = said or self._described.get(name)
            return Parameter(name, str, EMPTY, words)
        parameter = Parameter(name, said, EMPTY, self._described.get(name))
        # A default of the annotation's own, in its Field, goes before ours.
        is_optional = parameter.required and _allows_none(said)
        return parameter._replace(default=None) if is_optional else parameter


def _allows_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _allows_none(get_args(annotation)[0])
    return NoneType in get_args(annotation)
