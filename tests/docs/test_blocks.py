"""Every code block of the README and of ``docs/`` is run: what a newcomer types in works."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command
from django.db import connection

from tests.conformance.prepared import prepare as prepare_database

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
DOCKER = [
    "docker compose build",
    "docker compose exec proxy nginx -s reload",
    "docker compose run --rm migrate",
    "docker compose run --rm migrate python manage.py createsuperuser",
    "docker compose run --rm migrate python manage.py load_travel",
    "docker compose up --build --detach",
    "docker compose up --detach --no-deps --wait proxy",
    "docker compose up --detach --no-deps --wait worker-1",
    "docker compose up --detach --no-deps --wait worker-2",
]
RUN_ELSEWHERE = {
    "make demo": "tests/management",
    "make test": "the run that this test is part of",
    "pip install django-mcp-toolkit": "the run that this test is part of installs the package",
    **dict.fromkeys(
        [
            "python manage.py migrate",
            "python manage.py mcp_key create --user ann --name laptop",
            "python manage.py mcp_config claude-code --url http://127.0.0.1:8000 --key",
        ],
        "the same lines stand in the quickstart, which tests/docs/test_tutorial.py types in",
    ),
    "pip install 'django-mcp-toolkit[test]'": "the run that this test is part of, which has what it adds",
    "make bench": "tests/benchmarks",
    "python manage.py startmcp library": "the test of the page on commands",
    "python manage.py mcp_inspect": "the same",
    "python manage.py mcp_inspect --as ann": "the same",
    "python manage.py mcp_inspect --as ann describe_library": "the same",
    "python manage.py mcp_inspect --admin --as anna": "tests/management/test_mcp_inspect_admin.py",
    "python manage.py mcp_doctor --admin --as anna": "tests/management/test_mcp_doctor_admin.py",
    "python manage.py mcp_call describe_library --as ann": "the test of the page on commands",
    "python manage.py mcp_call search_books query=emma --as ann": "the same",
    "python manage.py mcp_config": "the same",
    "python manage.py mcp_config claude-code --url https://library.example": "the same",
    "python manage.py mcp_config vscode --stdio": "the same",
    "python manage.py mcp_listing registry --write": "the test of the page on directories",
    **dict.fromkeys(
        [
            'mcp-publisher login http --domain library.example.com --private-key "$PRIVATE_KEY"',
            "mcp-publisher publish",
        ],
        "another project's program, which publishes for everybody",
    ),
    "cd deploy": "tests/deploy",
    "cp .env.example .env": "the same",
    **dict.fromkeys(DOCKER, "the same looks whether they name what there is; nobody has a Docker daemon there"),
    "python manage.py db_worker": "tests/docs/test_conversations.py",
    "python manage.py rqworker --job-class django_tasks_rq.Job default": "tests/tasks/workers",
    "celery -A django_tasks_fennel.app worker -Q default": "tests/tasks/workers",
    "cd django_mcp": "tests/translations",
    "django-admin makemessages -l de --no-location --no-wrap": "the same, for languages there are",
    "django-admin compilemessages -l de": "the same looks at what it leaves",
}

OF_THIS_RUN = {"DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE"}
"""Variables that a new site does not inherit; without the second, each process would compile the package again."""
PAGE_ON_SKILLS = ROOT / "docs" / "skills.md"
ORDER_BOOKS = "---\nname: order-books\ndescription: Order books.\n---\n"


class Block(NamedTuple):
    page: str
    language: str
    code: str


def blocks(page: Path) -> Iterator[Block]:
    for language, code in re.findall(r"^```([\w+]*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        yield Block(page.name, language, code)


def code_of(name: str, language: str = "python") -> list[str]:
    page = next(page for page in PAGES if page.name == name)
    return [block.code for block in blocks(page) if block.language == language]


def test_every_block_is_of_a_kind_that_some_test_runs() -> None:
    """A new page with Python in it has to be added below, and a new command above."""
    tested = {
        "README.md",
        "admin-tools.md",
        "approvals.md",
        "apps.md",
        "elicitation.md",
        "authentication.md",
        "chatgpt.md",
        "request-log.md",
        "forms-and-views.md",
        "limits.md",
        "listing.md",
        "permissions.md",
        "migrating.md",
        "model-writes.md",
        "models.md",
        "observability.md",
        "ninja.md",
        "tools.md",
        "resources-and-prompts.md",
        "drf.md",
        "scripts.md",
        "settings.md",
        "skills.md",
        "tasks.md",
        "progress.md",
        "testing.md",
        "asgi-and-wsgi.md",
        "installation.md",
        *(page.name for page in (ROOT / "docs" / "cookbook").glob("*.md")),
    }
    for page in PAGES:
        for block in blocks(page):
            if block.page in {"quickstart.md", "tutorial.md"}:
                continue  # tests/docs/test_tutorial.py types in all of it
            if block.language == "python":
                assert block.page in tested
            elif block.language == "sh":
                for line in block.code.strip().splitlines():
                    assert line.split("  #")[0] in RUN_ELSEWHERE, line
            elif block.language == "html+django":
                assert block.page == "apps.md"
            else:
                assert block.language == "", f"{block.page}: nothing runs {block.language}"


class Site:
    """A new project as ``startproject`` and ``startapp`` make it, with a ``Book`` model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        call_command("startproject", "mysite", path)
        self.add_app("library")
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

    def add_app(self, name: str) -> None:
        (self.path / name).mkdir()
        call_command("startapp", name, self.path / name)

    def append(self, name: str, code: str) -> None:
        with (self.path / name).open("a") as file:
            file.write("\n" + dedent(code))

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        return self.run_both(*arguments)[0]

    def run_both(self, *arguments: str) -> tuple[str, str]:
        """What it prints, and what it says to those who look after it."""
        done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
            [sys.executable, "-W", "error", *arguments],
            cwd=self.path,
            env={key: value for key, value in os.environ.items() if key not in OF_THIS_RUN},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, done.stderr

    def commands(self, *lines: str | Sequence[str]) -> list[str]:
        """What each of some commands prints, all of them run by one process, as ``manage.py`` runs one."""
        given = [line.split() if isinstance(line, str) else list(line) for line in lines]
        return json.loads(self.run("-c", COMMANDS.replace("LINES", repr(given))))

    def migrate(self, rows: str = "", *, check: bool = False) -> str:
        """Make the tables, those of installed apps being there already.

        Args:
            rows: code that is run then.
            check: whether the checks, which may find no errors, may not even warn.

        Returns:
            What *rows* printed.
        """
        database = self.path / "db.sqlite3"
        if not database.exists():
            prepare_database(database, "a new site", migrate_new_site)
        return self.run("-c", MIGRATE.replace("LEVEL", "WARNING" if check else "ERROR") + rows)

    def requests(self, *requests: tuple[str, dict[str, Any]], path: str = "/mcp", edge: str = "wsgi") -> list[Any]:
        """Answers of the site, in a process of its own, to legacy requests."""
        script = CLIENTS[edge].replace("REQUESTS", repr([list(each) for each in requests])).replace("PATH", repr(path))
        return json.loads(self.run("-c", script))


