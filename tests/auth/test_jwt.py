"""Tokens of an authorization server elsewhere. Numbers in brackets are rows of the list of attacks."""

import base64
import hashlib
import hmac
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from jwcrypto.jwk import JWK

from django_mcp import (
    AllowAny,
    APIKeyAuthentication,
    BaseAuthentication,
    Context,
    InvalidToken,
    JWTAuthentication,
    MCPServer,
    OAuth2Authentication,
    Principal,
    RequestHead,
    tool,
)
from django_mcp.auth.base import AuthenticationUnavailable
from django_mcp.auth.jwt import MAX_BYTES, IssuerKeys, Unreachable, discovered_jwks_url, metadata_urls
from django_mcp.auth.protected_resource import resource_of
from tests.auth import issuer as issuers
from tests.auth.issuer import KEYS, METADATA, OPENID, Issuer, rsa_key
from tests.clients import Client

Make = Callable[..., Any]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuers.running() as issuer:
        yield issuer


@pytest.fixture
def tokens(issuer: Issuer) -> JWTAuthentication:
    return JWTAuthentication(issuer.url, user=JWTAuthentication.by_username())


@pytest.fixture
def server(make_server: Make, site: None, tokens: JWTAuthentication) -> MCPServer:
    server = make_server(authentication=[tokens])

    @tool(server=server)
    def whoami(context: Context) -> str:
        return str(context.user.get_username())

    tool(server=server, name="book", scopes=["travel:write"])(lambda: "booked")
    return server


@pytest.fixture
def ada(make_user: Make) -> Any:
    return make_user("ada")


@pytest.fixture
def make(issuer: Issuer, server: MCPServer) -> Callable[..., str]:
    """A token for *server*; what is given replaces its claims, ``header`` its header."""

    def make(header: dict[str, Any] | None = None, **claims: Any) -> str:
        usual = {"aud": resource_of(server), "scope": "travel:read"}
        return issuer.sign(issuer.claims(**{**usual, **claims}), **(header or {}))

    return make


def head(token: str) -> RequestHead:
    return RequestHead("POST", {"authorization": f"Bearer {token}"}, "testserver", bool, lambda: None)


