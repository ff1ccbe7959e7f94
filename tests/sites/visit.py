"""Serve a site and visit it as clients do, over HTTP at both edges: ``python -m tests.sites.visit uuid_users``.

Prints a JSON object: what was wrong, by edge and visit. Each visit is a function below, and sees what a client would.
"""

import datetime
import hashlib
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from importlib import import_module
from typing import Any

from tests.schemas import refused

MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"
APP = "text/html;profile=mcp-app"
WITHIN = 20.0
Sent = tuple[int, dict[str, str], Any]


class Endpoint:
    """A client of the endpoint at one edge.

    Args:
        port: where it is served.
        headers: of each request, such as a credential.
        below: the path of its host that the site is below, which a proxy has taken away.
    """

    def __init__(self, port: int, headers: dict[str, str] | None = None, below: str = "") -> None:
        self.port, self.headers, self.below = port, headers or {}, below

    def having(self, **headers: str) -> "Endpoint":
        return Endpoint(self.port, {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}, self.below)

    def http(self, verb: str, path: str, body: Any = None, **headers: str) -> Sent:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        data = None if body is None else json.dumps(body).encode()
        given = {"Host": "localhost", "Content-Type": "application/json", **self.headers}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("Accept", "application/json, text/event-stream")
        try:
            connection.request(verb, path, data, given)
            response = connection.getresponse()
            content = response.read().decode()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        if found.get("content-type", "").startswith("text/event-stream"):
            lines = [line[6:] for line in content.splitlines() if line.startswith("data: {")]
            return response.status, found, [json.loads(line) for line in lines]
        is_json = found.get("content-type", "").startswith("application/json")
        return response.status, found, json.loads(content) if is_json and content else content

    def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        version: str = MODERN,
        path: str = "/mcp",
        apps: bool = False,
        **headers: str,
    ) -> Sent:
        given = dict(params or {})
        sent = {"MCP-Protocol-Version": version, **headers}
        if version == MODERN:
            extensions = {META + "tasks": {}, **({META + "ui": {"mimeTypes": [APP]}} if apps else {})}
            capabilities = {"elicitation": {"form": {}, "url": {}}, "extensions": extensions}
            info = {"name": "visitor", "version": "1"}
            given["_meta"] = {
                META + "protocolVersion": MODERN,
                META + "clientInfo": info,
                META + "clientCapabilities": capabilities,
                **given.get("_meta", {}),
            }
            sent["Mcp-Method"] = method
            if name := given.get("name") or given.get("uri") or given.get("taskId"):
                sent["Mcp-Name"] = str(name)
        return self.http("POST", path, {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}, **sent)

    def result(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        status, _, body = self.request(method, params, **options)
        message = body[-1] if isinstance(body, list) else body
        assert (status, "result" in message) == (200, True), f"{method}: {status} {body}"
        return message["result"]

    def call(self, tool: str, /, **arguments: Any) -> str:
        return text(self.result("tools/call", {"name": tool, "arguments": arguments}))


def text(result: dict[str, Any]) -> str:
    said = "\n".join(block.get("text", "") for block in result["content"])
    assert not result.get("isError"), said
    return said


def eventually(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WITHIN
    while not (value := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return value


# Who calls


class Site:
    """The people of the site, and the credentials they have."""

    def __init__(self) -> None:
        from django.contrib.auth import get_user_model

        model = get_user_model()
        self.ann = model.objects.create_superuser(**person("ann"))
        self.ben = model.objects.create_user(**person("ben"))

    def key(self, user: Any) -> tuple[Any, str]:
        from django_mcp.auth.api_keys import create_key

        return create_key(user, f"of a visit {time.monotonic()}", endpoints=["default", "research"])

    def token(self, user: Any) -> str:
        from django.urls import get_script_prefix
        from django.utils import timezone
        from oauth2_provider.models import get_access_token_model, get_application_model

        application, _ = get_application_model().objects.get_or_create(
            name="visitor",
            defaults={
                "client_type": "public",
                "authorization_grant_type": "authorization-code",
                "redirect_uris": "http://localhost/back",
            },
        )
        token = f"token-{time.monotonic()}"
        get_access_token_model().objects.create(
            user=user,
            application=application,
            token=token,
            token_checksum=hashlib.sha256(token.encode()).hexdigest(),
            expires=timezone.now() + datetime.timedelta(hours=1),
            scope="shop",
            resource=[f"http://localhost{get_script_prefix()}mcp"],
        )
        return token


def person(name: str) -> dict[str, str]:
    from django.contrib.auth import get_user_model

    return {get_user_model().USERNAME_FIELD: name, "email": f"{name}@shop.example", "password": name}


# Visits: ``ben`` calls with a key of his


def calls_write_and_read(site: Site, ben: Endpoint) -> None:
    assert ben.call("order", name="lamp").startswith("Order ")
    assert int(ben.call("count_orders")) >= 1
    assert ben.call("hours") == "Open from nine to five."


def a_job_of_a_view_finds_its_row_as_at_its_url(site: Site, ben: Endpoint) -> None:
    from django.db import connections

    is_atomic = any(each.settings_dict.get("ATOMIC_REQUESTS") for each in connections.all())
    assert ben.call("queue_order", name="queued lamp") == ("missing" if is_atomic else "found")


def addresses_are_those_of_the_site(site: Site, ben: Endpoint) -> None:
    """A site that is below a path of its host has that path in its addresses."""
    for tool in ("address", "address_at_once"):
        said = ben.call(tool)
        assert said.startswith(f"{ben.below}/"), f"{tool} says {said}"
        assert said.endswith("admin/login/"), said


def calls_of_async_tools_run_side_by_side(site: Site, ben: Endpoint) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: ben.call("sleep", seconds=0.5), range(4))) == {"slept"}
    assert time.monotonic() - started < 1.7, "they waited for one another"


def calls_at_once_do_not_hang_the_site(site: Site, ben: Endpoint) -> None:
    with ThreadPoolExecutor(8) as pool:
        orders = list(pool.map(lambda number: ben.call("order", name=f"chair {number % 3}"), range(16)))
    assert len(set(orders)) == 16
    status, _, _ = ben.http("GET", "/admin/login/")
    assert status in {200, 302}, f"the site's own page: {status}"


def a_session_is_kept_and_ended(site: Site, ben: Endpoint) -> None:
    started = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "visitor", "version": "1"}}
    status, headers, body = ben.request("initialize", started, version=LEGACY)
    assert status == 200, body
    session = headers["mcp-session-id"]
    for _ in range(2):
        listed = ben.result("tools/list", version=LEGACY, Mcp_Session_Id=session)
        assert "order" in {each["name"] for each in listed["tools"]}
    status, _, _ = ben.http("DELETE", "/mcp", Mcp_Session_Id=session, MCP_Protocol_Version=LEGACY)
    assert status in {200, 204}, status
    status, _, _ = ben.request("tools/list", version=LEGACY, Mcp_Session_Id=session)
    assert status == 404, "an ended session is gone"


