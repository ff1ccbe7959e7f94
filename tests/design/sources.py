"""The package's own source, as syntax trees."""

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import django_mcp

ROOT = Path(django_mcp.__file__).resolve().parent


@dataclass(frozen=True)
class Module:
    """One file of the package.

    Attributes:
        name: dotted, like ``django_mcp.core.dispatch``.
        layer: the folder or module right below the package, like ``core`` or ``conf``; "" for the package itself.
    """

    path: Path
    name: str
    layer: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def label(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def imports(self) -> set[tuple[str, int]]:
        """Full names of all that is imported, wherever it stands and whenever that is, with line numbers."""
        found: set[tuple[str, int]] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {(alias.name, node.lineno) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.label}:{node.lineno}: relative imports hide the layer"
                found |= {(f"{node.module}.{alias.name}", node.lineno) for alias in node.names}
        return found

    def code(self) -> str:
        """The source without comments and docstrings, those of attributes included."""
        tree = ast.parse(self.text)
        for node in ast.walk(tree):
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list):
                    kept = [each for each in statements if not is_docstring(each)]
                    setattr(node, field, kept or ([ast.Pass()] if statements else []))
        return ast.unparse(tree)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        name = ".".join(("django_mcp", *parts)).removesuffix(".__init__")
        layer = "" if parts == ("__init__",) else parts[0]
        found.append(Module(path, name, layer, text))
    return tuple(found)
