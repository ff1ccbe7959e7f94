"""The authorization endpoint: tested before login, agreed to by a person, answered with the issuer."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from django.core import signing
from django.core.exceptions import DisallowedRedirect
from django.http import HttpResponse

from django_mcp.models import ClientPolicy
from django_mcp.oauth import authorize
from tests.oauth.site import BASE_URL, CALLBACK, DJANGO_MCP, VERIFIER, Browser, Fields, Site, challenge_of

CIMD = "https://client.example.com/oauth/metadata.json"


def address(site: Site, application: Any = None, **changes: Any) -> str:
    return "/o/authorize/?" + urlencode(site.authorize_query(application, **changes), doseq=True)


def answer_of(response: HttpResponse) -> dict[str, str]:
    """What the client is told by a redirect; each parameter once."""
    assert response.status_code == 302, response.content.decode()
    assert response["Location"].startswith(f"{CALLBACK}?"), response["Location"]
    told = parse_qs(urlsplit(response["Location"]).query)
    assert all(len(values) == 1 for values in told.values())
    return {name: values[0] for name, values in told.items()}


def text_of(response: HttpResponse) -> str:
    """A page without its tags."""
    body = response.content.decode().partition("<body>")[2]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def is_refused(response: HttpResponse, status: int = 400) -> bool:
    return (
        response.status_code == status
        and "Location" not in response
        and "No access was granted, and you were not redirected." in text_of(response)
    )


@pytest.fixture
def grants(site: Site) -> Any:
    from django_mcp.auth.toolkit import get_grant_model

    return get_grant_model().objects


# Agreeing


def test_a_person_agrees_and_the_client_gets_a_code_with_state_and_issuer(site: Site) -> None:
    told = answer_of(site.agree(site.ask()))
    assert told.pop("code")
    assert told == {"state": "the-state", "iss": BASE_URL}


def test_the_code_is_good_for_exactly_what_was_agreed_to(site: Site, grants: Any) -> None:
    site.agree(site.ask(scope="travel:write openid", resource="HTTPS://Travel.example.com:443/alpha/mcp/"))
    grant = grants.get()
    assert (grant.scope, grant.resource, grant.user) == ("travel:write", [site.resource()], site.user)


def test_a_client_that_names_no_resource_gets_the_first_endpoint(site: Site, grants: Any) -> None:
    page = site.ask(resource=None)
    assert f"{BASE_URL}/mcp" in text_of(page)
    site.agree(page)
    assert grants.get().resource == [f"{BASE_URL}/mcp"]


def test_a_resource_sent_twice_is_one(site: Site, grants: Any) -> None:
    site.agree(site.ask(resource=[site.resource(), site.resource() + "/"]))
    assert grants.get().resource == [site.resource()]


def test_a_client_that_asks_for_no_known_scope_gets_what_the_endpoint_needs(site: Site, grants: Any) -> None:
    site.agree(site.ask(scope="openid email profile"))
    site.agree(site.ask(scope=None))
    assert [grant.scope for grant in grants.all()] == ["travel:read"] * 2


def test_denying_tells_the_client_so_and_grants_nothing(site: Site, grants: Any) -> None:
    page = site.ask()
    fields = Fields(page.content.decode()).found
    told = answer_of(site.browser().post_form("/o/authorize/", {**fields, "deny": "1"}))
    assert (told["error"], told["state"], told["iss"]) == ("access_denied", "the-state", BASE_URL)
    assert not grants.exists()


def test_the_address_without_a_slash_is_the_same_page(site: Site) -> None:
    query = urlencode(site.authorize_query())
    assert site.browser().get(f"/o/authorize?{query}").status_code == 200


def test_a_redirect_uri_with_a_query_keeps_it_and_has_one_issuer(site: Site) -> None:
    client = site.make_client("with-query", redirect_uris="https://app.example.com/cb?tenant=a%20b&iss=https://evil")
    page = site.ask(client, redirect_uri="https://app.example.com/cb?tenant=a%20b&iss=https://evil")
    pairs = parse_qsl(urlsplit(site.agree(page)["Location"]).query)
    assert [value for name, value in pairs if name == "iss"] == [BASE_URL]
    assert ("tenant", "a b") in pairs


# Clients that anyone can register


EVIL = "https://evil.example/phish?a=b"


class Links(HTMLParser):
    """The addresses of a page's links."""

    def __init__(self, page: HttpResponse) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.content.decode())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(str(dict(attributes)["href"]))


