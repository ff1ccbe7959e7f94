"""“Try a tool” in Django's admin: a tool is called from a page, like by any client, and its answer is shown."""

import base64
import enum
import html
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.db import connection, transaction
from django.http import QueryDict
from django.template.loader import render_to_string
from django.test import Client as Browser
from django.test import override_settings
from pydantic import BaseModel, Field

from django_mcp import (
    AudioContent,
    Context,
    EmbeddedResource,
    ImageContent,
    MCPServer,
    ResourceContents,
    ResourceLink,
    Secret,
    TextContent,
    ToolError,
    ToolResult,
    URLElicitation,
    prompt,
    resource,
    tool,
)
from django_mcp.admin.display import cut
from django_mcp.approvals import decisions
from django_mcp.client.schema_form import SchemaForm
from django_mcp.conf import settings
from django_mcp.models import Approval, RequestLog, Task, ToolPolicy
from django_mcp.protocol import versions
from django_mcp.protocol.content import Content
from tests.exchange import eventually
from tests.tasks.gates import Gate

HOME = "/admin/django_mcp/playground/"
Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def people(policies: None) -> Iterator[None]:
    cache.clear()
    yield
    User.objects.filter(username__endswith="-who-tries").delete()
    Group.objects.filter(name="those-who-try").delete()


