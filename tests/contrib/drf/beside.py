"""A site that has an API at its URLs, whichever way its endpoint is called."""

import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import override_settings
from django.urls import clear_url_caches, re_path

import tests.clients
from django_mcp import MCPServer
from django_mcp.transports.view import mcp_view


@contextmanager
def api_beside(patterns: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While it lasts, the site has *patterns*, and clients of the tests find an endpoint beside them."""

    @contextmanager
    def urls(server: MCPServer) -> Iterator[None]:
        with urlconf([re_path(rf"^{server.path}/?$", mcp_view(server)), *patterns]):
            yield

    monkeypatch.setattr(tests.clients, "urls", urls)
    with urlconf(patterns):
        yield


@contextmanager
def urlconf(patterns: Sequence[Any]) -> Iterator[None]:
    """A URLconf with these patterns."""
    module: Any = types.ModuleType("tests.urlconf_of_an_api")
    module.urlpatterns = [*patterns]
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    with override_settings(ROOT_URLCONF=module.__name__):
        clear_url_caches()
        yield
    if before is not None:
        sys.modules[module.__name__] = before
    clear_url_caches()
