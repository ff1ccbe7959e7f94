"""Whose a task is: what its work may do, and who may ask for it."""

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission, User
from django.test import override_settings
from django.utils import timezone

from django_mcp import BaseAuthentication, Context, InvalidToken, MCPServer, Principal, RequestHead, tool
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import INLINE
from django_mcp.core.request import CallSource
from django_mcp.models import ClientPolicy, Event, Step, Task, TaskInput
from django_mcp.protocol.jsonrpc import Request
from django_mcp.tasks import store
from django_mcp.tasks.backends import start
from django_mcp.tasks.principal_snapshot import request_of, snapshot
from tests.behaviour import users
from tests.behaviour.users import PERMISSION, ByName, as_user
from tests.clients import MODERN
from tests.conversation import Conversation, accept
from tests.exchange import Room, eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate

Make = Callable[..., Any]
SECRET = "a-secret-that-nobody-keeps"
EXPIRES = timezone.now() + datetime.timedelta(days=1)


class Detailed(ByName):
    """Says all that can be said of a caller."""

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        found = super().authenticate(head, server)
        scopes = head.headers.get("x-scopes")
        return Principal(
            found.kind,
            found.id,
            found.user,
            None if scopes is None else frozenset(scopes.split()),
            "a-client",
            "17",
            EXPIRES,
            "x-steps-up" in head.headers,
        )


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    return make_server(authentication=[Detailed()], scopes=[])


@pytest.fixture
def as_of(room: Room, _no_tasks_left: None) -> Callable[..., TaskClient]:
    """A client in the name of a user."""

    def make(user: Any, **headers: str) -> TaskClient:
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        return TaskClient(Conversation(room, MODERN, knows_tasks()), **as_user(user), **own)

    return make


def add(server: MCPServer, body: Any, **options: Any) -> None:
    tool(server=server, name="work", **{"task": "optional", **options})(body)


def is_unknown(client: TaskClient, task_id: str) -> bool:
    """For whatever may be asked of it."""
    outcomes = [
        client.request(method, {"taskId": task_id, "inputResponses": {}})
        for method in ("tasks/get", "tasks/update", "tasks/cancel")
    ]
    told = client.request("tools/call", {"name": "get_task_result", "arguments": {"task_id": task_id}})
    assert told.result.get("isError", False) == ("was not found" in told.text)
    unknown = {"error" in outcome.response for outcome in outcomes} | {told.result.get("isError", False)}
    assert len(unknown) == 1, "they do not agree"
    return unknown.pop()


def test_the_work_is_done_in_the_name_of_the_caller(server: MCPServer, as_of: Make, make_user: Make) -> None:
    user = make_user(permissions=(PERMISSION,), first_name="Anna")
    seen: list[Any] = []

    def work(ctx: Context) -> str:
        seen.append(ctx.principal)
        return f"{ctx.user.first_name} {ctx.user.has_perm(PERMISSION)} {ctx.request.user == ctx.user}"

    add(server, work)
    assert as_of(user, x_scopes="b a").run("work") == "Anna True True"
    (principal,) = seen
    expected = Principal("test", user.username, user, frozenset("ab"), "a-client", "17", EXPIRES, steps_up=False)
    assert principal == expected


def test_the_work_is_done_within_the_sites_context_managers(
    server: MCPServer, as_of: Make, make_user: Make, settings: Any
) -> None:
    acting: list[str] = []
    changed = threading.Condition()

    @contextmanager
    def acting_user(request: Any) -> Iterator[None]:
        acting.append(request.user.username)
        yield
        with changed:
            acting.pop()
            changed.notify_all()

    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": [acting_user]}

    def work() -> str:
        return ", ".join(acting)

    add(server, work)
    user = make_user()
    assert as_of(user).run("work") == user.username
    with changed:
        assert changed.wait_for(lambda: acting == [], 10)  # the result can be read before


def test_each_run_is_in_the_tenant_of_the_call_that_a_header_names(
    server: MCPServer, as_of: Make, make_user: Make, settings: Any
) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="")

    @contextmanager
    def by_header(request: Any) -> Iterator[None]:
        token = tenant.set(request.headers.get("X-Tenant", "of nobody"))
        yield
        tenant.reset(token)

    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": [by_header]}
    runs: list[str] = []

    def work(ctx: Context) -> str:
        runs.append(tenant.get())
        ctx.confirm("Sure?", key="sure")
        return tenant.get()

    add(server, work, before_task=lambda: runs.append(tenant.get()))
    client = as_of(make_user(), x_tenant="acme")
    task_id = client.call("work")
    client.asked(task_id)
    client.update(task_id, {"sure": accept(confirm=True)})
    assert client.text(task_id) == "acme"
    assert runs == ["acme"] * 3


