"""The challenge is one clean header, whatever is put into it, and the clients' own parsers read it. [30]"""

import re
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from django_mcp import MCPServer
from django_mcp.auth.protected_resource import INVALID_TOKEN, challenge, metadata_url_of

NASTY = [
    'a"b\\c',
    "line\r\nX-Injected: 1",
    "snow ☃ and é",
    'x", error="none',
    "\x00\x7f",
    "a, b=c; d",
]

PARAMETER = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)="((?:[^"\\]|\\.)*)"(?:, |$)')


def parsed(value: str) -> dict[str, str]:
    """The parameters of the one challenge, by RFC 9110, section 11.6.1, and nothing else in the value."""
    scheme, _, rest = value.partition(" ")
    assert scheme == "Bearer"
    found = PARAMETER.findall(rest)
    assert "".join(f'{name}="{text}", ' for name, text in found).removesuffix(", ") == rest
    names = [name for name, _ in found]
    assert len(names) == len(set(names))
    return {name: re.sub(r"\\(.)", r"\1", text) for name, text in found}


@pytest.mark.parametrize("text", NASTY)
def test_nothing_breaks_out_of_the_header(server: MCPServer, text: str) -> None:
    value = challenge(server, "insufficient_scope", text, [text.replace(" ", "")])
    assert value.isascii()
    assert value.isprintable()
    found = parsed(value)
    assert set(found) <= {"error", "error_description", "scope", "resource_metadata"}
    assert found["error"] == "insufficient_scope"
    assert found["resource_metadata"] == metadata_url_of(server)
    assert "\r" not in value
    assert "\n" not in value


def test_the_python_client_reads_it(server: MCPServer) -> None:
    value = challenge(server, "insufficient_scope", 'Say "please".', ["travel:read", "travel:write"])
    response = httpx2.Response(403, headers={"www-authenticate": value})
    assert extract_scope_from_www_auth(response) == "travel:read travel:write"
    assert extract_resource_metadata_from_www_auth(response) == metadata_url_of(server)
    assert extract_field_from_www_auth(response, "error") == "insufficient_scope"


def test_a_reader_that_searches_with_regular_expressions_is_not_led_astray(server: MCPServer) -> None:
    """Clients search the whole header for ``scope=`` and ``error=``, so neither may be in what is for people."""
    for description in (INVALID_TOKEN, "The access token does not allow this operation."):
        assert "scope=" not in description
        assert "error=" not in description
    value = challenge(server, "invalid_token", INVALID_TOKEN)
    assert re.search(r'scope="([^"]*)"', value)[1] == "travel:read"
    assert re.search(r'(?<!_)error="([^"]*)"', value)[1] == "invalid_token"
    assert [part.partition("=")[0] for part in value.removeprefix("Bearer ").split(", ")][-1] == "resource_metadata"


def test_what_an_attacker_sends_is_not_in_the_header(
    server: MCPServer, client: Any, make_token: Callable[..., str]
) -> None:
    answer = client.post(b"{}", {"authorization": 'Bearer x", error="none'})
    assert parsed(answer.headers["www-authenticate"])["error"] == "invalid_token"