def stranger(site: Site, uri: str = EVIL, source: str = "dcr") -> Any:
    return site.make_client(f"{source}-stranger", registration_source=source, redirect_uris=uri)


def told_by_link(page: HttpResponse, uri: str = EVIL) -> dict[str, str]:
    """What the client would be told if the person pressed the only link."""
    assert (page.status_code, "Location" in page, "refresh" in page) == (400, False, False)
    assert "http-equiv" not in page.content.decode()
    (link,) = Links(page).found
    assert link.startswith(uri + ("&" if "?" in uri else "?")), link
    pairs = parse_qsl(urlsplit(link).query)
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge": [challenge_of(VERIFIER)] * 2}, "invalid_request"),
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unauthorized_client"),
    ({"response_type": "code token"}, "unauthorized_client"),
    ({"response_type": "none"}, "unauthorized_client"),
    ({"response_type": "x"}, "unsupported_response_type"),
    ({"response_type": "token", "response_mode": "fragment"}, "unauthorized_client"),
    ({"response_mode": "form_post", "code_challenge": None}, "invalid_request"),
    ({"resource": "https://evil.example/"}, "invalid_target"),
    ({"resource": ["https://travel.example.com/alpha/mcp", "x"]}, "invalid_target"),
    ({"prompt": "none", "code_challenge": None}, "invalid_request"),
    ({"max_age": "0", "code_challenge": None}, "invalid_request"),
    ({"request": "x", "request_uri": "https://evil.example/", "code_challenge": None}, "invalid_request"),
]


def test_errors_of_a_client_that_anyone_can_register_are_shown_and_not_sent(
    site: Site, subtests: pytest.Subtests
) -> None:
    for changes, error in ERRORS:
        for source in ["dcr", "cimd"]:
            for logged_in in [True, False]:
                with subtests.test(changes=changes, source=source, logged_in=logged_in), site.afresh():
                    client = stranger(site, source=source)
                    browser = site.browser() if logged_in else Browser()
                    page = browser.get(address(site, client, redirect_uri=EVIL, **changes))
                    told = told_by_link(page)
                    assert (told["error"], told["state"], told["iss"], told["a"]) == (error, "the-state", BASE_URL, "b")
                    assert "Back to evil.example" in text_of(page)
                    head = browser.head(address(site, client, redirect_uri=EVIL, **changes))
                    assert (head.status_code, "Location" in head) == (400, False)


def test_nor_does_asking_for_no_page_send_anybody_there(site: Site, subtests: pytest.Subtests) -> None:
    """Such a client always needs consent, so it loses nothing; a link with ``prompt=none`` would be as good."""
    client = stranger(site)
    for logged_in, error in [(True, "consent_required"), (False, "login_required")]:
        with subtests.test(logged_in=logged_in):
            browser = site.browser() if logged_in else Browser()
            page = browser.get(address(site, client, redirect_uri=EVIL, prompt="none"))
            assert told_by_link(page)["error"] == error


def test_nor_does_a_limit_that_leaves_nothing(site: Site) -> None:
    client = stranger(site)
    page = site.ask(client, redirect_uri=EVIL)
    ClientPolicy.objects.create(client_id=client.client_id, scopes=[])
    assert told_by_link(site.ask(client, redirect_uri=EVIL))["error"] == "invalid_scope"
    assert told_by_link(site.agree(page))["error"] == "invalid_scope"


def test_a_person_who_decides_is_sent_there(site: Site) -> None:
    client = stranger(site)
    page = site.ask(client, redirect_uri=EVIL)
    assert "error=access_denied" in site.agree(page, deny="1")["Location"]
    assert "code=" in site.agree(page)["Location"]


def test_the_link_leads_to_programs_on_this_computer_too(site: Site, subtests: pytest.Subtests) -> None:
    for uri, words in [
        ("http://127.0.0.1:7777/cb", "Back to a program on this computer ( 127.0.0.1:7777 )"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "Back to a program on this computer that opens"),
    ]:
        with subtests.test(uri=uri), site.afresh():
            client = stranger(site, uri.replace(":7777", ""))
            page = site.ask(client, redirect_uri=uri, resource="x")
            assert told_by_link(page, uri)["error"] == "invalid_target"
            assert words in text_of(page)


BAD_TARGETS = [
    "javascript:alert(1)//https://x.example",
    "data:text/html,x",
    "http://evil.example/cb",
    "https://user@evil.example/cb",
    "other://evil.example/cb",
]