def test_its_request_has_what_the_site_may_find_a_tenant_by_and_no_secret(server: MCPServer, rf: Any) -> None:
    headers = {"X-Tenant": "acme", "X-Real-Ip": "192.0.2.7", "User-Agent": "tests"}
    names = ("X-Session-Token", "X-Auth", "Mcp-Session-Id", "Cookie")
    secrets = {"X-Claims": f"{SECRET}{'.' * 256}", **dict.fromkeys(names, SECRET)}
    path = f"/mcp?site=acme&access_token={SECRET}&key={SECRET}"
    came = rf.post(path, SCRIPT_NAME="/app", headers={**headers, **secrets})
    caller = Principal("test", "ann", User())
    context = Context(CallSource(server, caller, INLINE, lambda: came), Request(1, "tools/call", {}), Channel())
    kept = json.loads(json.dumps(snapshot(context)))
    assert SECRET not in str(kept)
    request = request_of(Task(caller=kept))
    assert headers.items() <= dict(request.headers).items()
    assert request.GET.dict() == {"site": "acme"}
    assert (request.path, request.path_info) == (came.path, came.path_info)
    assert request.build_absolute_uri() == "http://testserver/app/mcp?site=acme"


def test_it_knows_the_request_as_far_as_it_is_no_secret(server: MCPServer, as_of: Make, make_user: Make) -> None:
    def work(ctx: Context) -> dict[str, Any]:
        request = ctx.request
        return {
            "language": ctx.language,
            "absolute": request.build_absolute_uri("/trips/"),
            "path": request.path,
            "method": request.method,
            "cookies": request.COOKIES,
            "secret": SECRET in str(request.META),
            "client": ctx.client.name,
            "trace": ctx.trace,
        }

    add(server, work)
    client = as_of(make_user(), accept_language="de, en;q=0.5", authorization=f"Bearer {SECRET}", cookie=SECRET)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert client.ended(client.call("work", meta=trace))["structuredContent"] == {
        "language": "de",
        "absolute": "http://testserver/trips/",
        "path": "/test/mcp",
        "method": "POST",
        "cookies": {},
        "secret": False,
        "client": "tests",
        "trace": trace,
    }


@override_settings(USE_X_FORWARDED_HOST=True, SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"))
def test_behind_a_proxy_the_site_is_where_the_proxy_is(server: MCPServer, as_of: Make, make_user: Make) -> None:
    def work(ctx: Context) -> str:
        return str(ctx.request.build_absolute_uri("/trips/"))

    add(server, work)
    tool(server=server, name="direct")(work)
    client = as_of(make_user(), host="localhost", x_forwarded_host="testserver", x_forwarded_proto="https")
    direct = client.request("tools/call", {"name": "direct"}).text
    assert direct == "https://testserver/trips/"
    assert client.run("work") == direct


@pytest.mark.postgresql
def test_no_row_holds_the_credential(server: MCPServer, as_of: Make, make_user: Make) -> None:
    def work(ctx: Context) -> str:
        ctx.log("info", "Working")
        return str(ctx.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}}).action)

    add(server, work)
    client = as_of(make_user(), authorization=f"Bearer {SECRET}", cookie=f"sessionid={SECRET}")
    task_id = client.call("work")
    (key,) = client.asked(task_id)
    client.update(task_id, {key: accept(name="Anna")})
    client.become(task_id, "completed")
    for model in (Task, TaskInput, Event, Step):
        for row in model.objects.values():
            assert SECRET not in json.dumps(row, default=str)


def test_nobody_else_may_ask_for_it(server: MCPServer, as_of: Make, make_user: Make) -> None:
    add(server, lambda: "done")
    own, other = as_of(make_user()), as_of(make_user(is_superuser=True))
    task_id = own.call("work")
    own.become(task_id, "completed")
    assert is_unknown(other, task_id)
    assert not is_unknown(own, task_id)


def test_a_foreign_cancellation_stops_nothing(server: MCPServer, as_of: Make, make_user: Make, gate: Gate) -> None:
    def work() -> str:
        gate.wait()
        return "done"

    add(server, work)
    own, other = as_of(make_user()), as_of(make_user())
    task_id = own.call("work")
    gate.reached()
    assert other.request("tasks/cancel", {"taskId": task_id}).error["code"] == -32602
    gate.open()
    assert own.text(task_id) == "done"


def test_another_endpoint_does_not_know_it(server: MCPServer, make_server: Make, as_of: Make, make_user: Make) -> None:
    other = make_server("other", authentication=[Detailed()], scopes=[], source=server)
    add(server, lambda: "done")
    user = make_user()
    client = as_of(user)
    task_id = client.call("work")
    client.become(task_id, "completed")
    with Room(other, client.talk.edge) as room:
        there = TaskClient(Conversation(room, MODERN, knows_tasks()), **as_user(user))
        assert is_unknown(there, task_id)


