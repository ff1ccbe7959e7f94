"""Streams and tasks of credentials that end without a signal: by SQL, ``update()`` and deletion."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session as DjangoSession
from django.core.cache import cache
from django.test import RequestFactory, override_settings
from django.utils import timezone

from django_mcp import (
    APIKeyAuthentication,
    BaseAuthentication,
    Context,
    MCPServer,
    OAuth2Authentication,
    Principal,
    RequestHead,
    SessionAuthentication,
    tool,
)
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from django_mcp.core.resources import find_ended, refresh_principal
from django_mcp.models import APIKey, ClientPolicy, Task
from django_mcp.pubsub import follower, publish
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import Exchange, Room, eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

Make = Callable[..., Any]
TOOLS = "notifications/tools/list_changed"
LISTEN = {"notifications": {"toolsListChanged": True}}
SOON = {"KEEP_ALIVE_INTERVAL": 0.1, "POLL_INTERVAL": 0.02}
PAST = timezone.now() - datetime.timedelta(days=1)


class OfTheSite(BaseAuthentication):
    """Recognises callers by a header, as long as they are in a list of its own."""

    blocking = False
    left: set[str] = set()
    fails: Exception | None = None

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-user")
        return Principal("site", name, AnonymousUser()) if name and name not in self.left else None

    def find_ended(self, principals: Any, server: object) -> list[Principal]:
        if self.fails is not None:
            raise self.fails
        return [each for each in principals if each.kind == "site" and each.id in self.left]


@pytest.fixture
def of_the_site() -> Iterator[OfTheSite]:
    yield OfTheSite()
    OfTheSite.left, OfTheSite.fails = set(), None


@pytest.fixture
def server(make_server: Make, site: None, of_the_site: OfTheSite) -> MCPServer:
    server = make_server(authentication=[OAuth2Authentication(), APIKeyAuthentication(), of_the_site], scopes=[])
    tool(server=server, name="look")(lambda: "seen")
    return server


@pytest.fixture(autouse=True)
def _soon(site: None) -> Iterator[None]:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **SOON}):
        yield


@pytest.fixture
def listen(room: Room) -> Make:
    """Open a stream with a credential."""

    def begin(version: str = MODERN, **headers: str) -> Exchange:
        return begin_listening(room, version, {name.replace("_", "-"): value for name, value in headers.items()})

    return begin


def begin_listening(room: Room, version: str, headers: Mapping[str, str]) -> Exchange:
    talk = Conversation(room, version, headers=headers).open()
    stream = talk.begin("subscriptions/listen", LISTEN).exchange if version == MODERN else talk.get()
    stream.wait(lambda: stream.events, "the stream does not begin")
    return stream


def goes_on(server: MCPServer, stream: Exchange) -> bool:
    server.notify_list_changed("tools")
    return stream.wait(lambda: TOOLS in methods(stream), "nothing is told")


def methods(stream: Exchange) -> list[str]:
    return [event.message["method"] for event in stream.events if event.message and "method" in event.message]


def delete_by_sql(model: Any, **which: Any) -> None:
    rows = model._base_manager.filter(**which)
    rows._raw_delete(rows.db)


KEY_ENDS: dict[str, Callable[[APIKey], Any]] = {
    "revoked by update()": lambda row: APIKey.objects.filter(pk=row.pk).update(revoked=timezone.now()),
    "expired by update()": lambda row: APIKey.objects.filter(pk=row.pk).update(expires=PAST),
    "other scopes by update()": lambda row: APIKey.objects.filter(pk=row.pk).update(scopes=["travel:write"]),
    "other endpoints by update()": lambda row: APIKey.objects.filter(pk=row.pk).update(endpoints=["elsewhere"]),
    "deleted by a queryset": lambda row: APIKey.objects.filter(pk=row.pk).delete(),
    "deleted by SQL": lambda row: delete_by_sql(APIKey, pk=row.pk),
    "user inactive by update()": lambda row: get_user_model().objects.filter(pk=row.user_id).update(is_active=False),
    "user deleted": lambda row: get_user_model().objects.filter(pk=row.user_id).delete(),
    "given to another user": lambda row: APIKey.objects.filter(pk=row.pk).update(
        user=get_user_model().objects.exclude(pk=row.user_id).first()
    ),
}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("end", KEY_ENDS)
def test_a_stream_ends_with_its_key(server: MCPServer, listen: Make, make_user: Make, end: str, version: str) -> None:
    rows, keys = zip(
        *[create_key(make_user(), "k", endpoints=["test"], scopes=["travel:read"]) for _ in "ab"], strict=True
    )
    mine, other = (listen(version, authorization=f"Bearer {key}") for key in keys)
    KEY_ENDS[end](rows[0])
    assert mine.done()
    assert goes_on(server, other)


@pytest.fixture
def streams(server: MCPServer, room: Room) -> Make:
    """All other streams of a client of 2025-11-25 with a header."""

    def open_all(**headers: str) -> dict[str, Exchange]:
        talk = Conversation(room, LEGACY, headers=headers).open()
        asking = talk.begin("tools/call", {"name": "ask_now", "arguments": {}})
        while (message := asking.next()) is not None and message.get("method") != "elicitation/create":
            pass
        task = talk.request("tools/call", {"name": "ask", "arguments": {}, "task": {}}).result["task"]
        result = talk.begin("tasks/result", {"taskId": task["taskId"]})
        while (message := result.next()) is not None and message.get("method") != "elicitation/create":
            pass
        return {"a call that asks": asking.exchange, "tasks/result": result.exchange, "GET": talk.get().begun()}

    return open_all


@pytest.mark.usefixtures("work", "_no_tasks_left")
@pytest.mark.parametrize("end", ["revoked by update()", "deleted by SQL", "user inactive by update()"])
def test_all_streams_of_a_key_end_with_it(server: MCPServer, streams: Make, make_user: Make, end: str) -> None:
    def ask_now(ctx: Context) -> str:
        return str(ctx.confirm("Really?"))

    tool(server=server)(ask_now)
    row, key = create_key(make_user(), "k", endpoints=["test"], scopes=["travel:read"])
    opened = streams(authorization=f"Bearer {key}")
    assert [name for name, stream in opened.items() if stream.ended] == []
    KEY_ENDS[end](row)
    for stream in opened.values():
        assert stream.done().status == 200


TOKEN_ENDS: dict[str, Callable[[Any], Any]] = {
    "deleted": lambda row: row.delete(),
    "deleted by SQL": lambda row: delete_by_sql(type(row), pk=row.pk),
    "expired by update()": lambda row: type(row).objects.filter(pk=row.pk).update(expires=PAST),
    "other scopes by update()": lambda row: type(row).objects.filter(pk=row.pk).update(scope="travel:write"),
    "other endpoint by update()": lambda row: (
        type(row).objects.filter(pk=row.pk).update(resource=["https://a.example/"])
    ),
    "application deleted": lambda row: row.application.delete(),
    "client blocked by update()": lambda row: ClientPolicy.objects.update(blocked=True),
    "client limited by update()": lambda row: ClientPolicy.objects.update(scopes=[]),
}


@pytest.mark.parametrize("end", TOKEN_ENDS)
def test_a_stream_ends_with_its_token(
    server: MCPServer,
    listen: Make,
    make_token: Make,
    make_application: Make,
    application: Any,
    end: str,
) -> None:
    ClientPolicy.objects.create(client_id=application.client_id, scopes=["travel:write"])
    mine = listen(authorization=f"Bearer {make_token()}")
    other = listen(authorization=f"Bearer {make_token(application=make_application())}")
    TOKEN_ENDS[end](get_access_token_model().objects.get(application=application))
    assert mine.done()
    assert goes_on(server, other)


@pytest.mark.parametrize("end", ["service account", "grant type"])
def test_a_stream_ends_with_the_service_account_of_its_client(
    server: MCPServer,
    listen: Make,
    make_token: Make,
    make_application: Make,
    user: Any,
    make_user: Make,
    end: str,
) -> None:
    service = make_application(client_type="confidential", authorization_grant_type="client-credentials")
    ClientPolicy.objects.create(client_id=service.client_id, service_account=user)
    mine = listen(authorization=f"Bearer {make_token(application=service)}")
    if end == "service account":
        ClientPolicy.objects.update(service_account=make_user())
    else:
        get_application_model().objects.filter(pk=service.pk).update(authorization_grant_type="authorization-code")
    assert mine.done()


def test_a_stream_ends_when_a_sites_own_class_says_so(server: MCPServer, listen: Make, of_the_site: OfTheSite) -> None:
    mine, other = listen(x_user="ann"), listen(x_user="ben")
    OfTheSite.left = {"ann"}
    assert mine.done()
    assert goes_on(server, other)


def test_streams_end_when_it_cannot_be_told_whether_they_should(
    server: MCPServer, listen: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Their clients come back, and are let in or not."""
    stream = listen(x_user="ann")
    OfTheSite.fails = LookupError("of the site")
    assert stream.done()
    assert "of the site" in caplog.text