SETUP = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
bodies = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": m, "params": p}).encode() for m, p in REQUESTS]
"""
COMMANDS = """
import importlib, io, json, os
from contextlib import redirect_stdout
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from django.core.management import execute_from_command_line
printed = []
for line in LINES:
    importlib.invalidate_caches()  # one of them may have written what the next imports
    with redirect_stdout(io.StringIO()) as output:
        execute_from_command_line(["manage.py", *line])
    printed.append(output.getvalue())
print(json.dumps(printed))
"""
MIGRATE = """
import importlib, io, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.core.management import call_command
call_command("check", fail_level="LEVEL", stdout=io.StringIO())
call_command("makemigrations", "library", verbosity=0)
importlib.invalidate_caches()
call_command("migrate", verbosity=0)
"""


def migrate_new_site(database: Path) -> None:
    """Make the tables of the apps that a site with an endpoint has, before it has models."""
    with TemporaryDirectory() as folder:
        site = Site(Path(folder))
        site.append("mysite/settings.py", 'INSTALLED_APPS.remove("library")\nINSTALLED_APPS += ["django_mcp"]')
        site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}')
        site.run("manage.py", "migrate", "-v0")
        shutil.move(site.path / "db.sqlite3", database)


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


def call(name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def data(answer: Any) -> Any:
    """What a tool gives programs, as clients of the oldest versions get it too."""
    return json.loads(answer["result"]["content"][0]["text"])


def test_the_readme_shows_the_code_of_the_quickstart() -> None:
    """Which tests/docs/test_tutorial.py types in."""
    assert code_of("README.md") == code_of("quickstart.md")[1:]


def prepare(
    site: Site, page: str, *, skip: int = 0, stop: int | None = None, rows: str = "", check: bool = False
) -> None:
    """Put the blocks of a page, but for the first *skip*, into the app's ``mcp.py`` of a site with an endpoint.

    There are two books in it, and more *rows*; *check* says whether the checks may not even warn.
    """
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    # Who approves what is destructive is for another page.
    own = '{"AUTHENTICATION": ["django_mcp.AllowAny"], "REQUIRE_APPROVAL_FOR": None}'
    site.append("mysite/settings.py", f"DJANGO_MCP = {own}")
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/mcp.py", "\n\n".join(code_of(page)[skip:stop]))
    site.migrate(TWO_BOOKS + rows, check=check)


LOAN_FORM = """
from django import forms


class LoanForm(forms.Form):
    \"\"\"Lend a book.\"\"\"

    reader = forms.CharField(label="Who borrows it")
    weeks = forms.IntegerField(min_value=1, max_value=4)

    def save(self):
        return "Lent."
"""
SEES_APPS = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
import json
from django_mcp.test import MCPClient
from django.contrib.auth.models import User
host, other = MCPClient(User.objects.create_superuser("root"), apps=True), MCPClient()
CALLS = [
    ("show_book", {"title": "Emma"}),
    ("open_book", {"title": "Emma"}),
    ("lend_form", {"weeks": 2}),
    ("lend", {"reader": "Ann", "weeks": 2}),
    ("search_books", {}),
]
print(json.dumps({
    "html": [host.call(name, arguments).assert_ok().html for name, arguments in CALLS],
    "page": host.read("ui://library/page").result["contents"][0]["_meta"]["ui"],
    "tools": {each["name"]: each.get("_meta", {}).get("ui") for each in host.tools()},
    "others": {each["name"]: other.call("show_book", title="Emma").html for each in other.tools()},
}))
"""


def test_the_page_on_apps_does_what_it_says(site: Site) -> None:
    card, page = code_of("apps.md", "html+django")
    templates = site.path / "library/templates/library"
    templates.mkdir(parents=True)
    for name, text in {"card": card, "page": page, "lent": "<p>Lent to {{ arguments.reader }}.</p>"}.items():
        (templates / f"{name}.html").write_text(text)
    site.append("library/forms.py", LOAN_FORM)
    site.append("mysite/settings.py", 'STATIC_URL = "static/"')
    prepare(site, "apps.md")

    seen = json.loads(site.run("-c", SEES_APPS))

    shown, opened, form, lent, found = seen["html"]
    assert "Jane Austen, 474 pages" in shown
    assert opened == "<h2>Emma</h2>"
    assert "Who borrows it" in form
    assert lent == "<p>Lent to Ann.</p>"
    assert "Persuasion" in found
    assert seen["page"]["csp"]["connectDomains"] == ["https://maps.example.com"]
    assert seen["tools"]["show_book"] == {"resourceUri": "ui://library/card.html"}
    assert seen["tools"]["lend"]["visibility"] == ["app"]
    assert "lend_form" not in seen["others"]
    assert set(seen["others"].values()) == {""}


