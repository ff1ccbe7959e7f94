"""``manage.py mcp_call``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from django.core.management import CommandError
from django.test import modify_settings, override_settings

from django_mcp import Context, ImageContent, MCPServer, TextContent, ToolError, tool
from django_mcp.management.commands.mcp_call import ProgressLine, Responder
from django_mcp.models import RequestLog
from django_mcp.protocol import versions
from tests.behaviour import users
from tests.core.test_apps import templates  # noqa: F401 - a fixture

Run = Callable[..., Any]
EVERY_VERSION = versions.SUPPORTED
ASKING = tuple(each for each in versions.SUPPORTED if each not in {"2025-03-26", "2024-11-05"})
"""Versions in which a client can be asked."""


@pytest.fixture
def shop(make_server: Callable[..., MCPServer]) -> MCPServer:
    return make_server("shop")


def call(run: Run, *arguments: str) -> Any:
    return run("mcp_call", *arguments, "--server", "shop")


def refused(run: Run, *arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        call(run, *arguments)
    return str(caught.value)


@pytest.fixture
def echo(shop: MCPServer) -> None:
    @tool(server=shop)
    def echo(
        text: str,
        number: int = 1,
        price: float | None = None,
        loud: bool = False,
        tags: list[str] | None = None,
        size: Literal["small", "large"] = "small",
        place: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Say it again.

        Args:
            text: What to say.
        """
        return {
            "text": text,
            "number": number,
            "price": price,
            "loud": loud,
            "tags": tags,
            "size": size,
            "place": place,
        }


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_arguments_are_of_the_type_that_the_tool_takes(run: Run, version: str) -> None:
    given = ["text=3", "number=3", "price=2.5", "loud=yes", "tags=a,b", "tags=c", "size=large", "place.city=Bath"]
    done = call(run, "echo", *given, "--protocol-version", version)
    said = json.loads(done.out)
    assert said["text"] == "3"
    assert (said["number"], said["price"], said["loud"]) == (3, 2.5, True)
    assert (said["tags"], said["size"], said["place"]) == (["a", "b", "c"], "large", {"city": "Bath"})
    assert done.code == 0


@pytest.mark.usefixtures("echo")
def test_data_is_printed_for_people(run: Run) -> None:
    assert call(run, "echo", "text=a").out.startswith('{\n  "text": "a",\n')


@pytest.mark.usefixtures("echo")
def test_json_is_given_as_it_is_and_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "arguments.json"
    file.write_text('{"text": "from the file", "number": 2}')
    said = json.loads(call(run, "echo", "--input", str(file), "number:=7", 'place:={"a": [1]}').out)
    assert (said["text"], said["number"], said["place"]) == ("from the file", 7, {"a": [1]})


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["text=a", "numbr=3"], "echo has no argument 'numbr'."),
        ([], "text is missing."),
        (["text=a", "number=three"], "number=three: number must be a whole number."),
        (["text=a", "size=huge"], "size=huge: size must be one of small, large."),
        (["text=a", "loud=perhaps"], "loud=perhaps: loud must be yes or no."),
        (["text"], "'text': write arguments as name=text or name:=JSON."),
        (["text=a", "number:=x"], "number:=x is not valid JSON. For text, write number=x."),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_what_would(run: Run, arguments: list[str], words: str) -> None:
    assert words in refused(run, "echo", *arguments)