def test_a_stream_ends_with_the_password_of_its_session(make_user: Make) -> None:
    ann = make_user(password="before")
    server = MCPServer("of-sessions", authentication=[SessionAuthentication()])
    principal = Principal("session", str(ann.pk), ann)
    assert find_ended([principal], server) == []
    get_user_model().objects.filter(pk=ann.pk).update(password="after")
    assert find_ended([principal], server) == [principal]


SECRET = "abcdefghijklmnopqrstuvwxyzABCDEF"
ENGINES = ("db", "cached_db", "cache", "file", "signed_cookies")


def logged_in(user: Any) -> tuple[Any, dict[str, str]]:
    """A session of the site, and what its pages send."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    session.save()
    cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}; csrftoken={SECRET}"
    return session, {"cookie": cookie, "origin": "http://testserver", "x-csrftoken": SECRET}


@pytest.fixture
def of_sessions(make_server: Make, open_database: None, tmp_path: Any) -> Iterator[MCPServer]:
    own = {"DJANGO_MCP": {**settings.DJANGO_MCP, "BASE_URL": "http://testserver"}, "SESSION_FILE_PATH": str(tmp_path)}
    with override_settings(**own):
        server = make_server(authentication=[SessionAuthentication()], scopes=[])
        tool(server=server, name="look")(lambda: "seen")
        yield server
    DjangoSession.objects.all().delete()
    cache.clear()


def expire_by_clearsessions(session: Any, user: Any) -> None:
    DjangoSession.objects.filter(session_key=session.session_key).update(expire_date=PAST)
    session.clear_expired()


def change_password(session: Any, user: Any) -> None:
    get_user_model().objects.filter(pk=user.pk).update(password="another")


SESSION_ENDS: dict[str, tuple[Callable[[Any, Any], Any], set[str]]] = {
    "deleted, as by a logout elsewhere": (lambda session, _: session.delete(), {"db", "cached_db", "cache", "file"}),
    "deleted by SQL": (lambda session, _: delete_by_sql(DjangoSession, session_key=session.session_key), {"db"}),
    "expired": (
        lambda session, _: DjangoSession.objects.filter(session_key=session.session_key).update(expire_date=PAST),
        {"db"},
    ),
    "expired by clearsessions": (expire_by_clearsessions, {"db"}),
    "another key, as by another login": (lambda session, _: session.cycle_key(), {"db", "cached_db", "cache", "file"}),
    "password": (change_password, {*ENGINES}),
    "user inactive by update()": (
        lambda _, user: get_user_model().objects.filter(pk=user.pk).update(is_active=False),
        {*ENGINES},
    ),
    "user deleted by SQL": (lambda _, user: delete_by_sql(get_user_model(), pk=user.pk), {*ENGINES}),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_ends_with_its_session(
    of_sessions: MCPServer, make_user: Make, engine: str, subtests: pytest.Subtests
) -> None:
    with (
        override_settings(SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}"),
        Room(of_sessions, "asgi") as room,
    ):
        _, headers = logged_in(make_user())
        other = begin_listening(room, MODERN, headers)
        for name, (end, engines) in SESSION_ENDS.items():
            if engine in engines:
                with subtests.test(name):
                    user = make_user()
                    session, headers = logged_in(user)
                    mine = [begin_listening(room, version, headers) for version in (MODERN, LEGACY)]
                    end(session, user)
                    assert all(stream.done() for stream in mine)
        assert goes_on(of_sessions, other)


def test_a_stream_of_a_cookie_that_is_the_session_ends_when_it_expires(of_sessions: MCPServer, make_user: Make) -> None:
    with (
        override_settings(SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies"),
        Room(of_sessions, "asgi") as room,
    ):
        stream = begin_listening(room, MODERN, logged_in(make_user())[1])
        with override_settings(SESSION_COOKIE_AGE=-1):
            assert stream.done()


def test_a_stream_goes_on_when_its_session_is_extended(of_sessions: MCPServer, make_user: Make) -> None:
    with Room(of_sessions, "asgi") as room:
        session, headers = logged_in(make_user())
        stream = begin_listening(room, MODERN, headers)
        session["visits"] = 1
        session.save()
        looked = room.call(lambda: {**last_checks()})
        eventually(lambda: room.call(last_checks) != looked, "nobody looks at the session")
        assert goes_on(of_sessions, stream)


def last_checks() -> dict[Any, float]:
    return {key: time for found in follower._followers.values() for key, time in found._last_check.items()}


def test_a_password_that_was_changed_while_a_call_waited_is_noticed_although_its_user_was_read_again(
    of_sessions: MCPServer, make_user: Make
) -> None:
    user = make_user()
    _, headers = logged_in(user)
    request = RequestFactory().post("/test/mcp", headers=headers)
    head = RequestHead("POST", headers, "testserver", lambda: False, lambda: request)
    principal = SessionAuthentication().authenticate(head, of_sessions)
    assert principal is not None
    renewed = refresh_principal(principal, of_sessions)
    assert renewed is not None
    change_password(None, user)
    assert refresh_principal(renewed, of_sessions) is None


def test_the_sessions_of_all_streams_are_looked_up_with_few_queries_and_are_not_shown(
    of_sessions: MCPServer, make_user: Make, django_assert_num_queries: Make
) -> None:
    callers, sessions = [], []
    for _ in range(20):
        session, headers = logged_in(make_user())
        request = RequestFactory().post("/test/mcp", headers=headers)
        head = RequestHead("POST", headers, "testserver", lambda: False, lambda request=request: request)
        callers.append(SessionAuthentication().authenticate(head, of_sessions))
        sessions.append(session)
    with django_assert_num_queries(3):  # users twice, and sessions
        assert find_ended(callers, of_sessions) == []
    sessions[3].delete()
    assert find_ended(callers, of_sessions) == [callers[3]]
    shown = f"{callers[0]!r} {dataclasses.asdict(callers[0])}"
    assert sessions[0].session_key not in shown


def test_nothing_is_told_after_a_credential_was_found_to_have_ended(
    server: MCPServer, listen: Make, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before, and waits in the same turn of the event loop."""
    stream = listen(x_user="ann")

    def end_with_a_notice_waiting() -> None:
        (reader,) = [each for each in follower._followers.values() if each._last_check]
        (subscription,) = reader._last_check
        entry = '{"method": "notifications/tools/list_changed", "params": {}}'
        subscription.put(follower.Entry(subscription.since + 1, publish.server_topic(server), entry))
        subscription.revoke()

    room.call(end_with_a_notice_waiting)
    assert TOOLS not in methods(stream.done())