def forged(header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token by hand, where a library would refuse to make one."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    signature = base64.urlsafe_b64encode(sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


def test_a_good_token_acts_as_its_user(client: Client, make: Make, ada: Any) -> None:
    answer = client.request(
        "tools/call", {"name": "whoami", "arguments": {}}, headers={"authorization": f"Bearer {make()}"}
    )
    assert answer.text == "ada"


def test_without_a_token_one_is_told_of_the_issuer(client: Client, server: MCPServer, issuer: Issuer) -> None:
    answer = client.post(b"{}")
    assert answer.status == 401
    metadata = "https://travel.example.com/.well-known/oauth-protected-resource/test/mcp"
    assert answer.headers["www-authenticate"] == f'Bearer scope="travel:read", resource_metadata="{metadata}"'


def test_a_principal_is_of_one_user_issuer_and_client(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any
) -> None:
    exp = int(time.time()) + 100
    one = tokens.authenticate(head(make(exp=exp)), server)
    assert isinstance(one, Principal)
    assert (one.kind, one.user, one.scopes) == ("external", ada, {"travel:read"})
    assert (one.client_id, one.credential, one.steps_up) == ("assistant", "7", True)
    assert one.expires is not None
    assert one.expires.timestamp() == exp
    again = tokens.authenticate(head(make(jti="8")), server)
    other = tokens.authenticate(head(make(client_id=None, azp="another")), server)
    assert again is not None
    assert other is not None
    assert other.client_id == "another"
    assert one.id == again.id != other.id


def test_a_token_of_this_issuer_that_is_not_good_is_refused(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any, subtests: pytest.Subtests
) -> None:
    cases = [
        {"exp": 1},
        {"exp": None},
        {"exp": "99999999999"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": float("inf")},
        {"nbf": time.time() + 10**8},
        {"nbf": "soon"},
        {"aud": None},
        {"aud": []},
        {"aud": "https://travel.example.com"},
        {"aud": "https://travel.example.com/test"},
        {"aud": "https://travel.example.com/test/mcp/more"},
        {"aud": "assistant"},
        {"aud": {"https://travel.example.com/test/mcp": 1}},
        {"aud": [7, None]},
        {"at_hash": "x"},
        {"cnf": {"jkt": "x"}},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "nobody-here"},
        {"sub": "ADA"},
    ]
    for claims in cases:
        with subtests.test(claims=claims):
            assert tokens.authenticate(head(make()), server)
            with pytest.raises(InvalidToken):
                tokens.authenticate(head(make(**claims)), server)


def test_types_of_access_tokens_are_taken(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any, subtests: pytest.Subtests
) -> None:
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt", None]:
        with subtests.test(typ=typ):
            assert tokens.authenticate(head(make({"typ": typ})), server)


def test_a_header_that_does_not_fit_is_refused(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any, subtests: pytest.Subtests
) -> None:
    """The key says that it is for RS256."""
    for header in [
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": ["JWT"]},
        {"kid": "two"},
        {"kid": ""},
        {"alg": "RS512"},
    ]:
        with subtests.test(header=header), pytest.raises(InvalidToken):
            tokens.authenticate(head(make(header)), server)


def test_a_signature_of_anybody_elses_key_is_refused(
    tokens: JWTAuthentication, server: MCPServer, issuer: Issuer, ada: Any
) -> None:
    claims = issuer.claims(aud=resource_of(server))
    stranger = rsa_key("one")
    assert tokens.authenticate(head(issuer.sign(claims)), server)
    for token in (issuer.sign(claims, key=stranger), issuer.sign(claims, key=stranger, jwk=stranger.export_public())):
        with pytest.raises(InvalidToken):
            tokens.authenticate(head(token), server)


def test_a_token_that_anybody_could_have_signed_is_refused(
    tokens: JWTAuthentication, server: MCPServer, issuer: Issuer, ada: Any, subtests: pytest.Subtests
) -> None:
    """[6] Unsigned, or signed with the public key as if it were a shared secret."""
    secret = issuer.key.export_to_pem()
    for algorithm in ["none", "None", "NONE", "", None, "HS256", "HS512", ["RS256"], 7]:
        with subtests.test(algorithm=algorithm):
            claims = issuer.claims(aud=resource_of(server))
            for sign in (lambda _: b"", lambda body: hmac.new(secret, body, hashlib.sha256).digest()):
                with pytest.raises(InvalidToken):
                    tokens.authenticate(head(forged({"alg": algorithm, "kid": "one"}, claims, sign)), server)


def test_only_signatures_with_a_key_pair_can_be_allowed(subtests: pytest.Subtests) -> None:
    for algorithms in [["none"], ["RS256", "HS256"], "RS256", [], ["rs256"]]:
        with subtests.test(algorithms=algorithms), pytest.raises(ImproperlyConfigured, match="RS256, RS384"):
            JWTAuthentication("https://id.example.com", user="x.y", algorithms=algorithms)


def test_an_issuer_is_reached_by_https(subtests: pytest.Subtests) -> None:
    for url in ["http://id.example.com", "id.example.com", "https://", "file:///etc/passwd", "http://["]:
        with subtests.test(url=url):
            with pytest.raises(ImproperlyConfigured, match="Use an https URL"):
                JWTAuthentication(url, user="x.y")
            with pytest.raises(ImproperlyConfigured, match="Use an https URL"):
                JWTAuthentication("https://id.example.com", user="x.y", jwks_url=url)


ODD_MEMBERS = [("oth", []), ("p", "AQAB"), ("alg", ["ES256"]), ("kid", {"a": 1}), ("x", 5), ("y", None), ("use", 1)]


def test_elliptic_keys_are_taken_and_unknown_kinds_passed_over(
    tokens: JWTAuthentication, server: MCPServer, issuer: Issuer, ada: Any
) -> None:
    elliptic, edwards = JWK.generate(kty="EC", crv="P-256", kid="ec"), JWK.generate(kty="OKP", crv="Ed25519", kid="ed")
    secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "oct"}
    odd = [7, {}, {"kty": "new"}, {"kty": "EC", "crv": "P-1"}, {"generate": "RSA"}, secret]
    odd += [{**elliptic.export_public(as_dict=True), name: value} for name, value in ODD_MEMBERS]
    issuer.documents[KEYS] = {"keys": [*odd, *(key.export_public(as_dict=True) for key in (elliptic, edwards))]}
    claims = issuer.claims(aud=resource_of(server))
    assert tokens.authenticate(head(issuer.sign(claims, key=elliptic, alg="ES256")), server)
    assert tokens.authenticate(head(issuer.sign(claims, key=edwards, alg="EdDSA")), server)
    with pytest.raises(InvalidToken):
        tokens.authenticate(head(issuer.sign(claims, key=elliptic, alg="ES256", kid="ed")), server)


