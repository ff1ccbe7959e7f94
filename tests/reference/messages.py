"""Find the messages that models and clients read, by walking the syntax trees of the package."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import django_mcp
from tests.reference.docstrings import table

PACKAGE = Path(django_mcp.__file__).parent
LEFT_OUT = {"test", "doctor", "management", "admin", "locale", "migrations", "client", "pytest_plugin.py", "checks.py"}
"""Folders and files whose messages are for developers and site owners."""
ERRORS = {
    "ToolError": "tool result",
    "NotApproved": "tool result",
    "ArgumentError": "tool result",
    "FormError": "tool result",
    "PydanticCustomError": "tool result",
}
HTTP = {"Refusal", "InvalidToken"}
WHOLE_MODULES = {"primitives/validation_errors.py", "approvals/messages.py", "core/failures.py"}
"""Modules that exist for messages: all that their functions return counts."""
GROUPS = {
    "approvals": "Approvals",
    "auth": "Authentication",
    "audit": "Request log",
    "contrib": "Django REST framework and django-ninja",
    "core": "Calls, limits and permissions",
    "integrations": "Forms and views",
    "model_resources": "Models",
    "oauth": "OAuth",
    "primitives": "Arguments and results",
    "protocol": "The protocol",
    "pubsub": "Idempotency and `ctx.once`",
    "revisions": "Protocol versions",
    "skills": "Skills",
    "tasks": "Tasks",
    "transports": "HTTP",
}
TRANSPARENT = {
    *("str", "repr", "len", "round", "sorted", "shortened"),
    *("shown", "where", "written", "kind", "kind_name", "size"),
}
"""Functions that change how a value is written; a field is named after the value."""
_FIELD = re.compile(r"\{.*?\}")
_WORD = re.compile(r"[A-Za-z]{2,}")


class Source(NamedTuple):
    """A module of the package, with what is needed to find the values of names in it."""

    path: str
    tree: ast.Module
    nodes: list[ast.AST]
    constants: dict[str, ast.expr]
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]


@cache
def sources() -> dict[str, Source]:
    """Return the modules by their path below the package."""
    found: dict[str, Source] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants: dict[str, ast.expr] = {}
        for node in tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(target)], value=value)
                    | ast.AnnAssign(target=ast.Name(target), value=ast.expr() as value)
                ):
                    constants[target] = value
        nodes = list(ast.walk(tree))
        functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        found[name] = Source(name, tree, nodes, constants, functions)
    return found


@cache
def error_classes() -> dict[str, str]:
    """Return the names of the exceptions that clients read, each with how it reaches them."""
    codes: dict[str, str] = {"ProtocolError": "-32603"}
    nodes = [node for source in sources().values() for node in source.nodes]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    for _ in range(4):  # a class may be defined above the module of its base
        for node in classes:
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in codes and node.name not in codes:
                    codes[node.name] = _code(node) or codes[base.id]
    return {name: f"error {code}" for name, code in codes.items()} | ERRORS | dict.fromkeys(HTTP, "HTTP")


def _code(node: ast.ClassDef) -> str:
    for each in node.body:
        match each:
            case (
                ast.Assign(targets=[ast.Name("code")], value=value)
                | ast.AnnAssign(target=ast.Name("code"), value=ast.expr() as value)
            ):
                return ast.unparse(value)
    return ""


class Reader:
    """Evaluate the expressions of one function to the texts they may have.

    Args:
        source: the module.
        function: the function around the expressions, or None at module level.
        depth: the number of calls followed so far.
    """

    def __init__(self, source: Source, function: ast.AST | None, depth: int = 0) -> None:
        self.source, self.depth = source, depth
        self.local: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function) if function is not None else ():
            match node:
                case ast.Assign(targets=[ast.Name(name)], value=value):
                    self.local.setdefault(name, []).append(value)

    def texts(self, node: ast.expr) -> Iterator[str]:  # noqa: C901, PLR0912 - one case for each kind of expression
        """Yield the texts that an expression may have, with fields in braces."""
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr():
                yield "".join(self._part(each) for each in node.values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                for first in self.texts(left):
                    yield from (first + second for second in self.texts(right))
            case ast.BinOp(left=left, op=ast.Mod()):
                yield from self.texts(left)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self.texts(body)
                yield from self.texts(orelse)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.texts(value)
            case ast.ListComp(elt=element):
                yield from self.texts(element)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                for element in elements:
                    yield from self.texts(element)
            case ast.Name(id=name):
                yield from self._named(name)
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "format_map")):
                yield from self.texts(value)
            case ast.Call(func=ast.Name("gettext" | "_" | "gettext_lazy" | "gettext_noop" | "str"), args=[value, *_]):
                yield from self.texts(value)
            case ast.Call(func=ast.Name(name)):
                yield from self._returned(name)

    def _part(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        assert isinstance(node, ast.FormattedValue)
        return f"{{{_field(node.value)}}}"

    def _named(self, name: str) -> Iterator[str]:
        if name in self.local:
            values = self.local.pop(name)  # not again: it may be made of itself
            for value in values:
                yield from self.texts(value)
            self.local[name] = values
        elif (found := _defined(self.source, name, "constants")) is not None:
            yield from Reader(found[0], None, self.depth).texts(found[1])

    def _returned(self, name: str) -> Iterator[str]:
        found = _defined(self.source, name, "functions")
        if found is None or self.depth > 2:
            return
        inner = Reader(found[0], found[1], self.depth + 1)
        for node in ast.walk(found[1]):
            if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                yield from inner.texts(node.value)


def _defined(source: Source, name: str, kind: str) -> tuple[Source, ast.expr] | None:
    """Return where a constant or function that a module uses is defined, with its definition."""
    if name in getattr(source, kind):
        return source, getattr(source, kind)[name]
    module, original = _imports(source.path).get(name, ("", ""))
    path = module.removeprefix("django_mcp").strip(".").replace(".", "/")
    for file in (f"{path}.py", f"{path}/__init__.py"):
        other = sources().get(file)
        if other is not None and original in getattr(other, kind):
            return other, getattr(other, kind)[original]
    return None


@cache
def _imports(path: str) -> dict[str, tuple[str, str]]:
    """Return the module and the name there of what a module imports from the package."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in sources()[path].nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("django_mcp")
        for alias in node.names
    }


