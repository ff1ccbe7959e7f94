"""The resource server: which tokens open an endpoint. Numbers in brackets are rows of the list of attacks."""

import asyncio
import dataclasses
import datetime
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from oauthlib.common import Request as OAuthlibRequest

from django_mcp import AllowAny, Context, InvalidToken, MCPServer, OAuth2Authentication, Principal, tool
from django_mcp.auth.base import RequestHead
from django_mcp.auth.oauth import is_for, renewed
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.auth.toolkit import get_access_token_model, oauth2_settings
from django_mcp.models import ClientPolicy
from tests.clients import Client

Make = Callable[..., Any]


def head(token: str, **headers: str) -> RequestHead:
    return RequestHead("POST", {"authorization": f"Bearer {token}", **headers}, "testserver", bool, lambda: None)


def refused(client: Client, headers: dict[str, str | None] | None = None) -> str:
    """The challenge of a 401."""
    answer = client.post(b"{}", headers)
    assert answer.status == 401, answer.body
    assert answer.headers["cache-control"] == "no-store"
    return answer.headers["www-authenticate"]


INVALID = 'Bearer error="invalid_token", error_description="The access token is invalid, expired, or not for this '
METADATA = 'resource_metadata="https://travel.example.com/.well-known/oauth-protected-resource/test/mcp"'


def test_a_good_token_opens_its_endpoint(signed_in: Make, make_token: Make) -> None:
    assert signed_in(make_token()).call("look").text == "seen"


def test_no_token_is_answered_with_where_to_get_one_and_without_an_error(client: Client, server: MCPServer) -> None:
    assert refused(client) == f'Bearer scope="travel:read", {METADATA}'
    assert client.post(b"{}").json == {
        "error": "invalid_token",
        "error_description": "Authentication required: this endpoint needs a credential.",
    }


def test_a_token_that_is_not_for_this_is_refused(
    client: Client, signed_in: Make, make_token: Make, subtests: pytest.Subtests
) -> None:
    cases = [
        {"resource": []},
        {"resource": ["https://travel.example.com"]},
        {"resource": ["https://travel.example.com/test"]},
        {"resource": ["https://travel.example.com/other/mcp"]},
        {"resource": ["https://travel.example.com/test/mcp/more"]},
        {"resource": ["http://travel.example.com/test/mcp"]},
        {"resource": ["https://travel.example.com:8443/test/mcp"]},
        {"resource": ["https://travel.example.com/test/mcp?x=1"]},
        {"scope": "travel:read oauth2_provider:registration"},
        {"expires": timezone.now() - datetime.timedelta(seconds=1)},
        {"application": None},
        {"user": None},
    ]
    for changes in cases:
        with subtests.test(changes=changes):
            challenge = refused(signed_in(make_token(**changes)))
            assert challenge.startswith(INVALID)
            assert challenge.endswith(f'scope="travel:read", {METADATA}')


def test_an_audience_that_makes_no_sense_is_none(server: MCPServer, subtests: pytest.Subtests) -> None:
    for resources in [None, "https://travel.example.com/test/mcp", 7, {}, [None, 7, {}, "x", "http://["]]:
        with subtests.test(resources=resources):
            assert is_for(resources, resource_of(server)) is False


def test_the_audience_may_be_spelt_in_any_way_that_means_the_same(signed_in: Make, make_token: Make) -> None:
    token = make_token(resource=["https://elsewhere.example.com", "HTTPS://Travel.Example.com:443/test/mcp/"])
    assert signed_in(token).call("look").text == "seen"