@pytest.mark.usefixtures("echo")
def test_what_a_tool_takes_is_listed_with_the_error(run: Run) -> None:
    said = refused(run, "echo")
    assert "text=<string>  What to say." in said
    assert 'size=<small|large> (optional, default: "small")' in said


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("version", [versions.MODERN[0], versions.LEGACY[0]])
def test_the_view_of_a_result_is_printed(shop: MCPServer, run: Run, version: str) -> None:
    @tool(server=shop, app="part.html", visibility=["app"])
    def city(name: str) -> dict[str, Any]:
        """A city."""
        if name == "Atlantis":
            raise ToolError("There is no such city.")
        return {"name": name}

    done = call(run, "city", "name=<Oslo>", "--html", "--protocol-version", version)
    assert (done.out, done.code) == ("<h1>&lt;Oslo&gt;</h1><p>&lt;Oslo&gt;</p>\n", 0)
    failed = call(run, "city", "name=Atlantis", "--html", "--protocol-version", version)
    assert (failed.out, failed.code) == ("There is no such city.\n", 1)
    assert "Unknown tool" in refused(run, "city", "name=Oslo")


@pytest.mark.usefixtures("templates")
def test_the_view_of_a_task_is_printed(shop: MCPServer, run: Run) -> None:
    @tool(server=shop, app="part.html", task="required")
    def city(name: str) -> dict[str, Any]:
        """A city."""
        return {"name": name}

    assert call(run, "city", "name=Oslo", "--html").out == "<h1>Oslo</h1><p>Oslo</p>\n"


@pytest.mark.usefixtures("templates")
def test_without_a_view_nothing_is_printed_and_the_reason_is_given(shop: MCPServer, run: Run) -> None:
    calls: list[str] = []
    for name, app in (("plain", None), ("own", "own.html"), ("broken", "broken.html")):

        def show(name: str = name) -> dict[str, Any]:
            """Show."""
            calls.append(name)
            return {"name": name}

        tool(server=shop, name=name, app=app)(show)
    assert refused(run, "plain", "--html") == "plain has no app, so there is no HTML to print."
    assert "'own.html', is a whole page whose scripts show the result" in refused(run, "own", "--html")
    assert calls == []
    assert refused(run, "broken", "--html") == "broken was called, but its view could not be rendered. See the log."
    assert calls == ["broken"]
    assert "not allowed with argument" in refused(run, "plain", "--html", "--json")


def test_a_tool_that_fails_ends_with_1(shop: MCPServer, run: Run) -> None:
    @tool(server=shop)
    def fail() -> str:
        raise ToolError("There is no such book.")

    done = call(run, "fail")
    assert (done.code, done.out) == (1, "There is no such book.\n")


def test_a_tool_that_is_hidden_is_refused_like_one_that_is_not_there(shop: MCPServer, run: Run, make_user: Any) -> None:
    tool(server=shop, name="refund", permission=users.PERMISSION)(lambda: "done")
    ann, bob = make_user(), make_user(permissions=(users.PERMISSION,))
    said = refused(run, "refund", "--as", ann.username)
    assert said.startswith("Unknown tool: 'refund'. Run 'manage.py mcp_inspect --server shop --as ")
    assert call(run, "refund", "--as", bob.username).out == "done\n"


def test_a_call_is_in_the_log_in_the_name_of_the_user(
    shop: MCPServer, run: Run, make_user: Any, call_log: Callable[[], list[RequestLog]]
) -> None:
    tool(server=shop, name="work")(lambda: "done")
    ann = make_user()
    call(run, "work", "--as", ann.username)
    row = call_log()[-1]
    assert (row.name, row.user_id) == ("work", ann.pk)


@pytest.fixture
def lend(shop: MCPServer) -> None:
    form = {
        "type": "object",
        "properties": {
            "days": {"type": "integer", "title": "Days", "minimum": 1, "default": 14},
            "cover": {"type": "string", "enum": ["paper", "cloth"]},
        },
        "required": ["cover"],
    }

    @tool(server=shop)
    def lend(ctx: Context) -> str:
        """Lend a book."""
        if not ctx.confirm("Lend it?"):
            return "It stays."
        asked = ctx.elicit("Which one?", form)
        return f"{asked.data}" if asked.data else asked.action