def test_the_page_on_skills_does_what_it_says(site: Site) -> None:
    written = re.search(r"^    ---\n(?:    .*\n|\n)+", PAGE_ON_SKILLS.read_text(), re.MULTILINE)[0]
    for name, text in {"find-a-book": dedent(written), "order-books": ORDER_BOOKS}.items():
        folder = site.path / "library" / "skills" / name / "references"
        folder.mkdir(parents=True)
        (folder.parent / "SKILL.md").write_text(text)
        (folder / "shelves.md").write_text("# Shelves")
    prepare(site, "skills.md")
    uri = "skill://find-a-book/"
    for path in ("/mcp", "/staff/mcp"):
        listed, file, hidden = site.requests(
            ("resources/list", {}),
            ("resources/read", {"uri": f"{uri}references/shelves.md"}),
            ("resources/read", {"uri": "skill://order-books/SKILL.md"}),
            path=path,
        )
        assert [(each["uri"], each["name"]) for each in listed["result"]["resources"]] == [
            (f"{uri}SKILL.md", "find-a-book")
        ]
        assert file["result"]["contents"][0]["text"] == "# Shelves"
        assert hidden["error"]["message"] == "Resource not found"


ANN = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import Permission, User
User.objects.create_user("ann").user_permissions.add(Permission.objects.get(codename="view_book"))
"""


def test_the_page_on_commands_does_what_it_says(site: Site) -> None:
    prepare(site, "commands.md", rows=ANN)
    (site.path / "library/mcp.py").unlink()
    lines = [line.split("  #")[0].split() for code in code_of("commands.md", "sh") for line in code.splitlines()]
    assert {tuple(line[:2]) for line in lines} == {("python", "manage.py")}
    first, *others = (line[2:] for line in lines)
    assert "mcp_inspect" in site.run("manage.py", *first)
    everything, seen, tool, described, found, clients, claude, vscode = site.commands(*others)
    assert "search_books" in everything
    assert "as seen by:    ann" in seen
    assert "hidden" not in seen
    assert '"properties"' in tool
    assert described == "2 × book\n"
    assert "Emma" in found
    assert "vscode" in clients
    assert "claude mcp add --transport http mysite https://library.example/mcp" in claude
    assert '"mcp_stdio"' in vscode


def test_the_page_on_migrating_does_what_it_says(site: Site) -> None:
    prepare(site, "migrating.md", rows=ANN)
    lent, count, renamed, found, title, prompt = site.requests(
        call("lend", title="Emma", reader="Ben"),
        call("count_books"),
        call("rename_book", pk=9, title="Sanditon"),
        call("find_books", words="mm"),
        ("resources/read", {"uri": "library://books/2"}),
        ("prompts/get", {"name": "recommend", "arguments": {"subject": "bees"}}),
    )
    assert lent["result"]["content"][0]["text"] == "Emma to Ben, as AnonymousUser wished"
    assert data(count) == 2
    assert renamed["result"]["content"][0]["text"] == "There is no such book."
    assert data(found) == ["Emma"]
    assert title["result"]["contents"][0]["text"] == "Persuasion"
    assert prompt["result"]["messages"][0]["content"]["text"] == "Recommend a book on bees."
    assert "Emma" in site.run("manage.py", "mcp_call", "search_books", "pages__gt=300", "--as", "ann")


TELEMETRY = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import mysite.telemetry
from mysite.wsgi import application
import json, logging
from django.test import Client
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "broken", "arguments": {}}}
Client().post("/mcp", json.dumps(body), content_type="application/json")
from opentelemetry import metrics, trace
trace.get_tracer_provider().shutdown()
metrics.get_meter_provider().shutdown()
"""


def test_the_page_on_observability_does_what_it_says(site: Site) -> None:
    telemetry, logs = code_of("observability.md")
    prepare(site, "observability.md", skip=2)
    site.append("library/mcp.py", "from django_mcp import tool\n\n\n@tool\ndef broken() -> int:\n    return 1 / 0\n")
    site.append("mysite/telemetry.py", telemetry)
    site.append("mysite/settings.py", logs)
    printed, told = site.run_both("-c", TELEMETRY)
    assert '"name": "tools/call broken"' in printed
    assert "mcp.server.operation.duration" in printed
    assert re.search(r"ERROR django_mcp \[[0-9a-f]{8}\] tools/call broken failed", told)
    assert "ZeroDivisionError" in told


OWN_ERROR = '''
from library.errors import LibraryError


@tool
def open_library() -> str:
    """Open the library."""
    raise LibraryError("Closed on Sundays.")
'''


def test_the_page_on_tools_does_what_it_says(site: Site) -> None:
    errors, settings = (code for code in code_of("tools.md") if code.startswith("# "))
    site.append("library/errors.py", errors)
    prepare(site, "tools.md")
    site.append("mysite/settings.py", settings.replace("DJANGO_MCP = ", "DJANGO_MCP |= "))
    site.append("library/mcp.py", OWN_ERROR)
    counted, search, wrong, due, rename, listed, lent, not_lent, of_author, photo, pages = site.requests(
        call("count_books", author="Jane Austen"),
        call("search_books", words="a", order="pages"),
        call("search_books", words="a", limit=500),
        call("due_date"),
        call("rename_book", pk=1, title="x"),
        ("tools/list", {}),
        call("lend", book=1, reader="Ann"),
        call("lend", book=9, reader="Ann"),
        call("by_author", author="Jane Austen"),
        call("turn_over", photo="iVBORw0KGgo="),
        call("list_pages"),
    )
    (closed,) = site.requests(call("open_library"))
    assert closed["result"]["content"][0]["text"] == "Closed on Sundays."
    assert data(counted) == 2
    assert search["result"]["content"][0]["text"] == "2 books: Persuasion, Emma"
    assert "must be at most 50" in wrong["result"]["content"][0]["text"]
    assert "result" in due
    assert rename["error"]["message"] == "Unknown tool: 'rename_book'."
    names = {"count_books", "search_books", "due_date", "lend", "by_author", "turn_over", "list_pages", "get_book"}
    names.add("open_library")
    assert {tool["name"] for tool in listed["result"]["tools"]} == names
    assert lent["result"]["content"][0]["text"] == "Emma to Ann, for 14 days."
    assert not_lent["result"]["content"][0]["text"].startswith("No book with primary key '9' found.")
    assert {row["title"] for row in data(of_author)} == {"Emma", "Persuasion"}
    assert (photo["result"]["content"][0]["type"], photo["result"]["content"][0]["mimeType"]) == ("image", "image/png")
    assert pages["result"]["content"][1]["text"] == "Persuasion: 249 pages."


