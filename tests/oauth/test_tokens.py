"""The token and revocation endpoints at their edge: garbage, browsers, caches, logs, and what revoking does."""

import base64
import json
import logging
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import override_settings
from django.urls import resolve

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from tests.oauth.site import HOST, Browser, Site

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


def test_no_secret_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    changes = {"client_type": "confidential", "client_secret": "s3cret-of-the-client"}
    application = site.make_client("keeper", **changes)
    secret = {"client_secret": "s3cret-of-the-client"}
    with caplog.at_level(logging.DEBUG):
        code = site.code_for(application)
        tokens = site.exchange(code, application, **secret).json()
        again = site.refresh(tokens["refresh_token"], application, **secret).json()
        site.refresh(tokens["refresh_token"], application, client_secret="s3cret-that-is-wrong")
        site.revoke(again["access_token"], application, **secret)
        site.exchange(code, application, **secret)
    told = "\n".join(each.getMessage() for each in caplog.records if each.name != "django.db.backends")
    assert caplog.records
    hidden = [tokens["access_token"], tokens["refresh_token"], again["access_token"], again["refresh_token"]]
    for each in [*hidden, "s3cret"]:
        assert each not in told


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
