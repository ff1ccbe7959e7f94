"""Pages of the cookbook on apps from the package index: typed in and called."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.test_blocks import ROOT, SETUP
from tests.environments import python_with, run

COOKBOOK = ROOT / "docs" / "cookbook"
PACKAGES = ("wagtail>=8,<9", "django-helpdesk>=2.6,<3")
CLIENT = """
import django; django.setup()
from importlib import import_module
from django.conf import settings
from django.test import Client
import_module(settings.ROOT_URLCONF)
here = {"host": "localhost", **HEADERS}
post = lambda body: Client().post("/mcp", body, content_type="application/json", headers=here).content
print(json.dumps([json.loads(post(body)) for body in bodies]))
"""


class Block(NamedTuple):
    file: str
    is_added: bool
    code: str

    @property
    def lines(self) -> int:
        return sum(bool(line.strip()) for line in self.code.splitlines())


def section(title: str) -> list[Block]:
    """Return the files of a section."""
    pages = [(COOKBOOK / name).read_text() for name in ("wagtail.md", "third-party-apps.md")]
    [text] = [each for page in pages for each in page.split("\n## ") if each.startswith(f"{title}\n")]
    return files(text)


def files(text: str) -> list[Block]:
    found = re.findall(r"^```python\n# (\S+?\.py)(, at the end)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [Block(name, bool(added), code) for name, added, code in found]


class Site(NamedTuple):
    path: Path
    python: Path
    settings: str = "mysite.settings"

    def run(self, *arguments: str) -> str:
        return run(self.python, *arguments, cwd=self.path)

    def append(self, name: str, code: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(f"\n{code}")

    def type_in(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.is_added:
                (self.path / block.file).write_text(block.code)
            else:
                self.append(block.file, block.code)

    def make(self, code: str) -> str:
        """Run code of Django's shell."""
        return self.run("manage.py", "shell", "--no-imports", "-v0", "-c", code)

    def ask(self, *requests: tuple[str, dict[str, Any]], key: str = "") -> list[Any]:
        """Answers to legacy requests."""
        script = (SETUP + CLIENT).replace("mysite.settings", self.settings).replace("REQUESTS", repr([*requests]))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return json.loads(self.run("-c", script.replace("HEADERS", repr(headers))))