def test_the_page_on_forms_does_what_it_says(site: Site) -> None:
    prepare(site, "forms-and-views.md", stop=-3)
    listed, asked, wrong, made, sent, rated, unknown, enrolled, young, stock = site.requests(
        ("tools/list", {}),
        call("enquiry", title="Emma", email="ann@example.com"),
        call("enquiry", title={}, email="ann", copies=10, when="soon"),
        call("create_book", title="Emma", author="Jane Austen", pages=474),
        call("letter", text="Hello"),
        call("rating", book=1, stars=5),
        call("rating", book=9, stars=5),
        call("enrol", readers=[{"name": "Ann", "age": 9}, {"name": "Bob", "age": 7}]),
        call("enrol", readers=[{"name": "Ann", "age": 9}, {"name": "Bob", "age": "seven"}]),
        call("stock", isbn="978-0-14-143958-7"),
    )
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert tools.keys() == {"enquiry", "letter", "rating", "enrol", "ask_for_book", "stock"}
    assert tools["stock"]["inputSchema"]["properties"]["isbn"]["pattern"] == "^97[89][-0-9]{10,14}$"
    assert stock["result"]["content"][0]["text"] == "There are two of 9780141439587."
    assert asked["result"]["content"][0]["text"] == "We will write to ann@example.com."
    assert wrong["result"]["content"][0]["text"] == (
        "Unknown argument 'when'. It takes 'title', 'email', 'copies'. "
        "Argument 'title' must be a string, not an object. "
        "Argument 'email': Enter a valid email address. "
        "Argument 'copies': Ensure this value is less than or equal to 9."
    )
    assert made["error"]["message"] == "Unknown tool: 'create_book'."
    assert sent["result"]["content"][0]["text"] == "Sent in the name of an anonymous user."
    assert rated["result"]["content"][0]["text"] == "Emma: 5 of 5 stars."
    assert unknown["result"]["content"][0]["text"] == "No book with primary key '9' found."
    assert enrolled["result"]["content"][0]["text"] == "Welcome, Ann and Bob."
    assert young["result"]["content"][0]["text"] == "Argument 'readers[1].age': Enter a whole number."


STAFF_CALLS = """
from django.contrib.auth.models import User
from django_mcp.test import MCPClient
boss, ann = User.objects.create_superuser("boss"), User.objects.create_user("ann")
boss, ann = [MCPClient(user, server="staff", capabilities={}) for user in (boss, ann)]
print(json.dumps([boss.names(), boss.call("search_books", query="emma").structured["total"], ann.names()]))
"""


def test_the_page_on_the_admin_does_what_it_says(site: Site) -> None:
    site.append(
        "library/admin.py",
        """
        from library.models import Book


        @admin.register(Book)
        class BookAdmin(admin.ModelAdmin):
            list_display = ["title", "author"]
            search_fields = ["title"]
        """,
    )
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.APIKeyAuthentication"]}')
    site.append(
        "mysite/urls.py", 'from django.urls import include\nurlpatterns += [path("", include("django_mcp.urls"))]'
    )
    site.append("library/mcp.py", "\n\n".join(code_of("admin-tools.md")))
    names, found, of_customer = json.loads(site.migrate(TWO_BOOKS + "import json\n" + STAFF_CALLS, check=True))
    verbs = {"search_books", "get_book", "book_history", "add_book", "change_book", "delete_book"}
    assert verbs | {"admin_overview", "search_users", "search_groups"} <= {*names}
    assert (found, of_customer) == (1, [])


def complete(name: str, value: str) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": "book_review"}, "argument": {"name": name, "value": value}}