def test_no_link_leads_to_what_may_be_no_redirect_uri(site: Site, subtests: pytest.Subtests) -> None:
    """Whatever is stored, and even where the settings allow it."""
    site.configure(EXTRA_REDIRECT_URIS=BAD_TARGETS[:2])
    for uri in BAD_TARGETS:
        for logged_in in [True, False]:
            with subtests.test(uri=uri, logged_in=logged_in), site.afresh():
                client = stranger(site, uri)
                browser = site.browser() if logged_in else Browser()
                page = browser.get(address(site, client, redirect_uri=uri, resource="x"))
                assert (page.status_code, "Location" in page, Links(page).found) == (400, False, [])


def test_what_such_a_client_sends_is_no_markup_in_the_link(site: Site) -> None:
    client = stranger(site)
    state = '"><script>alert(1)</script>'
    page = site.ask(client, redirect_uri=EVIL, state=state, resource="x")
    assert "<script" not in page.content.decode()
    assert told_by_link(page)["state"] == state


def test_errors_before_the_client_is_known_have_no_link(site: Site, subtests: pytest.Subtests) -> None:
    client = stranger(site)
    for changes in [
        {"redirect_uri": "https://evil.example/other"},
        {"redirect_uri": [EVIL, EVIL]},
        {"client_id": "unknown"},
        {"client_id": [client.client_id, "conf-public"]},
        {"state": ["a", "b"]},
        {"scope": ["a", "b"]},
        {"response_type": ["code", "token"]},
    ]:
        with subtests.test(changes=changes):
            for browser in (site.browser(), Browser()):
                page = browser.get(address(site, client, **{"redirect_uri": EVIL, **changes}))
                assert is_refused(page)
                assert Links(page).found == []


# What is tested before login and before consent


BAD_KEYS = [
    {"code_challenge": None, "code_challenge_method": None},
    {"code_challenge": None},
    {"code_challenge_method": None},
    {"code_challenge_method": "plain"},
    {"code_challenge_method": "s256"},
    {"code_challenge_method": "S512"},
    {"code_challenge": "too-short"},
    {"code_challenge": VERIFIER + "~" * 10},
    {"code_challenge": [challenge_of(VERIFIER)] * 2},
]
BAD_RESOURCES = [
    "https://travel.example.com",
    "https://travel.example.com/alpha",
    "https://travel.example.com/alpha/mcp/other",
    "https://evil.example/alpha/mcp",
    "https://user@travel.example.com/alpha/mcp",
    "https://travel.example.com/alpha/mcp#x",
    "not a uri",
    ["https://travel.example.com/alpha/mcp", "https://evil.example/"],
]


def test_a_proof_key_that_is_no_s256_is_refused_before_login_and_consent(site: Site, subtests: pytest.Subtests) -> None:
    for changes in BAD_KEYS:
        for logged_in in [True, False]:
            with subtests.test(logged_in=logged_in, changes=changes), site.afresh():
                browser = site.browser() if logged_in else Browser()
                told = answer_of(browser.get(address(site, **changes)))
                assert (told["error"], told["state"], told["iss"]) == ("invalid_request", "the-state", BASE_URL)


def test_a_resource_that_is_no_endpoint_is_refused_before_login_and_consent(
    site: Site, subtests: pytest.Subtests
) -> None:
    for resource in BAD_RESOURCES:
        for logged_in in [True, False]:
            with subtests.test(logged_in=logged_in, resource=resource), site.afresh():
                browser = site.browser() if logged_in else Browser()
                told = answer_of(browser.get(address(site, resource=resource)))
                assert (told["error"], told["state"], told["iss"]) == ("invalid_target", "the-state", BASE_URL)


def test_an_endpoint_without_oauth_is_no_resource(site: Site) -> None:
    public = site.make_server("everybody")
    site.reload_urls()
    assert answer_of(site.ask(resource=f"{BASE_URL}/{public.path}"))["error"] == "invalid_target"


REDIRECTS = [
    "https://evil.example/callback",
    "https://127.0.0.1/callback",
    "http://127.0.0.1/callback/",
    "http://127.0.0.1/callback?x=1",
    "http://127.0.0.1/callback#x",
    "http://127.0.0.1/callback;p",
    "http://user@127.0.0.1/callback",
    "http://127.0.0.1.evil.example/callback",
    "http://localhost/callback",
    "http://evil.example/callback",
    "javascript:alert(1)",
    "http://127.0.0.1/call back",
    "cursor://evil/oauth/callback",
    "//127.0.0.1/callback",
    "http://127.0.0.1/callback\x00",
    ["http://127.0.0.1/callback", "https://evil.example/"],
]


