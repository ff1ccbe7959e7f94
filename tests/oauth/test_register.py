"""Dynamic client registration: what clients send, what attackers send, and how much of it."""

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.http import HttpResponse

from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from tests.oauth.published_documents import CODE_AND_REFRESH, CURSOR_REDIRECTS, DEVICE, PYTHON_SDK, REGISTRATIONS
from tests.oauth.site import Browser, Site

GOOD: dict[str, Any] = {"client_name": "App", "redirect_uris": ["https://app.example/cb"]}
PUBLIC = {**GOOD, "token_endpoint_auth_method": "none"}
ORIGIN = "https://inspector.example.com"


def post(body: Any, path: str = "/o/register/", browser: Browser | None = None, **options: Any) -> HttpResponse:
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    options = {"content_type": "application/json", **options}
    return (browser or Browser(enforce_csrf_checks=True)).post(path, data, **options)


def registered(body: Any, **options: Any) -> dict[str, Any]:
    response = post(body, **options)
    assert response.status_code == 201, response.content
    return json.loads(response.content)


def refused(body: Any, status: int = 400, error: str = "invalid_client_metadata", **options: Any) -> HttpResponse:
    response = post(body, **options)
    told = json.loads(response.content)
    assert (response.status_code, told["error"]) == (status, error)
    assert told.keys() == {"error", "error_description"}
    assert all(" " <= character <= "~" and character not in '"\\' for character in told["error_description"])
    assert response["Cache-Control"] == "no-store"
    assert not clients().exists()
    return response


def clients() -> Any:
    return get_application_model().objects.filter(registration_source="dcr")


# What a client gets


