"""Every code block of the README and of ``docs/`` is run: what a newcomer types in works."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
RUN_ELSEWHERE = {
    "make demo": "tests/commands",
    "make test": "the run that this test is part of",
    "pip install django-mcp-toolkit": "the run that this test is part of installs the package",
    "make bench": "tests/benchmarks",
}


class Block(NamedTuple):
    page: str
    language: str
    code: str


def blocks(page: Path) -> Iterator[Block]:
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        yield Block(page.name, language, code)


def code_of(name: str, language: str = "python") -> list[str]:
    page = next(page for page in PAGES if page.name == name)
    return [block.code for block in blocks(page) if block.language == language]


def test_every_block_is_of_a_kind_that_some_test_runs() -> None:
    """A new page with Python in it has to be added below, and a new command above."""
    tested = {"README.md", "asking.md", "primitives.md", "settings.md", "telling.md", "transports.md"}
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                assert block.page in tested
            elif block.language == "sh":
                for line in block.code.strip().splitlines():
                    assert line.split("  #")[0] in RUN_ELSEWHERE, line
            else:
                assert block.language == "", f"{block.page}: nothing runs {block.language}"


class Site:
    """A new project as ``startproject`` and ``startapp`` make it, with a ``Book`` model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run("-m", "django", "startproject", "mysite", ".")
        self.run("manage.py", "startapp", "library")
        self.append("mysite/settings.py", 'INSTALLED_APPS += ["library"]\nALLOWED_HOSTS = ["testserver"]\n')
        self.append(
            "library/models.py",
            """
            class Book(models.Model):
                title = models.CharField(max_length=100)
                author = models.CharField(max_length=100)
                pages = models.IntegerField(default=100)
            """,
        )

    def append(self, name: str, code: str) -> None:
        with (self.path / name).open("a") as file:
            file.write("\n" + dedent(code))

    def run(self, *arguments: str) -> str:
        done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
            [sys.executable, "-W", "error", *arguments],
            cwd=self.path,
            env={key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def migrate(self) -> None:
        self.run("manage.py", "makemigrations", "library")
        self.run("manage.py", "migrate", "-v0")

    def requests(self, *requests: tuple[str, dict[str, Any]], path: str = "/mcp", edge: str = "wsgi") -> list[Any]:
        """Answers of the site, in a process of its own, to legacy requests."""
        script = CLIENTS[edge].replace("REQUESTS", repr([list(each) for each in requests])).replace("PATH", repr(path))
        return json.loads(self.run("-c", script))


SETUP = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
bodies = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": m, "params": p}).encode() for m, p in REQUESTS]
"""
CLIENTS = {
    "wsgi": SETUP
    + """
from mysite.wsgi import application
from django.test import Client
post = lambda body: Client().post(PATH, body, content_type="application/json").content
print(json.dumps([json.loads(post(body)) for body in bodies]))
""",
    "asgi": SETUP
    + """
import asyncio
from mysite.asgi import application
async def post(body):
    sent = []
    async def receive(): return {"type": "http.request", "body": body}
    async def send(message): sent.append(message)
    headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers, "scheme": "http"}
    await application(scope, receive, send)
    return json.loads(sent[1]["body"])
