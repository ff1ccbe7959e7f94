"""Who may import whom: the table of layers, and no circles."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.design.sources import ROOT, Module, modules

LAYERS: dict[int, set[str]] = {
    1: {"protocol", "models", "version", "secret_names"},
    2: {"primitives", "conf", "migrations"},
    3: {"core"},
    4: {"pubsub", "audit", "skills", "model_resources"},
    5: {"tasks", "auth", "integrations"},
    6: {"revisions", "approvals", "templatetags", ""},
    7: {"transports", "contrib", "doctor"},
    8: {"client", "oauth", "asgi", "listing"},
    9: {"admin", "test"},
    10: {"urls", "checks", "management"},
    11: {"apps", "pytest_plugin"},
}
"""Folders and modules right below the package, lowest first; "" is the package itself, with the public names.

A module may import its own folder and lower layers, and no other folder of its own layer.
"""

MUST_NOT: dict[str, set[str]] = {
    "protocol": {"django", "asyncio", "logging", "threading", "http", "socket"},
    "primitives": {"django.http", "django.urls", "django.views", "django.middleware", "asyncio"},
    "core": {"django.http", "django.urls", "django.views", "django.core.handlers", "channels", "django_mcp.models"},
    "pubsub": {"django.http", "django.urls", "django.views", "django.core.handlers"},
    "audit": {"django.http", "django_mcp.pubsub"},
    "model_resources": {"django_mcp.pubsub"},
    "skills": {"django_mcp.models"},
    "revisions": {"django.http", "django.urls", "django.views", "django.core.handlers", "django_mcp.auth"},
    "transports": {"django_mcp.audit", "django_mcp.tasks"},
    "doctor": {"django_mcp.approvals"},
}
"""What a folder must not know although its layer would let it."""

CONTRIB = {
    "django_mcp.core.late_tools",
    "django_mcp.integrations",
    "django_mcp.primitives",
    "django_mcp.core.server",
    "django_mcp.core.database",
    "django_mcp.core.decorators",
    "django_mcp.core.request",
    "django_mcp.core.signatures",
    "django_mcp.model_resources.form_schema",
    "django_mcp.model_resources.form_sources",
    "django_mcp.model_resources.schema",
}
"""All that ``contrib/`` may import beside the public names: it shows what a site's own package could do."""

THIRD_PARTY: dict[str, set[str]] = {
    "asgiref": {"core", "pubsub", "integrations", "transports", "contrib", "doctor", "client", "asgi", "admin", "test"},
    "channels": {"pubsub"},
    "PIL": {"integrations"},
    "bs4": {"integrations", "test"},
    "django_tasks": {"tasks"},
    "docstring_parser": {"primitives"},
    "drf_spectacular": {"contrib"},
    "jsonschema": {"test"},
    "jwcrypto": {"auth", "model_resources"},
    "markdownify": {"integrations"},
    "ninja": {"contrib"},
    "oauth2_provider": {"auth"},
    "oauthlib": {"oauth"},
    "opentelemetry": {"audit"},
    "pytest": {"pytest_plugin"},
    "rest_framework": {"contrib"},
    "sse_starlette": {"transports"},
    "urllib3": {"core"},
    "yaml": {"skills"},
}
"""Which folders import a package that is not Django, the standard library or pydantic."""

EVERYWHERE = {"django", "pydantic", "pydantic_core", "typing_extensions", "django_mcp", *sys.stdlib_module_names}
EXCEPTIONS = {
    ("core/failures.py", "django.http.Http404"),
    ("core/request.py", "django.http.HttpRequest"),
    ("core/request.py", "django.http.QueryDict"),
}
NUMBERS = {name: number for number, names in LAYERS.items() for name in names}


def imports() -> Iterator[tuple[Module, str, int]]:
    for module in modules():
        for name, line in sorted(module.imports()):
            if (module.label, name) not in EXCEPTIONS:
                yield module, name, line


def folder_of(name: str) -> str:
    """The folder below the package that a full name is in: "" for public names."""
    _, _, within = name.partition(".")
    first = within.partition(".")[0]
    return first if first in NUMBERS else ""


