"""The token and revocation endpoints at their edge: garbage, browsers, caches, logs, and what revoking does."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from django.core.cache import cache
from django.test import override_settings
from django.urls import resolve

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.oauth.register import hash_secret
from tests.oauth.site import CALLBACK, HOST, VERIFIER, Browser, Site, challenge_of

AccessToken, RefreshToken = get_access_token_model(), get_refresh_token_model()

FORM = "application/x-www-form-urlencoded"
ORIGIN = "https://inspector.example.com"
BOTH = ["/o/token/", "/o/revoke_token/"]
TWINS = [*BOTH, "/o/token", "/o/revoke_token"]


def post(path: str, body: bytes | str, content_type: str = FORM, **headers: str) -> Any:
    """POST these very bytes."""
    given = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    return Browser().generic("POST", path, body, content_type, headers=given)


def check_error(response: Any, status: int = 400, error: str = "invalid_request") -> None:
    assert response.status_code == status, response.content.decode()
    assert response["Content-Type"].startswith("application/json")
    assert response["Cache-Control"] == "no-store"
    assert response.json()["error"] == error


# Garbage

GRANTS = ("authorization_code", "refresh_token", "client_credentials", "password", "openid", "x", "urn:x")


@pytest.mark.postgresql
def test_garbage_gets_an_answer_in_json(site: Site, subtests: pytest.Subtests) -> None:
    cases = [
        (b"", "application/json"),
        (b'{"grant_type": "refresh_token"}', "application/json"),
        (b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\nx\r\n--b--', "multipart/form-data; boundary=b"),
        (b"no boundary", "multipart/form-data"),
        (b"token=x", "text/plain"),
        (b"token=x", ""),
        (b"token=x", f"{FORM}; charset=utf-16"),
        (b"token=x", f"{FORM}; charset=nonsense-8"),
        (b"", FORM),
        (b"\xff\xfe\x00", FORM),
        (b"token=%00&client_id=x", FORM),
        (b"token=x&client_id=%00", FORM),
        (b"%00=x", FORM),
        (b"&".join(b"a%d=1" % number for number in range(2000)), FORM),
        (b"token=" + b"x" * 70_000, FORM),
        (b"token=" + b"x" * 3_000_000, FORM),
        (b"token=x&token=y&client_id=x", FORM),
        (b"client_id=x&client_id=y&token=x", FORM),
    ]
    for body, content_type in cases:
        for path in BOTH:
            with subtests.test(path=path, body=body, content_type=content_type), site.afresh():
                response = post(path, body, content_type)
                assert response.status_code in {400, 401}
                check_error(response, response.status_code, response.json()["error"])


@pytest.mark.postgresql
def test_no_value_makes_it_fail(site: Site, subtests: pytest.Subtests) -> None:
    for name in ["client_id", "code", "refresh_token", "redirect_uri", "resource", "scope"]:
        for grant_type in GRANTS:
            with subtests.test(grant_type=grant_type, name=name), site.afresh():
                given = {"grant_type": grant_type, "client_id": "conf-public", "code": "x", "refresh_token": "x"}
                rest = urlencode({other: value for other, value in given.items() if other != name})
                for value in ("", "%FF%FE", "%F0%9F%98%80", "x" * 5000, "%", "%zz", "a b", "é"):
                    response = post("/o/token/", f"{rest}&{name}={value}".encode())
                    assert response.status_code in {400, 401}
                    assert response.json()["error"]


INTERNALS = (
    "refresh_token_instance",
    "client",
    "user",
    "scopes",
    "response_type",
    "claims",
    "nonce",
    "access_token",
    "extra_credentials",
    "_django_mcp",
    "code_challenge",
    "id_token",
    "expires_in",
)


def test_parameters_do_not_reach_what_the_server_keeps_under_the_same_name(
    site: Site, subtests: pytest.Subtests
) -> None:
    for name in INTERNALS:
        with subtests.test(name=name), site.afresh():
            response = site.exchange(site.code_for(), **{name: "x"})
            assert response.status_code == 200, response.content
            assert response.json()["scope"] == "travel:read"
            assert site.refresh(response.json()["refresh_token"], **{name: "x"}).status_code == 200


CREDENTIALS = [
    "Basic",
    "Basic x",
    "Basic é",
    "Basic =",
    "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
    "Basic " + base64.b64encode(b"no colon").decode(),
    "Basic " + base64.b64encode(b"x\0y:z").decode(),
    "Basic " + base64.b64encode(b"%00:%00").decode(),
    "Basic " + base64.b64encode(b"conf-public:\0").decode(),
    "Basic " + base64.b64encode(b"conf-public:x").decode(),
    "Basic " + base64.b64encode(b"conf-public:" + b"x" * 5000).decode(),
    "Bearer x",
    "Digest x",
]


def test_no_header_makes_it_fail(site: Site, subtests: pytest.Subtests) -> None:
    for body in ["grant_type=refresh_token&refresh_token=x&token=x", "grant_type=client_credentials"]:
        for path in BOTH:
            with subtests.test(path=path, body=body), site.afresh():
                for credentials in CREDENTIALS:
                    cache.clear()  # which counts wrong secrets
                    response = post(path, body, authorization=credentials)
                    assert response.status_code in {400, 401}
                    assert response.json()["error"] in {"invalid_client", "invalid_request"}


def test_parameters_in_the_url_are_refused(site: Site, subtests: pytest.Subtests) -> None:
    for path in TWINS:
        with subtests.test(path=path), site.afresh():
            check_error(post(f"{path}?client_id=conf-public", "grant_type=refresh_token&refresh_token=x&token=x"))
            check_error(post(f"{path}?%zz=%00", ""))


def test_only_post_is_answered(site: Site, subtests: pytest.Subtests) -> None:
    for method in ["get", "put", "delete", "head", "patch"]:
        for path in TWINS:
            with subtests.test(path=path, method=method), site.afresh():
                response = getattr(Browser(), method)(path)
                assert response.status_code == 405
                assert response["Allow"] == "POST, OPTIONS"
                assert response["Cache-Control"] == "no-store"


# Who may call


def test_both_spellings_work_without_cookies_and_where_everything_needs_a_login(
    site: Site, subtests: pytest.Subtests
) -> None:
    for path in TWINS:
        with subtests.test(path=path), site.afresh():
            middleware = [*site.settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
            with override_settings(MIDDLEWARE=middleware):
                browser = Browser(enforce_csrf_checks=True)
                tokens = site.tokens_for()
                values = {
                    "grant_type": "refresh_token",
                    "refresh_token": tokens["refresh_token"],
                    "client_id": "conf-public",
                }
                response = browser.post_form(path, {**values, "token": tokens["refresh_token"]})
            assert response.status_code == 200, response.content
            assert site.status(tokens["access_token"]) == 401


def test_pages_of_allowed_origins_may_call(site: Site, subtests: pytest.Subtests) -> None:
    for path in TWINS:
        with subtests.test(path=path), site.afresh():
            site.configure(ALLOWED_ORIGINS=[ORIGIN])
            asked = {"origin": ORIGIN, "access-control-request-method": "POST"}
            response = Browser().options(path, headers=asked)
            assert (response.status_code, response.content) == (204, b"")
            assert response["Access-Control-Allow-Origin"] == ORIGIN
            assert "POST" in response["Access-Control-Allow-Methods"]
            assert "Authorization" in response["Access-Control-Allow-Headers"]
            refused = post(path, "", origin=ORIGIN)
            assert refused.status_code in {400, 401}
            assert refused["Access-Control-Allow-Origin"] == ORIGIN
            assert refused["Vary"] == "Origin"
            assert "Access-Control-Allow-Credentials" not in refused


def test_pages_of_other_origins_may_not(site: Site, subtests: pytest.Subtests) -> None:
    for origin in [ORIGIN, "null", "https://evil.example", "x"]:
        for path in BOTH:
            with subtests.test(path=path, origin=origin), site.afresh():
                response = Browser().options(path, headers={"origin": origin, "access-control-request-method": "POST"})
                assert response.status_code == 204
                assert "Access-Control-Allow-Origin" not in response
                assert "Access-Control-Allow-Origin" not in post(path, "", origin=origin)


def test_tokens_are_for_no_cache(site: Site) -> None:
    response = site.exchange(site.code_for())
    assert response["Cache-Control"] == "no-store"
    assert response["Content-Type"] == "application/json"
    assert "Set-Cookie" not in response


def test_an_unknown_client_is_told_so(site: Site) -> None:
    check_error(site.token(grant_type="refresh_token", refresh_token="x", client_id="nobody"), 401, "invalid_client")
    check_error(site.token(grant_type="refresh_token", refresh_token="x"), 401, "invalid_client")


def test_a_client_that_used_basic_is_asked_for_basic(site: Site) -> None:
    response = post("/o/token/", "grant_type=client_credentials", authorization="Basic eDp5")
    check_error(response, 401, "invalid_client")
    assert response["WWW-Authenticate"].startswith("Basic ")


def test_it_keeps_its_own_transactions(site: Site, subtests: pytest.Subtests) -> None:
    """Under ``ATOMIC_REQUESTS`` two at once would wait for each other's whole request."""
    for path in TWINS:
        with subtests.test(path=path), site.afresh():
            assert "default" in resolve(path).func._non_atomic_requests