def test_the_page_on_resources_and_prompts_does_what_it_says(site: Site) -> None:
    (site.path / "library/templates/library").mkdir(parents=True)
    (site.path / "library/templates/library/review.md").write_text(code_of("resources-and-prompts.md", "")[0])
    prepare(site, "resources-and-prompts.md")
    emma = {"title": "<Emma>", "tone": "sharp"}
    chosen = {"context": {"arguments": {"author": "Jane Austen"}}}
    listed, review, long, wrong, asked, _, reading_list = site.requests(
        ("prompts/list", {}),
        ("prompts/get", {"name": "review", "arguments": {**emma, "words": "9"}}),
        ("prompts/get", {"name": "short-review", "arguments": emma}),
        ("prompts/get", {"name": "short-review", "arguments": {**emma, "words": "9"}}),
        ("prompts/get", {"name": "ask-the-house", "arguments": {"question": "Why?"}}),
        ("prompts/get", {"name": "agree"}),
        ("prompts/get", {"name": "reading-list", "arguments": {"subject": "bees", "books": "2"}}),
    )
    prompts = {each["name"]: each for each in listed["result"]["prompts"]}
    first, short = prompts["review"], prompts["short-review"]
    assert first["description"] == short["description"] == "Ask for a review of a book."
    assert [(each["name"], each["required"]) for each in first["arguments"]] == [
        ("title", True),
        ("tone", False),
        ("words", False),
    ]
    assert short["arguments"][0] == {"name": "title", "description": "The title as it is printed.", "required": True}
    wish, embedded, reply = review["result"]["messages"]
    assert wish["content"]["text"] == 'Write a sharp review of "<Emma>" in at most 9 words.'
    assert embedded["content"]["resource"]["text"] == "# Rules\n\nBe kind to books."
    assert (reply["role"], reply["content"]["text"]) == ("assistant", "I will read the rules of the house first.")
    assert "in at most 50 words" in long["result"]["messages"][0]["content"]["text"]
    assert "'words' must be at least 20" in wrong["error"]["message"]
    assert asked["result"]["messages"][1]["content"] == embedded["content"]
    assert "2 books about bees" in reading_list["result"]["messages"][0]["content"]["text"]
    rules, book, no_book, cover, author, title, tone = site.requests(
        ("resources/read", {"uri": "library://rules"}),
        ("resources/read", {"uri": "library://books/1"}),
        ("resources/read", {"uri": "library://books/3"}),
        ("resources/read", {"uri": "library://covers/1?size=90"}),
        ("completion/complete", complete("author", "jane")),
        ("completion/complete", {**complete("title", ""), **chosen}),
        ("completion/complete", complete("tone", "s")),
    )
    assert rules["result"]["contents"][0]["mimeType"] == "text/markdown"
    assert "Emma" in book["result"]["contents"][0]["text"]
    assert no_book["error"]["message"] == "Resource not found"
    assert 'width="90"' in cover["result"]["contents"][0]["text"]
    assert author["result"]["completion"]["values"] == ["Jane Austen"]
    assert title["result"]["completion"]["values"] == ["Emma", "Persuasion"]
    assert tone["result"]["completion"]["values"] == ["sharp"]


VIEWS_AND_THE_SITE = """
from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path
urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/login/", lambda request: HttpResponse("Sign in."), name="login"),
    path("", include("library.urls")),
    path("", include("django_mcp.urls")),
]
"""


def test_the_page_on_views_does_what_it_says(site: Site) -> None:
    views, urls, tools = code_of("forms-and-views.md")[-3:]
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["mysite.who.ByName"]}')
    site.append("mysite/who.py", BY_NAME.replace('User.objects.get(username=head.headers.get("x-user", "ann"))', "WHO"))
    site.append("mysite/who.py", "from django.contrib.auth.models import AnonymousUser")
    site.append("mysite/who.py", "WHO = User(pk=1, username='ann')")
    (site.path / "mysite/urls.py").write_text(VIEWS_AND_THE_SITE)
    (site.path / "library/views.py").write_text(views)
    site.append("library/urls.py", urls)
    site.append("library/mcp.py", tools)
    page = site.path / "library/templates/library/book_list.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        "<nav>Menu</nav><h1>Books</h1><ul>{% for each in object_list %}<li>{{ each.title }}{% endfor %}</ul>"
    )
    site.migrate(TWO_BOOKS, check=True)
    listed, one, books, none, added, refused = site.requests(
        ("tools/list", {}),
        call("library_detail", pk=1),
        call("list_books"),
        call("library_detail", pk=99),
        call("add_book", title="Lady Susan", author="Austen"),
        call("add_book", title="x" * 101, author="Austen"),
    )
    schemas = {each["name"]: each["inputSchema"]["properties"] for each in listed["result"]["tools"]}
    assert schemas["library_detail"] == {"pk": {"type": "integer", "minimum": 0}}
    assert schemas["list_books"]["page"]["description"] == "Page number; a page has ten books."
    assert "title" in data(one)
    assert books["result"]["content"][0]["text"] == "# Books\n\n- Emma\n- Persuasion"
    assert none["result"]["content"][0]["text"] == "Not found."
    assert added["result"]["content"][0]["text"].startswith('Lady Susan is number 3.\n\n{"title": "Lady Susan"')
    assert refused["result"]["content"][0]["text"] == "The request was not accepted. title: At most 100 characters."
    site.append("mysite/who.py", "WHO = AnonymousUser()")
    (nobody,) = site.requests(call("add_book", title="x", author="y"))
    assert nobody["result"]["content"][0]["text"] == "Authentication is required for this."