def test_clocks_may_differ_a_little(tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any) -> None:
    now = time.time()
    assert tokens.authenticate(head(make(exp=now - 20, nbf=now + 20)), server)
    with pytest.raises(InvalidToken):
        tokens.authenticate(head(make(exp=now - 40)), server)


def test_scopes_are_a_text_or_a_list_and_none_where_there_are_none(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any, subtests: pytest.Subtests
) -> None:
    for claims, scopes in [
        ({"scope": "travel:read travel:write"}, {"travel:read", "travel:write"}),
        ({"scope": None, "scp": ["travel:read"]}, {"travel:read"}),
        ({"scope": ["travel:read"]}, {"travel:read"}),
        ({"scope": None}, set()),
        ({"scope": ""}, set()),
    ]:
        with subtests.test(claims=claims, scopes=scopes):
            principal = tokens.authenticate(head(make(**claims)), server)
            assert principal is not None
            assert principal.scopes == scopes


def test_a_token_with_too_few_scopes_is_told_which_it_needs(client: Client, make: Make, ada: Any) -> None:
    for claims in ({"scope": None}, {}):
        body, own = client.compose("tools/call", {"name": "book", "arguments": {}})
        answer = client.post(json.dumps(body).encode(), {**own, "authorization": f"Bearer {make(**claims)}"})
        assert answer.status == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def test_an_inactive_user_is_refused(tokens: JWTAuthentication, server: MCPServer, make: Make, make_user: Make) -> None:
    make_user("ada", is_active=False)
    with pytest.raises(InvalidToken):
        tokens.authenticate(head(make()), server)


def test_a_check_is_one_query_and_no_fetch_once_the_keys_are_there(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, ada: Any
) -> None:
    tokens.authenticate(head(make()), server)
    assert issuer.asked == [METADATA, KEYS]
    with CaptureQueriesContext(connection) as queries:
        tokens.authenticate(head(make()), server)
    assert len(queries) == 1
    assert issuer.asked == [METADATA, KEYS]


def find_nobody(claims: Any) -> Any:
    return get_user_model().objects.get(username=f"not-{claims['sub']}")


def test_the_site_says_who_the_user_is(issuer: Issuer, server: MCPServer, make: Make, ada: Any) -> None:
    chosen = JWTAuthentication(issuer.url, user=lambda claims: ada if claims["sub"] == "ada" else None)
    assert chosen.authenticate(head(make()), server)
    with pytest.raises(InvalidToken):
        JWTAuthentication(issuer.url, user=f"{__name__}.find_nobody").authenticate(head(make()), server)
    with pytest.raises(TypeError):
        JWTAuthentication(issuer.url)  # type: ignore[call-arg]


def test_an_email_counts_where_the_issuer_verified_it_and_one_user_has_it(
    make_user: Make, subtests: pytest.Subtests
) -> None:
    cases = [
        ({"email": "ada@example.com", "email_verified": True}, True),
        ({"email": "Ada@Example.com", "email_verified": True}, True),
        ({"email": "ada@example.com", "email_verified": "true"}, False),
        ({"email": "ada@example.com"}, False),
        ({"email": "", "email_verified": True}, False),
        ({"email": "twin@example.com", "email_verified": True}, False),
        ({"email_verified": True}, False),
    ]
    make_user("nobody", email="")
    make_user("ada", email="ada@example.com")
    make_user("twin", email="twin@example.com")
    make_user("twin2", email="TWIN@example.com")
    for claims, found in cases:
        with subtests.test(claims=claims, found=found):
            user = JWTAuthentication.by_verified_email(claims)
            assert (user is not None and user.get_username() == "ada") is found


def test_an_audience_may_be_fixed_and_is_then_compared_to_the_letter(
    issuer: Issuer, server: MCPServer, make: Make, ada: Any
) -> None:
    tokens = JWTAuthentication(issuer.url, user=JWTAuthentication.by_username(), audience="api://travel")
    assert tokens.authenticate(head(make(aud=["x", "api://travel"])), server)
    for audience in ("API://travel", "api://travel/", resource_of(server)):
        with pytest.raises(InvalidToken):
            tokens.authenticate(head(make(aud=audience)), server)


