"""A site that is to be listed."""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import override_settings
from django.urls import clear_url_caches

from django_mcp.listing import documents
from tests.management.conftest import Run, run  # noqa: F401 - a fixture

BASE = "https://travel.example.com"
LISTED = {
    "BASE_URL": BASE,
    "VERSION": "1.0.2",
    "PRIVACY_POLICY_URL": f"{BASE}/privacy/",
    "SCOPES": {"mcp": "Use it"},
    "AUTHENTICATION": ["django_mcp.AllowAny"],
}

With = Callable[..., Any]


@pytest.fixture
def with_settings() -> Iterator[With]:
    """Sets keys of ``DJANGO_MCP`` beside those of a site that may be listed."""
    made = []

    def change(**keys: Any) -> None:
        made.append(override_settings(DJANGO_MCP={**LISTED, **keys}))
        made[-1].enable()

    change()
    yield change
    for each in reversed(made):
        each.disable()


@pytest.fixture
def served() -> Iterator[Callable[[], None]]:
    """Puts the documents' URL patterns of this moment where browsers reach them."""
    name = "tests.listing.urlconf"
    overriding = override_settings(ROOT_URLCONF=name, ALLOWED_HOSTS=[*django_settings.ALLOWED_HOSTS, "testserver"])

    def serve() -> None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].urlpatterns = documents.document_patterns()  # type: ignore[attr-defined]
        clear_url_caches()

    serve()
    overriding.enable()
    yield serve
    overriding.disable()
    del sys.modules[name]
    clear_url_caches()