def a_key_opens_until_it_is_revoked(site: Site, ben: Endpoint) -> None:
    from django_mcp.auth.api_keys import revoke_key

    row, key = site.key(site.ben)
    caller = ben.having(Authorization=f"Bearer {key}")
    assert caller.call("count_orders")
    revoke_key(row)
    eventually(lambda: caller.request("tools/list")[0] == 401, "a revoked key still opens")


def a_token_opens_and_says_where_to_get_one(site: Site, ben: Endpoint) -> None:
    stranger = Endpoint(ben.port, below=ben.below)
    status, headers, _ = stranger.request("tools/list")
    assert status == 401, status
    assert "resource_metadata=" in headers["www-authenticate"]
    status, _, document = stranger.http("GET", f"/.well-known/oauth-protected-resource{ben.below}/mcp")
    assert status == 200, (status, document)
    caller = stranger.having(Authorization=f"Bearer {site.token(site.ben)}")
    assert caller.call("order", name="token").startswith("Order ")


def an_approved_call_runs_once(site: Site, ben: Endpoint) -> None:
    from django_mcp.approvals.decisions import approve
    from django_mcp.models import Approval

    params = {"name": "refund", "arguments": {"name": f"lamp {time.monotonic()}"}}
    _, _, body = ben.request("tools/call", params)
    assert "was refunded" not in json.dumps(body), "it ran unasked"
    waiting = Approval.objects.order_by("pk").last()
    assert waiting is not None, body
    assert waiting.user == site.ben
    assert approve(waiting, site.ann)
    first = body[-1] if isinstance(body, list) else body
    if first["result"].get("resultType") == "task":  # which runs now
        assert "was refunded" in text(finished(ben, first["result"]["taskId"]))
    else:
        assert "was refunded" in text(ben.result("tools/call", params))