def test_the_credentials_of_all_streams_are_looked_up_with_few_queries(
    server: MCPServer,
    make_user: Make,
    django_assert_num_queries: Make,
) -> None:
    ann = make_user()
    rows = [create_key(ann, "k", endpoints=["test"], scopes=["travel:read"])[0] for _ in range(50)]
    callers = [
        Principal("api_key", str(row.pk), ann, frozenset(row.scopes), credential=str(row.pk), expires=row.expires)
        for row in rows
    ]
    APIKey.objects.filter(pk=rows[7].pk).update(revoked=timezone.now())
    with django_assert_num_queries(2):
        assert find_ended(callers, server) == [callers[7]]


# Tasks


@pytest.fixture
def work(server: MCPServer, gate: Gate) -> Gate:
    """A tool whose task runs until it is stopped or the gate opens, and one that waits for its client."""

    async def run(ctx: Context) -> str:
        await gate.await_()
        return "ended"

    tool(server=server, name="run", task="required")(run)

    def ask(ctx: Context) -> str:
        ctx.confirm("Really?")
        return "asked"

    tool(server=server, name="ask", task="required")(ask)
    return gate


@pytest.mark.parametrize(
    "end", ["revoked by update()", "deleted by SQL", "user inactive by update()", "deleted by a queryset"]
)
@pytest.mark.usefixtures("_no_tasks_left")
def test_tasks_end_with_their_key(room: Room, make_user: Make, work: Gate, end: str) -> None:
    """Those that run, and those that wait; the tasks of others go on."""
    (row, mine), (_, other) = (create_key(make_user(), "k", endpoints=["test"], scopes=["travel:read"]) for _ in "ab")
    mine_, other_ = (
        TaskClient(Conversation(room, MODERN, knows_tasks(), headers={"authorization": f"Bearer {key}"}))
        for key in (mine, other)
    )
    ended = [mine_.call("run"), mine_.call("ask")]
    kept = [other_.call("run"), other_.call("ask")]
    work.reached()
    mine_.become(ended[1], "input_required")
    KEY_ENDS[end](row)

    def states(ids: list[str]) -> set[str]:
        return set(Task.objects.filter(task_id__in=ids).values_list("status", flat=True))

    eventually(lambda: states(ended) == {"cancelled"}, "the tasks go on")
    assert states(kept) <= {"working", "input_required"}


@pytest.mark.usefixtures("_no_tasks_left")
def test_a_task_of_a_sites_own_caller_ends_with_the_credential(room: Room, work: Gate) -> None:
    client = TaskClient(Conversation(room, MODERN, knows_tasks(), headers={"x-user": "ann"}))
    task_id = client.call("run")
    work.reached()
    OfTheSite.left = {"ann"}
    eventually(lambda: Task.objects.get(task_id=task_id).status == "cancelled", "it goes on")