# Logs


SECRETS = ["s3cret", "swordfish", VERIFIER]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """All that any logger was told, at every level, tracebacks included."""
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    before = [(logger, logger.level, logger.disabled, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.disabled, logger.propagate = False, True
    caplog.handler.setLevel(logging.DEBUG)
    yield lambda: "\n".join(map(caplog.handler.format, caplog.records))
    for logger, level, disabled, propagate in before:
        logger.setLevel(level)
        logger.disabled, logger.propagate = disabled, propagate


def basic(client_id: str, secret: str, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"


def test_no_secret_of_a_whole_login_is_logged_at_any_level(
    site: Site, logged: Callable[[], str], subtests: pytest.Subtests
) -> None:
    changes = {"client_type": "confidential", "client_secret": "s3cret-of-the-client"}
    application = site.make_client("keeper", **changes)
    secret = {"client_secret": "s3cret-of-the-client"}
    site.user.set_password("swordfish")
    site.user.save()
    browser = Browser()
    login = browser.get("/o/authorize/?" + urlencode(site.authorize_query(application)))["Location"]
    assert browser.post(login, {"username": "ada", "password": "swordfish"}).status_code == 302
    codes = [site.code_for(application) for _ in range(2)]
    tokens = site.exchange(codes[0], application, **secret).json()
    again = site.refresh(tokens["refresh_token"], application, **secret).json()
    site.refresh(tokens["refresh_token"], application, client_secret="s3cret-that-is-wrong")
    site.status(again["access_token"])
    site.status(again["refresh_token"])
    site.revoke(again["access_token"], application, **secret)
    site.exchange(codes[0], application, **secret)
    site.exchange(codes[1], application, **secret, redirect_uri="http://127.0.0.1/other")
    site.exchange(codes[1], application, code_verifier="wrong" * 10, **secret)
    headers = {"authorization": basic("keeper", "s3cret-of-the-client")}
    values = {"grant_type": "authorization_code", "code": codes[1], "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    basic_tokens = Browser().post_form("/o/token/", values, headers=headers).json()
    site.token(grant_type="password", username="ada", password="swordfish", client_id="keeper", **secret)
    site.token(grant_type="client_credentials", client_id="keeper", **secret)
    metadata = json.dumps({"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post"})
    registered = Browser().post("/o/register/", metadata, "application/json").json()
    pairs = (tokens, again, basic_tokens)
    hidden = [*codes, *[pair[name] for pair in pairs for name in ("access_token", "refresh_token")], *SECRETS]
    told = logged()
    assert "django_mcp" in told
    for each in [*hidden, registered["client_secret"], headers["authorization"].split()[1]]:
        with subtests.test(secret=each):
            assert each not in told


# One way of client authentication


@pytest.fixture
def keeper(site: Site) -> Any:
    """A client with a secret."""
    site.make_client("other", client_type="confidential", client_secret="s3cret-of-other")
    return site.make_client("keeper", client_type="confidential", client_secret="s3cret")


TWO_WAYS = [
    ("Basic", "keeper", "s3cret", {"client_secret": "s3cret"}),
    ("Basic", "keeper", "wrong", {"client_secret": "s3cret"}),
    ("Basic", "keeper", "s3cret", {"client_secret": "wrong"}),
    ("Basic", "keeper", "wrong", {"client_secret": "wrong"}),
    ("bAsIc", "keeper", "s3cret", {"client_secret": "s3cret"}),
    ("Basic", "other", "wrong", {"client_secret": "s3cret"}),
    ("Basic", "other", "s3cret-of-other", {"client_secret": "s3cret"}),
    ("Basic", "other", "s3cret-of-other", {}),
    ("Basic", "", "", {"client_secret": "s3cret"}),
]


def of_each_endpoint(site: Site, keeper: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """A request of the client to each endpoint and grant, without its authentication."""
    tokens = site.exchange(site.code_for(keeper), keeper, client_secret="s3cret").json()
    own = {"client_id": "keeper"}
    code = {"code": site.code_for(keeper), "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    yield "/o/token/", {**own, "grant_type": "authorization_code", **code}
    yield "/o/token/", {**own, "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    yield "/o/token/", {**own, "grant_type": "client_credentials"}
    yield "/o/revoke_token/", {**own, "token": tokens["access_token"]}


def test_a_client_authenticates_in_one_way(site: Site, keeper: Any, subtests: pytest.Subtests) -> None:
    for path, values in of_each_endpoint(site, keeper):
        for scheme, client_id, secret, more in TWO_WAYS:
            with subtests.test(path=path, grant=values.get("grant_type"), scheme=scheme, id=client_id, more=more):
                headers = {"authorization": basic(client_id, secret, scheme)}
                check_error(Browser().post_form(path, {**values, **more}, headers=headers))
    assert AccessToken.objects.count() == 1


def test_a_malformed_header_is_a_way_too(site: Site, keeper: Any, subtests: pytest.Subtests) -> None:
    for path, values in of_each_endpoint(site, keeper):
        for header in ["Basic", "Basic ", "basic x", "Basic ="]:
            with subtests.test(path=path, grant=values.get("grant_type"), header=header):
                sent = {**values, "client_secret": "s3cret"}
                check_error(Browser().post_form(path, sent, headers={"authorization": header}))


def test_each_way_works_by_itself_and_an_empty_secret_is_none(
    site: Site, keeper: Any, subtests: pytest.Subtests
) -> None:
    for name, more in [("Basic", {}), ("basic", {}), ("BASIC", {"client_secret": ""}), ("Basic", {"client_id": None})]:
        for path, values in of_each_endpoint(site, keeper):
            if values.get("grant_type") != "client_credentials":
                with subtests.test(scheme=name, more=more, path=path, grant=values.get("grant_type")):
                    sent = {key: value for key, value in {**values, **more}.items() if value is not None}
                    headers = {"authorization": basic("keeper", "s3cret", name)}
                    assert Browser().post_form(path, sent, headers=headers).status_code == 200


def test_a_client_registered_without_a_secret_may_not_send_one(site: Site, subtests: pytest.Subtests) -> None:
    stranger = site.make_client("stranger", registration_source="dcr")
    code = site.code_for(stranger)
    for secret in ["x", stranger.client_secret]:
        with subtests.test(secret=secret):
            check_error(site.exchange(code, stranger, client_secret=secret), 401, "invalid_client")
    assert site.exchange(code, stranger, client_secret="").status_code == 200


def test_a_verifier_is_long_enough_and_of_its_characters(site: Site, subtests: pytest.Subtests) -> None:
    for verifier in ["v" * 42, "v" * 129, "v" * 10, "", "v" * 42 + "!", "v" * 42 + " ", "v" * 42 + "é", None]:
        with subtests.test(verifier=verifier), site.afresh():
            code = site.code_for(code_challenge=challenge_of(verifier or "x"))
            check_error(site.exchange(code, code_verifier=verifier))
            assert not AccessToken.objects.exists()
    for verifier in ["v" * 43, "v" * 128, "-._~" + "Az09" * 10]:
        with subtests.test(verifier=verifier), site.afresh():
            code = site.code_for(code_challenge=challenge_of(verifier))
            assert site.exchange(code, code_verifier=verifier).status_code == 200


# Revoking


def test_what_its_client_revokes_is_dead_at_once(site: Site, subtests: pytest.Subtests) -> None:
    for hint in [None, "access_token", "refresh_token", "nonsense"]:
        for what in ["access_token", "refresh_token"]:
            with subtests.test(what=what, hint=hint), site.afresh():
                tokens = site.tokens_for()
                changes = {"token_type_hint": hint} if hint else {}
                assert site.status(tokens["access_token"]) == 200
                response = site.revoke(tokens[what], **changes)
                assert (response.status_code, response.content) == (200, b"")
                assert response["Cache-Control"] == "no-store"
                assert site.status(tokens["access_token"]) == 401
                assert site.refresh(tokens["refresh_token"]).json() == {"error": "invalid_grant"}


@pytest.mark.postgresql
def test_it_is_dead_at_the_asgi_edge_too(live_site: Site) -> None:
    tokens = live_site.tokens_for()
    caller = live_site.caller(tokens["access_token"], edge="asgi")
    assert caller.request("tools/list").status == 200
    live_site.revoke(tokens["refresh_token"])
    answer = caller.request("tools/list")
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_revoking_ends_all_that_came_of_one_login_and_nothing_else(site: Site, subtests: pytest.Subtests) -> None:
    for what in ["access_token", "refresh_token"]:
        with subtests.test(what=what), site.afresh():
            first, other = site.tokens_for(), site.tokens_for()
            second, sibling = (site.refresh(first["refresh_token"]).json() for _ in range(2))
            site.revoke(sibling[what])
            assert [site.status(each["access_token"]) for each in (second, sibling, other)] == [401, 401, 200]


def test_a_replaced_refresh_token_revokes_its_login_too(site: Site) -> None:
    first = site.tokens_for()
    second = site.refresh(first["refresh_token"]).json()
    site.revoke(first["refresh_token"])
    assert site.status(second["access_token"]) == 401


def test_another_client_cannot_revoke_it_nor_learn_of_it(site: Site, subtests: pytest.Subtests) -> None:
    for what in ["access_token", "refresh_token"]:
        with subtests.test(what=what), site.afresh():
            tokens = site.tokens_for()
            site.make_client("other")
            responses = [site.revoke(each, client_id="other") for each in (tokens[what], "unknown")]
            assert [each.status_code for each in responses] == [200, 200]
            assert site.status(tokens["access_token"]) == 200


def test_a_confidential_client_has_to_show_its_secret(site: Site) -> None:
    application = site.make_client("keeper", client_type="confidential", client_secret="s3cret")
    tokens = site.exchange(site.code_for(application), application, client_secret="s3cret").json()
    check_error(site.revoke(tokens["access_token"], application), 401, "invalid_client")
    assert site.status(tokens["access_token"]) == 200
    assert site.revoke(tokens["access_token"], application, client_secret="s3cret").status_code == 200
    assert site.status(tokens["access_token"]) == 401


# What guessing a client's secret costs


REFRESH = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}


def make_keeper(site: Site) -> Any:
    return site.make_client("keeper", client_type="confidential", client_secret="s3cret")


def attempt(client_id: str, secret: str = "wrong", path: str = "/o/token/", **headers: Any) -> Any:
    """A refresh with a token that does not exist."""
    body = {**REFRESH, "client_id": client_id}
    return Browser().post_form(path, {**body, "client_secret": secret} if secret else body, **headers)


def basic_header(client_id: str, secret: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


@pytest.mark.parametrize("path", BOTH)
def test_a_wrong_secret_costs_the_same_whether_or_not_there_is_such_a_client(
    site: Site, hashed: list[str], path: str, subtests: pytest.Subtests
) -> None:
    make_keeper(site)
    fast = {"client_type": "confidential", "client_secret": hash_secret("generated"), "hash_client_secret": False}
    site.make_client("fast", **fast)
    site.make_client("plain", client_type="confidential", client_secret="plain", hash_client_secret=False)
    site.make_client("public", client_secret="", hash_client_secret=False)
    for client_id in ["keeper", "fast", "plain", "public", "unknown", "https://client.example.com/c.json"]:
        with subtests.test(client_id=client_id):
            hashed.clear()
            check_error(attempt(client_id, path=path), 401, "invalid_client")
            assert len(hashed) == 1
            hashed.clear()
            response = Browser().post_form(path, REFRESH, **basic_header(quote_plus(client_id), "x"))
            check_error(response, 401, "invalid_client")
            assert len(hashed) == 1
            hashed.clear()
            assert attempt(client_id, "", path).status_code in {200, 400, 401}
            assert hashed == []


def test_an_address_can_cause_so_many_hashes_a_minute(site: Site, hashed: list[str]) -> None:
    make_keeper(site)
    hashed.clear()
    statuses = [attempt(["keeper", "unknown"][number % 2]).status_code for number in range(30)]
    assert statuses == [401] * 20 + [429] * 10
    assert len(hashed) == 20
    refused = attempt("unknown")
    assert 1 <= int(refused["Retry-After"]) <= 61
    check_error(refused, 429, "temporarily_unavailable")
    assert int(attempt("keeper", path="/o/revoke_token/")["Retry-After"]) <= 61
    check_error(attempt("keeper", REMOTE_ADDR="198.51.100.9"), 401, "invalid_client")


@pytest.mark.postgresql
def test_an_address_that_guesses_does_not_keep_its_neighbours_out(site: Site, hashed: list[str]) -> None:
    """They may be behind the same router."""
    keeper = make_keeper(site)
    generated = {"client_type": "confidential", "client_secret": hash_secret("generated"), "hash_client_secret": False}
    fast = site.make_client("fast", **generated)
    known = site.exchange(site.code_for(keeper), keeper, client_secret="s3cret").json()
    public = site.tokens_for()
    for _ in range(30):
        attempt("keeper")
    hashed.clear()
    assert site.refresh(known["refresh_token"], keeper, client_secret="s3cret").status_code == 200
    assert site.exchange(site.code_for(fast), fast, client_secret="generated").status_code == 200
    assert site.refresh(public["refresh_token"]).status_code == 200
    assert hashed == []


def test_a_changed_secret_counts_at_once(site: Site) -> None:
    keeper = make_keeper(site)
    assert site.revoke("x", keeper, client_secret="s3cret").status_code == 200
    keeper.client_secret = "other"
    keeper.save()
    assert site.revoke("x", keeper, client_secret="s3cret").status_code == 401
    assert site.revoke("x", keeper, client_secret="other").status_code == 200


def test_an_empty_secret_is_no_secret(site: Site) -> None:
    for stored in ("", hash_secret("")):
        site.make_client(f"empty {stored}", client_type="confidential", client_secret=stored, hash_client_secret=False)
        assert attempt(f"empty {stored}", "").status_code == 401
        assert (
            Browser().post_form("/o/revoke_token/", {"token": "x"}, **basic_header(f"empty {stored}", "")).status_code
            == 401
        )


def test_what_a_user_withdraws_is_dead_at_once(site: Site) -> None:
    """As the admin and the user's own page do it: by family."""
    tokens = site.tokens_for()
    RefreshToken.revoke_family(RefreshToken.objects.get().token_family)
    assert site.status(tokens["access_token"]) == 401
    assert site.refresh(tokens["refresh_token"]).status_code == 400


def test_a_deleted_client_leaves_nothing_that_works(site: Site) -> None:
    tokens = site.tokens_for()
    site.application.delete()
    assert site.status(tokens["access_token"]) == 401
    check_error(
        site.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"], client_id="conf-public"),
        401,
        "invalid_client",
    )


def test_the_answer_is_what_clients_expect(site: Site) -> None:
    tokens = json.loads(site.exchange(site.code_for()).content)
    assert set(tokens) == {"access_token", "expires_in", "token_type", "scope", "refresh_token"}
    assert tokens["expires_in"] == 3600


def test_it_does_not_depend_on_the_host_it_is_called_by(site: Site) -> None:
    tokens = site.tokens_for()
    site.settings.ALLOWED_HOSTS = ["*"]
    values = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": "conf-public"}
    response = Browser(HTTP_HOST="evil.example").post_form("/o/token/", values)
    assert response.status_code == 200
    assert AccessToken.objects.get().resource == [f"https://{HOST}/alpha/mcp"]