def an_approver_is_as_the_primary_knows_them(site: Site, ben: Endpoint) -> None:
    from django.contrib.auth import get_user_model
    from django.core.exceptions import PermissionDenied

    from django_mcp.approvals.decisions import approve
    from django_mcp.models import Approval

    ben.request("tools/call", {"name": "refund", "arguments": {"name": f"vase {time.monotonic()}"}})
    waiting = Approval.objects.order_by("pk").last()
    assert waiting is not None
    model = get_user_model()
    cleo = model(is_superuser=True, is_active=True, **{model.USERNAME_FIELD: f"cleo-{time.monotonic()}"})
    cleo.save()  # a replica does not have her yet
    assert approve(waiting, cleo)
    ben.request("tools/call", {"name": "refund", "arguments": {"name": f"bowl {time.monotonic()}"}})
    waiting = Approval.objects.order_by("pk").last()
    site.ann.is_active = False
    site.ann.save()  # a replica has her as she was
    try:
        approve(waiting, site.ann)
    except PermissionDenied:
        return
    finally:
        site.ann.is_active = True
        site.ann.save()
    raise AssertionError("somebody who left approved a call")


def an_approver_finds_the_page(site: Site, ben: Endpoint) -> None:
    from django.test import Client

    from django_mcp.approvals.messages import page_url
    from django_mcp.models import Approval

    ben.request("tools/call", {"name": "refund", "arguments": {"name": f"page {time.monotonic()}"}})
    waiting = Approval.objects.order_by("pk").last()
    browser = Client(headers={"host": "localhost"})
    browser.force_login(site.ann)
    address = page_url(waiting)
    assert address, "no address"
    page = browser.get(address.removeprefix(f"http://localhost{ben.below}"))
    assert page.status_code == 200, f"{address}: {page.status_code}"


def a_caller_finds_a_page_of_their_call(site: Site, ben: Endpoint) -> None:
    from django.test import Client

    _, _, body = ben.request("tools/call", {"name": "refund", "arguments": {"name": f"mine {time.monotonic()}"}})
    (address,) = set(re.findall(r'http://localhost[^\s"\\]+', json.dumps(body)))
    assert address.startswith(f"http://localhost{ben.below}/mcp/approvals/"), address
    browser = Client(headers={"host": "localhost"})
    browser.force_login(site.ben)
    page = browser.get(address.removeprefix(f"http://localhost{ben.below}"))
    assert page.status_code == 200, f"{address}: {page.status_code}"
    browser.force_login(site.ann)
    page = browser.get(address.removeprefix(f"http://localhost{ben.below}"))
    assert (page.status_code, page["Location"].startswith(f"{ben.below}/")) == (302, True), page
    found = browser.get(page["Location"].removeprefix(ben.below))
    assert found.status_code == 200, f"{page['Location']}: {found.status_code}"


def a_question_is_answered(site: Site, ben: Endpoint) -> None:
    params = {"name": "cancel_order", "arguments": {}}
    asked = ben.result("tools/call", params)
    (name,) = asked["inputRequests"]
    answers = {name: {"action": "accept", "content": {"confirm": True, "confirmed": True, "answer": True}}}
    schema = asked["inputRequests"][name]["params"]["requestedSchema"]["properties"]
    answers[name]["content"] = dict.fromkeys(schema, True)
    again = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
    assert text(ben.result("tools/call", again)) == "Cancelled"


def a_task_comes_to_its_end(site: Site, ben: Endpoint) -> None:
    made = ben.result("tools/call", {"name": "stocktake", "arguments": {}})
    if made.get("resultType") == "task":
        made = finished(ben, made["taskId"])
    assert int(text(made)) >= 1


def finished(ben: Endpoint, task: str) -> dict[str, Any]:
    def ended() -> Any:
        found = ben.result("tasks/get", {"taskId": task})
        assert found["status"] not in {"failed", "cancelled"}, found
        return found.get("result")

    return eventually(ended, "the task does not end")


def a_stream_hears_of_a_row(site: Site, ben: Endpoint) -> None:
    from tests.sites.shop.models import Item

    item, _ = Item.objects.get_or_create(name="heard of")
    found = json.loads(ben.call("search_items", query="heard of"))
    uri = found["rows"][0]["uri"]
    listening = {"notifications": {"resourceSubscriptions": [uri]}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {**listening, "_meta": meta()}}
    connection = HTTPConnection("127.0.0.1", ben.port, timeout=WITHIN)
    headers = {"Host": "localhost", "Content-Type": "application/json", "Accept": "text/event-stream", **ben.headers}
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    connection.request("POST", "/mcp", json.dumps(body), headers)
    response = connection.getresponse()
    try:
        if response.status == 404:
            assert b"needs an ASGI server" in response.read(), "under WSGI nobody can listen"
            return
        assert response.status == 200, response.read()
        read: list[str] = []
        while "acknowledged" not in "".join(read):
            line = response.readline().decode()
            assert line, f"the stream ended: {read}"
            read.append(line)
        item.price = 5
        item.save()
        while "resources/updated" not in "".join(read):
            line = response.readline().decode()
            assert line, f"the stream ended: {read}"
            read.append(line)
    finally:
        connection.close()