def test_an_audience_may_be_spelt_in_any_way_that_means_the_endpoint(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any
) -> None:
    assert tokens.authenticate(head(make(aud=["http://[", "HTTPS://Travel.Example.com:443/test/mcp/"])), server)


NOT_OURS = [
    "opaque-token",
    "mcp_key_abc",
    "a.b",
    "a.b.c",
    "e30.e30.",
    "e30.e30.x.y.z",
    "W10.W10.x",
    f"{'W' * 3000}.e30.x",
    forged({"alg": "none"}, {"iss": "https://elsewhere.example.com"}, lambda _: b""),
    forged({"alg": "RS256"}, {"iss": ["x"]}, lambda _: b"x"),
    base64.urlsafe_b64encode(b"[" * 30_000).decode() + ".e30.x",
]


def test_what_does_not_say_that_it_is_of_this_issuer_is_left_to_others(
    tokens: JWTAuthentication, server: MCPServer, issuer: Issuer, subtests: pytest.Subtests
) -> None:
    for token in NOT_OURS:
        with subtests.test(token=token):
            assert tokens.authenticate(head(token.rstrip("=").replace("=", "")), server) is None
            assert issuer.asked == []


def test_what_nobody_knows_is_refused_even_where_nobody_in_particular_may_call(
    make_server: Make, site: None, tokens: JWTAuthentication, edge: str, open_database: None
) -> None:
    """A bad credential is never as good as none."""
    server = make_server(authentication=[tokens, APIKeyAuthentication(), AllowAny()])
    tool(server=server, name="one")(lambda: "x")
    client = Client(server, "2025-11-25", edge)
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert client.post(ping).status == 200
    assert client.post(ping, {"authorization": "Basic eA=="}).status == 200
    for token in NOT_OURS[:3]:
        answer = client.post(ping, {"authorization": f"Bearer {token}"})
        assert answer.status == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_two_issuers_the_sites_own_tokens_and_keys_go_together(
    make_server: Make, site: None, ada: Any, edge: str, open_database: None
) -> None:
    with issuers.running() as first, issuers.running() as second:
        chosen = [JWTAuthentication(each.url, user=JWTAuthentication.by_username()) for each in (first, second)]
        second.sign_with(rsa_key("another"))
        server = make_server(authentication=[*chosen, APIKeyAuthentication(), OAuth2Authentication()])
        tool(server=server, name="one")(lambda: "x")
        client = Client(server, "2025-11-25", edge)
        for issuer in (first, second):
            token = issuer.sign(issuer.claims(aud=resource_of(server), scope="travel:read"))
            ping = client.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"authorization": f"Bearer {token}"})
            assert ping.status == 200
        crossed = first.sign(second.claims(aud=resource_of(server), scope="travel:read"))
        assert client.post(b"{}", {"authorization": f"Bearer {crossed}"}).status == 401
        assert client.post(b"{}", {"authorization": "Bearer opaque"}).status == 401


DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_example_of_the_documentation_finds_one_user_with_a_verified_address(
    issuer: Issuer,
    make_server: Make,
    site: None,
    make_user: Make,
    edge: str,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    page = (DOCS / "authentication.md").read_text()
    [example] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "JWTAuthentication" in code]
    monkeypatch.setattr("django_mcp.MCPServer", make_server)

    def count_books() -> int:
        return 2

    names: dict[str, Any] = {"tool": tool, "count_books": count_books}
    exec(example.replace("https://id.example.com", issuer.url), names)
    server = names["sso"]
    client = Client(server, "2025-11-25", edge)
    make_user("root", email="root@example.com", is_superuser=True)
    make_user("nobody", email="")
    make_user("one", email="two@example.com")
    make_user("two", email="TWO@example.com")
    make_user("gone", email="gone@example.com", is_active=False)
    for claims, status in [
        ({"email": "root@example.com", "email_verified": True}, 200),
        ({"email": "root@example.com", "email_verified": "false"}, 401),
        ({"email": "root@example.com", "email_verified": "true"}, 401),
        ({"email": "root@example.com", "email_verified": 1}, 401),
        ({"email": "root@example.com"}, 401),
        ({"email_verified": True}, 401),
        ({"email": "", "email_verified": True}, 401),
        ({"email": ["root@example.com"], "email_verified": True}, 401),
        ({"email": "root@example.com\0", "email_verified": True}, 401),
        ({"email": "two@example.com", "email_verified": True}, 401),
        ({"email": "gone@example.com", "email_verified": True}, 401),
        ({"email": "unknown@example.com", "email_verified": True}, 401),
    ]:
        with subtests.test(claims=claims):
            token = issuer.sign(issuer.claims(aud=resource_of(server), scope="travel:read", **claims))
            assert client.post(PING, {"authorization": f"Bearer {token}"}).status == status


