"""What ``mcp_doctor`` is asked about. What it finds is in ``tests/doctor``."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError

from django_mcp import MCPServer
from django_mcp.management.commands.mcp_doctor import find_url


def test_the_address_of_the_site_is_given_as_to_mcp_config(
    make_server: Callable[..., MCPServer], settings: Any
) -> None:
    server = make_server(path="shop/mcp")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://travel.example.com"}
    endpoint = "https://shop.example.com/shop/mcp"
    assert find_url(None, "https://shop.example.com", server) == endpoint
    assert find_url(None, "https://shop.example.com/", server) == endpoint
    assert find_url(endpoint, None, server) == endpoint
    assert find_url(None, None, server) == "https://travel.example.com/shop/mcp"
    with pytest.raises(CommandError, match="is not an http or https URL"):
        find_url(None, "shop.example.com", server)