@pytest.mark.usefixtures("lend")
@pytest.mark.parametrize("version", ASKING)
def test_answers_can_be_given_beforehand(run: Run, version: str) -> None:
    given = [part for each in ("confirm=yes", "cover=cloth", "days=3") for part in ("--answer", each)]
    done = call(run, "lend", *given, "--protocol-version", version)
    assert done.out == "{'days': 3, 'cover': 'cloth'}\n"
    assert "Lend it?" in done.err
    assert call(run, "lend", "--answer", "confirm=no", "--protocol-version", version).out == "It stays.\n"


@pytest.mark.usefixtures("lend")
@pytest.mark.parametrize("version", ASKING)
def test_without_a_terminal_missing_answers_are_named(run: Run, version: str) -> None:
    assert "--answer confirm=yes  Yes, go ahead" in refused(run, "lend", "--protocol-version", version)
    said = refused(run, "lend", "--yes", "--protocol-version", version)
    assert "--answer cover=<paper|cloth>" in said
    assert "--answer days" not in said


@pytest.mark.usefixtures("lend")
def test_an_answer_that_does_not_fit_is_refused(run: Run) -> None:
    said = refused(run, "lend", "--yes", "--answer", "cover=leather")
    assert said == "--answer cover=leather: cover must be one of paper, cloth."


