"""``manage.py mcp_key``."""

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from django_mcp import AllowAny, APIKeyAuthentication, MCPServer, tool
from django_mcp.auth.api_keys import create_key
from django_mcp.models import APIKey
from tests.clients import MODERN, Client

SITE = {
    "AUTHENTICATION": ["django_mcp.APIKeyAuthentication"],
    "BASE_URL": "https://travel.example.com",
    "SCOPES": {"read": "Look", "write": "Write"},
    "DEFAULT_SCOPES": ["read"],
}


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(DJANGO_MCP=SITE):
        yield


@pytest.fixture
def ada(open_database: None) -> Iterator[User]:
    user = User.objects.create_user("ada")
    yield user
    User.objects.filter(pk=user.pk).delete()


@pytest.fixture(autouse=True)
def guarded(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server("guarded", authentication=[APIKeyAuthentication()])
    tool(server=server, name="ping")(lambda: "pong")
    return server


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("mcp_key", *words, stdout=out, no_color=True)
    return out.getvalue()


def create(*words: str) -> tuple[str, str]:
    """What it printed, and the key in it."""
    printed = run("create", "--user", "ada", "--name", "nightly job", *words)
    keys = re.findall(r"mcp_key_\w{49}", printed)
    assert len(keys) == 1
    return printed, keys[0]


def test_a_key_is_printed_once_and_says_where_it_opens_what(ada: User) -> None:
    printed, key = create("--endpoint", "guarded", "--scope", "read", "--scope", "write", "--days", "7")
    assert printed.splitlines()[0] == key
    for words in (
        "not shown again",
        "X-API-Key",
        "authenticates as ada",
        "read write",
        "https://travel.example.com/guarded/mcp",
    ):
        assert words in printed
    row = APIKey.objects.get()
    assert (row.user, row.name, row.endpoints, row.scopes) == (ada, "nightly job", ["guarded"], ["read", "write"])
    assert abs(row.expires - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)
    assert key not in run("list")


def test_the_printed_key_opens_the_endpoint(ada: User, guarded: MCPServer) -> None:
    _, key = create("--endpoint", "guarded")
    answer = Client(guarded, MODERN, "view").request("tools/list", headers={"x-api-key": key})
    assert answer.status == 200


def test_what_is_left_out_is_the_default_endpoint_with_its_scopes(ada: User) -> None:
    create()
    row = APIKey.objects.get()
    assert (row.endpoints, row.scopes) == (["default"], ["read"])


def test_an_endpoint_that_takes_no_keys_is_pointed_out(ada: User, make_server: Callable[..., MCPServer]) -> None:
    make_server("lobby", authentication=[AllowAny()])
    printed, _ = create("--endpoint", "lobby")
    assert (
        "https://travel.example.com/lobby/mcp  (does not accept API keys: add 'django_mcp.APIKeyAuthentication'"
        in printed
    )


def test_what_will_not_do_is_said_in_words_and_no_key_is_made(ada: User, subtests: pytest.Subtests) -> None:
    cases = [
        (["--user", "bob"], "There is no user 'bob'"),
        (["--endpoint", "gaurded"], "There is no endpoint “gaurded”. Available endpoints: "),
        (["--scope", "root"], "There is no scope “root”. Available scopes: read, write."),
        (["--days", "0"], "from 1 to 365 days"),
        (["--days", "400"], "from 1 to 365 days"),
        (["--days", "soon"], "invalid int value: 'soon'"),
        (["--name", ""], "1 to 100 characters"),
    ]
    for words, message in cases:
        with subtests.test(words=words, message=message):
            with pytest.raises(CommandError, match=re.escape(message)):
                run("create", "--user", "ada", "--name", "job", *words)
            assert not APIKey.objects.exists()


def test_nobody_inactive_gets_a_key(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(is_active=False)
    with pytest.raises(CommandError, match="is inactive"):
        create()


def test_the_list_says_all_but_the_key(ada: User) -> None:
    row, key = create_key(ada, "nightly job", endpoints=["guarded"], scopes=["read", "write"])
    old, _ = create_key(ada, "old job", endpoints=["guarded", "default"])
    APIKey.objects.filter(pk=old.pk).update(expires=timezone.now(), last_used=timezone.now())
    printed = run("list")
    title, second, first = printed.splitlines()
    assert title.split("  ")[0] == "ID"
    for words in (str(row.pk), key[:14], "active", "ada", "nightly job", "guarded", "read write", "never"):
        assert words in first
    for words in (str(old.pk), "expired", "old job", "guarded default", f"{timezone.now():%Y-%m-%d}"):
        assert words in second
    assert key[14:] not in printed
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert "user inactive" in run("list")


def test_the_list_can_be_that_of_one_user(ada: User) -> None:
    assert run("list") == "There are no API keys.\n"
    create_key(ada, "hers", endpoints=["guarded"])
    User.objects.create_user("bob")
    assert "hers" in run("list", "--user", "ada")
    assert run("list", "--user", "bob") == "There are no API keys.\n"
    User.objects.filter(username="bob").delete()
    with pytest.raises(CommandError, match="There is no user 'bob'"):
        run("list", "--user", "bob")


def test_a_revoked_key_opens_nothing_from_the_next_request_on(
    ada: User, guarded: MCPServer, subtests: pytest.Subtests
) -> None:
    for by in ["id", "prefix", "beginning"]:
        with subtests.test(by=by):
            row, key = create_key(ada, "job", endpoints=["guarded"])
            client = Client(guarded, MODERN, "asgi")
            assert client.request("tools/list", headers={"x-api-key": key}).status == 200
            given = {"id": str(row.pk), "prefix": row.prefix, "beginning": row.prefix[:11]}[by]
            assert "(“job”)." in run("revoke", given)
            body, headers = client.compose("tools/list", {})
            assert client.post(str(body).encode(), {**headers, "x-api-key": key}).status == 401
            assert "revoked" in run("list")
            with pytest.raises(CommandError, match="is already revoked"):
                run("revoke", given)


def test_a_key_that_cannot_be_told_is_not_revoked(ada: User) -> None:
    for name in ("one", "two"):
        create_key(ada, name, endpoints=["guarded"])
    for given, message in (("mcp_key_", "Several keys"), ("999999", "There is no key"), ("", "There is no key")):
        with pytest.raises(CommandError, match=message):
            run("revoke", given)
    assert not APIKey.objects.exclude(revoked=None).exists()


def test_a_key_that_was_found_somewhere_can_be_revoked_as_it_is(ada: User) -> None:
    row, key = create_key(ada, "job", endpoints=["guarded"])
    create_key(ada, "other", endpoints=["guarded"])
    with pytest.raises(CommandError) as refused:
        run("revoke", key[:-1])
    assert key[14:-1] not in str(refused.value)
    assert key[14:] not in run("revoke", key)
    assert APIKey.objects.exclude(revoked=None).get() == row


def test_programs_get_json(ada: User) -> None:
    made = json.loads(run("create", "--user", "ada", "--name", "nightly job", "--days", "9", "--json"))
    [listed] = json.loads(run("list", "--json"))
    key = made.pop("key")
    assert made == listed
    assert key.startswith(listed["prefix"])
    assert key not in run("list", "--json")
    known = {name: listed[name] for name in ("user", "name", "endpoints", "scopes", "state", "last_used")}
    assert known == {
        "user": "ada",
        "name": "nightly job",
        "endpoints": ["default"],
        "scopes": ["read"],
        "state": "active",
        "last_used": None,
    }


def test_a_user_is_found_by_an_email_address_that_is_theirs_alone(ada: User, guarded: MCPServer) -> None:
    User.objects.filter(pk=ada.pk).update(email="Ada@example.com")
    printed, _key = create("--user", "ada@EXAMPLE.com", "--endpoint", "guarded", "--read-only")
    assert "It authenticates as ada (Ada@example.com) until" in printed
    assert "It opens only tools that change nothing" in printed
    other = User.objects.create_user("another-ada", email="ada@example.com")
    with pytest.raises(
        CommandError, match=r"2 users have the e-mail address 'ada@example.com'; --user takes a username"
    ):
        create("--user", "ada@example.com")
    other.delete()
    with pytest.raises(CommandError, match="There is no user 'nobody'; --user takes a username or an e-mail address"):
        create("--user", "nobody")