ANN_JOINS_THE_DESK = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import Group, User
ann = User.objects.create_user("ann")
ann.groups.add(Group.objects.create(name="Desk"))
from library.mcp import promote
promote([ann.pk])
from django_mcp.models import Event
print([each.topic for each in Event.objects.filter(data__contains=f'"user:{ann.pk}"').order_by("pk")])
"""


def test_the_page_on_many_tools_does_what_it_says(site: Site) -> None:
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["mysite.who.ByName"]}')
    site.append("mysite/who.py", BY_NAME)
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/mcp.py", "\n\n".join(code_of("permissions.md")))
    told = site.migrate(ANN_JOINS_THE_DESK, check=True)
    assert told.count("server:default") == 2, "when she joined, and when she was promoted"
    listed, hidden, mine = site.requests(
        ("tools/list", {}), call("rename_book", pk=1, title="x"), call("fetch_book", pk=1)
    )
    names = ["waive_fee", "fetch_book", "loans_count", "loans_forget_all"]
    assert [each["name"] for each in listed["result"]["tools"]] == names
    assert hidden["error"]["message"] == "Unknown tool: 'rename_book'."
    assert mine["result"]["content"][0]["text"] == "It is on its way."
    (desk,) = site.requests(("tools/list", {}), path="/desk/mcp")
    assert [each["name"] for each in desk["result"]["tools"]] == ["loans_count"]
    listed, found, called = site.requests(
        ("tools/list", {}),
        call("search_tools", query="books that are out"),
        call("call_read_tool", name="loans_count"),
        path="/everything/mcp",
    )
    names = ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool"]
    assert [each["name"] for each in listed["result"]["tools"]] == names
    assert "4 tools, tagged: danger (1), desk (2), loans (2)" in listed["result"]["tools"][0]["description"]
    assert data(found)["tools"][0]["name"] == "loans_count"
    assert data(called) == 0


def test_the_page_on_ninja_does_what_it_says(site: Site) -> None:
    declared, *_ = code_of("ninja.md")
    (site.path / "library/api.py").write_text(declared)
    site.append("mysite/urls.py", 'from library.api import api\nurlpatterns += [path("api/", api.urls)]')
    prepare(site, "ninja.md", skip=1)
    emma = {"title": "Emma", "author": "J. Austen", "pages": 470}
    listed, found, written, wrong, gone, refused, machine = site.requests(
        ("tools/list", {}),
        call("search_books", title="e", limit=1),
        call("replace_book", pk=1, **emma),
        call("replace_book", pk=1, **{**emma, "pages": 0}),
        call("replace_book", pk=7, **emma),
        call("delete_book", pk=1),
        call("restock", pk=1),
    )
    assert [tool["name"] for tool in listed["result"]["tools"]] == [
        "search_books",
        "replace_book",
        "delete_book",
        "restock",
    ]
    assert data(found) == {"items": [{"id": 1, "title": "Emma", "author": "Jane Austen", "pages": 474}], "count": 2}
    assert data(written) == {"id": 1, **emma}
    assert wrong["result"]["content"][0]["text"] == "Argument 'pages' must be at least 1, not 0."
    assert gone["result"]["content"][0]["text"].startswith("Not Found")
    assert "Authentication is required" in refused["result"]["content"][0]["text"]
    assert "Authentication is required" in machine["result"]["content"][0]["text"]


def test_the_page_on_rest_framework_does_what_it_says(site: Site) -> None:
    api, *_ = code_of("drf.md")
    site.append("library/api.py", api)
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["rest_framework"]')
    site.append("mysite/urls.py", "from django.urls import include\nfrom library.api import router")
    site.append("mysite/urls.py", 'urlpatterns += [path("api/", include(router.urls))]')
    prepare(site, "drf.md", skip=1, check=True)
    listed, found, page, blurb, refused, wrong, ordered = site.requests(
        ("tools/list", {}),
        call("list_books", search="emma"),
        call("list_books", ordering="-pages", page_size=1),
        call("blurb_book", pk=1),
        call("delete_book", pk=1),
        call("order_book", title="", copies=10),
        call("order_book", title="Sanditon"),
    )
    assert [tool["name"] for tool in listed["result"]["tools"]] == [
        *("list_books", "create_book", "get_book", "update_book", "delete_book", "blurb_book", "order_book"),
    ]
    assert [row["title"] for row in data(found)["results"]] == ["Emma"]
    assert data(page)["next_arguments"] == {"page": 2, "page_size": 1}
    assert data(blurb)["blurb"].endswith("is worth reading.")
    assert "not authenticated" in refused["result"]["content"][0]["text"]
    assert wrong["result"]["content"][0]["text"].splitlines() == [
        "Argument 'title': This field may not be blank. (It was \"\".)",
        "Argument 'copies': Ensure this value is less than or equal to 9. (It was 10.)",
    ]
    assert data(ordered) == {"arrives": "2030-05-01"}


ANN_SHOPS = """
import json, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import Group, User
from library.models import Offer, Order, Seller
ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
Group.objects.create(name="readers")
seller = Seller.objects.create(name="Carl", phone="0123")
worn = {"price": "4.50", "condition": "worn", "description": "Torn."}
emma = Offer.objects.create(title="Emma", slug="emma", seller=seller, **worn)
Offer.objects.create(title="Persuasion", slug="persuasion", seller=seller, price="9", condition="good")
Order.objects.create(offer=emma, buyer=bob, note="of Bob")
from django_mcp.models import Event
from library.prices import reduce_prices
reduce_prices(Offer.objects.filter(slug="persuasion"))
print(json.dumps([json.loads(data) for data in Event.objects.order_by("pk").values_list("data", flat=True)]))
"""


def test_the_page_on_limits_does_what_it_says(site: Site) -> None:
    throttling, settings = (code for code in code_of("limits.md") if code.startswith("# "))
    site.append("library/throttling.py", throttling)
    prepare(site, "limits.md")
    site.append("mysite/settings.py", settings.replace("DJANGO_MCP = ", "DJANGO_MCP |= "))
    method, params = call("lend_book", title="Emma")
    keyed = (method, {**params, "_meta": {"django-mcp/idempotencyKey": "8e03978e"}})
    other = (method, {**keyed[1], "arguments": {"title": "Persuasion"}})
    books, lent, again, wrong = site.requests(call("export_books", limit=1), keyed, keyed, other)
    assert len(json.loads(books["result"]["content"][0]["text"])) == 1
    assert lent["result"]["content"][0]["text"] == "Emma is yours."
    assert "has already run" in again["result"]["content"][0]["text"], "callers of this site cannot be told apart"
    assert "already used with other arguments" in wrong["result"]["content"][0]["text"]


def test_the_page_on_calls_does_what_it_says(site: Site) -> None:
    prepare(site, "request-log.md")
    opened, noted = site.requests(call("open_door", door="3", code="hush"), call("take_notes", text="hush"))
    assert opened["result"]["content"][0]["text"] == "3 is open."
    assert noted["result"]["content"][0]["text"] == "Kept."
    logged = site.run("manage.py", "shell", "-c", LOGGED_CALLS).splitlines()[-1]
    assert json.loads(logged) == [["open_door", {"door": "3", "code": "***"}], ["take_notes", None]]


LOGGED_CALLS = """
import json
from django_mcp.models import RequestLog
print(json.dumps([list(each) for each in RequestLog.objects.order_by("pk").values_list("name", "arguments")]))
"""


def is_of_postgresql(code: str) -> bool:
    return "on PostgreSQL" in code.partition("\n")[0]


def test_the_pages_on_models_do_what_they_say(site: Site) -> None:
    code = [each for each in [*code_of("models.md"), *code_of("model-writes.md")] if not is_of_postgresql(each)]
    models = [each for each in code if each.startswith("# models.py")]
    resources = [each for each in code if each.startswith(("# mcp.py", "@register"))]
    (prices,) = [each for each in code if each not in [*models, *resources]]
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["mysite.who.ByName"]}')
    site.append("mysite/who.py", BY_NAME)
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/models.py", "\n\n".join(models))
    site.append("library/mcp.py", "\n\n".join(resources))
    site.append("library/prices.py", prices)
    told = json.loads(site.migrate(ANN_SHOPS, check=True))
    assert "library://offer/persuasion" in [each["params"].get("uri") for each in told]
    row, text, found, cheap, dear, groups, schema, listed, tools, orders, ordered, mine, group = site.requests(
        ("resources/read", {"uri": "library://offer/emma"}),
        ("resources/read", {"uri": "library://offer/emma/description"}),
        call("search_offers", query="carl", price__lte=5, order_by="-price"),
        call("search_offers", cheap=True),
        call("search_offers", cheap=False),
        call("aggregate_offers", measures=["count", "max_price"], by=["seller__name"]),
        ("resources/read", {"uri": "schema://library/offer"}),
        ("resources/list", {}),
        ("tools/list", {}),
        call("search_orders"),
        call("create_order", offer="emma", note="mine"),
        call("search_orders"),
        call("search_groups", query="reader"),
    )
    offer = json.loads(row["result"]["contents"][0]["text"])
    assert offer["seller"] == {"uri": "library://seller/1", "title": "Carl"}
    assert text["result"]["contents"][0] == {
        "uri": "library://offer/emma/description",
        "mimeType": "text/markdown",
        "text": "Torn.",
    }
    assert [each["title"] for each in data(found)["rows"]] == ["Emma", "Persuasion"]
    assert [len(data(answer)["rows"]) for answer in (cheap, dear)] == [2, 0]
    assert data(groups)["groups"][0]["count"] == 2
    assert "0123" not in str([row, schema, listed])
    assert {"library://offer", "library://offer/emma"} <= {each["uri"] for each in listed["result"]["resources"]}
    names = {tool["name"] for tool in tools["result"]["tools"]}
    assert names >= {"search_offers", "get_offer", "aggregate_offers", "create_order", "update_order", "delete_order"}
    assert data(orders)["rows"] == []
    assert data(ordered)["offer"]["uri"] == "library://offer/emma"
    assert [each["note"] for each in data(mine)["rows"]] == ["mine"]
    assert "Unknown tool" in group["error"]["message"]


BY_NAME = """
from django.contrib.auth.models import User
from django_mcp import BaseAuthentication, Principal