# Odd claims

NOTHING: Any = object()
TEXTS = ["", "7", "x", "a\0b", "\ud800", "x" * 300]
NO_JSON = [float("nan"), float("inf"), -float("inf")]
VALUES: list[Any] = [
    *NO_JSON,
    *(NOTHING, None, True, False, 0, 7, -1, 1.5, 1e300, -1e300, 10**30, 253402300800),
    *TEXTS,
    *([], [[]], ["a", 7], [None], ["a\0b"], ["\ud800"], [True], {}, {"a": 1}, {"travel:read": 1}),
]
GOOD_VALUES: dict[str, list[Any]] = {
    "exp": [],
    "nbf": [NOTHING, 0, 7, -1, 1.5],
    "iat": [NOTHING, 0, 7, -1, 1.5],
    "aud": [],
    "iss": [],
    "sub": [],
    "client_id": [NOTHING, "", "7", "x"],
    "azp": [NOTHING, "", "7", "x"],
    "jti": [NOTHING, "", "7", "x", "x" * 300],
    "scope": [],
    "scp": [value for value in VALUES if value not in NO_JSON],
    "email": [value for value in VALUES if value not in NO_JSON],
}
"""Values with which a token is still good. ``scp`` counts only without ``scope``; nobody asks for ``email``."""
TOO_LITTLE = ["", "7", "x", "x" * 300, [], NOTHING]
"""Values of ``scope`` that are well-formed, and lack the endpoint's."""


@pytest.mark.postgresql
@pytest.mark.parametrize("claim", GOOD_VALUES)
def test_odd_claims_are_neither_granted_nor_a_servers_error(
    client: Client, issuer: Issuer, server: MCPServer, ada: Any, claim: str, subtests: pytest.Subtests
) -> None:
    good = {**issuer.claims(), "aud": resource_of(server), "scope": "travel:read"}
    for value in VALUES:
        claims = {name: each for name, each in {**good, claim: value}.items() if each is not NOTHING}
        token = issuer.sign(json.dumps(claims).encode())
        with subtests.test(value=value):
            answer = client.post(PING, {"authorization": f"Bearer {token}"})
            is_good = any(value is each or (value == each and type(value) is type(each)) for each in GOOD_VALUES[claim])
            lacks_scopes = claim == "scope" and any(value is each or value == each for each in TOO_LITTLE)
            assert answer.status == (200 if is_good else 403 if lacks_scopes else 401)


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def test_a_list_of_scopes_is_a_list_of_texts(
    tokens: JWTAuthentication, server: MCPServer, make: Make, ada: Any, subtests: pytest.Subtests
) -> None:
    for value in [5, True, {"travel:read": 1}, ["travel:read", 5], ["travel:read", ["x"]], [["travel:read"]]]:
        with subtests.test(value=value):
            for claims in ({"scope": value}, {"scope": None, "scp": value}):
                with pytest.raises(InvalidToken):
                    tokens.authenticate(head(make(**claims)), server)


def test_headers_that_change_how_a_token_is_read_are_refused(
    tokens: JWTAuthentication, server: MCPServer, issuer: Issuer, ada: Any, subtests: pytest.Subtests
) -> None:
    key = issuer.key.get_op_key("sign")

    def sign(body: bytes) -> bytes:
        return bytes(key.sign(body, PKCS1v15(), SHA256()))

    claims = issuer.claims(aud=resource_of(server))
    assert tokens.authenticate(head(forged({"alg": "RS256", "kid": "one"}, claims, sign)), server)
    for header in [{"crit": []}, {"crit": ["exp"]}, {"crit": "exp"}, {"crit": None}, {"zip": "DEF"}, {"b64": False}]:
        with subtests.test(header=header), pytest.raises(InvalidToken):
            tokens.authenticate(head(forged({"alg": "RS256", "kid": "one", **header}, claims, sign)), server)