def test_nobody_is_redirected_to_an_address_the_client_did_not_register(site: Site, subtests: pytest.Subtests) -> None:
    for uri in REDIRECTS:
        for logged_in in [True, False]:
            with subtests.test(logged_in=logged_in, uri=uri), site.afresh():
                browser = site.browser() if logged_in else Browser()
                assert is_refused(browser.get(address(site, redirect_uri=uri)))


def test_an_unknown_client_is_refused_on_a_page(site: Site, subtests: pytest.Subtests) -> None:
    for client_id in ["nobody", "", "x\x00y", ["conf-public", "other"]]:
        for logged_in in [True, False]:
            with subtests.test(logged_in=logged_in, client_id=client_id), site.afresh():
                browser = site.browser() if logged_in else Browser()
                assert is_refused(browser.get(address(site, client_id=client_id)))


def test_a_loopback_address_may_have_any_port(site: Site) -> None:
    assert site.ask(redirect_uri="http://127.0.0.1:53211/callback").status_code == 200


def test_an_address_of_a_scheme_that_is_not_allowed_is_refused_before_consent(site: Site) -> None:
    client = site.make_client("odd", redirect_uris="ftp://app.example.com/cb")
    assert is_refused(site.ask(client, redirect_uri="ftp://app.example.com/cb"))


def test_only_codes_are_given(site: Site, subtests: pytest.Subtests) -> None:
    for response_type in ["token", "id_token", "code token", "none", "", None]:
        with subtests.test(response_type=response_type), site.afresh():
            told = answer_of(site.ask(response_type=response_type))
            assert told["error"] in {"unsupported_response_type", "unauthorized_client", "invalid_request"}
            assert told["iss"] == BASE_URL


def test_a_good_request_of_nobody_goes_to_the_login_and_comes_back(site: Site) -> None:
    response = Browser().get(address(site, approval_prompt="auto"))
    login = urlsplit(response["Location"])
    assert (response.status_code, login.path) == (302, "/accounts/login/")
    back = parse_qs(login.query)["next"][0]
    assert parse_qs(urlsplit(back).query) == {name: [value] for name, value in site.authorize_query().items()}
    assert site.browser().get(back).status_code == 200