def test_who_lost_the_permission_meanwhile_has_no_result_any_more(
    server: MCPServer, as_of: Make, make_user: Make
) -> None:
    add(server, lambda: "done", permission=PERMISSION)
    user = make_user(permissions=(PERMISSION,))
    client = as_of(user)
    task_id = client.call("work")
    client.become(task_id, "completed")
    user.user_permissions.clear()
    assert is_unknown(client, task_id)
    user.user_permissions.add(users.permission())
    assert client.text(task_id) == "done"


def test_a_client_that_lost_the_tool_has_no_result_any_more(
    server: MCPServer, as_of: Make, make_user: Make, policies: None
) -> None:
    add(server, lambda: "done")
    client = as_of(make_user())
    task_id = client.call("work")
    client.become(task_id, "completed")
    assert not is_unknown(client, task_id)
    ClientPolicy.objects.create(client_id="a-client", tools=[])
    assert is_unknown(client, task_id)


def test_who_lost_a_scope_is_told_which(server: MCPServer, as_of: Make, make_user: Make) -> None:
    add(server, lambda: "done", scopes=["write"])
    user = make_user()
    client = as_of(user, x_scopes="write")
    task_id = client.call("work")
    client.become(task_id, "completed")
    assert is_unknown(as_of(user, x_scopes="read"), task_id)
    stepping = as_of(user, x_scopes="read", x_steps_up="1")
    call = stepping.talk.begin("tasks/get", {"taskId": task_id}, stepping.headers)
    assert call.exchange.done().status == 403


def test_who_loses_the_permission_before_the_run_is_refused_in_it(
    server: MCPServer, as_of: Make, make_user: Make, gate: Gate
) -> None:
    """The first run asks; before the second one the permission is gone."""
    ran: list[str] = []

    def work(ctx: Context) -> str:
        ctx.confirm("Sure?", key="sure")
        ran.append("done")
        return "done"

    add(server, work, permission=PERMISSION)
    user = make_user(permissions=(PERMISSION,))
    client = as_of(user)
    task_id = client.call("work")
    client.asked(task_id)
    Permission.objects.filter(codename="refund_booking").delete()
    assert client.request("tasks/update", {"taskId": task_id, "inputResponses": {}}).error["code"] == -32602
    row = Task.objects.get(task_id=task_id)
    row.inputs.update(answer={"result": accept(confirm=True)})
    _go_on(row)
    row = _over(task_id)
    assert (row.status, row.error["code"]) == ("failed", -32602)
    assert ran == []


@pytest.mark.parametrize("how", ["is_active", "deleted"])
def test_who_was_deactivated_meanwhile_gets_nothing_done(
    server: MCPServer, as_of: Make, make_user: Make, how: str
) -> None:
    ran: list[str] = []

    def work(ctx: Context) -> str:
        ctx.confirm("Sure?", key="sure")
        ran.append("done")
        return "done"

    add(server, work)
    user = make_user()
    client = as_of(user)
    task_id = client.call("work")
    client.asked(task_id)
    row = Task.objects.get(task_id=task_id)
    row.inputs.update(answer={"result": accept(confirm=True)})
    if how == "deleted":
        user.delete()
        assert not Task.objects.filter(task_id=task_id).exists()
        return
    get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    _go_on(row)
    row = _over(task_id)
    assert row.status == "failed"
    assert "no longer has access" in row.error["message"]
    assert ran == []


@pytest.mark.usefixtures("_no_tasks_left")
def test_a_user_that_is_no_row_has_tasks_all_the_same(make_server: Make, edge: str) -> None:
    class Robot:
        pk = 7
        is_active = True

    class OfRobots(BaseAuthentication):
        def authenticate(self, head: RequestHead, server: object) -> Principal:
            if "x-robot" not in head.headers:
                raise InvalidToken
            return Principal("robot", "7", Robot())

    server = make_server("robots", authentication=[OfRobots()])

    def work(ctx: Context) -> str:
        return f"{ctx.principal.kind} {ctx.principal.id}"

    add(server, work)
    with Room(server, edge) as room:
        client = TaskClient(Conversation(room, MODERN, knows_tasks()), **{"x-robot": "1"})
        assert client.run("work") == "robot 7"


def _go_on(row: Task) -> None:
    """What an answer does, for a caller who may not give it any more."""
    Task.objects.filter(pk=row.pk).update(status=Task.Status.WORKING, worker="", lease=store.lease_end())
    start(row)


def _over(task_id: str) -> Task:
    return eventually(
        lambda: Task.objects.filter(task_id=task_id, status__in=["failed", "completed"]).first(), "it does not end"
    )
