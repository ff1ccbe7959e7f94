"""The approvals app, scopes and keys: who decides in a client has agreed to that there."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError

from django_mcp import MCPServer, tool
from django_mcp.admin import approvals_app
from django_mcp.auth.api_keys import create_key
from django_mcp.conf import APPROVALS_SCOPE
from django_mcp.models import APIKey, Approval, ClientPolicy
from tests.approvals.asking import serve
from tests.clients import LEGACY, Answer
from tests.oauth.site import BASE_URL, HOST, Caller, Site, forget_urlconfs, make_site
from tests.together.test_credentials_and_streams import logged_in

WORDS = "Read calls of other people that wait for approval, and approve or deny them in your name"


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], transactional_db: None, policies: None
) -> Iterator[Site]:
    """A site with the app, one pending call, and an approver as its user."""
    site = make_site(settings, make_server)
    site.configure(
        APPROVALS_APP=True,
        APP_CLIENTS=["tests"],
        APPROVAL_WAIT_TIMEOUT=0.001,
        AUTHENTICATION=[
            "django_mcp.APIKeyAuthentication",
            "django_mcp.SessionAuthentication",
            "django_mcp.OAuth2Authentication",
        ],
    )
    approvals_app.add_to(site.alpha)
    tool(server=site.alpha, name="pay", policy="ask")(lambda: "Paid.")
    serve(site.alpha, site.make_user("ann"), "pay", {})
    site.user.is_staff = True
    site.user.save()
    site.user.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    yield site
    forget_urlconfs()


def call(caller: Caller, name: str, **arguments: Any) -> Answer:
    return caller.request("tools/call", {"name": name, "arguments": arguments})


def html(answer: Answer) -> str:
    return str(answer.result["_meta"]["django-mcp/html"])


def form(answer: Answer) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="(approval|token)" value="([^"]+)"', html(answer)))


def is_unknown(answer: Answer) -> bool:
    return answer.status in {200, 400} and "Unknown tool" in answer.body.decode()


def agreed(site: Site, scope: str = f"travel:read {APPROVALS_SCOPE}", user: Any = None) -> Caller:
    return site.caller(site.tokens_for(scope=scope, user=user)["access_token"])


def test_the_consent_page_says_so_and_only_then_the_client_reads_and_decides(site: Site) -> None:
    assert WORDS in site.ask(scope=APPROVALS_SCOPE).content.decode()
    caller = agreed(site)
    shown = call(caller, "pending_approvals")
    assert "1 approval pending" in html(shown)
    decided = call(caller, "decide_approval", **form(shown), decision="approve")
    assert "You approved the call of pay" in decided.result["content"][0]["text"]
    assert Approval.objects.get().state == "approved"


def test_no_client_has_it_that_did_not_ask(site: Site, subtests: pytest.Subtests) -> None:
    token = form(call(agreed(site), "pending_approvals"))
    for scope in [None, "travel:read", "travel:write", "openid approvals mcp"]:
        with subtests.test(scope=scope):
            page = site.ask(scope=scope)
            assert WORDS not in page.content.decode()
            caller = agreed(site, scope)
            given = {**token, "decision": "approve"}
            for answer in (call(caller, "pending_approvals"), call(caller, "decide_approval", **given)):
                assert answer.status == 403
                challenge = answer.headers["www-authenticate"]
                assert 'error="insufficient_scope"' in challenge
                assert APPROVALS_SCOPE in challenge
    assert Approval.objects.get().state == "pending"


def test_an_older_client_is_told_which_scope_to_request_too(site: Site) -> None:
    """Its session says that it shows apps, which is read later."""
    caller = agreed(site, "travel:read")
    older = Caller(site.alpha, LEGACY, "view", host=HOST)
    older.token = caller.token
    answer = call(older, "pending_approvals")
    assert answer.status == 403
    assert APPROVALS_SCOPE in answer.headers["www-authenticate"]
    older.token = agreed(site).token
    assert is_unknown(call(older, "pending_approvals"))


def test_metadata_does_not_have_every_client_ask_for_it(site: Site) -> None:
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/alpha/mcp"]:
        metadata = site.browser().get(path).json()
        assert APPROVALS_SCOPE not in metadata["scopes_supported"]


def test_a_limit_of_the_client_takes_it_away(site: Site) -> None:
    caller = agreed(site)
    token = form(call(caller, "pending_approvals"))
    ClientPolicy.objects.create(client_id=site.application.client_id, scopes=["travel:read"])
    assert call(caller, "decide_approval", **token, decision="approve").status == 403
    assert WORDS not in site.ask(scope=f"travel:read {APPROVALS_SCOPE}").content.decode()
    assert Approval.objects.get().state == "pending"


def test_it_gives_nothing_to_who_may_not_approve(site: Site) -> None:
    for user in (site.make_user("bob"), site.make_user("root", is_superuser=True)):
        caller = agreed(site, user=user)
        assert is_unknown(call(caller, "pending_approvals"))
        assert is_unknown(call(caller, "decide_approval", approval="x", token="x", decision="approve"))


def test_keys_sessions_and_strangers_get_nothing(site: Site, subtests: pytest.Subtests) -> None:
    token = form(call(agreed(site), "pending_approvals"))
    row, key = create_key(site.user, "nightly", endpoints=["alpha"], scopes=["travel:read"])
    APIKey.objects.filter(pk=row.pk).update(scopes=["travel:read", APPROVALS_SCOPE])
    with_key = site.caller(key)
    for answer in (
        call(with_key, "pending_approvals"),
        call(with_key, "decide_approval", **token, decision="approve"),
    ):
        with subtests.test(caller="key"):
            assert is_unknown(answer)
    anonymous = site.caller(None)
    site.settings.CSRF_TRUSTED_ORIGINS = [BASE_URL]  # the requests of the test are not https
    _, cookie = logged_in(site.user)
    signed_in = {**cookie, "origin": BASE_URL}
    listed = anonymous.request("tools/list", headers=signed_in)
    assert "pay" in listed.body.decode(), "the session is good"
    for name, arguments in (("pending_approvals", {}), ("decide_approval", {**token, "decision": "approve"})):
        with subtests.test(caller="session", tool=name):
            assert f'"{name}"' not in listed.body.decode()
            body = {"name": name, "arguments": arguments}
            assert is_unknown(anonymous.request("tools/call", body, headers=signed_in))
    assert call(anonymous, "pending_approvals").status == 401
    assert Approval.objects.get().state == "pending"


def test_no_key_is_made_with_it(site: Site) -> None:
    with pytest.raises(ValidationError, match="There is no scope"):
        create_key(site.user, "nightly", endpoints=["alpha"], scopes=[APPROVALS_SCOPE])


def test_without_the_app_there_is_no_such_scope(site: Site) -> None:
    site.configure(APPROVALS_APP=False)
    assert WORDS not in site.ask(scope=f"travel:read {APPROVALS_SCOPE}").content.decode()
    assert site.tokens_for(scope=f"travel:read {APPROVALS_SCOPE}")["scope"] == "travel:read"


def test_a_site_describes_it_in_its_own_words(site: Site) -> None:
    site.configure(SCOPES={**site.settings.DJANGO_MCP["SCOPES"], APPROVALS_SCOPE: "Decide for the shop"})
    assert "Decide for the shop" in site.ask(scope=APPROVALS_SCOPE).content.decode()