def is_under(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def test_every_module_is_in_a_layer_of_the_table() -> None:
    assert {module.layer for module in modules()} == NUMBERS.keys()


def test_a_module_imports_its_own_folder_and_lower_layers() -> None:
    wrong = [
        f"{module.label}:{line} imports {name}"
        for module, name, line in imports()
        if is_under(name, {"django_mcp"})
        and folder_of(name) != module.layer
        and NUMBERS[folder_of(name)] >= NUMBERS[module.layer]
    ]
    assert wrong == []


def test_a_folder_does_not_import_what_it_must_not_know() -> None:
    wrong = [
        f"{module.label}:{line} imports {name}"
        for module, name, line in imports()
        if is_under(name, MUST_NOT.get(module.layer, set()))
    ]
    assert wrong == []


def test_contrib_imports_public_names_and_little_else() -> None:
    wrong = [
        f"{module.label}:{line} imports {name}"
        for module, name, line in imports()
        if module.layer == "contrib"
        and folder_of(name) not in {"", "contrib"}
        and is_under(name, {"django_mcp"})
        and not is_under(name, CONTRIB)
    ]
    assert wrong == []


def test_contrib_could_have_a_source_of_tools_of_its_own() -> None:
    """The wizard of this test is what ``contrib/formtools.py`` would be."""
    tree = ast.parse((ROOT.parent / "tests/integrations/forms/test_sources.py").read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    ours = {str(node.module) for node in froms if is_under(str(node.module), {"django_mcp"})}
    assert "django_mcp.model_resources.form_sources" in ours
    assert [name for name in ours if name != "django_mcp" and not is_under(name, CONTRIB)] == []


def test_other_packages_are_imported_where_the_table_says() -> None:
    wrong = [
        f"{module.label}:{line} imports {name}"
        for module, name, line in imports()
        if (root := name.partition(".")[0]) not in EVERYWHERE and module.layer not in THIRD_PARTY.get(root, set())
    ]
    assert wrong == []


def test_the_toolkit_is_imported_in_one_module() -> None:
    """Its next release moves its modules; there is one place to follow it."""
    importers = {module.label for module, name, _ in imports() if is_under(name, {"oauth2_provider"})}
    assert importers == {"auth/toolkit.py"}


def test_every_exception_to_the_table_is_still_needed() -> None:
    assert {(module.label, name) for module in modules() for name, _ in module.imports()} >= EXCEPTIONS


def graph() -> dict[str, set[str]]:
    """Each module with those that it imports, wherever and whenever the import stands."""
    names = {module.name for module in modules()}
    found: dict[str, set[str]] = {name: set() for name in names}
    for module in modules():
        for name, _ in module.imports():
            target = name if name in names else name.rpartition(".")[0]
            if target in names and target != module.name:
                found[module.name].add(target)
    return found


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in edges[node]:
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in edges:
        if node not in order:
            visit(node)
    return sorted(found)


def test_no_modules_import_each_other() -> None:
    """Imports in functions and for annotations count too: what needs them is in the wrong module."""
    assert circles(graph()) == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_a_package_file_only_describes_and_exports() -> None:
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    wrong = [
        f"{module.label}:{node.lineno}"
        for module in modules()
        if module.path.name == "__init__.py" and module.label not in {"__init__.py", "admin/__init__.py"}
        for node in module.tree.body
        if not isinstance(node, allowed)
    ]
    assert wrong == []


REVISIONS = re.compile(r"(?i)legacy|modern|2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28")


def test_nothing_below_the_revisions_knows_which_client_is_calling() -> None:
    """Docstrings and comments may cite a revision of the specification; code may not tell one from another."""
    below = {name for name, number in NUMBERS.items() if number < NUMBERS["revisions"]} - {"migrations"}
    naming = {module.label for module in modules() if module.layer in below and REVISIONS.search(module.code())}
    assert naming == {"protocol/versions.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("if version in versions.LEGACY: pass", True),
        ("is_modern = True", True),
        ("era = LegacyEra()", True),
        ("version = '2025-11-25'", True),
        ("def f():\n    return f'since 2026-07-28, {x}'", True),
        ('"""As 2026-07-28 has it."""\nx = 1', False),
        ('class A:\n    """Not legacy."""\n    x = 1\n    """Modern."""', False),
        ("x = 1  # 2025-11-25 and legacy clients", False),
    ],
)
def test_revisions_are_looked_for_in_code_and_not_in_words(source: str, found: bool) -> None:
    module = Module(ROOT / "core" / "x.py", "django_mcp.core.x", "core", source)
    assert bool(REVISIONS.search(module.code())) is found