class ByName(BaseAuthentication):
    def authenticate(self, head, server):
        user = User.objects.get(username=head.headers.get("x-user", "ann"))
        return Principal(kind="name", id=user.username, user=user)
"""


ESSAYS = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from library.models import Essay
Essay.objects.create(text="Boots and long roads.")
Essay.objects.create(text="Chairs.")
"""


def test_the_page_on_chatgpt_does_what_it_says(site: Site) -> None:
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["mysite.who.ByName"]}')
    site.append("mysite/who.py", BY_NAME)
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/models.py", "Book.get_absolute_url = lambda self: f'/books/{self.pk}/'")
    site.append("library/mcp.py", code_of("chatgpt.md")[0])
    ann = 'from django.contrib.auth.models import User\nUser.objects.create_superuser("ann")'
    site.migrate(f"{TWO_BOOKS}\n{ann}", check=True)
    listed, found, read = site.requests(
        ("tools/list", {}), call("search", query="emma"), call("fetch", id="library.book:1"), path="/research/mcp"
    )
    assert [each["name"] for each in listed["result"]["tools"]] == ["search", "fetch"]
    emma = {"id": "library.book:1", "title": "Emma", "url": "http://testserver/books/1/"}
    assert data(found) == {"results": [emma]}
    assert data(read)["url"] == emma["url"]
    assert "Jane Austen" in data(read)["text"]
    (listed,) = site.requests(("tools/list", {}))
    assert [each["name"] for each in listed["result"]["tools"]] == ["search_books", "get_book"]


def test_the_section_on_full_text_search_does_what_it_says(site: Site) -> None:
    models, resource = (code for code in code_of("models.md") if is_of_postgresql(code))
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}')
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    site.append("library/models.py", models)
    site.append("library/mcp.py", f"from django_mcp import ModelResource, register\n{resource}")
    site.run("manage.py", "check", "--fail-level", "WARNING")
    with on_postgresql_too(site) as is_there:
        if not is_there:  # on SQLite there is no such column
            return
        site.migrate(ESSAYS)
        road, wall = site.requests(call("search_essays", query="a long road"), call("search_essays", query="walls"))
        assert [each["text"] for each in data(road)["rows"]] == ["Boots and long roads."]
        assert data(wall)["rows"] == []
        assert "words" not in data(road)["rows"][0]