def meta() -> dict[str, Any]:
    info = {"name": "visitor", "version": "1"}
    return {META + "protocolVersion": MODERN, META + "clientInfo": info, META + "clientCapabilities": {}}


def the_log_knows_who_called(site: Site, ben: Endpoint) -> None:
    from django_mcp.models import RequestLog

    name = f"logged {time.monotonic()}"
    ben.call("order", name=name)
    row = RequestLog.objects.filter(name="order", user=site.ben).order_by("-pk").first()
    assert row is not None, "no row"
    assert row.arguments == {"name": name}, row.arguments
    assert row.outcome == "ok"
    now = datetime.datetime.now(datetime.UTC)
    called = row.started_at if row.started_at.tzinfo else row.started_at.astimezone(datetime.UTC)
    assert abs((now - called).total_seconds()) < 60, f"{row.started_at} is not now"


def rows_are_found_and_read(site: Site, ben: Endpoint) -> None:
    from tests.sites.shop.models import Book

    Book.objects.get_or_create(name="Emma", defaults={"pages": 400})
    (row,) = json.loads(ben.call("search_books", query="emma"))["rows"]
    assert row["name"] == "Emma", row
    read = ben.result("resources/read", {"uri": row["uri"]})
    assert "400" in read["contents"][0]["text"]
    items = json.loads(ben.call("search_items", order_by="-added"))["rows"]
    moment = items[0]["added"]
    assert moment.endswith(("Z", "+00:00")) or datetime.datetime.fromisoformat(moment).tzinfo is not None, moment
    since = json.loads(ben.call("search_items", added__gte=moment))["rows"]
    assert items[0]["uri"] in {each["uri"] for each in since}
    assert int(ben.call("ordered_since", when=moment)) >= 0


def apps_show_results_forms_and_rows(site: Site, ben: Endpoint) -> None:
    from tests.sites.shop.models import Item

    lamp, _ = Item.objects.get_or_create(name="shown lamp")

    def shown(name: str, /, **arguments: Any) -> str:
        result = ben.result("tools/call", {"name": name, "arguments": arguments}, apps=True)
        html = result["_meta"]["django-mcp/html"]
        assert not re.search(r"""(?:src|href)=["']/(?!/)""", html), f"an address without its host: {html}"
        return html

    receipt = shown("show_item", name=lamp.name)
    assert f"<h1>{lamp.name}</h1>" in receipt, receipt
    assert f'href="http://localhost{ben.below}/static/shop/receipt.css"' in receipt, receipt
    assert f'href="http://localhost{ben.below}/' in receipt.partition("<a ")[2], receipt
    page = ben.result("resources/read", {"uri": "ui://shop/receipt.html"}, apps=True)["contents"][0]
    assert page["text"].lower().startswith("<!doctype html>"), page
    assert page["_meta"]["ui"]["csp"]["resourceDomains"] == ["http://localhost"], page["_meta"]

    name = f"shelf {time.monotonic()}"
    form = shown("stock_item_form", name=name)
    assert 'data-mcp-tool="stock_item"' in form, form
    assert f'value="{name}"' in form, form
    assert (
        "errorlist"
        in ben.request(
            "tools/call", {"name": "stock_item", "arguments": {"name": lamp.name, "price": "2.00"}}, apps=True
        )[2]["result"]["_meta"]["django-mcp/html"]
    )
    ben.result("tools/call", {"name": "stock_item", "arguments": {"name": name, "price": "2.00"}}, apps=True)
    assert Item.objects.filter(name=name).exists()

    table = shown("search_items", query=name)
    assert table.count(name) >= 1, table
    assert "<table" in table, table
    (row,) = json.loads(ben.call("search_items", query=name))["rows"]
    assert name in shown("get_item", pk=row["pk"])


