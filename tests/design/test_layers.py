"""Who may import whom: the table of layers, kept by this test."""

import ast
import re
import sys

import pytest

import django_mcp
from tests.design.sources import ROOT, Module, modules

STANDARD = frozenset(sys.stdlib_module_names)

PUBLIC = {f"django_mcp.{name}" for name in django_mcp.__all__}
"""What anybody may import."""
PYDANTIC = {"pydantic", "pydantic_core", "typing_extensions"}

# For each layer what it may import beside the standard library. A name stands for itself and all below it.
MAY: dict[str, set[str]] = {
    "protocol": {"pydantic_core", "django_mcp.protocol"},
    "primitives": {*PYDANTIC, "django", "docstring_parser", "django_mcp.protocol", "django_mcp.primitives"},
    "version": set(),
    "conf": {"django", "django_mcp.version"},
    "core": {
        *PYDANTIC,
        "django",
        "asgiref",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
    },
    "live": {
        "django",
        "asgiref",
        "channels",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
    },
    "tasks": {
        *PYDANTIC,
        "django",
        "django_tasks",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.tasks",
    },
    "policies": {
        "django",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.tasks",
        "django_mcp.policies",
    },
    "approvals": {
        *PYDANTIC,
        "django",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.tasks",
        "django_mcp.policies",
        "django_mcp.approvals",
        "django_mcp.auth.checks.base",
        "django_mcp.version",
    },
    "audit": {
        "django",
        "opentelemetry",
        "django_mcp.version",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.audit",
    },
    "eras": {
        *PYDANTIC,
        "django",
        "django_mcp.tasks",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.eras",
    },
    "auth": {
        "django",
        "jwcrypto",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.auth",
        "django_mcp.oauth.toolkit",
    },
    "oauth": {
        "django",
        "oauthlib",
        "oauth2_provider",
        "django_mcp.protocol",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.auth",
        "django_mcp.endpoint",
        "django_mcp.oauth",
    },
    "exposure": {
        *PYDANTIC,
        "django",
        "jwcrypto",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.live",
        "django_mcp.exposure",
    },
    "skills": {
        "django",
        "yaml",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.skills",
    },
    "adapters": {
        *PYDANTIC,
        "django",
        "asgiref",
        "bs4",
        "markdownify",
        "PIL",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.exposure",
        "django_mcp.adapters",
        "django_mcp.auth.checks.base",
    },
    "test": {
        "django",
        "asgiref",
        "jsonschema",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.core",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.tasks",
        "django_mcp.approvals",
        "django_mcp.exposure",
        "django_mcp.auth",
        "django_mcp.eras",
        "django_mcp.endpoint",
        "django_mcp.version",
        "django_mcp.test",
    },
    "contrib": {
        *PYDANTIC,
        "django",
        "asgiref",
        "rest_framework",
        "drf_spectacular",
        "ninja",
        *PUBLIC,
        "django_mcp.primitives",
        "django_mcp.core.decorators",
        "django_mcp.core.generated",
        "django_mcp.core.previews.rolled_back",
        "django_mcp.core.registry",
        "django_mcp.core.selection",
        "django_mcp.exposure.field_types",
        "django_mcp.adapters",
        "django_mcp.contrib",
    },
    "endpoint": {
        "django",
        "asgiref",
        "django_mcp.protocol",
        "django_mcp.primitives",
        "django_mcp.conf",
        "django_mcp.core",
        "django_mcp.eras",
        "django_mcp.auth",
        "django_mcp.models",
        "django_mcp.live",
        "django_mcp.endpoint",
        "sse_starlette",
    },
    "doctor": {"django", "asgiref", "django_mcp"},
}

# What is taken out of it again.
MUST_NOT: dict[str, set[str]] = {
    "protocol": {"asyncio", "logging", "threading", "http", "socket"},
    "primitives": {"django.http", "django.urls", "django.views", "django.middleware", "asyncio"},
    "core": {"django.http", "django.urls", "django.views", "django.middleware", "django.core.handlers"},
    "live": {"django.http", "django.urls", "django.views", "django.middleware", "django.core.handlers"},
    "eras": {"django.http", "django.urls", "django.views", "django.middleware", "django.core.handlers"},
}

EXCEPTIONS = {("core/failures.py", "django.http.Http404")}

TOP = {
    "",
    "admin",
    "apps",
    "asgi",
    "checks",
    "management",
    "migrations",
    "models",
    "pytest_plugin",
    "templatetags",
    "urls",
}
"""Modules above the layers, that may import any of them."""


def is_under(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def test_a_module_imports_what_its_layer_may_and_nothing_else() -> None:
    wrong = [
        f"{module.label}:{line} imports {name}"
        for module in modules()
        if module.layer not in TOP
        for name, line in sorted(module.imports())
        if (module.label, name) not in EXCEPTIONS
        and (
            is_under(name, MUST_NOT.get(module.layer, set()))
            or not (name.partition(".")[0] in STANDARD or is_under(name, MAY[module.layer]))
        )
    ]
    assert wrong == []


def test_no_module_imports_the_official_implementation() -> None:
    """It is a client for the tests; the package has to stand without it."""
    assert importers_of({"mcp", "mcp_types"}) == set()


def test_the_toolkit_is_imported_in_one_module() -> None:
    """Its next release moves its modules; there is one place to follow it."""
    assert importers_of({"oauth2_provider"}) == {"oauth/toolkit.py"}


def importers_of(roots: set[str]) -> set[str]:
    return {module.label for module in modules() for name, _ in module.imports() if is_under(name, roots)}


def test_every_module_is_in_a_layer_of_the_table() -> None:
    assert {module.layer for module in modules()} <= MAY.keys() | TOP


def test_every_exception_to_the_table_is_still_needed() -> None:
    used = {(module.label, name) for module in modules() for name, _ in module.imports()}
    assert used >= EXCEPTIONS


NEUTRAL = {"protocol", "primitives", "core", "conf", "auth", "version"}
ERAS = re.compile(r"(?i)legacy|modern|20\d\d-\d\d-\d\d")


def test_nothing_below_the_eras_knows_which_client_is_calling() -> None:
    """Docstrings and comments may cite a revision of the specification; code may not tell one from another."""
    naming = {module.label for module in modules() if module.layer in NEUTRAL and ERAS.search(module.code())}
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
def test_eras_are_looked_for_in_code_and_not_in_words(source: str, found: bool) -> None:
    module = Module(ROOT / "core" / "x.py", "django_mcp.core.x", "core", source, ast.parse(source))
    assert bool(ERAS.search(module.code())) is found
