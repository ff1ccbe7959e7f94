"""The pages on asking, telling, transports and tasks do what they say, in a site made for it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_blocks import TWO_BOOKS, Site, code_of, prepare

TALK = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from mysite.wsgi import application
from django.test import Client

def post(name, arguments, capabilities, headers, more):
    meta = {"protocolVersion": "2026-07-28", "clientCapabilities": capabilities, "logLevel": "info"}
    meta = {"io.modelcontextprotocol/" + key: value for key, value in meta.items()}
    params = {"name": name, "arguments": arguments, "_meta": {**meta, "progressToken": "t"}, **more}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    own = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    own["accept"] = "application/json, text/event-stream"
    response = Client().post("/mcp", body, content_type="application/json", headers={**own, **headers})
    text = response.content.decode()
    return [json.loads(line[6:]) for line in text.splitlines() if line[:6] == "data: "] or [json.loads(text)]

def talk(name, arguments, answers, capabilities, headers):
    told, asked, more = [], [], {}
    while True:
        *before, last = post(name, arguments, capabilities, headers, more)
        told += before
        result = last.get("result", {})
        if result.get("resultType") != "input_required":
            text = result["content"][0]["text"] if "content" in result else last["error"]["message"]
            return {"told": told, "asked": asked, "text": text}
        asked += result["inputRequests"].values()
        responses = {key: answers.pop(0) for key in result["inputRequests"]}
        more = {"inputResponses": responses, "requestState": result["requestState"]}

print(json.dumps([talk(*each) for each in CALLS]))
"""
BOOKS = """
import json, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from library.models import Book
print(json.dumps(list(Book.objects.order_by("pk").values_list("title", flat=True))))
"""
EVENTS = """
import json, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django_mcp.models import Event
print(json.dumps([json.loads(data) for data in Event.objects.order_by("pk").values_list("data", flat=True)]))
"""
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
DECLINE, CANCEL = {"action": "decline"}, {"action": "cancel"}
Call = tuple[str, dict[str, Any], list[Any], dict[str, Any], dict[str, str]]


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}


def call(name: str, /, *answers: Any, can: Any = None, headers: Any = None, **arguments: Any) -> Call:
    return name, arguments, list(answers), EVERYTHING if can is None else can, headers or {}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def talk(site: Site, *calls: Call) -> list[dict[str, Any]]:
    return json.loads(site.run("-c", TALK.replace("CALLS", repr(calls))))


def test_the_page_on_asking_does_what_it_says(site: Site) -> None:
    prepare(site, "elicitation.md")
    what = {"title": "Emma", "author": "Jane Austen"}
    ordered, twice, declined, cancelled, wrong, lent, kept, gone, paid, unpaid = talk(
        site,
        call("order_book", accept(confirm=True), **what),
        call("order_book", accept(confirm=True, copies=2), **what),
        call("order_book", DECLINE, **what),
        call("order_book", CANCEL, **what),
        call("order_book", *[accept(confirm=True, copies=21)] * 3, **what),
        call("lend", accept(book="2", reader="Ada", days=7)),
        call("discard_books", DECLINE, author="Jane Austen"),
        call("discard_books", accept(confirm=True), author="Jane Austen"),
        call("pay_fee", {"action": "accept"}),
        call("pay_fee", CANCEL),
    )
    assert ordered["text"] == "Copies ordered: 1."
    assert ordered["asked"][0]["params"]["message"] == "Order “Emma” by Jane Austen for €20?"
    assert ordered["asked"][0]["params"]["requestedSchema"]["required"] == ["confirm"]
    assert twice["text"] == "Copies ordered: 2."
    assert "the user declined" in declined["text"]
    assert "may be asked again" in cancelled["text"]
    assert len(wrong["asked"]) == 3
    assert "do not match" in wrong["text"]
    assert lent["text"] == "Ada has Persuasion for 7 days."
    assert [each["title"] for each in lent["asked"][0]["params"]["requestedSchema"]["properties"]["book"]["oneOf"]]
    assert kept["text"] == "Nothing was deleted."
    assert kept["asked"][0]["params"]["message"] == "Delete 5 books by Jane Austen?"
    assert gone["text"] == "Deleted."
    assert paid["asked"][0]["params"]["url"] == "http://testserver/admin/"
    assert "Call again after the payment" in paid["text"]
    assert unpaid["text"] == "The fee is not paid."
    assert json.loads(site.run("-c", BOOKS)) == []


def test_the_page_on_asking_asks_models_and_asks_several_things_and_acts_once(site: Site) -> None:
    prepare(site, "elicitation.md")
    welcome = [accept(name="Ada"), said("Welcome!"), {"roots": [{"uri": "file:///a"}]}]
    chosen, talkative, alone, welcomed, card, refused, missing = talk(
        site,
        call("recommend", said("You should read **Emma**."), mood="merry"),
        call("recommend", said("All are lovely."), mood="merry"),
        call("recommend", can={}, mood="merry"),
        call("welcome", *welcome),
        call("new_card", accept(confirm=True), name="Ada"),
        call("give_away", can={}, title="Emma"),
        call("order_book", can={}, title="Emma", author="Jane Austen"),
    )
    assert chosen["text"] == "Emma"
    assert talkative["text"] == "The model named none of the books: All are lovely."
    assert alone["text"] == "Your client does not support sampling. Choose one yourself: Emma, Persuasion"
    assert welcomed["text"] == "Welcome! (Ada, 1 roots)"
    assert card["text"] == "Ada has card 3."
    assert json.loads(site.run("-c", BOOKS)) == ["Emma", "Persuasion", "Card of Ada"], "a card was made in each round"
    assert "which your client does not support" in refused["text"]
    assert missing["text"] == (
        "This call requires a client that supports 'elicitation'. Your client did not declare this capability."
    )