def person(name: str = "ada", *permissions: str, **fields: Any) -> User:
    user = User.objects.create_user(f"{name}-who-tries", is_staff=True, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    return user


def browser_of(user: User, **options: Any) -> Browser:
    browser = Browser(**options)
    browser.force_login(user)
    return browser


@pytest.fixture
def gate(open_database: None) -> Iterator[Gate]:
    """Opens at the end, for tools that wait for it."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def ada() -> User:
    return person("ada", "try_tool")


@pytest.fixture
def browser(ada: User) -> Browser:
    return browser_of(ada)


def address(key: str, kind: str = "tool", endpoint: str = "test") -> str:
    return f"{HOME}call/?{urlencode({'endpoint': endpoint, 'kind': kind, 'key': key})}"


def words(page: str) -> str:
    """What is read on a page."""
    without = re.sub(r"(?s)<head>.*</head>|<nav.*?</nav>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", without)).split())


def look(browser: Browser, url: str, status: int = 200) -> str:
    answer = browser.get(url)
    assert answer.status_code == status
    return answer.content.decode()


def press(browser: Browser, url: str, by: str = "fields", **data: Any) -> str:
    answer = browser.post(url, {"by": by, **data}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def typed(browser: Browser, key: str, kind: str = "tool", **fields: Any) -> str:
    return press(browser, address(key, kind), **{f"a.{name}": value for name, value in fields.items()})


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of the form that continues a call."""
    form = next(each for each in re.findall(r"(?s)<form.*?</form>", page) if 'name="arguments"' in each)
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def sees(page: str) -> str:
    """What the page says that the model sees."""
    found = re.search(r'(?s)<section id="answer".*?</section>', page)
    return "" if found is None else words(found[0])


@pytest.fixture
def taken(server: MCPServer) -> list[dict[str, Any]]:
    """A tool that takes one of everything; what it was given."""
    calls: list[dict[str, Any]] = []

    class Colour(enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Place(BaseModel):
        city: str
        floor: int = 0

    @tool(server=server, read_only=True)
    def everything(
        ctx: Context,
        name: Annotated[str, Field(max_length=50, description="What it is called.")] = "nobody",
        text: Annotated[str, Field(max_length=5000)] = "",
        colour: Colour = Colour.RED,
        level: Literal[1, 2, 3] | None = None,
        day: date | None = None,
        moment: datetime | None = None,
        count: Annotated[int, Field(ge=1, le=9)] = 5,
        share: float | None = None,
        loud: bool | None = None,
        tags: list[str] | None = None,
        sizes: list[int] | None = None,
        colours: list[Colour] | None = None,
        place: Place | None = None,
        either: int | str | None = None,
        pin: Annotated[str, Secret()] = "",
    ) -> str:
        """Take everything."""
        calls.append(ctx.params["arguments"])
        return "taken"

    return calls


# Who may, and what there is


def test_whoever_may_not_try_tools_finds_no_such_page(server: MCPServer, taken: list[Any]) -> None:
    browser = browser_of(person("ben", "view_task"))
    assert "Playground" not in look(browser, "/admin/")
    for url in (HOME, address("everything"), f"{HOME}task/?endpoint=test&task=x"):
        look(browser, url, 403)
        assert browser.post(url).status_code == 403
    assert taken == []


def test_whoever_may_finds_it_in_the_menu(browser: Browser) -> None:
    assert f'href="{HOME}"' in look(browser, "/admin/")


def test_strangers_are_sent_to_the_login(server: MCPServer, taken: list[Any]) -> None:
    User.objects.create_user("nostaff-who-tries")
    for browser in (Browser(), browser_of(User.objects.get(username="nostaff-who-tries"))):
        assert "/login/" in browser.post(address("everything"), {"by": "fields"})["Location"]
    assert taken == []


def test_a_page_of_another_site_calls_nothing(ada: User, taken: list[Any]) -> None:
    browser = browser_of(ada, enforce_csrf_checks=True)
    assert browser.post(address("everything"), {"by": "fields"}).status_code == 403
    assert taken == []


def test_what_there_is_can_be_chosen_and_searched(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="add_stars", title="Add stars", read_only=True)(lambda: 1)
    tool(server=server, name="sub")(lambda: 1)
    prompt(server=server, name="greet")(lambda: "Hello")
    resource("note://me", server=server)(lambda: "me")

    @resource("note://{name}", server=server)
    def note(name: str) -> str:
        """Read a note."""
        return name

    shown = look(browser, f"{HOME}?endpoint=test")
    read = words(shown)
    assert "Tools 2 add_stars Add stars read-only sub" in read
    assert all(
        each in read for each in ("Prompts 1 greet", "Resources 1 note://me", "Resource templates 1 note://{name}")
    )
    assert html.escape(address("note://{name}", "template")) in shown
    found = words(look(browser, f"{HOME}?endpoint=test&q=STARS"))
    assert "add_stars" in found
    assert "greet" not in found
    assert " sub" not in found


def test_what_the_user_may_not_use_is_not_there(browser: Browser, server: MCPServer, ada: User) -> None:
    tool(server=server, name="open_door", groups=["those-who-try"])(lambda: "opened")
    assert "open_door" not in look(browser, f"{HOME}?endpoint=test")
    look(browser, address("open_door"), 404)
    assert "Protocol error -32602 Unknown tool: 'open_door'." in sees(typed(browser, "open_door"))
    ada.groups.add(Group.objects.create(name="those-who-try"))
    assert "open_door" in look(browser, f"{HOME}?endpoint=test")
    assert "opened" in sees(typed(browser, "open_door"))


def test_a_hidden_tool_is_like_one_that_does_not_exist(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="hidden_1", groups=["those-who-try"])(lambda secret_of_mine: "opened")
    hidden_one, missing = typed(browser, "hidden_1"), typed(browser, "hidden_2")
    assert "secret_of_mine" not in hidden_one
    first, second = (re.sub(r"hidden_.|[\d.]+ ms", "X", sees(each)) for each in (hidden_one, missing))
    assert first == second


def test_an_endpoint_that_is_for_others_is_not_there(browser: Browser, make_server: Make) -> None:
    others = make_server("others", user_passes_test=lambda user: user.is_superuser)
    ran: list[int] = []
    tool(server=others, name="peek")(lambda: ran.append(1))
    look(browser, f"{HOME}?endpoint=others", 404)
    look(browser, address("peek", endpoint="others"), 404)
    assert browser.post(address("peek", endpoint="others"), {"by": "fields"}).status_code == 404
    assert "endpoint=others" not in look(browser, HOME)
    assert ran == []


def test_nonsense_is_not_found(browser: Browser, server: MCPServer) -> None:
    for url in ("call/?endpoint=nowhere&kind=tool&key=x", "call/?endpoint=test&kind=odd&key=x", "call/"):
        look(browser, HOME + url, 404)


# The form


def test_each_kind_of_value_has_its_field(browser: Browser, taken: list[Any]) -> None:
    page = look(browser, address("everything"))
    for wanted in (
        r'<input type="text" name="a.name" [^>]*placeholder="nobody"',
        r'<textarea name="a.text"',
        r'<select name="a.colour"[^>]*>\s*<option value="" selected>not sent \(red\)</option>',
        r'<option value="&quot;red&quot;">red</option>',
        r'<option value="3">3</option>',
        r'<input type="date" name="a.day"',
        r'<textarea name="a.moment"|<input type="text" name="a.moment"',
        r'<input type="number" name="a.count"[^>]* step="1" min="1" max="9"[^>]* placeholder="5"',
        r'<input type="number" name="a.share"[^>]* step="any"',
        r'<select name="a.loud"[^>]*>\s*<option value="" selected>not sent</option>\s*<option value="true">Yes',
        r'<textarea name="a.tags"',
        r'<input type="checkbox" name="a.colours" value="&quot;blue&quot;"',
        r'<textarea name="a.place"',
        r'<input type="text" name="a.either"',
        r'<input type="password" name="a.pin"',
    ):
        assert re.search(wanted, page), wanted
    assert "What it is called." in words(page)
    assert "string · ≤ 50 characters" in words(page)
    assert "&quot;floor&quot;" in page  # the schema, beside the JSON


def test_what_is_left_empty_is_not_sent(browser: Browser, taken: list[Any]) -> None:
    assert "taken" in sees(typed(browser, "everything"))
    assert taken == [{}]


def test_what_is_typed_is_sent_as_what_the_schema_wants(browser: Browser, taken: list[Any]) -> None:
    fields = {
        "name": " a b ",
        "text": "one\r\ntwo",
        "colour": '"blue"',
        "level": "2",
        "day": "2026-02-03",
        "moment": "2026-02-03T10:00:00Z",
        "count": "7",
        "share": "0.5",
        "loud": "false",
        "tags": "x\r\n\r\ny 1\r\n",
        "sizes": "1\n2",
        "colours": ['"red"', '"blue"'],
        "place": '{"city": "Rome"}',
        "either": "12",
        "pin": "1234",
    }
    assert "taken" in sees(typed(browser, "everything", **fields))
    assert taken == [
        {
            "name": " a b ",
            "text": "one\ntwo",
            "colour": "blue",
            "level": 2,
            "day": "2026-02-03",
            "moment": "2026-02-03T10:00:00Z",
            "count": 7,
            "share": 0.5,
            "loud": False,
            "tags": ["x", "y 1"],
            "sizes": [1, 2],
            "colours": ["red", "blue"],
            "place": {"city": "Rome"},
            "either": 12,
            "pin": "1234",
        }
    ]


def test_what_is_wrong_is_said_in_the_words_for_the_model(browser: Browser, taken: list[Any]) -> None:
    for typed_number in ("soon", "1e999", "nan", "１２x", "--1"):
        said = sees(typed(browser, "everything", count=typed_number))
        assert "isError – the model receives this as an error:" in said, typed_number
        assert "count" in said, typed_number
    assert taken == []


def test_bounds_are_the_tools_own_to_keep(browser: Browser, taken: list[Any]) -> None:
    page = typed(browser, "everything", count="12")
    assert "isError" in sees(page)
    assert 'name="a.count"' in page
    assert 'value="12"' in page


def test_json_that_is_none_is_not_sent(browser: Browser, taken: list[Any]) -> None:
    page = typed(browser, "everything", place='{"city": ', name="Ada")
    assert "Not called: correct the fields with errors." in words(page)
    assert "This is not valid JSON: EOF" in words(page)
    assert "{&quot;city&quot;: " in page
    assert 'value="Ada"' in page
    assert taken == []


def test_a_value_that_is_not_to_be_chosen_is_not_sent(browser: Browser, taken: list[Any]) -> None:
    typed(browser, "everything", colour='"green"', colours=['"green"', '"red"', "{"])
    assert taken == [{"colours": ["red"]}]


def test_arguments_can_be_json_as_a_whole(browser: Browser, taken: list[Any]) -> None:
    page = press(browser, address("everything"), "json", json='{"text": "", "tags": [], "unknown": 1, "count": 3}')
    assert "unknown" in sees(page)
    page = press(browser, address("everything"), "json", json='{"text": "", "tags": [], "count": 3}')
    assert "taken" in sees(page)
    assert taken == [{"text": "", "tags": [], "count": 3}]
    assert re.search(r'name="a.count"[^>]* value="3"', page)


def test_arguments_that_are_no_object_are_not_sent(browser: Browser, taken: list[Any]) -> None:
    for text in ("[1]", "{", "null", '{"a": 1, "a": 2}', "{'a': 1}"):
        page = press(browser, address("everything"), "json", json=text)
        assert "Not called" in words(page), text
        assert html.escape(text) in page, text
    assert taken == []


def test_the_same_call_can_be_made_again(browser: Browser, taken: list[Any]) -> None:
    page = press(browser, address("everything"), "json", json='{"text": "", "count": 3}')
    press(browser, address("everything"), "again", **hidden(page))
    assert taken == [{"text": "", "count": 3}] * 2


def test_a_required_yes_or_no_is_a_box_to_tick(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def sure(yes: bool) -> str:
        """Say it."""
        return f"said {yes}"

    assert '<input type="checkbox" name="a.yes"' in look(browser, address("sure"))
    assert "said False" in sees(typed(browser, "sure"))
    ticked = typed(browser, "sure", yes="on")
    assert "said True" in sees(ticked)
    assert re.search(r'name="a.yes"[^>]* checked', ticked)


def test_secrets_are_not_shown_again(browser: Browser, taken: list[Any]) -> None:
    page = typed(browser, "everything", pin="hunter2222")
    assert taken == [{"pin": "hunter2222"}]
    assert "hunter2222" not in words(page)
    assert "hunter2222" not in page  # nor in the hidden field with which it is called again
    assert '"pin": "***"' in words(page)


SECRET = "hunter2222"


class Account(BaseModel):
    name: str
    key: Annotated[str, Secret()]


@pytest.fixture
def secrets(server: MCPServer) -> list[Any]:
    """Tools that take secrets, or fail with them; what they were given."""
    given: list[Any] = []

    @tool(server=server)
    def keep(
        pin: Annotated[str, Secret()] = "",
        code: Annotated[int, Secret()] = 0,
        account: Account | None = None,
        password: str = "",
        note: str = "",
    ) -> str:
        """Keep secrets."""
        given.append((pin, code, account and account.key, password, note))
        return "kept"

    @tool(server=server)
    def fail(pin: Annotated[str, Secret()]) -> str:
        """Fail with what was given."""
        raise ToolError(f"Not {pin}.")

    return given


@pytest.mark.parametrize(
    "fields",
    [
        {"pin": SECRET},
        {"code": "98765432"},
        {"code": SECRET},
        {"account": f'{{"name": "a", "key": "{SECRET}"}}'},
        {"account": f'{{"name": "a", "key": "{SECRET}"'},
        {"password": SECRET},
        {"note": f"Bearer {SECRET}{SECRET}{SECRET}"},
        {"note": f"https://ann:{SECRET}@example.com/"},
    ],
)
def test_what_the_request_log_hides_is_nowhere_on_the_page_after_a_call(
    browser: Browser, secrets: list[Any], fields: dict[str, str]
) -> None:
    page = typed(browser, "keep", **fields)
    assert SECRET not in page
    assert "98765432" not in page
    if secrets:
        assert "kept" in sees(press(browser, address("keep"), "again", **hidden(page)))
        assert secrets[0] == secrets[1]


@pytest.mark.parametrize(
    "text",
    [f'{{"pin": "{SECRET}"}}', f'{{"pin": "{SECRET}"', f'{{"account": {{"key": "{SECRET}",}}}}'],
)
def test_what_is_entered_as_json_is_not_on_the_page_if_it_has_a_secret(
    browser: Browser, secrets: list[Any], text: str
) -> None:
    assert SECRET not in press(browser, address("keep"), "json", json=text)


def test_an_error_does_not_repeat_a_secret(browser: Browser, secrets: list[Any]) -> None:
    page = typed(browser, "fail", pin=SECRET)
    assert "Not ***." in sees(page)
    assert SECRET not in page


def test_neither_arguments_nor_answers_that_are_secret_are_in_the_questions_that_follow(
    browser: Browser, server: MCPServer
) -> None:
    given: list[str] = []

    class Code(BaseModel):
        code: Annotated[str, Secret()]

    class Sure(BaseModel):
        sure: bool

    @tool(server=server)
    def pay(ctx: Context, pin: Annotated[str, Secret()]) -> str:
        """Pay."""
        code = ctx.elicit("Your code?", Code)
        sure = ctx.elicit("Are you sure?", Sure)
        given.extend([pin, code.data.code, str(sure.data.sure)])
        return "paid"

    first = typed(browser, "pay", pin=SECRET)
    second = answer(browser, first, "pay", **{"q0.code": "swordfish77"})
    assert "Are you sure?" in words(second)
    for page in (first, second):
        sealed = " ".join(hidden(page).values())
        readable = page + "".join(decoded(each) for each in re.findall(r"[\w-]{8,}", sealed))
        assert SECRET not in readable
        assert "swordfish77" not in readable
    assert "paid" in sees(answer(browser, second, "pay", **{"q0.sure": "on"}))
    assert given == [SECRET, "swordfish77", "True"]


def decoded(text: str) -> str:
    """Base64 as anyone reads it."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")


def test_what_another_user_or_tool_sealed_is_not_taken(browser: Browser, secrets: list[Any]) -> None:
    page = typed(browser, "keep", pin=SECRET)
    other = browser_of(person("ben", "try_tool"))
    assert "Call the tool again" in words(press(other, address("keep"), "again", **hidden(page)))
    assert "Call the tool again" in words(press(browser, address("fail"), "again", **hidden(page)))
    assert len(secrets) == 1


ODD_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": True, "b": {"$ref": "#/nowhere"}, "c": {"type": ["x", 3]}}},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}, "b": {"enum": [], "type": "string"}}},
    {"type": "object", "properties": {"a": {"anyOf": [1, {"type": "string"}]}, "b": {"items": 3, "type": "array"}}},
    {
        "type": "object",
        "properties": {"a": {"maxLength": "x", "type": "string", "default": {"x": 1}}},
        "required": 3,
    },
    {"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [1, None, [2]]}, "default": [1]}}},
    {"type": "object", "properties": {"a b": {"title": 3, "description": [1], "const": {"x": 1}}}},
]


def test_any_schema_makes_a_form() -> None:
    for schema in ODD_SCHEMAS:
        form = SchemaForm(schema)
        form.fill_defaults()
        assert form.as_div().count("<label") >= len(form.fields) - 1
        assert form.read(QueryDict()) is not None


# What is shown


def test_a_result_is_shown_with_how_long_it_took_and_how_long_it_is(browser: Browser, server: MCPServer) -> None:
    class Sum(BaseModel):
        result: int

    @tool(server=server)
    def add(a: int, b: int = 1) -> Sum:
        """Add."""
        return Sum(result=a + b)

    said = sees(typed(browser, "add", a="41"))
    assert re.search(r"What the model sees [\d.]+ ms · \d+ bytes", said)
    assert "structuredContent result 42" in said
    assert said.partition("Full response as JSON")[0].count("42") == 1
    assert 'Arguments sent { "a": 41 }' in said
    assert '"structuredContent": { "result": 42 }' in said.partition("Full response as JSON")[2]


def test_rows_are_a_table_and_what_repeats_them_is_left_out(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def find() -> dict[str, Any]:
        """Find."""
        return {"total": 2, "rows": [{"name": "Salt", "pages": 210}, {"name": "Tides", "tags": ["sea"]}]}

    page = typed(browser, "find")
    shown = page[page.index("structuredContent</h3>") : page.index("Full response as JSON")]
    cells = [words(each) for each in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", shown, re.DOTALL)]
    assert cells == ["total", "2", "name", "pages", "tags", "Salt", "210", "–", "Tides", "–", '["sea"]']


@pytest.mark.parametrize("value", [[], {}, [1, 2], {"a": [{"x": 1}], "b": [{"y": 1}]}, {"a": {"b": 1}}, None])
def test_structured_content_of_any_shape_is_shown(browser: Browser, server: MCPServer, value: Any) -> None:
    @tool(server=server)
    def give() -> dict[str, Any]:
        """Give."""
        return {"value": value}

    said = sees(typed(browser, "give"))
    assert "structuredContent" in said
    assert "Full response as JSON" in said


@pytest.mark.parametrize(("returns", "value"), [(int, 42), (bool, False), (list[dict[str, int]], [{"nights": 42}])])
def test_structured_content_that_is_no_object_is_shown_once(
    browser: Browser, server: MCPServer, returns: Any, value: Any
) -> None:
    def give() -> Any:
        """Give."""
        return value

    give.__annotations__["return"] = returns
    tool(server=server)(give)
    shown, _, whole = sees(typed(browser, "give")).partition("Full response as JSON")
    assert shown.count("false" if value is False else "42") == 1
    assert "structuredContent" in shown
    assert '"structuredContent": {' not in whole


def test_a_request_can_be_copied_and_the_copies_make_it(browser: Browser, server: MCPServer, ada: User) -> None:
    given: list[tuple[int, str]] = []

    @tool(server=server)
    def greet(times: int, name: str, token: Annotated[str, Secret()]) -> str:
        """Greet."""
        given.append((times, name))
        return f"Hello {name}" * times

    page = typed(browser, "greet", times="2", name="O'Hara \u202e", token="hunter2")
    copied = page[page.index("Copy this request") :]
    curl, script, check = (
        html.unescape(each) for each in re.findall(r'dir="ltr" tabindex="0"[^>]*>(.*?)</pre>', copied, re.DOTALL)[:3]
    )
    assert not [each for each in ("hunter2", "\u202e") if each in curl + script + check]
    sent = json.loads(shlex.split(curl.replace("\\\n", ""))[-1])
    assert sent["params"]["arguments"].pop("token") != "hunter2"
    assert sent["params"]["arguments"] == {"times": 2, "name": "O'Hara \u202e"}
    compile(script, "script", "exec")
    module: dict[str, Any] = {}
    exec(check, module)
    module["test_it"](ada)
    assert given[-1] == (2, "O'Hara \u202e")


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)> \u202eabc\x07 \"'>"


def test_nothing_that_is_said_can_dress_up(browser: Browser, server: MCPServer) -> None:
    @tool(server=server, description=EVIL, title=EVIL)
    def evil(ctx: Context, said: Annotated[str, Field(description=EVIL, title=EVIL)] = EVIL) -> ToolResult[Any]:
        ctx.log("info", {"x": EVIL}, logger=EVIL)
        ctx.report_progress(1, 2, EVIL)
        return ToolResult(
            {"evil": EVIL},
            content=[
                TextContent(EVIL),
                ImageContent(b"<svg onload=alert(1)>", "image/svg+xml"),
                ImageContent(b"x", '"><script>alert(1)</script>'),
                AudioContent(b"x", '"><script>alert(1)</script>'),
                ResourceLink("javascript:alert(1)", EVIL, title=EVIL, description=EVIL),
                EmbeddedResource(ResourceContents(EVIL, "javascript:alert(2)", mime_type=EVIL)),
            ],
            meta={EVIL: EVIL},
        )

    for page in (
        look(browser, address("evil")),
        typed(browser, "evil", said=EVIL),
        look(browser, f"{HOME}?endpoint=test"),
    ):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert 'href="javascript:' not in page
        assert "data:image/svg" not in page
    page = typed(browser, "evil", said=EVIL)
    assert "\u202e" not in sees(page)
    assert "\\u202eabc\\u0007" in sees(page)


def test_credentials_are_not_shown(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="leak")(lambda: "Bearer abcdefghijklmnopqrstuvwxyz")
    page = typed(browser, "leak")
    assert "Bearer ***" in sees(page)
    assert "abcdefghijklmnopqrstuvwxyz" not in page


def test_images_are_shown_and_sound_is_named(browser: Browser, server: MCPServer) -> None:
    pixel = base64.b64decode("R0lGODlhAQABAAAAACw=")

    @tool(server=server)
    def paint() -> list[Content]:
        """Paint."""
        return [
            ImageContent(pixel, "image/gif"),
            AudioContent(b"x" * 2048, "audio/wav"),
            ResourceLink("note://far/away", "Far", title="Far away", mime_type="text/plain"),
            EmbeddedResource(ResourceContents("near", "note://near", mime_type="text/plain")),
            EmbeddedResource(ResourceContents(b"\0\1", "note://bin", mime_type="application/zip")),
        ]

    page = typed(browser, "paint")
    assert '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="' in page
    assert "Audio: audio/wav, 2.0" in sees(page)
    assert f'<a href="{html.escape(address("note://far/away", "uri"))}"' in page
    assert "Link to a resource: note://far/away – Far away (text/plain)" in sees(page)
    assert "note://near text/plain near" in sees(page)
    assert "Binary: application/zip, 2" in sees(page)


@override_settings(USE_THOUSAND_SEPARATOR=True)
def test_limits_of_numbers_are_as_html_wants_them(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def measure(share: Annotated[float, Field(ge=0.5, le=1000)], year: Annotated[int, Field(ge=1, le=9999)]) -> str:
        """Measure."""
        return ""

    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    page = look(browser, address("measure"))
    assert re.search(r'min="0\.5" max="1000(\.0)?"', page)
    assert 'min="1" max="9999"' in page


def test_one_of_a_kind_is_in_the_singular() -> None:
    limits = [{"minLength": 1}, {"maxLength": 1}, {"minLength": 1, "maxLength": 9}, {"minItems": 1}, {"maxItems": 2}]
    form = SchemaForm({"properties": {str(at): each for at, each in enumerate(limits)}})
    assert [field.facts for field in form.fields.values()] == [
        *("≥ 1 character", "≤ 1 character", "1–9 characters", "≥ 1 entry", "≤ 2 entries"),
    ]
    assert cut("x" * 20_001).endswith("\n… and 1 character more.")
    for number, said in ((1, "1 more is not shown."), (2, "2 more are not shown.")):
        shown = {"left_out": number, "is_table": True, "structured": {"rows": [["x"]], "more": number}}
        assert words(render_to_string("admin/django_mcp/playground/result.html", {"result": shown})).count(said) == 2


def test_a_large_image_and_a_large_text_are_bounded(browser: Browser, server: MCPServer) -> None:
    @tool(server=server, max_output_chars=0)
    def much() -> list[Content]:
        """Say much."""
        return [TextContent("y" * 100_000), ImageContent(b"\0" * 2_500_000, "image/png")]

    page = typed(browser, "much")
    assert "… and 80000 characters more." in sees(page)
    assert "data:image" not in page
    assert len(page) < 100_000


def test_what_fails_is_told_as_the_model_hears_it(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def fail(how: str) -> str:
        """Fail."""
        raise {"tool": ToolError("It rains."), "bug": ZeroDivisionError("secret words")}[how]

    assert "the model receives this as an error: It rains." in sees(typed(browser, "fail", how="tool"))
    said = sees(typed(browser, "fail", how="bug"))
    assert "server's log under reference" in said
    assert "secret words" not in said


@pytest.mark.postgresql
def test_what_a_tool_writes_before_it_fails_is_rolled_back(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def write(fail: bool) -> str:
        """Write."""
        Group.objects.create(name="those-who-try")
        assert connection.in_atomic_block
        if fail:
            raise ToolError("No.")
        return "written"

    typed(browser, "write", fail="on")
    assert not Group.objects.filter(name="those-who-try").exists()
    assert "written" in sees(typed(browser, "write"))
    assert Group.objects.filter(name="those-who-try").exists()


@pytest.mark.postgresql
def test_a_call_is_in_no_transaction_of_its_page(
    browser: Browser, server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    tool(server=server, name="plain", atomic=False)(lambda: str(transaction.get_connection().in_atomic_block))
    assert "False" in sees(typed(browser, "plain"))


def test_progress_and_messages_are_shown(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def talk(ctx: Context) -> str:
        """Talk."""
        ctx.report_progress(1, 3, "one")
        ctx.log("warning", {"cold": True}, logger="weather")
        return "done"

    said = sees(typed(browser, "talk"))
    assert 'Messages and progress progress 1 / 3 one warning weather: {"cold": true}' in said


def test_an_async_tool_is_called_too(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    async def later() -> str:
        """Wait."""
        return "at last"

    assert "at last" in sees(typed(browser, "later"))


def test_a_tool_sees_who_calls_and_nothing_of_the_page(browser: Browser, server: MCPServer, ada: User) -> None:
    @tool(server=server)
    def who(ctx: Context, word: str) -> str:
        """Say who."""
        request = ctx.request
        assert ctx.client.name == "Django admin"
        assert not hasattr(request, "session")
        assert not request.COOKIES
        assert "HTTP_COOKIE" not in request.META
        assert "secret" not in str(request.META)
        assert not request.POST
        return f"{ctx.user.username} {ctx.principal.kind} {ctx.principal.id == str(ctx.user.pk)} {request.get_host()}"

    headers = {"Referer": "http://testserver/?secret", "X-CSRFToken": "secret"}
    page = browser.post(address("who"), {"by": "fields", "a.word": "x"}, headers=headers).content.decode()
    assert "ada-who-tries session True testserver" in sees(page)


# Resources and prompts


def test_a_resource_is_read(browser: Browser, server: MCPServer) -> None:
    resource("note://me", server=server, mime_type="text/html")(lambda: "<b>me</b>")
    page = typed(browser, "note://me", "resource")
    assert "note://me text/html <b>me</b>" in sees(page)
    assert "<b>me" not in page


def test_the_variables_of_a_template_are_fields(browser: Browser, server: MCPServer) -> None:
    @resource("note://{+path}/{name}{?size,colour}", server=server)
    def note(path: str, name: str, size: int = 1, colour: str = "red") -> str:
        """Read a note."""
        return f"{path}|{name}|{size}|{colour}"

    key = "note://{+path}/{name}{?size,colour}"
    page = look(browser, address(key, "template"))
    assert all(f'name="a.{name}"' in page for name in ("path", "name", "size", "colour"))
    assert "a/b|c d é|2|red" in sees(typed(browser, key, "template", path="a/b", name="c d é", size="2"))
    assert "a|b|1|x&y" in sees(typed(browser, key, "template", path="a", name="b", colour="x&y"))
    assert "Protocol error" in sees(typed(browser, key, "template", path="a", name="b", size="many"))


def test_any_resource_is_read_by_its_uri(browser: Browser, server: MCPServer) -> None:
    @resource("note://{name}", server=server)
    def note(name: str) -> str:
        """Read a note."""
        return f"The note {name}"

    page = look(browser, address("note://x", "uri"))
    assert 'value="note://x"' in page
    assert "The note y" in sees(typed(browser, "", "uri", uri="note://y"))
    assert "Resource not found" in sees(typed(browser, "", "uri", uri="note:nothing"))


def test_the_messages_of_a_prompt_are_shown(browser: Browser, server: MCPServer) -> None:
    @prompt(server=server)
    def greet(name: str, times: int = 1) -> str:
        """Greet somebody."""
        return f"Say hello to {name}, {times} times."

    page = look(browser, address("greet", "prompt"))
    assert 'name="a.name"' in page
    assert "user Say hello to Ada, 3 times." in sees(typed(browser, "greet", "prompt", name="Ada", times="3"))
    assert "Protocol error -32602" in sees(typed(browser, "greet", "prompt", name="Ada", times="x"))


# Questions


@pytest.fixture
def booked(server: MCPServer) -> list[Any]:
    """A tool that asks twice; what was booked."""
    bookings: list[Any] = []

    class Room(BaseModel):
        beds: Annotated[int, Field(ge=1, le=4)] = 2
        view: Literal["sea", "street"] = Field("sea", title="View")
        late: bool

    @tool(server=server)
    def book(ctx: Context, city: str) -> str:
        """Book."""
        answer = ctx.elicit(f"Which room in {city}?", Room)
        if answer.data is None:
            return f"not booked: {answer.action}"
        if not ctx.confirm("Really?"):
            return "not booked"
        bookings.append((city, answer.data.beds, answer.data.view, answer.data.late))
        return "booked"

    return bookings


def answer(browser: Browser, page: str, key: str = "book", **fields: Any) -> str:
    return press(browser, address(key), "answers", **{"q0": "accept", **hidden(page), **fields})


def test_a_tool_that_asks_is_answered_on_the_page(browser: Browser, booked: list[Any]) -> None:
    asked = typed(browser, "book", city="Rome")
    assert "Input requested Which room in Rome?" in sees(asked)
    assert re.search(r'name="q0.beds"[^>]* value="2"', asked)
    assert re.search(r'<option value="&quot;sea&quot;" selected>sea', asked)
    again = answer(browser, asked, **{"q0.beds": "3", "q0.view": '"street"', "q0.late": "on"})
    assert "Really?" in sees(again)
    assert booked == []
    assert "booked" in sees(answer(browser, again, **{"q0.confirm": "on"}))
    assert booked == [("Rome", 3, "street", True)]


def test_an_answer_that_does_not_fit_is_asked_for_again(browser: Browser, booked: list[Any]) -> None:
    asked = typed(browser, "book", city="Rome")
    again = answer(browser, asked, **{"q0.beds": "9"})
    assert "Which room in Rome? " in sees(again)
    assert "beds" in sees(again)


def test_a_question_can_be_declined(browser: Browser, booked: list[Any]) -> None:
    for action in ("decline", "cancel"):
        asked = typed(browser, "book", city="Rome")
        assert f"not booked: {action}" in sees(answer(browser, asked, q0=action))


def test_answers_are_good_once(browser: Browser, booked: list[Any]) -> None:
    asked = typed(browser, "book", city="Rome")
    really = answer(browser, asked, **{"q0.late": "on"})
    answer(browser, really, **{"q0.confirm": "on"})
    assert "These questions have expired or were already answered" in words(
        answer(browser, really, **{"q0.confirm": "on"})
    )
    assert len(booked) == 1


def test_answers_are_good_for_the_same_arguments_endpoint_and_person(
    browser: Browser, booked: list[Any], make_server: Make
) -> None:
    asked = typed(browser, "book", city="Rome")
    state = hidden(asked)
    assert "already answered" in words(answer(browser, asked, arguments='{"city": "Oslo"}'))
    assert "already answered" in words(answer(browser, asked, state=state["state"][:-1]))
    assert "already answered" in words(answer(browser, asked, questions="x"))
    ben = browser_of(person("ben", "try_tool"))
    assert "already answered" in words(answer(ben, asked))
    assert "Really?" in sees(answer(browser, asked))  # none of these used it up


def test_answers_come_too_late_after_a_while(
    browser: Browser, booked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = typed(browser, "book", city="Rome")
    now = time.time()
    monkeypatch.setattr("django.core.signing.time.time", lambda: now + 2 * settings.ELICITATION_TTL)
    assert "already answered" in words(answer(browser, asked))


def test_a_page_to_visit_is_a_link(browser: Browser, server: MCPServer) -> None:
    @tool(server=server)
    def pay(ctx: Context) -> str:
        """Pay."""
        return ctx.ask(URLElicitation("Pay there.", "https://pay.example/x?a=1&b=2"))[0].action

    asked = typed(browser, "pay")
    assert '<a href="https://pay.example/x?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">' in asked
    assert "accept" in sees(answer(browser, asked, "pay"))


def test_there_is_no_model_and_there_are_no_roots(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="think")(_think)
    assert "requires a client that supports 'sampling'" in sees(typed(browser, "think"))


def _think(ctx: Context) -> str:
    """Think."""
    return ctx.sample("Hm?").text


# The same rules as for any other call


def test_a_call_that_needs_approval_waits_and_runs_when_it_is_made_again(browser: Browser, server: MCPServer) -> None:
    paid: list[int] = []

    @tool(server=server, policy="ask")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"Paid {amount}."

    assert "requires approval" in words(look(browser, address("pay")))
    page = typed(browser, "pay", amount="7")
    ticket = Approval.objects.get()
    assert f"Pending approval Approval request {ticket.public_id}." in sees(page)
    assert f"/admin/django_mcp/approval/{ticket.pk}/" in page
    again = press(browser, address("pay"), "again", **hidden(page))
    assert "Pending approval" in sees(again)
    assert paid == []
    decisions.approve(ticket, person("cleo", "approve_tool_call"))
    assert "Pending approval" in sees(typed(browser, "pay", amount="8"))
    assert "Paid 7." in sees(press(browser, address("pay"), "again", **hidden(page)))
    assert "Pending approval" in sees(press(browser, address("pay"), "again", **hidden(page)))
    assert paid == [7]


def test_a_result_that_claims_to_wait_leads_to_no_other_site(browser: Browser, server: MCPServer) -> None:
    urls = ["//evil.example/steal", "https://evil.example/steal", "/\\\\evil.example/steal"]

    @tool(server=server)
    def claim(number: int) -> ToolResult[str]:
        """Claim to wait."""
        marker = {"kind": "pending", "approval_id": "x", "url": urls[number]}
        return ToolResult("done", meta={"django-mcp/approval": marker})

    for number, url in enumerate(urls):
        assert f'href="{html.escape(url)}"' not in typed(browser, "claim", number=str(number))


def test_a_refused_call_says_so(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="pay", policy="ask")(lambda: "Paid.")
    page = typed(browser, "pay")
    decisions.deny(Approval.objects.get(), person("cleo", "approve_tool_call"), reason="Too dear.")
    again = sees(press(browser, address("pay"), "again", **hidden(page)))
    assert "Reason: Too dear." in again
    assert "Pending approval" not in again


def test_a_blocked_tool_is_gone(browser: Browser, server: MCPServer) -> None:
    ran: list[int] = []
    tool(server=server, name="pay")(lambda: ran.append(1))
    assert "pay" in words(look(browser, f"{HOME}?endpoint=test"))
    ToolPolicy.objects.create(server="test", tool="pay", decision="block")
    assert "pay" not in words(look(browser, f"{HOME}?endpoint=test"))
    look(browser, address("pay"), 404)
    assert "Unknown tool" in sees(typed(browser, "pay"))
    assert ran == []


def test_a_rate_limit_counts_here_too(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="seldom", rate_limit="1/d")(lambda: "now")
    assert "now" in sees(typed(browser, "seldom"))
    assert "Protocol error -32000 Too many calls" in sees(typed(browser, "seldom"))


def test_a_call_is_logged_like_any_other(
    browser: Browser, taken: list[Any], ada: User, call_log: Callable[[], list[RequestLog]]
) -> None:
    typed(browser, "everything", count="3", pin="hunter2")
    [row] = call_log()
    assert (row.server, row.method, row.name, row.outcome) == ("test", "tools/call", "everything", "ok")
    assert (row.client_name, row.client_version, row.protocol) == ("Django admin", "", versions.MODERN[0])
    assert (row.principal_kind, row.user, row.address) == ("session", ada, "127.0.0.1")
    assert row.arguments == {"count": 3, "pin": "***"}


def test_looking_is_not_logged_and_a_refused_call_is(
    browser: Browser, server: MCPServer, call_log: Callable[[], list[RequestLog]]
) -> None:
    tool(server=server, name="open_door", groups=["those-who-try"])(lambda: "opened")
    look(browser, f"{HOME}?endpoint=test")
    assert call_log() == []
    typed(browser, "open_door")
    assert [(row.name, row.outcome) for row in call_log()] == [("open_door", "rejected")]


# Tasks


def task_page(browser: Browser, key: str, **fields: Any) -> str:
    answer = browser.post(address(key), {"by": "fields", **{f"a.{name}": value for name, value in fields.items()}})
    assert answer.status_code == 302
    return str(answer["Location"])


def test_a_tool_with_tasks_gives_one(browser: Browser, server: MCPServer, gate: Gate) -> None:
    @tool(server=server, task="required", read_only=True)
    def report(year: int) -> str:
        """Report."""
        gate.wait()
        return f"The year {year}."

    url = task_page(browser, "report", year="2026")
    shown = words(look(browser, url))
    assert "Running as a task" in shown
    assert "Refresh" in shown
    gate.open()
    ended()
    assert "What the model sees The year 2026." in words(look(browser, url))


def test_a_task_of_somebody_else_is_not_there(browser: Browser, server: MCPServer) -> None:
    tool(server=server, name="report", task="optional", read_only=True)(lambda: "done")
    url = task_page(browser, "report")
    look(browser_of(person("ben", "try_tool")), url, 404)


@pytest.mark.postgresql
def test_a_task_asks_on_its_page(browser: Browser, server: MCPServer) -> None:
    @tool(server=server, task="optional")
    def report(ctx: Context) -> str:
        """Report."""
        return "went on" if ctx.confirm("Go on?") else "stopped"

    url = task_page(browser, "report")
    ended()
    page = look(browser, url)
    assert "Go on?" in words(page)
    assert browser.post(url, {"q0": "accept", "q0.confirm": "on"}).status_code == 302
    ended()
    assert "went on" in words(look(browser, url))


def test_a_task_that_failed_says_so(browser: Browser, server: MCPServer) -> None:
    @tool(server=server, task="optional")
    def report() -> str:
        """Report."""
        raise ToolError("No paper.")

    url = task_page(browser, "report")
    ended()
    assert "No paper." in words(look(browser, url))


def ended() -> None:
    """When nothing runs any more."""
    eventually(lambda: not Task.objects.filter(status="working").exists(), "tasks do not end")


# Crashes


@pytest.fixture
def crashing(server: MCPServer) -> None:
    @tool(server=server, read_only=True)
    def crash(code: Annotated[str, Secret()] = "") -> str:
        raise KeyError("<script>nope</script>")

    @tool(server=server, read_only=True, task="required")
    def crash_later() -> str:
        raise KeyError("nope")


@pytest.mark.usefixtures("crashing")
def test_a_crash_is_shown_to_staff_who_may_see_it_in_the_log() -> None:
    page = typed(browser_of(person("eve", "try_tool", "view_requestlog")), "crash", code="hunter2")
    assert '<details class="mcp-playground-crash">' in page
    assert "in crash\n" in page
    assert "KeyError: &#x27;&lt;script&gt;nope&lt;/script&gt;&#x27;" in page
    assert "<script>nope" not in page
    shown = page[page.index("mcp-playground-crash") :]
    assert "hunter2" not in shown[: shown.index("</details>")]
    answer = page[page.index("Full response as JSON") :]
    assert "KeyError" not in answer[: answer.index("</pre>")]


@pytest.mark.usefixtures("crashing")
def test_others_see_what_the_model_sees(browser: Browser) -> None:
    page = press(browser, address("crash"))
    assert "Internal server error" in page
    assert "KeyError" not in page
    assert "mcp-playground-crash" not in page


@pytest.mark.usefixtures("crashing", "call_log")
def test_the_crash_of_a_task_is_shown_with_its_place() -> None:
    staff = browser_of(person("eve", "try_tool", "view_requestlog"))
    url = task_page(staff, "crash_later")
    eventually(lambda: Task.objects.get().is_over)
    assert "KeyError\ntests/admin/test_playground.py:" in look(staff, url)
    assert "KeyError" not in look(browser_of(person("flo", "try_tool")), url, status=404)
