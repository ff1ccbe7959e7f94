"""Endpoints that everybody may call, and those where a credential is a choice."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import AllowAny, Context, MCPServer, OAuth2Authentication, tool
from django_mcp.transports.resource_metadata import metadata_patterns
from tests.auth import issuer as issuers
from tests.clients import Client

Make = Callable[..., Any]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
def anyone(make_server: Make, site: None) -> MCPServer:
    server = make_server("anyone", authentication=[AllowAny()])
    tool(server=server)(who)
    return server


@pytest.fixture
def server(make_server: Make, site: None) -> MCPServer:
    """Whoever has a token is somebody, and others may call too."""
    server = make_server(authentication=[OAuth2Authentication(), AllowAny()])
    tool(server=server)(who)
    return server


def who(context: Context) -> str:
    """Who calls."""
    return f"{context.principal.kind} {context.user.get_username()}".strip()


def ask(client: Client, **headers: str) -> str:
    return client.request("tools/call", {"name": "who", "arguments": {}}, headers=headers).text


def test_a_public_endpoint_asks_for_nothing(anyone: MCPServer, edge: str, open_database: None) -> None:
    client = Client(anyone, "2025-11-25", edge)
    assert ask(client) == "public"
    answer = client.post(PING)
    assert "www-authenticate" not in answer.headers


def test_a_public_endpoint_takes_no_notice_of_credentials(anyone: MCPServer, edge: str, open_database: None) -> None:
    """A client may send to all endpoints of a site what it got for one of them."""
    client = Client(anyone, "2025-11-25", edge)
    for headers in ({"authorization": "Bearer old"}, {"x-api-key": "old"}, {"cookie": "sessionid=old"}):
        assert ask(client, **headers) == "public"


def test_a_public_endpoint_still_wants_to_know_host_and_origin(
    anyone: MCPServer, edge: str, open_database: None
) -> None:
    client = Client(anyone, "2025-11-25", edge)
    assert client.post(PING, {"origin": "https://evil.example.com"}).status == 403
    assert client.post(PING, {"origin": "null"}).status == 403
    with override_settings(MIDDLEWARE=[]):
        assert client.post(PING, {"host": "evil.example.com"}).status == 400


def test_a_public_endpoint_has_no_metadata(anyone: MCPServer, server: MCPServer) -> None:
    patterns = [str(each.pattern) for each in metadata_patterns()]
    assert any("test/mcp" in each for each in patterns)
    assert not any("anyone" in each for each in patterns)


def test_where_a_token_is_a_choice_a_good_one_counts(server: MCPServer, edge: str, make_token: Make, user: Any) -> None:
    client = Client(server, "2025-11-25", edge)
    assert ask(client) == "public"
    token = make_token(resource=["https://travel.example.com/test/mcp"])
    assert ask(client, authorization=f"Bearer {token}") == f"oauth {user.get_username()}"


def test_where_a_token_is_a_choice_a_bad_one_is_not_as_good_as_none(
    server: MCPServer, edge: str, open_database: None, subtests: pytest.Subtests
) -> None:
    for headers in [{"authorization": "Bearer bad"}, {"authorization": "Bearer mcp_key_x"}, {"x-api-key": "mcp_key_x"}]:
        with subtests.test(headers=headers):
            answer = Client(server, "2025-11-25", edge).post(PING, headers)
            assert answer.status == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


# A site without an authorization server of its own

SETTINGS = """
from django_mcp import APIKeyAuthentication, JWTAuthentication, AllowAny

SECRET_KEY = "only-for-this-test-only-for-this-test-only-for-this-test"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "plain_urls"
USE_TZ = True
ELSEWHERE = JWTAuthentication("{issuer}", user=JWTAuthentication.by_username("preferred_username"))
DJANGO_MCP = {{
    "BASE_URL": "https://plain.example.com",
    "AUTHENTICATION": [ELSEWHERE, APIKeyAuthentication()],
}}
"""
URLS = """
from django.urls import include, path

from django_mcp import Context, MCPServer, AllowAny, server, tool


@tool
def who(context: Context) -> str:
    "Who calls."
    return context.principal.kind + " " + context.user.get_username()


anyone = MCPServer("anyone", authentication=[AllowAny()])
tool(server=anyone, name="one")(lambda: "x")
urlpatterns = [path("", include("django_mcp.urls"))]
"""
PROGRAM = """
import asyncio, json, sys
import django

django.setup()
from django.core.management import call_command
from django.contrib.auth import get_user_model
from django.test import Client
from django.test.utils import setup_test_environment

call_command("check", verbosity=0)
call_command("migrate", verbosity=0)
get_user_model().objects.create_user("ada")
client = Client()


def call(path, **headers):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": sys.argv[1], "arguments": {}}}
    return client.post(path, json.dumps(body), content_type="application/json", headers=headers)


def text(answer):
    return answer.json()["result"]["content"][0]["text"]


from django_mcp.asgi import mcp_application

found = {
    "token": text(call("/mcp", authorization="Bearer " + sys.argv[2])),
    "nobody": call("/mcp").status_code,
    "challenge": call("/mcp").headers["WWW-Authenticate"],
    "metadata": client.get("/.well-known/oauth-protected-resource/mcp").json(),
    "none for anyone": client.get("/.well-known/oauth-protected-resource/anyone/mcp").status_code,
    "no server": [client.get(path).status_code for path in
                  ("/o/token/", "/o/authorize/", "/o/register/", "/.well-known/oauth-authorization-server")],
    "anyone": client.post("/anyone/mcp", '{"jsonrpc":"2.0","id":1,"method":"ping"}',
                          content_type="application/json").status_code,
    "asgi": callable(mcp_application(None)),
    "toolkit": sorted(name for name in sys.modules if name.startswith("oauth2_provider")),
}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_site_without_the_toolkit_takes_tokens_from_elsewhere(tmp_path: Path) -> None:
    """It starts, makes its tables and serves, and nothing of an authorization server is there."""
    with issuers.running() as issuer:
        (tmp_path / "plain_settings.py").write_text(SETTINGS.format(issuer=issuer.url))
        (tmp_path / "plain_urls.py").write_text(URLS)
        audience = "https://plain.example.com/mcp"
        token = issuer.sign(issuer.claims(aud=audience, scope="mcp", sub="4711", preferred_username="ada"))
        root = Path(__file__).resolve().parents[2]
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "plain_settings",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)]),
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM, "who", token],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    metadata = "https://plain.example.com/.well-known/oauth-protected-resource/mcp"
    assert found == {
        "token": "external ada",
        "nobody": 401,
        "challenge": f'Bearer scope="mcp", resource_metadata="{metadata}"',
        "metadata": {
            "resource": audience,
            "authorization_servers": [issuer.url],
            "bearer_methods_supported": ["header"],
            "resource_name": "default",
            "scopes_supported": ["mcp"],
        },
        "none for anyone": 404,
        "no server": [404] * 4,
        "anyone": 200,
        "asgi": True,
        "toolkit": [],
    }