def test_a_request_that_is_too_long_to_come_back_from_the_login_says_what_to_do(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer releases of Django do not redirect to long addresses."""

    def refuse(*_: Any) -> None:
        raise DisallowedRedirect

    monkeypatch.setattr(authorize, "redirect_to_login", refuse)
    long = address(site, state="s" * 4000)
    page = Browser().get(long)
    assert is_refused(page)
    assert "Log in to this site first, then start again from the application." in text_of(page)
    assert "Redirects to" in text_of(site.browser().get(long))
    assert len(site.answer(state="s" * 4000)["state"]) == 4000


def test_what_anyone_can_send_costs_little(site: Site, subtests: pytest.Subtests) -> None:
    """With many scopes declared, many asked for, and as many resources as fit."""
    site.configure(SCOPES={**DJANGO_MCP["SCOPES"], **{f"scope:{number}": "A scope" for number in range(500)}})
    own = address(site, scope=" ".join(f"s{number}" for number in range(2500)))
    resources = address(site, resource=["https://x"] * 650)
    for url in (own, resources, address(site, state="s" * 60_000)):
        for path in ("/o/authorize/", "/both/authorize/"):
            with subtests.test(path=path, length=len(url)):
                browser, there = Browser(), url.replace("/o/authorize/", path)
                browser.get(there)
                began = time.thread_time()
                page = browser.get(there)
                assert time.thread_time() - began < 0.1
                assert page.status_code in {302, 400}
    assert "longer than 16384 characters" in text_of(Browser().get(address(site, state="s" * 60_000)))


def test_a_site_whose_pages_all_need_a_login_still_tests_before_it(site: Site) -> None:
    middleware = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    site.settings.MIDDLEWARE = [*site.settings.MIDDLEWARE, middleware]
    assert answer_of(Browser().get(address(site, code_challenge=None)))["error"] == "invalid_request"
    assert is_refused(Browser().get(address(site, client_id="nobody")))


def test_a_registered_address_that_is_no_longer_allowed_is_refused(site: Site) -> None:
    uri = "cursor://anysphere.cursor-mcp/oauth/callback"
    client = site.make_client("cursor", redirect_uris=uri, registration_source="dcr")
    assert site.ask(client, redirect_uri=uri).status_code == 200
    site.configure(EXTRA_REDIRECT_URIS=["cursor://other/callback"])
    assert is_refused(site.ask(client, redirect_uri=uri))


# Client ID metadata documents


@pytest.fixture
def fetched(site: Site) -> list[str]:
    """Addresses of documents that were fetched."""
    Fetcher.asked = []
    site.settings.OAUTH2_PROVIDER = {
        **site.settings.OAUTH2_PROVIDER,
        "CIMD_METADATA_FETCHER": Fetcher,
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.cimd.AllowAllCIMDPermission",),
    }
    return Fetcher.asked


class Fetcher:
    """Answers with a good document, and keeps count."""

    asked: list[str]

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        self.asked.append(client_id)
        document = {
            "client_id": client_id,
            "client_name": "Claude",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code"],
        }
        return document, 3600


def test_requests_of_nobody_fetch_no_document(site: Site, fetched: list[str]) -> None:
    browser = Browser()
    good = browser.get(address(site, client_id=CIMD))
    assert urlsplit(good["Location"]).path == "/accounts/login/"
    for changes in [*BAD_KEYS, *({"resource": each} for each in BAD_RESOURCES)]:
        assert is_refused(browser.get(address(site, client_id=CIMD, **changes)))
    assert is_refused(browser.get(address(site, client_id=CIMD, prompt="none")))
    assert fetched == []


def test_requests_of_nobody_do_not_renew_a_document_either(site: Site, fetched: list[str]) -> None:
    site.ask(client_id=CIMD)
    assert fetched == [CIMD]
    from django_mcp.auth.toolkit import get_application_model

    get_application_model().objects.filter(client_id=CIMD).update(cimd_expires_at="2020-01-01T00:00:00Z")
    assert urlsplit(Browser().get(address(site, client_id=CIMD))["Location"]).path == "/accounts/login/"
    assert fetched == [CIMD]


def test_somebody_who_is_logged_in_sees_whose_document_it_is(site: Site, fetched: list[str]) -> None:
    page = site.ask(client_id=CIMD)
    assert page.status_code == 200
    assert "Claude described at client.example.com" in text_of(page)
    assert fetched == [CIMD]


# No consent is skipped


def test_a_client_cannot_skip_the_consent_with_a_parameter(site: Site) -> None:
    site.tokens_for()
    assert site.ask(approval_prompt="auto").status_code == 200


def test_a_client_that_registered_itself_never_skips_the_consent(site: Site, subtests: pytest.Subtests) -> None:
    for source in ["dcr", "cimd"]:
        with subtests.test(source=source), site.afresh():
            client = site.make_client("skips", skip_authorization=True, registration_source=source)
            assert site.ask(client).status_code == 200


@pytest.fixture
def trusted(site: Site) -> Any:
    """A client with a secret whose users the administrators do not want to be asked."""
    return site.make_client("trusted", client_type="confidential", client_secret="s3cret", skip_authorization=True)


def test_a_client_the_site_trusts_may_skip_the_consent(site: Site, trusted: Any) -> None:
    assert answer_of(site.ask(trusted))["iss"] == BASE_URL
    assert answer_of(site.ask(trusted, prompt="none"))["code"]
    web = site.make_client("web", skip_authorization=True, redirect_uris="https://app.example.com/cb")
    assert "code=" in site.ask(web, redirect_uri="https://app.example.com/cb")["Location"]
    site.alpha.user_passes_test = lambda user: False
    assert "Your account cannot be used here." in text_of(site.ask(trusted))


PROGRAMS = [
    CALLBACK,
    "http://localhost/callback",
    "http://[::1]/callback",
    "https://localhost/callback",
    "https://127.0.0.1:8443/callback",
    "cursor://anysphere.cursor-mcp/oauth/callback",
]


def test_a_client_that_any_program_can_pose_as_never_skips_the_consent(site: Site, subtests: pytest.Subtests) -> None:
    client = site.make_client("local", skip_authorization=True, redirect_uris=" ".join(PROGRAMS))
    for uri in PROGRAMS:
        with subtests.test(uri=uri):
            page = site.ask(client, redirect_uri=uri)
            assert (page.status_code, "Location" in page) == (200, False)
            assert site.ask(client, redirect_uri=uri, prompt="none")["Location"].count("error=consent_required") == 1


def test_a_client_that_wants_the_page_gets_it(site: Site, trusted: Any, subtests: pytest.Subtests) -> None:
    for prompt in ["consent", "select_account", "consent none", "x", ["none", "consent"]]:
        with subtests.test(prompt=prompt):
            assert site.ask(trusted, prompt=prompt).status_code == 200
    for prompt in ["login", "login consent"]:
        with subtests.test(prompt=prompt):
            back = dict(parse_qsl(urlsplit(site.ask(trusted, prompt=prompt)["Location"]).query))["next"]
            assert site.browser().get(back).status_code == 200
            anonymous = Browser().get(address(site, trusted, prompt=prompt))["Location"]
            assert dict(parse_qsl(urlsplit(anonymous).query))["next"] == back


def test_a_look_at_a_link_gives_no_code(site: Site, trusted: Any, grants: Any) -> None:
    response = site.browser().head(address(site, trusted))
    assert (response.status_code, "Location" in response) == (200, False)
    assert not grants.exists()


def test_consent_to_one_address_is_none_to_another(site: Site) -> None:
    client = site.make_client("two", redirect_uris=f"{CALLBACK} https://app.example.com/cb")
    site.tokens_for(application=client)
    page = site.ask(client, redirect_uri="https://app.example.com/cb", approval_prompt="auto")
    assert "Redirects to app.example.com" in text_of(page)


def test_a_client_that_wants_no_page_is_told_that_one_is_needed(site: Site, subtests: pytest.Subtests) -> None:
    for logged_in, error in [(True, "consent_required"), (False, "login_required")]:
        with subtests.test(logged_in=logged_in, error=error), site.afresh():
            browser = site.browser() if logged_in else Browser()
            told = answer_of(browser.get(address(site, prompt="none", scope="openid travel:read")))
            assert (told["error"], told["state"], told["iss"]) == (error, "the-state", BASE_URL)


def test_a_client_may_have_the_person_log_in_anew(site: Site) -> None:
    response = site.ask(prompt="login")
    assert urlsplit(response["Location"]).path == "/accounts/login/"
    assert "login" not in parse_qs(parse_qs(urlsplit(response["Location"]).query)["next"][0]).get("prompt", [])


# The form


def test_the_form_needs_the_token_against_forged_requests(site: Site) -> None:
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(site.user)
    page = browser.get(address(site))
    fields = Fields(page.content.decode()).found
    headers = {"HTTP_ORIGIN": BASE_URL}
    without = {name: value for name, value in fields.items() if name != "csrfmiddlewaretoken"}
    assert browser.post_form("/o/authorize/", {**without, "allow": "1"}, **headers).status_code == 403
    foreign = {"HTTP_ORIGIN": "https://evil.example"}
    assert browser.post_form("/o/authorize/", {**fields, "allow": "1"}, **foreign).status_code == 403
    assert answer_of(browser.post_form("/o/authorize/", {**fields, "allow": "1"}, **headers))["code"]


def test_the_form_needs_the_token_also_where_the_site_has_no_such_middleware(site: Site) -> None:
    site.settings.MIDDLEWARE = [each for each in site.settings.MIDDLEWARE if "Csrf" not in each]
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(site.user)
    fields = Fields(browser.get(address(site)).content.decode()).found
    fields.pop("csrfmiddlewaretoken")
    assert browser.post_form("/o/authorize/", {**fields, "allow": "1"}).status_code == 403


def test_other_fields_change_nothing(site: Site, grants: Any) -> None:
    page = site.ask()
    response = site.agree(
        page,
        scope="travel:write",
        resource=site.resource(site.beta),
        redirect_uri="https://evil.example/",
        client_id="other",
        code_challenge="x" * 43,
        response_mode="fragment",
    )
    assert answer_of(response)["code"]
    grant = grants.get()
    assert (grant.scope, grant.resource, grant.redirect_uri) == ("travel:read", [site.resource()], CALLBACK)
    assert grant.code_challenge == challenge_of(VERIFIER)


def test_a_query_of_the_form_changes_nothing_either(site: Site, grants: Any) -> None:
    fields = {**Fields(site.ask().content.decode()).found, "allow": "1"}
    changed = address(site, scope="travel:write", resource=site.resource(site.beta), response_mode="fragment")
    assert answer_of(site.browser().post_form(changed, fields))["code"]
    assert (grants.get().scope, grants.get().resource) == ("travel:read", [site.resource()])


def test_a_changed_form_is_refused(site: Site, grants: Any) -> None:
    page = site.ask()
    signed = Fields(page.content.decode()).found["asked"]
    for text in ("", "x", signed[:-1], signed.swapcase()):
        assert is_refused(site.agree(page, asked=text))
    assert not grants.exists()


def test_a_form_of_somebody_else_is_refused(site: Site, grants: Any) -> None:
    mallory = site.make_user("mallory")
    theirs = Fields(site.ask(user=mallory).content.decode()).found["asked"]
    assert is_refused(site.agree(site.ask(), asked=theirs))
    assert not grants.exists()


def test_an_old_form_is_refused(site: Site, grants: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = site.ask()
    now = signing.time.time()
    monkeypatch.setattr(signing.time, "time", lambda: now + 31 * 60)
    assert is_refused(site.agree(page))
    assert not grants.exists()


def test_a_form_of_somebody_who_was_logged_out_meanwhile_leads_to_the_login_and_back(site: Site) -> None:
    page = site.ask()
    action = re.search(r'action="([^"]*)"', page.content.decode())[1].replace("&amp;", "&")
    fields = {**Fields(page.content.decode()).found, "allow": "1"}
    back = parse_qs(urlsplit(Browser().post_form(action, fields)["Location"]).query)["next"][0]
    assert site.browser().get(back).status_code == 200


def test_somebody_may_use_another_account(site: Site) -> None:
    other = site.make_user("grace")
    fields = {**Fields(site.ask().content.decode()).found, "switch": "1"}
    browser = site.browser()
    response = browser.post_form("/o/authorize/", fields)
    back = parse_qs(urlsplit(response["Location"]).query)["next"][0]
    assert browser.get(back).status_code == 302
    browser.force_login(other)
    assert "You are logged in as grace ." in text_of(browser.get(back))


def test_a_failure_is_told_to_the_client_without_its_cause(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page = site.ask()

    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("the database password is swordfish")

    monkeypatch.setattr(authorize.AuthorizeView, "create_authorization_response", fail)
    told = answer_of(site.agree(page))
    assert (told["error"], told["state"], told["iss"]) == ("server_error", "the-state", BASE_URL)
    assert "swordfish" not in str(told)
    assert "could not be created" in caplog.text


# What the site's owner decides


def test_a_blocked_client_is_refused_on_the_page_whoever_comes(site: Site) -> None:
    page = site.ask()
    ClientPolicy.objects.create(client_id="conf-public", blocked=True)
    assert is_refused(site.ask(), 403)
    assert is_refused(Browser().get(address(site)), 403)
    assert is_refused(site.agree(page), 403)


def test_a_person_whom_a_blocked_client_sent_reads_what_happened(site: Site) -> None:
    ClientPolicy.objects.create(client_id="conf-public", blocked=True)
    shown = text_of(site.ask())
    assert "This application is blocked" in shown
    assert "The administrators of this site have blocked the application that sent you here" in shown
    assert "request" not in shown.lower()


def test_a_limited_client_is_granted_what_the_limit_has(site: Site, grants: Any) -> None:
    ClientPolicy.objects.create(client_id="conf-public", scopes=["travel:read"])
    page = site.ask(scope="travel:write")
    assert "Look up your trips" in text_of(page)
    assert "Change your trips" not in text_of(page)
    site.agree(page)
    assert grants.get().scope == "travel:read"


def test_a_limit_that_leaves_nothing_is_an_invalid_scope(site: Site) -> None:
    ClientPolicy.objects.create(client_id="conf-public", scopes=[])
    told = answer_of(site.ask())
    assert (told["error"], told["state"], told["iss"]) == ("invalid_scope", "the-state", BASE_URL)


def test_an_endpoint_that_is_not_for_the_user_says_so_and_lets_them_deny(site: Site, grants: Any) -> None:
    before = site.ask()
    site.alpha.user_passes_test = lambda user: user.is_staff
    page = site.ask()
    assert (page.status_code, "Location" in page) == (403, False)
    assert "Your account cannot be used here." in text_of(page)
    assert 'name="allow"' not in page.content.decode()
    assert site.agree(before).status_code == 403
    assert not grants.exists()
    fields = {**Fields(page.content.decode()).found, "deny": "1"}
    assert answer_of(site.browser().post_form("/o/authorize/", fields))["error"] == "access_denied"


# What the page says


def test_the_page_names_client_host_endpoint_scopes_and_user(site: Site) -> None:
    client = site.make_client("c", name="Claude", redirect_uris="https://evil.example/cb", registration_source="dcr")
    text = text_of(site.ask(client, redirect_uri="https://evil.example/cb", scope="travel:write"))
    for words in (
        "Application name (self-reported) Claude registered itself; nobody at this site has checked it",
        "Redirects to evil.example",
        f"Requested access to alpha {BASE_URL}/alpha/mcp",
        "Change your trips Look up your trips",
        "You are logged in as ada . Use another account",
    ):
        assert words in text
    assert "program on this computer" not in text


def test_the_host_is_as_prominent_as_the_name(site: Site) -> None:
    client = site.make_client("c", name="Claude", redirect_uris="https://evil.example/cb")
    claims = re.findall(r'class="claim"><bdi>(.*?)</bdi>', site.ask(client, redirect_uri=None).content.decode())
    assert claims == ["Claude", "evil.example"]


def test_a_program_on_this_computer_comes_with_a_warning(site: Site) -> None:
    assert "Any program on this computer can pose as this application." in text_of(site.ask())
    uri = "cursor://anysphere.cursor-mcp/oauth/callback"
    text = text_of(site.ask(site.make_client("cursor", redirect_uris=uri), redirect_uri=uri))
    assert "“cursor:” links" in text
    assert "Any program on this computer can pose as this application." in text


NASTY = "</dd><script>alert(1)</script>\u202e\u200b" + "x" * 300


def test_nothing_a_client_sends_is_markup_or_hidden(site: Site) -> None:
    client = site.make_client("nasty", name=NASTY[:255])
    page = site.ask(client, state=NASTY, scope=f"travel:read {NASTY}", resource=site.resource()).content.decode()
    assert "<script" not in page
    assert "\u202e" not in page.partition("<form")[0]
    assert "\u200b" not in page.partition("<form")[0]
    assert "x" * 61 not in page.partition("<form")[0]


def test_nothing_a_client_sends_is_markup_on_an_error_page_or_in_a_header(site: Site) -> None:
    page = site.ask(client_id=NASTY, redirect_uri=NASTY)
    assert "<script" not in page.content.decode()
    response = site.ask(state="a\r\nSet-Cookie: x=1", resource="https://evil.example\r\nX: y")
    assert is_refused(response)
    state = "ä & = ?"
    assert answer_of(site.ask(resource="https://evil.example", state=state))["state"] == state


def test_a_client_without_a_name_has_none(site: Site) -> None:
    assert "An application without a name" in text_of(site.ask(site.make_client("c", name="\u200b")))


def test_a_page_may_not_be_framed_kept_or_scripted_whatever_the_site_does_elsewhere(site: Site) -> None:
    site.settings.X_FRAME_OPTIONS = "SAMEORIGIN"
    site.settings.SECURE_REFERRER_POLICY = "no-referrer"
    for page in (site.ask(), site.ask(client_id="nobody"), site.browser().get("/o/access/")):
        policy = page["Content-Security-Policy"]
        nonce = re.search(r"style-src 'nonce-([\w-]{20,})'", policy)
        assert nonce
        assert f'<style nonce="{nonce[1]}">' in page.content.decode()
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert "form-action" not in policy
        assert page["X-Frame-Options"] == "DENY"
        assert page["Cache-Control"] == "no-store"
        assert page["Referrer-Policy"] == "same-origin"
        assert re.search(r'<html lang="en">', page.content.decode())


def test_a_site_may_replace_the_pages(site: Site, tmp_path: Path) -> None:
    own = tmp_path / "django_mcp" / "oauth" / "authorize.html"
    own.parent.mkdir(parents=True)
    own.write_text(
        '{% extends "django_mcp/oauth/base.html" %}{% block content %}Our own words to {{ user }} on {{ name }}'
        '<form method="post" action="{{ action }}">{% csrf_token %}'
        '<input type="hidden" name="asked" value="{{ asked }}">'
        '<button name="allow">Yes</button></form>{% endblock %}'
    )
    [engine] = site.settings.TEMPLATES
    site.settings.TEMPLATES = [{**engine, "DIRS": [tmp_path]}]
    page = site.ask()
    assert "Our own words to ada on conf-public" in text_of(page)
    assert answer_of(site.agree(page))["code"]


def test_a_redirect_to_a_client_is_not_kept(site: Site) -> None:
    assert site.agree(site.ask())["Cache-Control"] == "no-store"


def test_a_page_costs_four_queries_and_a_decision_five(site: Site, django_assert_num_queries: Any) -> None:
    site.browser()
    with django_assert_num_queries(4):
        page = site.ask()
    with django_assert_num_queries(5):
        site.agree(page)