def _field(node: ast.expr) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
    """Return a short name for a value in a message."""
    match node:
        case ast.Name(id=name):
            return name.strip("_")
        case ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _field(value)
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Subscript(value=value):
            return _field(value)
        case ast.Call(func=ast.Name("map"), args=[_, value]):
            return _field(value)
        case ast.Call(func=ast.Name(name), args=[value, *_]) if name.strip("_") in TRANSPARENT:
            return _field(value)
        case ast.Call(func=ast.Attribute(attr="join"), args=[value]):
            return _field(value)
        case ast.Call(func=func):
            return _field(func)
        case ast.IfExp(body=body):
            return _field(body)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            return _field(element)
        case ast.BinOp(left=left):
            return _field(left)
        case ast.BoolOp(values=[first, *_]):
            return _field(first)
    return "value"


def found() -> Iterator[tuple[str, str, str]]:
    """Yield folder, message and how it reaches the client, in the order of the files."""
    classes = error_classes()
    for source in sources().values():
        folder = source.path.partition("/")[0]
        if LEFT_OUT.intersection(source.path.split("/")):
            continue
        for function, node in _calls(source.tree):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            position = {"Refusal": 1, "NotApproved": 1, "PydanticCustomError": 1, "TooManyRequests": 1}.get(name, 0)
            keywords = [keyword.value for keyword in node.keywords if keyword.arg in {"message", "reason"}]
            if name in classes and (len(node.args) > position or keywords):
                for value in [*node.args[position : position + 1], *keywords]:
                    for text in Reader(source, function).texts(value):
                        yield folder, f"Argument {{name}} {text}" if text.startswith("must ") else text, classes[name]
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and node.name in classes:
                yield from ((folder, text, classes[node.name]) for text in _of_constructor(source, node))
        if source.path in WHOLE_MODULES:
            yield from ((folder, text, ERRORS["ToolError"]) for text in _returned(source))


def _calls(tree: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call):
            yield function, node
        yield from _calls(node, inner)


def _of_constructor(source: Source, node: ast.ClassDef) -> Iterator[str]:
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for _, call in _calls(function):
                match call.func:
                    case ast.Attribute(value=ast.Call(func=ast.Name("super")), attr="__init__") if call.args:
                        yield from Reader(source, function).texts(call.args[0])


def _returned(source: Source) -> Iterator[str]:
    for function in source.functions.values():
        reader = Reader(source, function, 3)  # what these functions call is in the same module
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                yield from reader.texts(node.value)


@cache
def messages() -> dict[str, dict[str, str]]:
    """Return how each message reaches the client, by group and message."""
    groups: dict[str, dict[str, str]] = {}
    for folder, written, how in found():
        text = " ".join(written.split())
        is_whole = text[:1].isupper() or text[:1] in "{\"'"
        if is_whole and len(_WORD.findall(_FIELD.sub("", text))) > 1:
            groups.setdefault(GROUPS.get(folder, "Other"), {}).setdefault(text, how)
    return groups


def sections() -> str:
    """Return a table for each group."""
    groups = messages()
    tables = {title: table(("message", "sent as"), _rows(groups[title])) for title in sorted(groups)}
    return "\n".join(f"### {title}\n\n{rows}" for title, rows in tables.items())


def _rows(group: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for text, how in group.items():
        yield re.sub(r"([\\|*_<>\[\]`$#])", r"\\\1", text), how
