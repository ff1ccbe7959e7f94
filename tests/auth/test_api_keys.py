"""Attack rows 7 and 8, and what an API key is, opens, and leaves behind."""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test import TestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp import AllowAny, APIKeyAuthentication, Context, InvalidToken, MCPServer, RequestHead, tool
from django_mcp.auth.api_keys import create_key, is_well_formed, keys_in_query, make_key, revoke_key
from django_mcp.models import APIKey, Event
from django_mcp.pubsub.publish import REVOKED, revocation_topic
from tests.clients import MODERN, Answer, Client

pytestmark = pytest.mark.postgresql

SITE = {"AUTHENTICATION": ["django_mcp.AllowAny"]}


def site(**own: Any) -> override_settings:
    """A site with the scope "mcp", and what else it sets."""
    return override_settings(DJANGO_MCP={**SITE, **own})


URL_KEYS = site(API_KEYS_IN_URL=True)


@pytest.fixture(autouse=True)
def plain_site() -> Iterator[None]:
    with site():
        yield


@pytest.fixture
def ada(open_database: None) -> Iterator[User]:
    user = User.objects.create_user("ada", password="x")
    yield user
    User.objects.filter(pk=user.pk).delete()


@pytest.fixture
def guarded(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint that takes API keys, and a tool that tells who called."""
    server = make_server("guarded", authentication=[APIKeyAuthentication()])

    @tool(server=server, read_only=True)
    def whoami(ctx: Context) -> str:
        return f"{ctx.user.username} by {ctx.principal.kind} with {sorted(ctx.principal.scopes or ())}"

    return server


@pytest.fixture
def client(guarded: MCPServer, edge: str) -> Client:
    return Client(guarded, MODERN, edge)


@pytest.fixture
def made(ada: User, guarded: MCPServer) -> tuple[APIKey, str]:
    return create_key(ada, "nightly job", endpoints=["guarded"])


def call(client: Client, headers: dict[str, str], query: str = "", body: bytes | None = None) -> Answer:
    content, own = client.compose("tools/call", {"name": "whoami", "arguments": {}})
    path = f"/{client.server.path}{query}"
    return client.post(body or json.dumps(content).encode(), {**own, **headers}, path)


@pytest.mark.every_way_in
def test_a_key_of_only_tools_that_change_nothing_finds_and_calls_no_other(
    client: Client, guarded: MCPServer, ada: User
) -> None:
    tool(server=guarded, name="book")(lambda: "booked")
    row, key = create_key(ada, "report", endpoints=["guarded"], read_only=True)

    def ask(name: str) -> Any:
        content, own = client.compose("tools/call", {"name": name, "arguments": {}})
        return client.post(json.dumps(content).encode(), {**own, **bearer(key)}).json

    def names() -> set[str]:
        content, own = client.compose("tools/list", {})
        answer = client.post(json.dumps(content).encode(), {**own, **bearer(key)}).json
        return {each["name"] for each in answer["result"]["tools"]}

    assert names() >= {"whoami"}
    assert "book" not in names()
    assert ask("whoami")["result"]["content"][0]["text"].startswith("ada by api_key")
    assert ask("book")["error"]["message"].replace("book", "boat") == ask("boat")["error"]["message"]
    row.read_only = False
    row.save()
    assert "book" in names()
    assert ask("book")["result"]["content"][0]["text"] == "booked"


@pytest.mark.parametrize("sent", ["${MYSITE_MCP_KEY}", "$MYSITE_MCP_KEY", "%MYSITE_MCP_KEY%", "${env:MYSITE_MCP_KEY}"])
def test_the_name_of_a_variable_in_place_of_a_key_is_called_that(client: Client, made: Any, sent: str) -> None:
    for headers in (bearer(sent), {"x-api-key": sent}):
        answer = call(client, headers)
        assert answer.status == 401
        assert "has the name of a variable in place of its value" in answer.headers["www-authenticate"]
    assert "variable" not in call(client, bearer("mcp_key_x")).headers["www-authenticate"]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def head(headers: dict[str, str], query: str = "") -> RequestHead:
    return RequestHead("POST", headers, "testserver", lambda: True, lambda: None, query)


def assert_is_a_bad_token(answer: Answer) -> None:
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert answer.json == {
        "error": "invalid_token",
        "error_description": "The access token is invalid, expired, or not for this endpoint.",
    }


# What a key is


def test_a_key_is_recognisable_random_and_vouched_for_by_its_checksum() -> None:
    keys = {make_key() for _ in range(200)}
    assert len(keys) == 200
    assert all(re.fullmatch(r"mcp_key_[0-9A-Za-z]{49}", key) for key in keys)
    assert all(is_well_formed(key) for key in keys)


def test_a_mistyped_or_cut_off_key_is_not_well_formed() -> None:
    key = make_key()
    swapped = key[:20] + ("b" if key[20] == "a" else "a") + key[21:]
    wrong = ["", "mcp_key_", key[:-1], key + "0", key.upper(), swapped, f" {key}", key.replace("mcp_key_", "key_")]
    assert [is_well_formed(each) for each in wrong] == [False] * len(wrong)


def test_nothing_of_a_key_is_stored_but_its_hash_and_how_it_begins(made: tuple[APIKey, str]) -> None:
    row, key = made
    assert row.key_hash == hashlib.sha256(key.encode()).hexdigest()
    assert row.prefix == key[:14]
    stored = APIKey.objects.filter(pk=row.pk).values().get()
    assert all(key[14:] not in str(value) for value in stored.values())
    assert key[14:] not in f"{row!r} {row}"


# Making one


def test_a_key_that_will_not_do_is_refused_in_words(ada: User, guarded: MCPServer, subtests: pytest.Subtests) -> None:
    cases = [
        ({"endpoints": ["guarded", "gaurded"]}, "endpoints", "There is no endpoint “gaurded”. Available endpoints: "),
        ({"endpoints": []}, "endpoints", "Choose at least one endpoint"),
        ({"scopes": ["mcp", "root"]}, "scopes", "There is no scope “root”. Available scopes: mcp."),
        ({"days": 0}, "days", "from 1 to 365 days"),
        ({"days": 366}, "days", "from 1 to 365 days"),
        ({"name": "  "}, "name", "1 to 100 characters"),
        ({"name": "x" * 101}, "name", "1 to 100 characters"),
    ]
    for given, argument, words in cases:
        with subtests.test(given=given, argument=argument, words=words):
            with pytest.raises(ValidationError) as refused:
                create_key(ada, **{"name": "job", "endpoints": ["guarded"], **given})
            assert list(refused.value.message_dict) == [argument]
            assert words in refused.value.message_dict[argument][0]
            assert not APIKey.objects.exists()


def test_nobody_gets_a_key_who_may_not_sign_in(ada: User, guarded: MCPServer) -> None:
    ada.is_active = False
    with pytest.raises(ValidationError, match="is inactive"):
        create_key(ada, "job", endpoints=["guarded"])


def test_a_key_lives_ninety_days_and_has_the_scopes_of_its_endpoints_unless_said_otherwise(
    made: tuple[APIKey, str],
) -> None:
    row, _ = made
    assert abs(row.expires - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)
    assert row.scopes == ["mcp"]
    assert row.revoked is None
    assert row.last_used is None


@site(MAX_API_KEY_DAYS=30)
def test_a_key_lives_no_longer_than_the_setting_allows(ada: User, guarded: MCPServer) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    assert abs(row.expires - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    with pytest.raises(ValidationError, match="from 1 to 30 days"):
        create_key(ada, "job", endpoints=["guarded"], days=31)


def test_the_default_endpoint_is_the_default_where_it_takes_keys(ada: User, guarded: MCPServer) -> None:
    with site(AUTHENTICATION=["django_mcp.APIKeyAuthentication"]):
        assert create_key(ada, "job")[0].endpoints == ["default"]
    with pytest.raises(ValidationError, match="Choose at least one endpoint"):
        create_key(ada, "job")


# Who gets in


def test_a_key_opens_its_endpoint_in_either_header(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    for headers in (bearer(key), {"authorization": f"bEARER {key}"}, {"x-api-key": key}):
        assert call(client, headers).text == "ada by api_key with ['mcp']"


def test_what_the_principal_holds_is_not_the_key(made: tuple[APIKey, str], guarded: MCPServer) -> None:
    row, key = made
    principal = APIKeyAuthentication().authenticate(head(bearer(key)), guarded)
    assert principal is not None
    assert (principal.kind, principal.id, principal.credential) == ("api_key", str(row.pk), str(row.pk))
    assert principal.user == row.user
    assert principal.expires == row.expires
    assert principal.scopes == {"mcp"}
    assert not principal.steps_up
    fields = [getattr(principal, name) for name in principal.__slots__]
    assert key[14:] not in f"{principal!r} {fields}"


def test_no_key_is_answered_with_401_and_no_error(client: Client, made: tuple[APIKey, str]) -> None:
    for headers in ({}, {"authorization": ""}, {"authorization": "Token x"}, {"x-api-key": ""}):
        answer = call(client, headers)
        assert answer.status == 401
        assert "error=" not in answer.headers["www-authenticate"]


def expire(row: APIKey) -> None:
    APIKey.objects.filter(pk=row.pk).update(expires=timezone.now() - timedelta(seconds=1))


def deactivate(row: APIKey) -> None:
    User.objects.filter(pk=row.user_id).update(is_active=False)


SPOILT: dict[str, Callable[[APIKey], object]] = {
    "revoked": revoke_key,
    "expired": expire,
    "of an inactive user": deactivate,
    "of a deleted user": lambda row: row.user.delete(),
    "deleted": lambda row: APIKey.objects.filter(pk=row.pk).delete(),
    "of another endpoint": lambda row: APIKey.objects.filter(pk=row.pk).update(endpoints=["guarded-2"]),
    "of no endpoint": lambda row: APIKey.objects.filter(pk=row.pk).update(endpoints=[]),
}


@pytest.mark.parametrize("how", SPOILT)
def test_row_7_a_key_that_is_no_good_gets_one_and_the_same_answer(
    client: Client, made: tuple[APIKey, str], how: str
) -> None:
    row, key = made
    for headers in (bearer(key), {"x-api-key": key}):
        assert call(client, headers).status == 200
    SPOILT[how](row)
    for headers in (bearer(key), {"x-api-key": key}):
        assert_is_a_bad_token(call(client, headers))


def test_what_is_no_key_of_this_site_is_refused(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    for wrong in (make_key(), key[:-1], key + "x", "mcp_key_", key.lower()):
        assert_is_a_bad_token(call(client, bearer(wrong)))
        assert_is_a_bad_token(call(client, {"x-api-key": wrong}))
    for wrong in ("x", f"Bearer {key}", f"{key}, {key}", "é"):
        assert_is_a_bad_token(call(client, {"x-api-key": wrong}))


def test_a_bad_key_is_not_as_good_as_none(
    make_server: Callable[..., MCPServer], made: tuple[APIKey, str], edge: str
) -> None:
    client = Client(make_server("both", authentication=[APIKeyAuthentication(), AllowAny()]), MODERN, edge)
    tool(server=client.server, name="whoami")(lambda: "anybody")
    assert call(client, {}).text == "anybody"
    assert_is_a_bad_token(call(client, {"x-api-key": make_key()}))
    assert_is_a_bad_token(call(client, bearer(made[1])))


def test_a_key_with_too_little_scope_is_told_so(client: Client, ada: User, made: object) -> None:
    _, key = create_key(ada, "nothing", endpoints=["guarded"], scopes=[])
    answer = call(client, bearer(key))
    assert answer.status == 403
    assert answer.json["error"] == "insufficient_scope"


# One credential, in one place


def test_two_credentials_are_refused(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    assert call(client, {**bearer(key), "x-api-key": key}).status == 400
    assert call(client, {"authorization": "Bearer another", "x-api-key": key}).status == 400


def test_two_credentials_are_refused_where_one_is_in_the_url(
    client: Client, made: tuple[APIKey, str], subtests: pytest.Subtests
) -> None:
    for query in ["?api_key={}", "?x=1&api_key={}", "?api%5Fkey={}"]:
        with subtests.test(query=query):
            _, key = made
            with URL_KEYS:
                assert call(client, bearer(key), query.format(key)).status == 400
                assert call(client, {"x-api-key": key}, query.format(key)).status == 400


def test_row_8_a_key_in_the_url_is_not_looked_at(
    client: Client, made: tuple[APIKey, str], subtests: pytest.Subtests
) -> None:
    for query in ["?api_key={}", "?access_token={}"]:
        with subtests.test(query=query):
            answer = call(client, {}, query.format(made[1]))
            assert answer.status == 401
            assert "error=" not in answer.headers["www-authenticate"]


def test_row_8_a_key_in_a_cookie_or_body_is_not_looked_at(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    for setting in (site(), URL_KEYS):
        with setting:
            assert (
                call(client, {"cookie": f"api_key={key}; access_token={key}; authorization=Bearer {key}"}).status == 401
            )
            assert (
                call(client, {}, body=b'{"api_key": "%s", "access_token": "%s"}' % ((key.encode(),) * 2)).status == 401
            )
            form = {"content-type": "application/x-www-form-urlencoded"}
            assert call(client, form, body=b"access_token=" + key.encode()).status == 401


@URL_KEYS
def test_a_key_in_the_url_is_taken_where_the_site_wants_it(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    for query in (f"?api_key={key}", f"?a=%26api_key%3D&api_key={key}&b", f"?api_key={key.replace('_', '%5F')}"):
        assert call(client, {}, query).text.startswith("ada by api_key")


@URL_KEYS
def test_a_bad_or_repeated_key_in_the_url_is_refused(client: Client, made: tuple[APIKey, str]) -> None:
    _, key = made
    for query in (
        "?api_key=",
        "?api_key=x",
        f"?api_key={key}&api_key={key}",
        f"?api_key={key}&api_key=",
        f"?api_key={key};x",
    ):
        assert_is_a_bad_token(call(client, {}, query))
    assert_is_a_bad_token(call(client, {}, f"?api_key={make_key()}"))


def test_a_query_is_read_as_forms_are() -> None:
    assert keys_in_query("api_key=a+b&api%5fkey=%63&API_KEY=d&x=api_key=e&api_key") == ["a b", "c", ""]


# What it costs, and leaves behind


def statements(key: str, server: MCPServer) -> list[str]:
    with CaptureQueriesContext(connection) as captured, contextlib.suppress(InvalidToken):
        APIKeyAuthentication().authenticate(head(bearer(key)), server)
    return [each["sql"].partition(" ")[0] for each in captured]


def test_a_key_costs_one_query_and_one_more_when_its_use_is_to_be_written(
    made: tuple[APIKey, str], guarded: MCPServer
) -> None:
    row, key = made
    assert statements(key, guarded) == ["SELECT", "UPDATE"]
    assert statements(key, guarded) == ["SELECT"]
    APIKey.objects.update(last_used=timezone.now() - timedelta(minutes=4, seconds=50))
    assert statements(key, guarded) == ["SELECT"]
    APIKey.objects.update(last_used=timezone.now() - timedelta(minutes=5))
    assert statements(key, guarded) == ["SELECT", "UPDATE"]
    row.refresh_from_db()
    assert timezone.now() - row.last_used < timedelta(minutes=1)


def test_a_bad_key_costs_no_more(made: tuple[APIKey, str], guarded: MCPServer) -> None:
    row, key = made
    assert statements(key[:-1], guarded) == []
    assert statements(make_key(), guarded) == ["SELECT"]
    revoke_key(row)
    assert statements(key, guarded) == ["SELECT"]
    row.refresh_from_db()
    assert row.last_used is None


def test_requests_that_come_together_write_once(made: tuple[APIKey, str], guarded: MCPServer) -> None:
    from django_mcp.auth.api_keys import note_use

    row, _ = made
    first, second = (APIKey.objects.get(pk=row.pk) for _ in range(2))
    note_use(first)
    APIKey.objects.update(name="as the first left it")
    noted = APIKey.objects.get().last_used
    note_use(second)
    assert APIKey.objects.get().last_used == noted


def test_a_key_is_found_with_one_query_and_a_mistyped_one_with_none(ada: User, guarded: MCPServer) -> None:
    row, key = create_key(ada, "nightly job", endpoints=["guarded"])
    revoked_row, revoked = create_key(ada, "old job", endpoints=["guarded"])
    revoke_key(revoked_row)
    APIKey.objects.update(last_used=timezone.now())
    find = partial(APIKeyAuthentication().authenticate, server=guarded)
    with CaptureQueriesContext(connection) as queries:
        assert find(head({"x-api-key": key})).id == str(row.pk)
    assert len(queries) == 1
    for bad, asks in [(revoked, 1), (make_key(), 1), ("mcp_key_mistyped", 0), ("another kind", 0)]:
        with CaptureQueriesContext(connection) as queries, pytest.raises(InvalidToken):
            find(head({"x-api-key": bad}))
        assert len(queries) == asks
    with CaptureQueriesContext(connection) as queries:
        assert find(head({})) is None
    assert len(queries) == 0


def refuse_writes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    from django.db import OperationalError

    if sql.startswith("UPDATE"):
        raise OperationalError("attempt to write a readonly database")
    return execute(sql, params, many, context)


def test_a_database_that_cannot_be_written_to_turns_nobody_away(made: tuple[APIKey, str], guarded: MCPServer) -> None:
    _, key = made
    with connection.execute_wrapper(refuse_writes):
        assert APIKeyAuthentication().authenticate(head(bearer(key)), guarded) is not None
        with transaction.atomic():
            assert APIKeyAuthentication().authenticate(head(bearer(key)), guarded) is not None
            assert APIKey.objects.count() == 1


# Revoking


def test_revoking_ends_open_streams_and_says_so_in_the_log_without_the_key(
    made: tuple[APIKey, str], caplog: pytest.LogCaptureFixture
) -> None:
    row, key = made
    with caplog.at_level("INFO", "django_mcp"), TestCase.captureOnCommitCallbacks(execute=True):
        assert revoke_key(row)
        assert not revoke_key(row)
    assert {(each.topic, each.data) for each in Event.objects.all()} == {
        (revocation_topic("api_key", str(row.pk)), REVOKED)
    }
    assert [record.getMessage() for record in caplog.records] == [
        f"API key {key[:14]} of user {row.user_id} was revoked"
    ]


def test_making_one_is_logged_without_the_key(ada: User, guarded: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "django_mcp"):
        row, key = create_key(ada, "job", endpoints=["guarded"])
    assert f"API key {row.prefix} was created for user {ada.pk}" in caplog.text
    assert key not in caplog.text
