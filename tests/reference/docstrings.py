"""Read parameters, attributes and first sentences from docstrings, as Markdown for table cells."""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from docstring_parser import DocstringStyle, parse

from django_mcp.core.apps import App
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[“\"])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs)\.$")
_LITERAL = re.compile(r"``(.+?)``")
_EMPHASIS = re.compile(r"(?<![\w*`])\*(\w+)\*(?![\w*`])")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def first_sentence(text: str) -> str:
    """Return the first sentence of *text* in one line."""
    parts = _END.split(" ".join(text.split()))
    sentence = parts[0]
    for part in parts[1:]:
        if not _ABBREVIATION.search(sentence):
            break
        sentence = f"{sentence} {part}"
    return sentence


def markdown(text: str) -> str:
    """Return the first sentence of reStructuredText as the cell of a Markdown table."""
    text = _ROLE.sub(r"`\1`", _LITERAL.sub(r"`\1`", first_sentence(text))).replace("|", "\\|")
    text = _EMPHASIS.sub(r"`\1`", text)
    parts = text.split("`")  # what is inside of backticks stands as it is
    parts[::2] = [re.sub(r"(?<!\\)([*_<>\[\]])", r"\\\1", part) for part in parts[::2]]
    text = "`".join(parts)
    return text[:1].upper() + text[1:]


def code(text: str) -> str:
    """Return *text* as code in the cell of a Markdown table."""
    return f"`{text}`".replace("|", "\\|")


def summary(thing: Any) -> str:
    """Return the first sentence of a docstring, as a cell."""
    return markdown(inspect.getdoc(thing) or "")


def parameters(thing: Any, section: str = "param") -> dict[str, str]:
    """Return the descriptions of a section by name, unformatted.

    Args:
        thing: a function or class.
        section: ``"param"`` for "Args", ``"attribute"`` for "Attributes".
    """
    found: dict[str, str] = {}
    for param in parse(inspect.getdoc(thing) or "", DocstringStyle.GOOGLE).params:
        if param.args[0] == section:
            for name in param.arg_name.split(","):
                found[name.strip().lstrip("*")] = param.description or ""
    return found


def attributes(cls: type) -> dict[str, str]:
    """Return the descriptions of attributes, from the strings below them or the section "Attributes", unformatted."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        found |= parameters(each, "attribute")
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for node, following in zip(tree.body, tree.body[1:], strict=False):
            match node, following:
                case (
                    ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    found[name] = text
    return found


def full_signature(function: Any) -> inspect.Signature:
    """Return the signature with the most parameters: that of the function or one of its overloads."""
    return max(
        (_with_options(inspect.signature(written)) for written in (function, *typing.get_overloads(function))),
        key=lambda signature: len(signature.parameters),
    )


TAKERS = {"ToolOptions": Tool, "PromptOptions": Prompt, "ResourceOptions": Resource, "AppOptions": App}
"""The class that has the defaults of each typed dictionary."""


def _with_options(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature with the members of ``**options: Unpack[TypedDict]`` as keywords."""
    parameters = [*signature.parameters.values()]
    if not parameters or typing.get_origin(parameters[-1].annotation) is not typing.Unpack:
        return signature
    (options,) = typing.get_args(parameters.pop().annotation)
    defaults = {
        name: taken.default
        for owner in reversed(TAKERS[options.__name__].__mro__)
        for name, taken in inspect.signature(owner.__init__).parameters.items()  # type: ignore[misc]
    }
    members = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name])
        for name in typing.get_type_hints(options)
    ]
    server = [parameters.pop()]
    return signature.replace(parameters=[*parameters, *members, *server])


def default(value: Any) -> str:
    """Return a default as a cell: a dash if the parameter is required."""
    if value is inspect.Parameter.empty:
        return "required"
    text = repr(value)
    return "" if " at 0x" in text or text.startswith("<") else code(text)


def parameter_rows(function: Any, described: Mapping[str, str] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each parameter, in the order of the signature."""
    described = parameters(function) if described is None else described
    for name, parameter in full_signature(function).parameters.items():
        if name in {"self", "cls"} or (parameter.kind is parameter.POSITIONAL_ONLY and name not in described):
            continue
        shown = f"**{name}" if parameter.kind is parameter.VAR_KEYWORD else name
        given = "" if parameter.kind is parameter.VAR_KEYWORD else default(parameter.default)
        yield code(shown), given, markdown(described.get(name, ""))


def call(name: str, function: Any) -> str:
    """Return how a method is called, without types, as a cell."""
    parts: list[str] = []
    has_star = False
    for key, parameter in inspect.signature(function).parameters.items():
        if key in {"self", "cls"}:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"*{key}")
            has_star = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            parts.append(f"**{key}")
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
                parts.append("*")
                has_star = True
            given = parameter.default
            short = given is parameter.empty or " at 0x" in repr(given) or repr(given).startswith("<")
            parts.append(key if short else f"{key}={given!r}")
    return code(f"{name}({', '.join(parts)})")


def table(heads: tuple[str, ...], rows: Any) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