def test_the_page_on_telling_does_what_it_says(site: Site) -> None:
    prepare(site, "progress.md")
    counted, found, renamed = talk(
        site, call("count_pages"), call("find_word", word="emm"), call("rename", pk=1, title="Mansfield Park")
    )
    progress = [each["params"] for each in counted["told"] if each["method"] == "notifications/progress"]
    assert [(each["progress"], each["total"], each["message"]) for each in progress] == [
        (1, 2, "Read Emma"),
        (2, 2, "Read Persuasion"),
    ]
    assert counted["told"][-1]["params"] == {"level": "info", "data": {"books": 2, "pages": 723}}
    assert counted["text"] == "723"
    assert found["text"] == '["Emma"]'
    assert renamed["text"] == "The book is now called Mansfield Park."
    uris = [each["params"]["uri"] for each in json.loads(site.run("-c", EVENTS))]
    assert uris[-1] == "library://books/1"


def test_the_page_on_transports_does_what_it_says(site: Site) -> None:
    _cors, layers, marked = code_of("asgi-and-wsgi.md")
    site.append("mysite/settings.py", layers)
    prepare(site, "asgi-and-wsgi.md", check=True)
    right, wrong = (
        call("opening_hours", headers={"mcp-param-branch": branch}, branch="North") for branch in ("North", "South")
    )
    opened, refused = talk(site, right, wrong)
    assert re.search(r"HeaderParam\(\"Branch\"\)", marked)
    assert opened["text"] == "North: 9 to 17."
    assert "mcp-param-branch" in refused["text"].lower()


TASK = """
import json, os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from mysite.wsgi import application
from django.test import Client

def post(method, named, **params):
    capabilities = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    meta = {"protocolVersion": "2026-07-28", "clientCapabilities": capabilities}
    meta = {"io.modelcontextprotocol/" + key: value for key, value in meta.items()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    own = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": params[named]}
    own["accept"] = "application/json, text/event-stream"
    return Client().post("/mcp", body, content_type="application/json", headers=own).json()["result"]

def get(task, *states):
    deadline = time.monotonic() + 60
    while True:
        found = post("tasks/get", "taskId", taskId=task)
        if found["status"] in states or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
"""
COUNTS = (
    TASK
    + """
made = post("tools/call", "name", name="count_words", arguments={})
print(json.dumps([made, get(made["taskId"], "completed")]))
"""
)
ADDS = (
    TASK
    + """
made = post("tools/call", "name", name="add_books", arguments={"titles": "Emma"})
asked = get(made["taskId"], "input_required")
(key, question), = asked["inputRequests"].items()
post("tasks/update", "taskId", taskId=made["taskId"], inputResponses={key: {"action": "decline"}})
print(json.dumps([question, get(made["taskId"], "completed")]))
"""
)
CALLS_AND_GOES = (
    TASK
    + """
print(json.dumps(post("tools/call", "name", name="count_words", arguments={})["taskId"]))
"""
)
COMES_BACK = TASK + "print(json.dumps(post('tasks/get', 'taskId', taskId=TASK_ID)))"


WORKERS = [code for code in code_of("tasks.md") if code.startswith("# settings.py")]


def add_tasks(site: Site) -> None:
    """Has the page's tools on the site."""
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}')
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/mcp.py", "\n\n".join(code for code in code_of("tasks.md") if code not in WORKERS))


def test_the_page_on_tasks_does_what_it_says(site: Site) -> None:
    add_tasks(site)
    site.migrate(TWO_BOOKS, check=True)
    counted, refused, added, twice = talk(
        site,
        call("count_words"),
        call("add_books", titles="x\n" + "y" * 101),
        call("add_books", titles="Sanditon"),
        call("add_books", accept(confirm=True), titles="Sanditon\nLady Susan"),
    )
    assert counted["text"] == "216900"
    assert refused["text"] == "Titles may have 100 characters. Shorten lines 2."
    assert added["text"] == "1 added."
    assert twice["asked"][0]["params"]["message"] == "1 of these books exist. Add them again?"
    assert twice["text"] == "2 added."
    made, ended = json.loads(site.run("-c", COUNTS))
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert ended["result"]["structuredContent"] == 306900, "three books of a hundred pages more"
    assert ended["statusMessage"] == "Counted Sanditon"
    question, declined = json.loads(site.run("-c", ADDS))
    assert "Add them again?" in question["params"]["message"]
    assert declined["result"]["content"][0]["text"] == "Nothing was added."


def test_the_page_on_tasks_has_a_worker_that_runs_them(site: Site) -> None:
    add_tasks(site)
    site.append("mysite/settings.py", WORKERS[0])
    site.migrate(TWO_BOOKS)
    task_id = json.loads(site.run("-c", CALLS_AND_GOES))
    ask = COMES_BACK.replace("TASK_ID", repr(task_id))
    assert json.loads(site.run("-c", ask))["status"] == "working", "nobody runs it yet"
    site.run("manage.py", "db_worker", "--batch")
    assert json.loads(site.run("-c", ask))["result"]["structuredContent"] == 216900


@pytest.mark.parametrize("number", range(3))
def test_the_page_on_tasks_has_settings_for_workers_of_each_kind(site: Site, number: int) -> None:
    add_tasks(site)
    site.append("mysite/settings.py", WORKERS[number])
    _, task_backend = site.commands(
        "check --fail-level ERROR",  # the page speaks of the backend's own warnings
        ["shell", "-v0", "-c", "from django_mcp.tasks.backends import task_backend; print(task_backend())"],
    )
    assert "DjangoTasksBackend" in task_backend
