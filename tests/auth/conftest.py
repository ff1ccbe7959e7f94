"""Fixtures for who may call: a site with an address, users, and tokens as the authorization server writes them."""

import datetime
import hashlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer, OAuth2Authentication, tool
from django_mcp.auth.protected_resource import resource_of
from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from django_mcp.models import APIKey, ClientPolicy
from tests.clients import Client

BASE = "https://travel.example.com"
SCOPES = {
    "travel:read": "Look things up",
    "travel:write": {"text": "Book and cancel", "implies": ["travel:read"]},
    "travel:admin": {"text": "Everything", "implies": ["travel:write"]},
}


@pytest.fixture
def site() -> Iterator[None]:
    """A site that knows its public address and has scopes."""
    own = {"BASE_URL": BASE, "SCOPES": SCOPES, "DEFAULT_SCOPES": ["travel:read"]}
    hosts = [*django_settings.ALLOWED_HOSTS, "travel.example.com"]
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, **own}, ALLOWED_HOSTS=hosts):
        yield


@pytest.fixture
def make_user(open_database: None) -> Iterator[Callable[..., Any]]:
    """Makes users that are gone after the test, with all that is theirs."""
    made: list[Any] = []

    def make(name: str | None = None, **fields: Any) -> Any:
        made.append(get_user_model().objects.create(username=name or f"user-{secrets.token_hex(4)}", **fields))
        return made[-1]

    yield make
    for user in made:
        get_user_model().objects.filter(pk=user.pk).delete()


@pytest.fixture
def user(make_user: Callable[..., Any]) -> Any:
    return make_user()


@pytest.fixture
def make_application(open_database: None) -> Iterator[Callable[..., Any]]:
    """Makes OAuth clients."""
    model = get_application_model()
    made: list[Any] = []

    def make(**fields: Any) -> Any:
        usual = {
            "name": "Assistant",
            "client_type": "public",
            "authorization_grant_type": "authorization-code",
            "redirect_uris": "http://127.0.0.1/callback",
        }
        made.append(model.objects.create(**{**usual, **fields}))
        return made[-1]

    yield make
    ClientPolicy.objects.all().delete()
    APIKey.objects.all().delete()
    model.objects.filter(pk__in=[each.pk for each in made]).delete()


@pytest.fixture
def application(make_application: Callable[..., Any]) -> Any:
    return make_application()


@pytest.fixture
def make_token(server: MCPServer, user: Any, application: Any) -> Iterator[Callable[..., str]]:
    """Makes access tokens; by default good ones for *server*."""
    model = get_access_token_model()
    made: list[Any] = []

    def make(**fields: Any) -> str:
        token = fields.pop("token", None) or secrets.token_urlsafe(24)
        usual = {
            "token": "",
            "token_checksum": hashlib.sha256(token.encode()).hexdigest(),
            "user": user,
            "application": application,
            "scope": "travel:read",
            "resource": [resource_of(server)],
            "expires": timezone.now() + datetime.timedelta(hours=1),
        }
        made.append(model(**{**usual, **fields}))
        model.objects.bulk_create(made[-1:])  # save() would make the checksum of the stored text, which is empty
        return token

    yield make
    model.objects.filter(token_checksum__in=[each.token_checksum for each in made]).delete()


@pytest.fixture
def server(make_server: Callable[..., MCPServer], site: None) -> MCPServer:
    """An endpoint for tokens, with a tool that needs more scopes and one that needs a permission."""
    server = make_server(authentication=[OAuth2Authentication()])
    tool(server=server, name="look")(lambda: "seen")
    tool(server=server, name="book", scopes=["travel:write"])(lambda: "booked")
    tool(server=server, name="guarded", permission="travel.change_city")(lambda: "changed")
    return server


@pytest.fixture
def signed_in(server: MCPServer, client: Client) -> Callable[[str], Client]:
    """The client with a token in its Authorization header."""

    def sign_in(token: str) -> Client:
        plain = client.send

        def send(verb: str, headers: Any, *rest: Any, **options: Any) -> Any:
            return plain(verb, {"authorization": f"Bearer {token}", **headers}, *rest, **options)

        client.send = send  # type: ignore[method-assign]
        return client

    return sign_in