@contextmanager
def on_postgresql_too(site: Site) -> Iterator[bool]:
    """Gives the site a PostgreSQL database where the tests have one; whether it does."""
    if connection.vendor != "postgresql":
        yield False
        return
    import psycopg

    parameters = {**connection.get_connection_params(), "dbname": "postgres"}
    options = {key: parameters[key] for key in ("dbname", "user", "password", "host", "port") if key in parameters}
    name = f"{connection.settings_dict['NAME']}_full_text"
    with psycopg.connect(**options, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        settings = {**connection.settings_dict, "NAME": name, "TEST": {}}
        site.append("mysite/settings.py", f"DATABASES = {{'default': {settings!r}}}")
        try:
            yield True
        finally:
            server.execute(f'DROP DATABASE "{name}"')


def test_the_page_on_settings_does_what_it_says(site: Site) -> None:
    prepare(site, "settings.md")
    (count,) = site.requests(call("count_books"), path="/staff/mcp")
    assert count["result"]["content"][0]["text"] == "2"
    (refused,) = site.requests(call("count_books"), path="/inside/mcp")
    assert "credential" in refused["error_description"]


WHO_MAY_CALL = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import User
from django.test import Client
from django_mcp.auth.api_keys import create_key
anna = User.objects.create_user("anna", password="x")
post = lambda path, method, params, **headers: Client().post(
    path, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
    content_type="application/json", headers={"host": "library.example.com", **headers})
anonymous = post("/mcp", "tools/list", {})
foreign = post("/sso/mcp", "tools/list", {})
key = create_key(anna, "nightly report", endpoints=["default"], scopes=["library:read"], days=90)[1]
reading = {"authorization": f"Bearer {key}"}
metadata = Client().get("/.well-known/oauth-authorization-server", headers={"host": "library.example.com"})
print(json.dumps({
    "challenge": anonymous["www-authenticate"],
    "other issuer": foreign["www-authenticate"],
    "listed": [each["name"] for each in post("/mcp", "tools/list", {}, **reading).json()["result"]["tools"]],
    "count": post("/mcp", "tools/call", {"name": "count_books"}, **reading).json(),
    "add": post("/mcp", "tools/call", {"name": "add_book", "arguments": {}}, **reading).json(),
    "issuer": metadata.json()["issuer"],
    "login": Client().get("/o/access/", headers={"host": "library.example.com"})["location"],
}))
"""


def test_the_page_on_who_may_call_does_what_it_says(site: Site) -> None:
    files = {"settings.py": "mysite/settings.py", "urls.py": "mysite/urls.py"}
    files |= {"mcp.py": "library/mcp.py", "mcp.py, further down": "library/mcp.py"}
    site.append("mysite/urls.py", "from django.urls import include")
    for code in code_of("authentication.md"):
        if code.startswith(OWN_SERVER):
            continue
        site.append(files.pop(re.match(r"# (\w+\.py(, further down)?)", code)[1]), code)
    assert not files, "the page no longer shows these"
    site.append("mysite/settings.py", 'ALLOWED_HOSTS = ["library.example.com"]')
    site.migrate(TWO_BOOKS, check=True)
    found = json.loads(site.run("-c", WHO_MAY_CALL))
    well_known = "https://library.example.com/.well-known/oauth-protected-resource"
    assert found["challenge"] == f'Bearer scope="library:read", resource_metadata="{well_known}/mcp"'
    assert f"{well_known}/sso/mcp" in found["other issuer"]
    assert found["listed"] == ["count_books"]
    assert found["count"]["result"]["content"][0]["text"] == "2"
    assert found["add"]["error"]["message"] == "Unknown tool: 'add_book'."
    assert found["issuer"] == "https://library.example.com"
    assert found["login"] == "/accounts/login/?next=/o/access/"


OWN_SERVER = "# urls.py with your own server"


def test_the_consent_page_may_stand_before_a_view_of_the_sites_own(site: Site) -> None:
    """Nothing but the toolkit's other views is warned of."""
    settings, own = (
        next(code for code in code_of("authentication.md") if code.startswith(start))
        for start in ("# settings.py", OWN_SERVER)
    )
    site.append("mysite/settings.py", settings)
    site.append("mysite/settings.py", 'DJANGO_MCP["OAUTH_PATH"] = None')
    site.append("mysite/settings.py", 'LOGIN_URL = "admin:login"')
    site.append("mysite/urls.py", "admin_patterns = urlpatterns")
    site.append("mysite/urls.py", own)
    site.append("mysite/urls.py", "urlpatterns += admin_patterns")
    (told,) = site.commands("check")
    assert "django_mcp.E" not in told
    assert "/o/authorize/" not in told


LISTED = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.test import Client
paths = ["mcp/server-card", *(f".well-known/{name}" for name in (
    "ai-catalog.json", "mcp/catalog.json", "openai-apps-challenge", "mcp-registry-auth"))]
found = [Client().get(f"/{path}", headers={"host": "library.example.com"}) for path in paths]
print(json.dumps([[each.status_code, each.text] for each in found]))
"""


def test_the_page_on_directories_does_what_it_says(site: Site) -> None:
    site.append("mysite/urls.py", "from django.urls import include")
    for code in code_of("authentication.md"):
        if name := re.match(r"# (settings|urls)\.py\n", code):
            site.append(f"mysite/{name[1]}.py", code)
    for code in code_of("listing.md"):
        site.append(re.match(r"# (\S+)", code)[1], code.replace("BASE64-OF-THE-PUBLIC-KEY", "aGVsbG8="))
    site.append("mysite/settings.py", 'ALLOWED_HOSTS = ["library.example.com"]')
    told, written = site.commands("mcp_listing", "mcp_listing registry --write")
    assert told.count("Nothing would be refused.") == 4
    assert "Wrote server.json" in written
    assert json.loads((site.path / "server.json").read_text())["name"] == "com.example.library/default"
    card, *catalogs, token, key = json.loads(site.run("-c", LISTED))
    assert json.loads(card[1])["description"] == "Search the books of the library, and reserve them."
    assert all("https://library.example.com/mcp/server-card" in text for _, text in catalogs)
    assert token == [200, "the-token-of-the-form"]
    assert key == [200, "v=MCPv1; k=ed25519; p=aGVsbG8="]


def test_the_setting_of_django_cors_headers_leaves_our_paths_to_the_endpoint() -> None:
    (code,) = [code for code in code_of("asgi-and-wsgi.md") if "CORS_URLS_REGEX" in code]
    settings: dict[str, Any] = {}
    exec(code, settings)
    taken = re.compile(settings["CORS_URLS_REGEX"])
    for path in ("/mcp", "/mcp/", "/o/token/", "/.well-known/oauth-protected-resource/mcp"):
        assert not taken.match(path)
    assert taken.match("/api/books/")


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