def test_identifiers_have_one_form(subtests: pytest.Subtests) -> None:
    for uri, form in [
        ("https://a.example/mcp", "https://a.example/mcp"),
        ("HTTPS://A.Example:443/mcp//", "https://a.example/mcp"),
        ("http://a.example:80", "http://a.example"),
        ("http://a.example:8080/", "http://a.example:8080"),
        ("https://a.example/MCP?x=1", "https://a.example/MCP?x=1"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
    ]:
        with subtests.test(uri=uri, form=form):
            assert canonical(uri) == form


def test_what_cannot_name_an_endpoint_has_no_form(subtests: pytest.Subtests) -> None:
    cases = [
        "/mcp",
        "a.example/mcp",
        "ftp://a.example/",
        "https://",
        "https://u@a.example/",
        "https://u:p@a.example/",
        "x:y",
        "https://a.example/#",
        "https://a.example/ b",
        "https://a.example\\@b.example",
        "https://a.example:x/",
        "",
    ]
    for uri in cases:
        with subtests.test(uri=uri), pytest.raises(ValueError, match=r"."):
            canonical(uri)


def test_a_deactivated_users_token_is_dead(signed_in: Make, make_token: Make, user: Any) -> None:
    client = signed_in(make_token())
    assert client.call("look").text == "seen"
    user.is_active = False
    user.save()
    assert refused(client).startswith(INVALID)


def test_a_revoked_token_is_dead_at_once(signed_in: Make, make_token: Make) -> None:
    client = signed_in(make_token())
    assert client.call("look").text == "seen"
    get_access_token_model().objects.all().delete()
    assert refused(client).startswith(INVALID)


def test_what_is_no_token_is_a_bad_one(client: Client, server: MCPServer, subtests: pytest.Subtests) -> None:
    for sent in ["Bearer a b", "Bearer", "Bearer ", "bearer é", 'Bearer "', "Bearer a,b", "BEARER x"]:
        with subtests.test(sent=sent):
            assert refused(client, {"authorization": sent.encode().decode("latin-1")}).startswith(INVALID)


NONE_ALG = "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."


def test_a_token_that_nobody_issued_is_refused(client: Client, server: MCPServer, subtests: pytest.Subtests) -> None:
    for token in [NONE_ALG, "x" * 5000, "unknown", "mcp_key_unknown"]:
        with subtests.test(token=token):
            assert refused(client, {"authorization": f"Bearer {token}"}).startswith(INVALID)


def test_another_scheme_is_no_credential(client: Client, server: MCPServer, subtests: pytest.Subtests) -> None:
    for sent in ["Token x", "Basic eDp5", "x", "Bearerx y"]:
        with subtests.test(sent=sent):
            assert "error" not in refused(client, {"authorization": sent})


def test_the_scheme_is_written_in_any_case(client: Client, server: MCPServer, make_token: Make) -> None:
    answer = client.request("tools/list", headers={"authorization": f"bEARER {make_token()}"})
    assert [each["name"] for each in answer.result["tools"]] == ["look", "book"]


def test_a_token_elsewhere_than_in_the_header_is_not_looked_at(
    client: Client, server: MCPServer, make_token: Make
) -> None:
    token = make_token()
    path = f"/{server.path}?access_token={token}&api_key={token}"
    for answer in (
        client.post(b"{}", path=path),
        client.post(f"access_token={token}".encode(), {"content-type": "application/x-www-form-urlencoded"}),
        client.post(b"{}", {"cookie": f"access_token={token}; token={token}"}),
    ):
        assert answer.status == 401
        assert "error" not in answer.headers["www-authenticate"]


def test_a_token_and_a_key_in_one_request_are_refused(client: Client, server: MCPServer, make_token: Make) -> None:
    answer = client.post(b"{}", {"authorization": f"Bearer {make_token()}", "x-api-key": "mcp_key_x"})
    assert answer.status == 400
    assert "one credential" in answer.error["message"]


def test_a_bad_token_is_not_as_good_as_none(
    make_server: Make, site: None, version: str, edge: str, open_database: None
) -> None:
    server = make_server("mixed", authentication=[OAuth2Authentication(), AllowAny()])
    tool(server=server, name="look", read_only=True)(lambda: "seen")
    client = Client(server, version, edge)
    assert client.call("look").text == "seen"
    assert refused(client, {"authorization": "Bearer bad"}).startswith("Bearer error=")


def test_a_cookie_is_not_a_credential(client: Client, server: MCPServer, user: Any) -> None:
    from django.test import Client as Browser

    browser = Browser()
    browser.force_login(user)
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
    assert "error" not in refused(client, {"cookie": cookie})


def test_with_the_cookie_of_one_and_the_token_of_another_the_token_counts(
    server: MCPServer, signed_in: Make, make_token: Make, make_user: Make, user: Any
) -> None:
    from django.test import Client as Browser

    @tool(server=server)
    def whoami(ctx: Context) -> str:
        return f"{ctx.user.username} {ctx.request.user.username}"

    browser = Browser()
    browser.force_login(make_user("somebody-else"))
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
    client = signed_in(make_token())
    answer = client.request("tools/call", {"name": "whoami", "arguments": {}}, headers={"cookie": cookie})
    assert answer.text == f"{user.username} {user.username}"


def test_the_check_is_one_query(server: MCPServer, make_token: Make, application: Any) -> None:
    ClientPolicy.objects.create(client_id=application.client_id, scopes=["travel:read"])
    for token, good in ((make_token(), True), ("unknown", False), (make_token(resource=[]), False)):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            if good:
                principal = OAuth2Authentication().authenticate(head(token), server)
                assert principal.scopes == {"travel:read"}
            else:
                with pytest.raises(InvalidToken):
                    OAuth2Authentication().authenticate(head(token), server)
        assert len(queries) == 1, [each["sql"] for each in queries]


def test_without_a_token_there_is_no_query(server: MCPServer, open_database: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert (
            OAuth2Authentication().authenticate(RequestHead("POST", {}, "testserver", bool, lambda: None), server)
            is None
        )
    assert len(queries) == 0


def test_what_a_principal_carries(server: MCPServer, make_token: Make, user: Any, application: Any) -> None:
    token = make_token(scope="travel:read travel:write")
    principal = OAuth2Authentication().authenticate(head(token), server)
    assert (principal.kind, principal.id) == ("oauth", f"{user.pk}:{application.pk}")
    assert principal.scopes == {"travel:read", "travel:write"}
    assert principal.client_id == application.client_id
    assert principal.user == user
    row = get_access_token_model().objects.get(pk=principal.credential)
    assert principal.expires == row.expires
    assert token not in repr(principal)


def test_no_token_is_in_the_log_or_the_answer_where_a_tool_shows_all_it_has(
    server: MCPServer, signed_in: Make, make_token: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """[28]"""

    @tool(server=server)
    def breaks(ctx: Context) -> str:
        raise RuntimeError(f"{ctx!r} {ctx.principal!r} {vars(ctx.user)!r}")

    @tool(server=server)
    def shows(ctx: Context) -> str:
        request = ctx.request
        scope = getattr(request, "scope", {})
        return f"{request.META} {dict(request.headers)} {getattr(request, 'environ', '')} {scope} {request.COOKIES}"

    token = make_token()
    client = signed_in(token)
    assert (
        token
        not in client.request("tools/call", {"name": "shows", "arguments": {}}, headers={"cookie": f"a={token}"}).text
    )
    with caplog.at_level(logging.DEBUG):
        answer = client.call("breaks")
    assert answer.result["isError"]
    assert token not in caplog.text
    assert token.encode() not in answer.body


# What the site's owner decided about a client


def test_a_blocked_clients_tokens_are_dead(signed_in: Make, make_token: Make, application: Any) -> None:
    client = signed_in(make_token())
    assert client.call("look").text == "seen"
    ClientPolicy.objects.create(client_id=application.client_id, blocked=True)
    assert refused(client).startswith(INVALID)


def test_a_clients_scopes_are_cut_to_those_it_may_have(
    server: MCPServer, make_token: Make, signed_in: Make, application: Any
) -> None:
    ClientPolicy.objects.create(client_id=application.client_id, scopes=["travel:read"])
    token = make_token(scope="travel:write")
    assert OAuth2Authentication().authenticate(head(token), server).scopes == {"travel:read"}
    assert signed_in(token).call("look").text == "seen"


def test_a_client_may_be_limited_to_tools_that_change_nothing(
    server: MCPServer, make_token: Make, signed_in: Make, application: Any
) -> None:
    tool(server=server, name="reserve")(lambda: "booked")
    tool(server=server, name="peek", read_only=True)(lambda: "seen")
    client, policy = signed_in(make_token()), ClientPolicy.objects.create(client_id=application.client_id)
    assert client.call("reserve").text == "booked"
    policy.read_only = True
    policy.save()
    assert "reserve" not in {each["name"] for each in client.list("tools/list")}
    assert client.call("peek").text == "seen"
    assert client.call("reserve").json["error"]["message"] == "Unknown tool: 'reserve'."
    principal = OAuth2Authentication().authenticate(head(make_token()), server)
    assert principal.read_only
    current = renewed(dataclasses.replace(principal, read_only=False), server)
    assert current is not None
    assert current.read_only
    assert OAuth2Authentication().find_ended([principal], server) == []
    ClientPolicy.objects.update(read_only=False)  # without a signal
    assert OAuth2Authentication().find_ended([principal], server) == [principal]


def test_an_application_that_acts_for_itself_is_the_chosen_user_and_nobody_else(
    server: MCPServer, make_application: Make, make_token: Make, user: Any, make_user: Make
) -> None:
    robot = make_application(client_type="confidential", authorization_grant_type="client-credentials")
    token = make_token(application=robot, user=user)
    with pytest.raises(InvalidToken):
        OAuth2Authentication().authenticate(head(token), server)
    policy = ClientPolicy.objects.create(client_id=robot.client_id, service_account=user)
    principal = OAuth2Authentication().authenticate(head(token), server)
    assert (principal.kind, principal.user) == ("client", user)
    policy.service_account = make_user()
    policy.save()
    with pytest.raises(InvalidToken):
        OAuth2Authentication().authenticate(head(token), server)


def test_an_application_may_be_made_unusable(
    server: MCPServer, make_token: Make, application: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_token()
    monkeypatch.setattr(type(application), "is_usable", lambda self, request: False)
    with pytest.raises(InvalidToken):
        OAuth2Authentication().authenticate(head(token), server)


def test_an_endpoint_for_some_users_is_closed_to_others(
    make_server: Make, site: None, user: Any, make_token: Make, version: str, edge: str
) -> None:
    staff = make_server(
        "insiders", authentication=[OAuth2Authentication()], user_passes_test=lambda user: user.is_staff
    )
    tool(server=staff, name="look")(lambda: "seen")
    client = Client(staff, version, edge)
    headers = {"authorization": f"Bearer {make_token(resource=[resource_of(staff)])}"}
    assert refused(client, headers).startswith(INVALID)
    user.is_staff = True
    user.save()
    assert client.request("tools/call", {"name": "look", "arguments": {}}, headers=headers).text == "seen"


def test_the_registration_scope_is_the_toolkits() -> None:
    assert oauth2_settings.DCR_REGISTRATION_SCOPE == "oauth2_provider:registration"


def test_a_principal_of_the_sites_own_kind_needs_no_scopes(server: MCPServer) -> None:
    assert Principal("proxy", "1", None).scopes is None


def test_the_asgi_edge_recognises_in_one_hop(server: MCPServer, make_token: Make) -> None:
    from django_mcp.core.concurrency import shared_pool
    from django_mcp.transports.authentication import find_caller

    hops = []

    class Counting:
        @property
        def own(self) -> "Counting":
            return self

        async def sync(self, function: Callable[[], Any]) -> Any:
            hops.append(function)
            return await shared_pool().sync(function)

    principal = asyncio.run(find_caller(head(make_token()), server, Counting()))
    assert principal.kind == "oauth"
    assert len(hops) == 1


def test_an_id_token_that_the_toolkit_itself_would_take_opens_nothing(
    server: MCPServer, application: Any, user: Any, signed_in: Make
) -> None:
    """[5] With OpenID Connect on, the toolkit's own check takes a client's ID token for an access token."""
    import json
    import uuid

    from jwcrypto import jwk, jwt
    from oauth2_provider.models import get_id_token_model
    from oauth2_provider.settings import oauth2_settings as toolkit

    from django_mcp.auth.toolkit import OAuth2Validator

    key = jwk.JWK.generate(kty="RSA", size=2048)
    pem = key.export_to_pem(private_key=True, password=None).decode()
    own = {"OIDC_ENABLED": True, "OIDC_RSA_PRIVATE_KEY": pem}
    with override_settings(OAUTH2_PROVIDER={**django_settings.OAUTH2_PROVIDER, **own}):
        toolkit.reload()
        application.algorithm = "RS256"
        application.save()
        expires = timezone.now() + datetime.timedelta(hours=1)
        row = get_id_token_model().objects.create(
            user=user, application=application, scope="travel:read openid", expires=expires, jti=uuid.uuid4()
        )
        claims = {"jti": str(row.jti), "aud": application.client_id, "exp": int(expires.timestamp())}
        token = jwt.JWT(header=json.dumps({"alg": "RS256"}), claims=json.dumps(claims))
        token.make_signed_token(key)
        request = OAuthlibRequest("https://travel.example.com/test/mcp")
        assert OAuth2Validator().validate_id_token(token.serialize(), ["travel:read"], request)
        assert refused(signed_in(token.serialize())).startswith(INVALID)
    toolkit.reload()