def call(name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


def rows(answer: Any) -> list[dict[str, Any]]:
    return json.loads(text_of(answer))["rows"]


@pytest.fixture(scope="module")
def python() -> Path:
    return python_with(*PACKAGES)


@pytest.fixture(scope="module")
def wagtail(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    path = tmp_path_factory.mktemp("wagtail")
    run(python.parent / "wagtail", "start", "mysite", ".", cwd=path)
    site = Site(path, python, "mysite.settings.dev")
    site.type_in(section("Published pages"))
    site.run("manage.py", "migrate", "-v0")
    site.make(
        """
from home.models import HomePage
from wagtail.models import PageViewRestriction
home = HomePage.objects.get()
for title, live in {"Open": True, "Draft": False, "Members": True}.items():
    page = home.add_child(instance=HomePage(title=f"{title} page", slug=title.lower(), live=live))
PageViewRestriction.objects.create(page=page, restriction_type="login")
page.add_child(instance=HomePage(title="Page of members", slug="below"))
"""
    )
    return site


@pytest.fixture(scope="module")
def news(wagtail: Site) -> Site:
    """The site of Wagtail with pages that clients write; Ann may publish, and Ben may not."""
    wagtail.type_in(section("Editing pages"))
    wagtail.run("manage.py", "makemigrations", "-v0", "home")
    wagtail.run("manage.py", "migrate", "-v0")
    wagtail.make(
        """
from django.contrib.auth.models import Group, User
for name, group in {"ann": "Moderators", "ben": "Editors", "cy": None}.items():
    user = User.objects.create_user(name)
    user.groups.set(Group.objects.filter(name=group))
"""
    )
    return wagtail


def key_of(site: Site, user: str) -> str:
    return site.run("manage.py", "mcp_key", "create", "--user", user, "--name", "news").split()[0]


@pytest.fixture(scope="module")
def helpdesk(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = tmp_path_factory.mktemp("helpdesk")
    run(python, "-m", "django", "startproject", "mysite", ".", cwd=path)
    site = Site(path, python)
    site.run("manage.py", "startapp", "desk")
    site.append(
        "mysite/settings.py",
        """
INSTALLED_APPS += ["django.contrib.sites", "django.contrib.humanize", "helpdesk", "desk"]
SITE_ID = 1
HELPDESK_TEAMS_MODE_ENABLED = False
HELPDESK_ENABLE_PER_QUEUE_STAFF_PERMISSION = True
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = BASE_DIR / "mail"
""",
    )
    site.append(
        "mysite/urls.py", 'from django.urls import include\nurlpatterns += [path("desk/", include("helpdesk.urls"))]\n'
    )
    site.type_in(section("django-helpdesk"))
    site.run("manage.py", "migrate", "-v0")
    site.make(
        """
from django.contrib.auth.models import Permission, User
from helpdesk.models import Queue, Ticket
User.objects.create_superuser("boss")
ann = User.objects.create_user("ann", is_staff=True)
for slug in ("sales", "accounts"):
    queue = Queue.objects.create(title=slug.title(), slug=slug, email_address=f"{slug}@example.com")
    Ticket.objects.create(title=f"Printer of {slug}", queue=queue, submitter_email="cy@example.org", secret_key="hush")
ann.user_permissions.add(Permission.objects.get(codename="queue_access_sales"))
"""
    )
    return site


def test_each_endpoint_takes_fewer_than_twenty_lines() -> None:
    for title in ("Published pages", "django-helpdesk", "The polls of Django’s tutorial".replace("’", "'")):
        assert sum(block.lines for block in section(title)[:3]) < 20, title
    assert section("The bakery demo")[0].lines + sum(each.lines for each in section("Published pages")[:2]) < 20


def test_wagtail_shows_what_everybody_can_read(wagtail: Site) -> None:
    found, read, hidden = wagtail.ask(
        call("search_pages", query="page"),
        ("resources/read", {"uri": "wagtailcore://page/3"}),
        ("resources/read", {"uri": "wagtailcore://page/5"}),
    )
    titles = {row["title"]: row["address"] for row in rows(found)}
    assert "Open page" in titles
    assert titles["Open page"].endswith("/open/")
    assert titles.keys().isdisjoint({"Draft page", "Members page", "Page of members", "Root"})
    assert '"title":"Home"' in read["result"]["contents"][0]["text"]
    assert hidden["error"]["message"] == "Resource not found"


def test_wagtails_own_pages_are_where_they_were(wagtail: Site) -> None:
    code = 'from django.test import Client\nprint(Client().get("/").status_code, Client().get("/open/").status_code)'
    assert wagtail.make(code).split() == ["200", "200"]


def test_editors_of_wagtail_write_pages_with_blocks_and_its_history_names_them(news: Site) -> None:
    body = [{"type": "heading", "value": "Salt"}, {"type": "paragraph", "value": "Of the sea."}]
    assert "W043" not in news.run("manage.py", "check")
    made, wrong, unknown = news.ask(
        call("create_news_page", title="Reef", body=body),
        call("create_news_page", title="Reef", body=[{"type": "heading", "value": ""}]),
        call("create_news_page", title="Reef", body=[{"type": "video", "value": "x"}]),
        key=key_of(news, "ann"),
    )
    row = json.loads(text_of(made))
    assert (row["title"], row["live"]) == ("Reef", True)
    assert [{"type": each["type"], "value": each["value"]} for each in row["body"]] == body
    assert "Argument 'body': " in text_of(wrong)
    assert "This field is required." in text_of(wrong)
    assert unknown["result"]["isError"]
    draft, found = news.ask(
        call("create_news_page", title="Kelp", body=body), call("search_news_pages"), key=key_of(news, "ben")
    )
    assert json.loads(text_of(draft))["live"] is False
    assert [each["title"] for each in rows(found)] == ["Reef", "Kelp"]
    for key in ("", key_of(news, "cy")):
        refused, nothing = news.ask(
            call("create_news_page", title="Mine", body=body), call("search_news_pages"), key=key
        )
        assert "error" in refused or refused["result"]["isError"]
        assert rows(nothing) == []
    history = """
from home.models import NewsPage
from wagtail.models import PageLogEntry
for page in NewsPage.objects.order_by("pk"):
    done = PageLogEntry.objects.filter(page=page).values_list("action", "user__username")
    print(page.url, page.latest_revision.user, *done)
"""
    reef, kelp = news.make(history).splitlines()
    assert reef.startswith("/reef/ ann ")
    assert "('wagtail.publish', 'ann')" in reef
    assert kelp.startswith("/kelp/ ben ")
    assert "wagtail.publish" not in kelp


def test_helpdesk_shows_the_tickets_of_ones_queues(helpdesk: Site) -> None:
    key = helpdesk.run("manage.py", "mcp_key", "create", "--user", "ann", "--name", "desk").split()[0]
    found, other, listed = helpdesk.ask(
        call("search_tickets", query="printer"),
        ("resources/read", {"uri": "helpdesk://ticket/2"}),
        ("tools/list", {}),
        key=key,
    )
    assert [row["title"] for row in rows(found)] == ["Printer of sales"]
    assert other["error"]["message"] == "Resource not found"
    assert "hush" not in json.dumps([found, listed])
    assert "secret_key" not in json.dumps(listed)
    [unknown] = helpdesk.ask(call("search_tickets"))
    assert "Authentication required" in json.dumps(unknown)


def test_helpdesk_answers_when_somebody_has_approved_it(helpdesk: Site) -> None:
    outcome = helpdesk.make(
        """
from django.contrib.auth.models import User
from django_mcp.test import MCPClient
from helpdesk.models import FollowUp
ann, boss = User.objects.get(username="ann"), User.objects.get(username="boss")
client = MCPClient(ann, schemas=False)
client.call("answer_ticket", ticket=2, text="Hello").assert_error_mentions("No ticket")
waiting = client.call("answer_ticket", ticket=1, text="It is on its way.").assert_needs_approval()
assert not FollowUp.objects.exists()
print(client.approve(waiting, by=boss).assert_ok().text)
print(FollowUp.objects.get().comment)
"""
    )
    assert outcome.splitlines() == ["Answered cy@example.org.", "It is on its way."]
    assert any("cy@example.org" in each.read_text() for each in (helpdesk.path / "mail").iterdir())


def test_the_polls_of_the_tutorial_show_what_was_published(python: Path, tmp_path: Path) -> None:
    run(python, "-m", "django", "startproject", "mysite", ".", cwd=tmp_path)
    site = Site(tmp_path, python)
    site.run("manage.py", "startapp", "polls")
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["polls"]\n')
    site.append("mysite/urls.py", "from django.urls import include\n")
    site.append(
        "polls/models.py",
        """
class Question(models.Model):
    question_text = models.CharField(max_length=200)
    pub_date = models.DateTimeField("date published")


class Choice(models.Model):
    question = models.ForeignKey(Question, on_delete=models.CASCADE)
    choice_text = models.CharField(max_length=200)
    votes = models.IntegerField(default=0)
""",
    )
    site.type_in(section("The polls of Django's tutorial"))
    site.run("manage.py", "makemigrations", "polls")
    site.run("manage.py", "migrate", "-v0")
    site.make(
        """
from datetime import timedelta
from django.utils import timezone
from polls.models import Question
for text, days in {"What is new?": -1, "What will be?": 1}.items():
    question = Question.objects.create(question_text=text, pub_date=timezone.now() + timedelta(days=days))
    question.choice_set.create(choice_text="Not much", votes=3)
"""
    )
    found, hidden = site.ask(call("search_questions"), ("resources/read", {"uri": "polls://question/2"}))
    [row] = rows(found)
    assert (row["question_text"], row["votes"]) == ("What is new?", {"Not much": 3})
    assert hidden["error"]["message"] == "Resource not found"


def test_the_tests_of_the_page_on_taggit_pass(python: Path, tmp_path: Path) -> None:
    """Taggit comes with Wagtail."""
    run(python, "-m", "django", "startproject", "mysite", ".", cwd=tmp_path)
    site = Site(tmp_path, python)
    site.run("manage.py", "startapp", "recipes")
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["recipes"]\n')
    site.append("mysite/urls.py", "from django.urls import include\n")
    site.type_in(files((COOKBOOK / "django-taggit.md").read_text()))
    site.run("manage.py", "makemigrations", "-v0", "recipes")
    assert "no issues" in site.run("manage.py", "check")
    site.run("manage.py", "test", "-v0", "recipes")