class Typist:
    """Types lines; then ends the input."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.shown = list(lines), []

    def __call__(self, prompt: str) -> str:
        self.shown.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


FORM = {
    "message": "Which one?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "days": {"type": "integer", "title": "Days", "minimum": 1, "default": 14},
            "cover": {"type": "string", "oneOf": [{"const": "p", "title": "Paper"}, {"const": "c", "title": "Cloth"}]},
            "note": {"type": "string"},
        },
        "required": ["days", "cover"],
    },
}


def test_a_person_is_asked_until_what_they_type_fits() -> None:
    said: list[str] = []
    typist = Typist("none", "0", "", "leather", "Cloth", "")
    answer = Responder({}, said.append, typist, yes=False, is_there=True).answer({"params": FORM})
    assert answer == {"action": "accept", "content": {"days": 14, "cover": "c"}}
    assert "This must be a whole number." in said
    assert "This must be a number of at least 1." in said
    assert "This must be one of p, c." in said
    assert "  c  Cloth" in said
    assert typist.shown[0] == "Days (integer) [14]: "


def test_a_person_declines_by_ending_their_input() -> None:
    said: list[str] = []
    person = Responder({}, said.append, Typist(), yes=False, is_there=True)
    assert person.answer({"params": FORM}) == {"action": "decline"}
    assert person.answer({"params": {"mode": "url", "message": "Pay", "url": "https://pay.example"}}) == {
        "action": "decline"
    }
    assert "Open this page in a browser: https://pay.example" in said


def test_progress_and_log_are_on_stderr(shop: MCPServer, run: Run) -> None:
    @tool(server=shop)
    def count(ctx: Context) -> str:
        for number in (1, 2):
            ctx.report_progress(number, 2, f"Book {number}")
        ctx.log("info", "All counted.")
        ctx.log("debug", "In detail.")
        return "2"

    done = call(run, "count")
    assert done.out == "2\n"
    assert done.err.splitlines() == ["1/2 Book 1", "2/2 Book 2", "[info] All counted."]
    assert "In detail." in call(run, "count", "-v2").err


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    shown: list[str] = []
    aside = ProgressLine(shown.append, is_terminal=True)
    aside.listen({"method": "notifications/progress", "params": {"progress": 1, "total": 2, "message": "Half"}})
    assert shown == ["\r[###############...............]  50% Half"]
    aside.clear()
    assert not shown[-1].strip()


def test_what_is_no_text_is_named_and_can_be_saved(shop: MCPServer, run: Run, tmp_path: Path) -> None:
    picture = b"\x89PNG picture"

    @tool(server=shop)
    def draw() -> list[TextContent | ImageContent]:
        return [TextContent("Here:"), ImageContent(picture, "image/png")]

    assert call(run, "draw").out == f"Here:\n[image/png, {len(picture)} bytes]\n"
    for _ in range(2):
        call(run, "draw", "--save", str(tmp_path / "new"))
    saved = sorted((tmp_path / "new").iterdir())
    assert [each.name for each in saved] == ["image-2-2.png", "image-2.png"]
    assert {each.read_bytes() for each in saved} == {picture}


def test_the_whole_result_is_printed_as_json(shop: MCPServer, run: Run) -> None:
    @tool(server=shop)
    def count() -> int:
        return 3

    result = call(run, "count", "--json").json
    assert result["structuredContent"] == 3
    assert result["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.usefixtures("policies")
@pytest.mark.urls("tests.management.admin_alone")
@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "APPROVAL_WAIT_TIMEOUT": 0.05})
@pytest.mark.parametrize("version", [versions.MODERN[0], versions.LEGACY[0]])
def test_a_call_that_has_to_be_approved_tells_where(shop: MCPServer, run: Run, make_user: Any, version: str) -> None:
    ran: list[str] = []

    @tool(server=shop, policy="ask")
    def close() -> str:
        """Close the shop."""
        ran.append("closed")
        return "closed"

    done = call(run, "close", "--as", make_user().username, "--protocol-version", version)
    assert (done.code, ran) == (1, [])
    assert "be approved here: http://testserver/admin/django_mcp/approval/" in done.err
    assert "Then run the same command again." in done.err


@pytest.mark.usefixtures("policies")
@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "APPROVAL_WAIT_TIMEOUT": 0.05})
def test_a_call_that_has_to_be_approved_at_a_site_without_the_admin_tells_that_nobody_can(
    shop: MCPServer, run: Run, make_user: Any
) -> None:
    @tool(server=shop, policy="ask")
    def close() -> str:
        """Close the shop."""
        raise AssertionError

    with modify_settings(INSTALLED_APPS={"remove": ["django.contrib.admin", "django_mcp.admin"]}):
        done = call(run, "close", "--as", make_user().username)
    assert done.code == 1
    assert "Nobody can approve it: add django.contrib.admin to INSTALLED_APPS" in done.err
    assert "under Approvals" not in done.err


def test_a_tool_that_is_always_a_task_is_waited_for(shop: MCPServer, run: Run) -> None:
    tool(server=shop, name="report", task="required")(lambda: "the report")
    assert call(run, "report").out.strip() == "the report"


def test_an_endpoint_that_is_not_open_wants_a_name(make_server: Callable[..., MCPServer], run: Run) -> None:
    make_server("closed", authentication=["django_mcp.APIKeyAuthentication"])
    with pytest.raises(CommandError, match="requires a user: use --as USERNAME"):
        run("mcp_call", "work", "--server", "closed")


# Crashes


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize(
    "error", [KeyError("nope"), SystemExit(3), ExceptionGroup("two", [ValueError("nope")])], ids=repr
)
def test_a_crash_is_shown_with_its_traceback(run: Run, shop: MCPServer, version: str, error: BaseException) -> None:
    @tool(server=shop)
    def crash() -> str:
        raise error

    done = call(run, "crash", "--protocol-version", version)
    assert done.code == 1
    assert done.err.count("Traceback (most recent call last)") == 1
    assert "in crash" in done.err
    assert type(error).__name__ in done.err
    assert "Traceback" not in done.out


def test_the_traceback_of_a_task_is_shown_too(run: Run, shop: MCPServer) -> None:
    @tool(server=shop, task="required")
    def crash() -> str:
        raise KeyError("nope")

    done = call(run, "crash")
    assert done.code == 1
    assert done.err.count("KeyError: 'nope'") == 1


def test_an_error_for_the_model_has_no_traceback(run: Run, shop: MCPServer) -> None:
    @tool(server=shop)
    def refuse() -> str:
        raise ToolError("Not today.")

    done = call(run, "refuse")
    assert "Not today." in done.out
    assert "Traceback" not in done.err