def test_a_public_client_gets_an_id_and_no_secret(site: Site) -> None:
    response = post(PUBLIC)
    assert (response.status_code, response["Content-Type"]) == (201, "application/json")
    assert (response["Cache-Control"], response["Pragma"]) == ("no-store", "no-cache")
    told = json.loads(response.content)
    client = clients().get()
    assert told == {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": "App",
        "redirect_uris": ["https://app.example/cb"],
        "grant_types": CODE_AND_REFRESH,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    assert (client.client_type, client.authorization_grant_type) == ("public", "authorization-code")
    assert client.skip_authorization is False


def test_a_confidential_client_is_shown_its_secret_once_and_the_site_keeps_a_hash(
    site: Site, subtests: pytest.Subtests
) -> None:
    for method in ["client_secret_post", "client_secret_basic"]:
        with subtests.test(method=method), site.afresh():
            told = registered({**GOOD, "token_endpoint_auth_method": method})
            client = clients().get()
            assert told["token_endpoint_auth_method"] == method
            assert told["client_secret_expires_at"] == 0
            assert len(told["client_secret"]) >= 32
            assert client.client_type == "confidential"
            assert told["client_secret"] not in client.client_secret


def test_known_clients_can_register(site: Site, subtests: pytest.Subtests) -> None:
    for name in REGISTRATIONS:
        with subtests.test(name=name), site.afresh():
            sent = REGISTRATIONS[name]
            told = registered(sent)
            assert told["redirect_uris"] == sent["redirect_uris"]
            assert told["grant_types"] == CODE_AND_REFRESH
            assert told["token_endpoint_auth_method"] == "none"
            assert "client_secret" not in told


def test_cursors_own_scheme_completes_a_login(site: Site) -> None:
    told = registered(REGISTRATIONS["Cursor as web"])
    assert told["redirect_uris"] == CURSOR_REDIRECTS[2:]
    client = clients().get()
    answer = site.answer(client, redirect_uri=CURSOR_REDIRECTS[2])
    assert site.exchange(answer["code"], client, redirect_uri=CURSOR_REDIRECTS[2]).status_code == 200


def test_the_python_sdk_names_no_method_and_becomes_confidential(site: Site) -> None:
    told = registered(PYTHON_SDK)
    assert told["token_endpoint_auth_method"] == "client_secret_basic"
    client, callback = clients().get(), PYTHON_SDK["redirect_uris"][0]
    code = site.code_for(client, redirect_uri=callback)
    without = site.exchange(code, client, redirect_uri=callback)
    assert (without.status_code, json.loads(without.content)["error"]) == (401, "invalid_client")
    code = site.code_for(client, redirect_uri=callback)
    response = site.exchange(code, client, redirect_uri=callback, client_secret=told["client_secret"])
    assert response.status_code == 200
    assert site.status(json.loads(response.content)["access_token"]) == 200


def test_redirect_uris_that_are_not_allowed_are_left_out(site: Site) -> None:
    told = registered({**PUBLIC, "redirect_uris": ["http://evil.example/cb", "cursor://evil/cb", "https://a.example/"]})
    assert told["redirect_uris"] == ["https://a.example/"]
    assert clients().get().redirect_uris == "https://a.example/"


def test_where_cursors_scheme_is_not_wanted_its_other_uris_are_taken(site: Site) -> None:
    site.configure(EXTRA_REDIRECT_URIS=[])
    assert registered(REGISTRATIONS["Cursor"])["redirect_uris"] == CURSOR_REDIRECTS[:2]
    assert post(REGISTRATIONS["Cursor with one"]).status_code == 400


def test_a_client_that_wants_no_refresh_tokens_is_told_so(site: Site) -> None:
    assert registered({**PUBLIC, "grant_types": ["authorization_code"]})["grant_types"] == ["authorization_code"]


def test_names_are_made_fit_to_be_shown(site: Site) -> None:
    told = registered({**PUBLIC, "client_name": "Cla\u202eude\x00\u200b" + "x" * 100})
    assert told["client_name"] == clients().get().name == "Claude" + "x" * 100


def test_two_clients_of_one_name_are_two_clients(site: Site) -> None:
    assert registered(PUBLIC)["client_id"] != registered(PUBLIC)["client_id"]


def test_it_works_with_and_without_a_final_slash(site: Site, subtests: pytest.Subtests) -> None:
    for path in ["/o/register", "/o/register/"]:
        with subtests.test(path=path), site.afresh():
            assert post(PUBLIC, path).status_code == 201


def test_a_media_type_may_have_a_charset(site: Site) -> None:
    assert post(PUBLIC, content_type="application/json; charset=utf-8").status_code == 201


def test_registering_takes_two_statements(site: Site, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        post(PUBLIC)


# What it does not get


def test_whoever_is_logged_in_does_not_become_the_owner(site: Site) -> None:
    post(PUBLIC, browser=site.browser())
    assert clients().get().user is None


def test_no_token_is_issued_and_the_registration_cannot_be_changed(site: Site) -> None:
    told = registered(GOOD)
    assert not {"registration_access_token", "registration_client_uri"} & told.keys()
    assert not get_access_token_model().objects.exists()
    for path in (f"/o/register/{told['client_id']}/", f"/o/register/{told['client_id']}"):
        assert Browser().get(path).status_code == 404


def test_a_client_cannot_have_a_grant_without_a_person(site: Site, subtests: pytest.Subtests) -> None:
    for grants in [
        ["client_credentials"],
        ["password"],
        ["implicit"],
        [DEVICE],
        ["refresh_token"],
        [],
        ["client-credentials"],
    ]:
        with subtests.test(grants=grants), site.afresh():
            refused({**GOOD, "grant_types": grants})


def test_other_grants_beside_the_code_are_not_to_be_had_at_the_token_endpoint_either(
    site: Site, subtests: pytest.Subtests
) -> None:
    for grant in ["client_credentials", "password", "implicit", DEVICE]:
        with subtests.test(grant=grant), site.afresh():
            told = registered({**GOOD, "grant_types": ["authorization_code", grant]})
            assert told["grant_types"] == ["authorization_code"]
            credentials = {"client_id": told["client_id"], "client_secret": told["client_secret"]}
            response = site.token(grant_type=grant, username="ada", password="secret", **credentials)
            assert response.status_code in {400, 401}
            assert "access_token" not in json.loads(response.content)


def test_extra_fields_change_nothing(site: Site) -> None:
    extra = {
        "client_id": "chosen",
        "client_secret": "chosen",
        "skip_authorization": True,
        "user": site.user.pk,
        "registration_source": "manual",
        "hash_client_secret": False,
        "algorithm": "HS256",
    }
    told = registered({**PUBLIC, **extra})
    client = clients().get()
    assert told["client_id"] == client.client_id != "chosen"
    assert (client.user, client.skip_authorization, client.algorithm) == (None, False, "")
    assert client.client_secret == ""


def test_no_url_in_a_registration_is_fetched(site: Site, monkeypatch: Any) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("socket.socket.connect", lambda _self, address: asked.append(address))
    monkeypatch.setattr("socket.getaddrinfo", lambda *arguments, **_: asked.append(arguments))
    urls = (
        "logo_uri",
        "jwks_uri",
        "client_uri",
        "policy_uri",
        "tos_uri",
        "sector_identifier_uri",
        "software_statement",
    )
    registered({**PUBLIC, **dict.fromkeys(urls, "https://inside.example/secret")})
    assert asked == []


# What is wrong


def test_without_a_redirect_uri_that_can_be_used_there_is_no_client(site: Site, subtests: pytest.Subtests) -> None:
    cases = [
        None,
        "https://app.example/cb",
        {},
        [],
        [1],
        [None],
        ["https://app.example/cb", 1],
        ["http://evil.example/cb"],
        ["javascript:alert(1)"],
        ["https://user@host.example/cb"],
        ["https://a.example/cb https://b.example/cb"],
        ["cursor://evil.example/cb"],
        [f"https://app.example/{number}" for number in range(11)],
        ["https://app.example/cb"] * 2000,
    ]
    for uris in cases:
        with subtests.test(uris=uris), site.afresh():
            body = {**GOOD, "redirect_uris": uris}
            if len(json.dumps(body)) > 16 * 1024:
                refused(body, 413)
            else:
                refused(body, error="invalid_redirect_uri")


def test_ten_redirect_uris_are_taken(site: Site) -> None:
    uris = [f"https://app.example/{number}" for number in range(10)]
    assert registered({**GOOD, "redirect_uris": uris})["redirect_uris"] == uris


def test_redirect_uris_have_to_be_there(site: Site, subtests: pytest.Subtests) -> None:
    for missing in [{}, {"client_name": "App"}]:
        with subtests.test(missing=missing), site.afresh():
            refused(missing, error="invalid_redirect_uri")


def test_values_of_the_wrong_kind_are_refused(site: Site, subtests: pytest.Subtests) -> None:
    cases = [
        {"grant_types": None},
        {"grant_types": "authorization_code"},
        {"grant_types": [None, "authorization_code"]},
        {"grant_types": {"authorization_code": 1}},
        {"token_endpoint_auth_method": None},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": ["none"]},
        {"token_endpoint_auth_method": {}},
        {"token_endpoint_auth_method": 1},
        {"client_name": None},
        {"client_name": {"en": "App"}},
        {"client_name": ["App"]},
        {"client_name": 1},
    ]
    for change in cases:
        with subtests.test(change=change), site.afresh():
            refused({**GOOD, **change})


GARBAGE = [
    b" ",
    b"null",
    b"[]",
    b'"x"',
    b"7",
    b"{",
    b"\x00",
    b"\xff\xfe",
    b"{}{}",
    b"redirect_uris=https%3A%2F%2Fapp.example%2Fcb",
    b"[" * 8000,
    b'{"redirect_uris":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b'{"redirect_uris":["https://app.example/cb"],"client_name":"\\ud800"}',
    b'{"redirect_uris":["https://a.example/cb"],"redirect_uris":["https://b.example/cb"]}',
    b'{"redirect_uris":["https://app.example/cb"],"x":' + b"9" * 5000 + b"}",
    b'{"redirect_uris":["https://app.example/cb"],"x":1e999}',
    b'{"redirect_uris":["https://app.example/cb"],"x":NaN}',
    b'\xef\xbb\xbf{"redirect_uris":["https://app.example/cb"]}',
]


def test_what_is_no_json_object_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for body in GARBAGE:
        with subtests.test(body=body), site.afresh():
            refused(body)


@pytest.mark.postgresql
def test_odd_characters_anywhere_are_no_server_error(site: Site, subtests: pytest.Subtests) -> None:
    for name in ["redirect_uris", "grant_types", "token_endpoint_auth_method", "client_name", "x"]:
        for character in ["\x00", "\ud800", "\u202e", "\n"]:
            with subtests.test(character=character, name=name), site.afresh():
                value: Any = f"https://app.example/{character}"
                response = post({**GOOD, name: [value] if name.endswith("s") else value})
                assert response.status_code in {201, 400}


def test_another_media_type_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]:
        with subtests.test(kind=kind), site.afresh():
            refused(json.dumps(GOOD), 415, content_type=kind)


def test_a_body_of_more_than_sixteen_kibibytes_is_refused(site: Site) -> None:
    refused({**GOOD, "x": "y" * 16 * 1024}, 413)


def test_another_method_is_refused_before_anything_else(site: Site, subtests: pytest.Subtests) -> None:
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"]:
        with subtests.test(method=method), site.afresh():
            response = Browser().generic(method, "/o/register/", b"x" * 20_000, "text/plain")
            assert (response.status_code, response["Allow"]) == (405, "POST, OPTIONS")


def test_where_registration_is_off_there_is_nothing(site: Site, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": False}
    refused(GOOD, 404, "not_found")


# How much


def test_an_address_that_registers_too_often_is_told_when_it_may_again(site: Site) -> None:
    site.configure(REGISTRATION_RATE="2/h")
    assert [post(GOOD, REMOTE_ADDR="203.0.113.7").status_code for _ in range(3)] == [201, 201, 429]
    response = post(GOOD, REMOTE_ADDR="203.0.113.7")
    assert 1 <= int(response["Retry-After"]) <= 3601
    assert json.loads(response.content)["error"] == "temporarily_unavailable"
    assert post(GOOD, REMOTE_ADDR="203.0.113.8").status_code == 201


def test_bad_registrations_count_too(site: Site) -> None:
    site.configure(REGISTRATION_RATE="2/h")
    assert [post(b"{", REMOTE_ADDR="203.0.113.7").status_code for _ in range(3)] == [400, 400, 429]


def test_a_site_may_do_without_the_limit(site: Site) -> None:
    site.configure(REGISTRATION_RATE=None)
    assert {post({}).status_code for _ in range(30)} == {400}


def test_a_network_of_ipv6_counts_as_one_address(site: Site, subtests: pytest.Subtests) -> None:
    for first, second, same in [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("203.0.113.7", "::ffff:203.0.113.7", True),
        ("", "", True),
        ("garbage", "", True),
    ]:
        with subtests.test(first=first, second=second, same=same), site.afresh():
            cache.clear()
            site.configure(REGISTRATION_RATE="1/h")
            assert post(GOOD, REMOTE_ADDR=first).status_code == 201
            assert post(GOOD, REMOTE_ADDR=second).status_code == (429 if same else 201)


def test_hosted_clients_that_call_for_many_people_may_register_more_often(site: Site) -> None:
    site.configure(REGISTRATION_RATE="1/h")
    statuses = [post({}, REMOTE_ADDR="160.79.106.35").status_code for _ in range(21)]
    assert statuses == [400] * 20 + [429]


def test_the_address_is_what_the_sites_own_proxy_says(site: Site) -> None:
    site.configure(REGISTRATION_RATE="1/h", CLIENT_ADDRESS_HEADER="X-Real-IP")
    proxy = {"REMOTE_ADDR": "10.0.0.1"}
    assert post(GOOD, HTTP_X_REAL_IP="203.0.113.7", **proxy).status_code == 201
    assert post(GOOD, HTTP_X_REAL_IP="203.0.113.8", **proxy).status_code == 201
    assert post(GOOD, HTTP_X_REAL_IP="198.51.100.1, 203.0.113.7", **proxy).status_code == 429


def test_a_header_that_was_not_configured_says_nothing(site: Site) -> None:
    site.configure(REGISTRATION_RATE="1/h")
    assert post(GOOD, HTTP_X_REAL_IP="203.0.113.7", HTTP_X_FORWARDED_FOR="203.0.113.7").status_code == 201
    assert post(GOOD, HTTP_X_REAL_IP="203.0.113.8", HTTP_X_FORWARDED_FOR="203.0.113.8").status_code == 429


def ids() -> set[str]:
    return set(clients().values_list("client_id", flat=True))


def from_address(address: str) -> str:
    return str(registered(GOOD, REMOTE_ADDR=address)["client_id"])


@pytest.mark.postgresql
def test_a_newcomer_replaces_the_oldest_unused_client(site: Site) -> None:
    site.configure(MAX_UNUSED_CLIENTS=3, REGISTRATION_RATE=None)
    first, second, third, fourth = [from_address("203.0.113.7") for _ in range(4)]
    assert first not in ids()
    assert {second, third, fourth} <= ids()


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("crowd", "newcomer"),
    [
        (["203.0.113.7"] * 6, "203.0.113.8"),
        ([f"203.0.113.{number}" for number in range(6)], "203.0.114.1"),
        ([f"203.0.{number}.1" for number in range(6)], "198.51.100.1"),
        (["2001:db8::1"] * 6, "2001:db8:0:1::1"),
        ([f"2001:db8:0:{number:x}::1" for number in range(6)], "2001:db8:1::1"),
        ([f"2001:db8:{number:x}::1" for number in range(6)], "2001:db9::1"),
        ([f"2001:db8:{number:x}::1" for number in range(6)], "203.0.113.8"),
    ],
)
def test_a_network_that_fills_the_room_evicts_its_own_clients(site: Site, crowd: list[str], newcomer: str) -> None:
    site.configure(MAX_UNUSED_CLIENTS=4, REGISTRATION_RATE=None)
    mine = from_address(newcomer)
    for address in crowd:
        from_address(address)
    assert mine in ids()
    assert clients().count() == 4
    assert from_address(newcomer) in ids()
    assert mine in ids()


@pytest.mark.postgresql
def test_a_client_whose_user_is_logging_in_is_not_evicted(site: Site) -> None:
    site.configure(MAX_UNUSED_CLIENTS=1, REGISTRATION_RATE=None)
    registered({**PUBLIC, "redirect_uris": ["http://127.0.0.1/callback"]})
    client = clients().get()
    code = site.code_for(client)
    response = post(PUBLIC)
    assert response.status_code == 429
    assert int(response["Retry-After"]) <= 60, "by then the code has been used or has expired"
    assert site.exchange(code, client).status_code == 200
    assert post(PUBLIC).status_code == 201


def test_after_the_limit_was_lowered_the_room_shrinks(site: Site) -> None:
    site.configure(MAX_UNUSED_CLIENTS=10, REGISTRATION_RATE=None)
    for _ in range(10):
        registered(PUBLIC)
    site.configure(MAX_UNUSED_CLIENTS=2, REGISTRATION_RATE=None)
    registered(PUBLIC)
    assert clients().count() == 2


def test_clients_that_are_in_use_do_not_count(site: Site) -> None:
    site.configure(MAX_UNUSED_CLIENTS=1, REGISTRATION_RATE=None)
    registered({**PUBLIC, "redirect_uris": ["http://127.0.0.1/callback"]})
    used = clients().get()
    site.tokens_for(application=used)
    registered(PUBLIC)
    registered(PUBLIC)
    assert used.client_id in ids()
    assert clients().count() == 2


def test_wider_networks_of_ipv6_have_limits_of_their_own(site: Site) -> None:
    """A household has up to 65,536 networks of /64."""
    site.configure(REGISTRATION_RATE="2/h")
    household = [f"2001:db8:1:ff{number:02x}::1" for number in range(6)]
    assert [post({}, REMOTE_ADDR=each).status_code for each in household] == [400] * 4 + [429] * 2
    assert [post({}, REMOTE_ADDR=f"2001:db8:1:{number:x}00::1").status_code for number in range(6)] == (
        [400] * 4 + [429] * 2
    )
    assert post({}, REMOTE_ADDR="2001:db8:2::1").status_code == 400


def test_requests_that_were_refused_do_not_use_up_the_share_of_a_neighbour(site: Site) -> None:
    site.configure(REGISTRATION_RATE="2/h")
    assert [post({}, REMOTE_ADDR="2001:db8:1:1::1").status_code for _ in range(30)] == [400] * 2 + [429] * 28
    assert post({}, REMOTE_ADDR="2001:db8:1:2::1").status_code == 400


def test_a_client_id_does_not_reveal_the_address(site: Site) -> None:
    one, other = from_address("203.0.113.7"), from_address("203.0.113.7")
    assert one != other
    assert "203" not in one or "113" not in one
    site.settings.SECRET_KEY = "another"
    assert from_address("203.0.113.7")[:18] != one[:18]


# Secrets


def test_a_registration_costs_no_slow_hash(site: Site, hashed: list[str]) -> None:
    assert "client_secret" not in registered(PUBLIC)
    assert clients().get().client_secret == ""
    secret = registered(GOOD)["client_secret"]
    assert len(secret) >= 43
    assert secret not in clients().exclude(client_secret="").get().client_secret
    assert hashed == []


def test_a_generated_secret_is_checked_without_a_slow_hash(site: Site, hashed: list[str]) -> None:
    told = registered({**GOOD, "redirect_uris": ["http://127.0.0.1/callback"]})
    client = clients().get()
    tokens = site.exchange(site.code_for(client), client, client_secret=told["client_secret"]).json()
    assert site.refresh(tokens["refresh_token"], client, client_secret=told["client_secret"]).status_code == 200
    assert hashed == []
    client.save()
    assert site.revoke("x", client, client_secret=told["client_secret"]).status_code == 200, "saving it changes nothing"
    stored = clients().get().client_secret
    assert site.revoke("x", client, client_secret=stored).status_code == 401


# Browsers


def test_a_page_of_an_allowed_origin_can_register(site: Site) -> None:
    site.configure(ALLOWED_ORIGINS=[ORIGIN])
    asked = Browser().options(
        "/o/register",
        HTTP_ORIGIN=ORIGIN,
        HTTP_ACCESS_CONTROL_REQUEST_METHOD="POST",
        HTTP_ACCESS_CONTROL_REQUEST_HEADERS="content-type,mcp-protocol-version",
    )
    assert (asked.status_code, asked["Access-Control-Allow-Origin"]) == (204, ORIGIN)
    assert "POST" in asked["Access-Control-Allow-Methods"]
    assert {"content-type", "mcp-protocol-version"} <= set(asked["Access-Control-Allow-Headers"].lower().split(", "))
    assert "Access-Control-Allow-Credentials" not in asked
    response = post(PUBLIC, HTTP_ORIGIN=ORIGIN)
    assert (response.status_code, response["Access-Control-Allow-Origin"]) == (201, ORIGIN)
    assert "Origin" in response["Vary"]


def test_a_page_can_read_why_it_was_refused(site: Site) -> None:
    site.configure(ALLOWED_ORIGINS=[ORIGIN])
    assert refused({}, error="invalid_redirect_uri", HTTP_ORIGIN=ORIGIN)["Access-Control-Allow-Origin"] == ORIGIN


def test_other_pages_are_told_nothing(site: Site, subtests: pytest.Subtests) -> None:
    for origin in ["https://evil.example", "null", "https://travel.example.com.evil.example"]:
        with subtests.test(origin=origin), site.afresh():
            asked = Browser().options("/o/register/", HTTP_ORIGIN=origin, HTTP_ACCESS_CONTROL_REQUEST_METHOD="POST")
            assert "Access-Control-Allow-Origin" not in asked
            assert "Access-Control-Allow-Origin" not in post(PUBLIC, HTTP_ORIGIN=origin)


def test_where_every_page_needs_a_login_clients_can_still_register(site: Site, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert post(PUBLIC).status_code == 201
