"""Tokens of an issuer that does not answer, while others call with API keys."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_mcp import APIKeyAuthentication, JWTAuthentication, MCPServer, OAuth2Authentication, tool
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.protected_resource import resource_of
from django_mcp.transports.asgi import MCPApplication
from tests.auth import issuer as issuers
from tests.auth.conftest import make_user, site
from tests.auth.issuer import METADATA, Issuer
from tests.clients import Client, exchange, no_django

__all__ = ["make_user", "site"]

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream", "host": "testserver"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that is asked, and never answers while the test runs."""
    ended = threading.Event()
    with issuers.running() as issuer:
        issuer.documents[METADATA] = lambda _: ended.wait(30)
        yield issuer
        ended.set()


@pytest.fixture
def tokens(issuer: Issuer) -> JWTAuthentication:
    return JWTAuthentication(issuer.url, user=JWTAuthentication.by_username())


def strangers_token(issuer: Issuer, server: MCPServer, number: int) -> str:
    """Signed by nobody the site knows, with a key id of its own."""
    return issuer.sign(issuer.claims(aud=resource_of(server)), kid=f"no{number}")


@pytest.mark.parametrize("threads", [1, 8])
def test_strangers_tokens_do_not_delay_a_call_with_a_key_at_another_endpoint(
    make_server: Callable[..., MCPServer],
    make_user: Callable[..., Any],
    site: None,
    issuer: Issuer,
    tokens: JWTAuthentication,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call is answered while the issuer still hangs: with as many requests as there are threads, and one thread."""
    from django_mcp.core import concurrency

    pool = concurrency.Pool(threads)
    for module in ("django_mcp.core.concurrency", "django_mcp.transports.asgi"):
        monkeypatch.setattr(f"{module}.shared_pool", lambda: pool, raising=False)
    tokens.keys.patience_seconds = 0
    own = make_server("own", authentication=[APIKeyAuthentication()])
    theirs = make_server("theirs", authentication=[tokens, APIKeyAuthentication(), OAuth2Authentication()])
    for server in (own, theirs):
        tool(server=server, name="look")(lambda: "seen")
    _, key = create_key(make_user(), "job", endpoints=["own"], scopes=["travel:read"])

    async def ask() -> tuple[Any, list[Any]]:
        application = MCPApplication(no_django)

        def post(server: MCPServer, token: str) -> Any:
            headers = {**JSON, "authorization": f"Bearer {token}"}
            return exchange(application, "POST", f"/{server.path}", headers, PING)

        strange = [post(theirs, strangers_token(issuer, theirs, number)) for number in range(20)]
        others = [asyncio.ensure_future(each) for each in strange]
        mine = await asyncio.wait_for(post(own, key), 20)
        return mine, await asyncio.gather(*others)

    try:
        mine, others = asyncio.run(ask())
    finally:
        pool.close()
    assert mine.status == 200
    assert {(each.status, each.headers["retry-after"]) for each in others} == {(503, "1")}
    assert issuer.asked in ([], [METADATA]), "one fetch, and it still hangs"
    assert tokens.keys._fetching is not None


ODD: list[dict[str, Any]] = [
    {"scope": 5},
    {"scope": {"travel:read": 1}},
    {"sub": "a\0"},
    {"aud": [["x"]]},
    {"exp": True},
]


@pytest.mark.postgresql
def test_odd_claims_are_a_bad_credential_at_every_kind_of_endpoint(
    make_server: Callable[..., MCPServer],
    make_user: Callable[..., Any],
    site: None,
    edge: str,
    version: str,
    subtests: pytest.Subtests,
) -> None:
    make_user("ada")
    with issuers.running() as issuer:
        tokens = JWTAuthentication(issuer.url, user=JWTAuthentication.by_username())
        kinds: dict[str, dict[str, Any]] = {
            "alone": {"authentication": [tokens]},
            "with keys and tokens of the site": {
                "authentication": [tokens, APIKeyAuthentication(), OAuth2Authentication()]
            },
            "open to all": {"authentication": [tokens, "django_mcp.AllowAny"]},
            "for some": {"authentication": [tokens], "user_passes_test": lambda user: True},
            "without scopes": {"authentication": [tokens], "scopes": []},
        }
        for number, (kind, options) in enumerate(kinds.items()):
            server = make_server(f"kind{number}", **options)
            tool(server=server, name="look")(lambda: "seen")
            client = Client(server, version, edge)
            good = {"aud": resource_of(server), "scope": "travel:read"}
            with subtests.test(kind=kind):
                token = issuer.sign(issuer.claims(**good))
                headers: dict[str, str | None] = {"authorization": f"Bearer {token}"}
                assert client.request("tools/list", headers=headers).status == 200
            for odd in ODD:
                with subtests.test(kind=kind, odd=odd):
                    token = issuer.sign(issuer.claims(**{**good, **odd}))
                    answer = client.post(PING, {"authorization": f"Bearer {token}"})
                    assert answer.status == 401
                    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