def test_a_function_of_the_site_that_trips_over_a_claim_finds_nobody(
    issuer: Issuer, server: MCPServer, make: Make, ada: Any, make_user: Make, subtests: pytest.Subtests
) -> None:
    make_user("grace", email="same@example.com")
    make_user("joan", email="same@example.com")
    users = get_user_model().objects
    for find in [
        lambda claims: claims["email"],
        lambda claims: users.get(email="same@example.com"),
        lambda claims: users.get(pk=claims["sub"]),
        lambda claims: claims["client_id"]["name"],
        lambda claims: users.get(pk=10**30),
    ]:
        with subtests.test(find=find), pytest.raises(InvalidToken):
            JWTAuthentication(issuer.url, user=find).authenticate(head(make()), server)


@pytest.mark.parametrize("raised", [OperationalError, InterfaceError])
def test_a_function_of_the_site_whose_database_is_away_makes_no_token_bad(
    issuer: Issuer, server: MCPServer, make: Make, raised: type[Exception]
) -> None:
    def find(claims: Any) -> Any:
        raise raised

    with pytest.raises(raised):
        JWTAuthentication(issuer.url, user=find).authenticate(head(make()), server)


def test_what_the_database_rejects_is_a_bad_credential_and_no_outage(
    make_server: Make, site: None, edge: str, open_database: None
) -> None:
    class Odd(BaseAuthentication):
        def authenticate(self, head: RequestHead, server: MCPServer) -> Principal:
            raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")

    server = make_server(authentication=[Odd()])
    answer = Client(server, "2025-11-25", edge).post(b"{}", {"authorization": "Bearer x"})
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


# Keys


def test_metadata_is_looked_for_where_both_standards_have_it() -> None:
    assert list(metadata_urls("https://id.example.com/tenant/")) == [
        "https://id.example.com/.well-known/oauth-authorization-server/tenant",
        "https://id.example.com/tenant/.well-known/openid-configuration",
    ]


def test_metadata_must_call_the_issuer_exactly_that(issuer: Issuer) -> None:
    good = issuer.documents.pop(METADATA)
    issuer.documents[OPENID] = good
    assert discovered_jwks_url(issuer.url) == issuer.url + KEYS
    for wrong in ({**good, "issuer": issuer.url + "/"}, {"issuer": issuer.url}, [], 7, b"<html>", b"\xff"):
        issuer.documents[OPENID] = json.dumps(wrong).encode() if not isinstance(wrong, bytes) else wrong
        with pytest.raises(Unreachable):
            discovered_jwks_url(issuer.url)


def slow(request: Any) -> None:
    """One byte, and no more."""
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    request.wfile.write(b"{")


def redirect(request: Any) -> None:
    request.send_response(302)
    request.send_header("Location", KEYS + "2")
    request.send_header("Content-Length", "0")
    request.end_headers()


WRONG_KEYS: dict[str, Any] = {
    "an error": 500,
    "a redirect": redirect,
    "cut off": slow,
    "no JSON": b"<html>",
    "too long": b" " * (MAX_BYTES + 1) + b"{}",
    "too deep": b"[" * 100_000,
    "no keys": {"keys": []},
    "no list": {"keys": 7},
    "nothing usable": {"keys": [{"kty": "oct", "k": "AAAA"}]},
}