def the_connector_searches_and_fetches(site: Site, ben: Endpoint) -> None:
    from tests.sites.shop.models import Item

    item, _ = Item.objects.get_or_create(name="researched")

    def asked(tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        return json.loads(text(ben.result("tools/call", params, path="/research/mcp")))

    (found,) = asked("search", query="researched")["results"]
    assert found["title"], found
    document = asked("fetch", id=found["id"])
    assert item.name in document["text"], document


def directories_find_the_site(site: Site, ben: Endpoint) -> None:
    from io import StringIO

    from django.core.management import CommandError, call_command

    stranger = Endpoint(ben.port, below=ben.below)
    status, headers, body = stranger.http("GET", "/mcp/server-card")
    card = body if isinstance(body, dict) else json.loads(body)
    assert status == 200, (status, body)
    assert headers["access-control-allow-origin"] == "*"
    assert {each["url"] for each in card["remotes"]} == {f"http://localhost{ben.below}/mcp"}, card
    status, _, _ = stranger.http("GET", "/.well-known/mcp/catalog.json")
    assert status == 200, status
    out = StringIO()
    with suppress(SystemExit, CommandError):  # a site at localhost cannot be listed
        call_command("mcp_listing", stdout=out)
    assert "Would be refused" in out.getvalue(), out.getvalue()


def a_caller_is_not_told_of_faults(site: Site, ben: Endpoint) -> None:
    status, _, body = ben.request("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert status == 400, (status, body)
    assert body["error"]["code"] == -32602, body


def schemas_are_those_that_clients_and_providers_take(site: Site, ben: Endpoint) -> None:
    listed = ben.result("tools/list")["tools"]
    wrong = {each["name"]: found for each in listed if (found := [*refused(each)])}
    assert listed, "no tools"
    assert not wrong, wrong


VISITS: list[Callable[[Site, Endpoint], None]] = [
    calls_write_and_read,
    a_job_of_a_view_finds_its_row_as_at_its_url,
    addresses_are_those_of_the_site,
    calls_of_async_tools_run_side_by_side,
    calls_at_once_do_not_hang_the_site,
    a_session_is_kept_and_ended,
    a_key_opens_until_it_is_revoked,
    a_token_opens_and_says_where_to_get_one,
    an_approved_call_runs_once,
    an_approver_is_as_the_primary_knows_them,
    an_approver_finds_the_page,
    a_caller_finds_a_page_of_their_call,
    a_question_is_answered,
    a_task_comes_to_its_end,
    a_stream_hears_of_a_row,
    the_log_knows_who_called,
    rows_are_found_and_read,
    apps_show_results_forms_and_rows,
    the_connector_searches_and_fetches,
    directories_find_the_site,
    a_caller_is_not_told_of_faults,
    schemas_are_those_that_clients_and_providers_take,
]

# Serving


@contextmanager
def beside_django() -> Iterator[int]:
    """The ASGI application with the endpoint beside Django."""
    import uvicorn
    from django.core.asgi import get_asgi_application

    from django_mcp.asgi import mcp_application
    from tests.ports import free_port

    port = free_port()
    config = uvicorn.Config(mcp_application(get_asgi_application()), port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started, "uvicorn does not start")
    yield port
    server.should_exit = True
    thread.join(WITHIN)


@contextmanager
def behind_django() -> Iterator[int]:
    """The view under WSGI."""
    from django.core.handlers.wsgi import WSGIHandler
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
            pass

    server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(WSGIHandler())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


EDGES = {"beside": beside_django, "view": behind_django}


def main(name: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = f"tests.sites.{name}"
    module = import_module(f"tests.sites.{name}")
    getattr(module, "prepare", lambda: None)()
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.core.management.base import SystemCheckError

    django.setup()
    for alias in getattr(module, "MIGRATED", ["default"]):
        call_command("migrate", database=alias, verbosity=0)
        call_command("migrate", database=alias, verbosity=0, run_syncdb=True)  # the shop's, which point to users
    site = Site()
    getattr(module, "populated", lambda: None)()
    wrong: dict[str, str] = {}
    try:
        call_command("check", fail_level="WARNING")
    except SystemCheckError as error:
        wrong["check"] = str(error)
    below, left_out = getattr(module, "BELOW", ""), getattr(module, "LEFT_OUT", ())
    for edge, serve in EDGES.items():
        with serve() as port:
            for visit in (each for each in VISITS if each.__name__ not in left_out):
                _, key = site.key(site.ben)
                ben = Endpoint(port, {"Authorization": f"Bearer {key}"}, below)
                try:
                    visit(site, ben)
                except Exception:  # noqa: BLE001 - told, with all others
                    wrong[f"{edge}: {visit.__name__}"] = traceback.format_exc(limit=-2)
    assert settings.configured
    getattr(module, "finish", lambda: None)()
    sys.stdout.write(f"{json.dumps(wrong)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