async def main(): return [await post(body) for body in bodies]
print(json.dumps(asyncio.run(main())))
""",
}

TWO_BOOKS = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from library.models import Book
Book.objects.create(title="Emma", author="Jane Austen", pages=474)
Book.objects.create(title="Persuasion", author="Jane Austen", pages=249)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


@pytest.mark.parametrize("edge", ["wsgi", "asgi"])
def test_the_readme_adds_an_endpoint_to_a_new_site(site: Site, edge: str) -> None:
    files = {"settings.py": "mysite/settings.py", "urls.py": "mysite/urls.py", "mcp.py": "library/mcp.py"}
    files["asgi.py"] = "mysite/asgi.py"
    files["mcp.py, further down"] = "library/mcp.py"
    site.append("mysite/urls.py", "from django.urls import include")
    for code in code_of("README.md"):
        name = re.match(r"# (\w+\.py(, further down)?)", code)[1]
        site.append(files.pop(name), code)
    assert not files, "the README no longer shows these"
    site.migrate()
    site.run("manage.py", "check", "--fail-level", "WARNING")
    site.run("-c", TWO_BOOKS)
    found, nothing, wrong, listed = site.requests(
        call("find_books", title="mm"),
        call("find_books", title="Ulysses"),
        call("find_books", words="mm"),
        ("tools/list", {}),
        edge=edge,
    )
    assert found["result"]["content"][0]["text"] == '["Emma"]'
    assert nothing["result"]["content"][0]["text"] == "[]"
    assert "Unknown argument 'words'" in wrong["result"]["content"][0]["text"]
    find, discard = listed["result"]["tools"]
    assert find["annotations"] == {"readOnlyHint": True}
    assert (discard["name"], list(discard["inputSchema"]["properties"])) == ("discard_book", ["title"])
    lines = [line for code in code_of("README.md")[:3] for line in code.splitlines() if line and line[0] != "#"]
    assert len(lines) <= 10, "the README promises ten lines"


def prepare(site: Site, page: str) -> None:
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.Public"]}')
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/mcp.py", "\n\n".join(code_of(page)))
    site.migrate()
    site.run("-c", TWO_BOOKS)


def review(name: str, value: str) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": name, "value": value}}


def test_the_page_on_primitives_does_what_it_says(site: Site) -> None:
    prepare(site, "primitives.md")
    chosen = {"context": {"arguments": {"author": "Jane Austen"}}}
    search, wrong, due, rename, rules, book, no_book, cover, prompt, listed, author, title, tone = site.requests(
        call("search_books", words="a", order="pages"),
        call("search_books", words="a", limit=500),
        call("due_date"),
        call("rename_book", pk=1, title="x"),
        ("resources/read", {"uri": "library://rules"}),
        ("resources/read", {"uri": "library://books/1"}),
        ("resources/read", {"uri": "library://books/3"}),
        ("resources/read", {"uri": "library://covers/1?size=90"}),
        ("prompts/get", {"name": "reading-list", "arguments": {"subject": "bees", "books": "2"}}),
        ("tools/list", {}),
        ("completion/complete", review("author", "jane")),
        ("completion/complete", {**review("title", ""), **chosen}),
        ("completion/complete", review("tone", "s")),
    )
    assert search["result"]["content"][0]["text"] == "2 books: Persuasion, Emma"
    assert "less than or equal to 50" in wrong["result"]["content"][0]["text"]
    assert "result" in due
    assert rename["error"]["message"] == "Unknown tool: 'rename_book'."
    assert rules["result"]["contents"][0]["mimeType"] == "text/markdown"
    assert "Emma" in book["result"]["contents"][0]["text"]
    assert no_book["error"]["message"] == "Resource not found"
    assert 'width="90"' in cover["result"]["contents"][0]["text"]
    assert "2 books about bees" in prompt["result"]["messages"][0]["content"]["text"]
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"search_books", "due_date"}
    assert author["result"]["completion"]["values"] == ["Jane Austen"]
    assert title["result"]["completion"]["values"] == ["Emma", "Persuasion"]
    assert tone["result"]["completion"]["values"] == ["sharp"]


def test_the_page_on_settings_does_what_it_says(site: Site) -> None:
    prepare(site, "settings.md")
    (count,) = site.requests(call("count_books"), path="/staff/mcp")
    assert count["result"]["content"][0]["text"] == "2"
    (refused,) = site.requests(call("count_books"), path="/inside/mcp")
    assert "credential" in refused["error"]["message"]


def test_every_setting_is_on_the_page_and_nothing_else() -> None:
    from django_mcp.conf import KEYS

    page = (ROOT / "docs" / "settings.md").read_text()
    assert re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE) == list(KEYS)


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", page.read_text()):
            link = target[0] or target[1]
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