@pytest.mark.parametrize("wrong", WRONG_KEYS)
def test_where_there_are_no_keys_it_is_503_and_no_token_is_called_bad(
    client: Client, make: Make, issuer: Issuer, ada: Any, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = issuer.documents[KEYS]
    issuer.documents[KEYS + "2"] = good
    issuer.documents[KEYS] = WRONG_KEYS[wrong]
    with caplog.at_level(logging.WARNING, "django_mcp"):
        answer = client.post(b"{}", {"authorization": f"Bearer {make()}", "origin": "https://travel.example.com"})
    assert answer.status == 503
    assert answer.headers["retry-after"] == "10"
    assert answer.headers["access-control-allow-origin"] == "https://travel.example.com"
    assert "www-authenticate" not in answer.headers
    assert issuer.url not in answer.body.decode()
    assert f"The keys of {issuer.url} could not be fetched" in caplog.text
    assert make() not in caplog.text


def test_after_a_failure_nobody_tries_again_at_once(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, ada: Any
) -> None:
    good = issuer.documents[KEYS]
    issuer.documents[KEYS] = 503
    for _ in range(3):
        with pytest.raises(AuthenticationUnavailable):
            tokens.authenticate(head(make()), server)
    assert issuer.asked == [METADATA, KEYS]
    issuer.documents[KEYS] = good
    tokens.keys.retry_seconds = 0
    assert tokens.authenticate(head(make()), server)


def test_an_unknown_key_is_asked_for_once_and_no_more_for_a_while(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, ada: Any
) -> None:
    tokens.authenticate(head(make()), server)
    tokens.keys.pause_seconds = 0
    issuer.asked.clear()
    renewed = rsa_key("two")
    issuer.documents[KEYS]["keys"].append(renewed.export_public(as_dict=True))
    claims = issuer.claims(aud=resource_of(server))
    assert tokens.authenticate(head(issuer.sign(claims, key=renewed)), server)
    assert issuer.asked == [METADATA, KEYS]
    tokens.keys.pause_seconds = 60
    for kid in ("three", "four", "five"):
        with pytest.raises(InvalidToken):
            tokens.authenticate(head(issuer.sign(claims, kid=kid)), server)
    assert issuer.asked == [METADATA, KEYS]


def test_a_key_that_is_taken_back_is_gone_when_the_keys_are_fetched_again(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, ada: Any
) -> None:
    assert tokens.authenticate(head(make()), server)
    issuer.documents[KEYS] = {"keys": [JWK.generate(kty="EC", crv="P-256", kid="new").export_public(as_dict=True)]}
    assert tokens.authenticate(head(make()), server)
    tokens.keys.fresh_seconds = tokens.keys.retry_seconds = 0
    tokens.authenticate(head(make()), server)  # which starts a fetch
    fetched(tokens.keys)
    tokens.keys.fresh_seconds = 60
    with pytest.raises(InvalidToken):
        tokens.authenticate(head(make()), server)


def test_while_the_issuer_is_away_its_keys_are_still_good_but_not_forever(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, ada: Any
) -> None:
    assert tokens.authenticate(head(make()), server)
    issuer.documents[METADATA] = 500
    tokens.keys.fresh_seconds = tokens.keys.retry_seconds = tokens.keys.pause_seconds = 0
    assert tokens.authenticate(head(make()), server)
    with pytest.raises(AuthenticationUnavailable):  # this key may be new, and nobody can say
        tokens.authenticate(head(make({"kid": "two"})), server)
    tokens.keys.stale_seconds = 0
    with pytest.raises(AuthenticationUnavailable):
        tokens.authenticate(head(make()), server)


def test_many_threads_fetch_the_keys_once_and_only_one_waits(tokens: JWTAuthentication, issuer: Issuer) -> None:
    together = threading.Barrier(8)
    found: list[Any] = []

    def find() -> None:
        together.wait()
        try:
            found.append(tokens.keys.find("one", "RS256"))
        except AuthenticationUnavailable as away:
            found.append(away.retry_after)

    threads = [threading.Thread(target=find) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waited = [each for each in found if isinstance(each, list)]
    assert all(len(each) == 1 for each in waited)
    assert len(waited) >= 1
    assert {each for each in found if not isinstance(each, list)} <= {1}
    assert issuer.asked == [METADATA, KEYS]


@pytest.fixture
def hanging(issuer: Issuer) -> Iterator[threading.Event]:
    """The issuer's metadata is answered when the event is set, and at the end of the test."""
    answers, metadata = threading.Event(), json.dumps(issuer.documents[METADATA]).encode()

    def hang(request: Any) -> None:
        answers.wait(30)
        request.send_response(200)
        request.send_header("Content-Length", str(len(metadata)))
        request.end_headers()
        request.wfile.write(metadata)

    issuer.documents[METADATA] = hang
    yield answers
    answers.set()


def fetched(keys: IssuerKeys) -> None:
    """Wait for the fetch that is running, if any."""
    if (thread := keys._fetching) is not None:
        thread.join(10)


@pytest.mark.usefixtures("ada")
def test_while_the_first_keys_are_fetched_the_answer_is_503_and_soon_after_200(
    client: Client, tokens: JWTAuthentication, make: Make, issuer: Issuer, hanging: threading.Event
) -> None:
    tokens.keys.patience_seconds = 0
    headers = {"authorization": f"Bearer {make()}"}
    for _ in range(20):
        answer = client.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', headers)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert issuer.asked in ([], [METADATA])
    hanging.set()
    fetched(tokens.keys)
    assert client.request("tools/call", {"name": "whoami", "arguments": {}}, headers=headers).text == "ada"


@pytest.mark.usefixtures("ada")
def test_while_unknown_keys_are_fetched_known_ones_work(
    tokens: JWTAuthentication, server: MCPServer, make: Make, issuer: Issuer, hanging: threading.Event
) -> None:
    hanging.set()
    assert tokens.authenticate(head(make()), server)
    hanging.clear()
    tokens.keys.patience_seconds = tokens.keys.pause_seconds = 0
    for kid in ("two", "three"):
        with pytest.raises(AuthenticationUnavailable):
            tokens.authenticate(head(make({"kid": kid})), server)
        assert tokens.authenticate(head(make()), server)
    tokens.keys.pause_seconds = 60
    hanging.set()
    fetched(tokens.keys)
    with pytest.raises(InvalidToken):
        tokens.authenticate(head(make({"kid": "two"})), server)
    assert issuer.asked == [METADATA, KEYS] * 2


@pytest.mark.usefixtures("ada")
def test_an_issuer_that_hangs_does_not_hold_another(
    server: MCPServer, tokens: JWTAuthentication, make: Make, hanging: threading.Event
) -> None:
    tokens.keys.patience_seconds = 0
    with issuers.running() as other:
        second = JWTAuthentication(other.url, user=JWTAuthentication.by_username())
        own = other.sign(other.claims(aud=resource_of(server), scope="travel:read"))
        with pytest.raises(AuthenticationUnavailable):
            tokens.authenticate(head(make()), server)
        assert second.authenticate(head(own), server)


def test_an_error_nobody_expected_ends_the_fetch_too(
    tokens: JWTAuthentication, make: Make, server: MCPServer, ada: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise no request would ever start another."""
    with monkeypatch.context() as broken:
        broken.setattr("django_mcp.auth.jwt.usable_keys", lambda _: 1 / 0)
        with pytest.raises(AuthenticationUnavailable):
            tokens.authenticate(head(make()), server)
    tokens.keys.retry_seconds = 0
    assert tokens.authenticate(head(make()), server)


def test_a_host_name_that_is_never_answered_holds_nobody(
    client: Client, tokens: JWTAuthentication, make: Make, monkeypatch: pytest.MonkeyPatch, ada: Any
) -> None:
    answers, asked = threading.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        asked.set()
        answers.wait(30)
        raise socket.gaierror

    tokens.keys.jwks_url = "https://id.example.com/keys"
    tokens.keys.patience_seconds = 0
    monkeypatch.setattr("django_mcp.auth.jwt.TIMEOUT", 0.1)
    monkeypatch.setattr("django_mcp.core.http_client.socket.getaddrinfo", hang)
    try:
        assert client.post(b"{}", {"authorization": f"Bearer {make()}"}).status == 503
        assert asked.wait(10)
        fetched(tokens.keys)
        assert tokens.keys._failed
    finally:
        answers.set()


def test_an_issuer_without_metadata_has_its_keys_named(server: MCPServer, make: Make, issuer: Issuer, ada: Any) -> None:
    tokens = JWTAuthentication(issuer.url, user=JWTAuthentication.by_username(), jwks_url=issuer.url + KEYS)
    assert tokens.authenticate(head(make()), server)
    assert issuer.asked == [KEYS]


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_makes_no_credential_bad(
    make_server: Make, site: None, edge: str, open_database: None, error: type[Exception]
) -> None:
    class Away(BaseAuthentication):
        def authenticate(self, head: RequestHead, server: MCPServer) -> Principal:
            raise error("connection to 10.0.0.7 refused")

    server = make_server(authentication=[Away()])
    answer = Client(server, "2025-11-25", edge).post(b"{}", {"authorization": "Bearer x"})
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"
    assert "10.0.0.7" not in answer.body.decode()
