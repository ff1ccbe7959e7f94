"""What a client is offered while somebody types an argument of a prompt or template."""

import enum
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, ValidationError
from django.db import models
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet
from pydantic import Field

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, ToolError, prompt, resource
from tests.behaviour.afresh import afresh
from tests.clients import Answer, Client

CITIES = ["Paris", "Park City", "Porto", "Potsdam"]


def cities(value: str) -> list[str]:
    return [city for city in CITIES if city.startswith(value)]


async def cities_async(value: str) -> list[str]:
    return cities(value)


def cities_generated(value: str) -> Iterator[str]:
    yield from cities(value)


async def cities_generated_async(value: str) -> AsyncIterator[str]:
    for city in cities(value):
        yield city


class Search:
    """A completer may be an object."""

    def __call__(self, value: str) -> tuple[str, ...]:
        return tuple(cities(value))

    def method(self, text: str) -> Iterable[str]:
        return dict.fromkeys(cities(text))


def filtered(source: list[str], value: str) -> list[str]:
    return [each for each in source if each.startswith(value)]


def of_prompt(name: str) -> dict[str, str]:
    return {"type": "ref/prompt", "name": name}


def of_template(uri: str) -> dict[str, str]:
    return {"type": "ref/resource", "uri": uri}


def ask(client: Client, ref: Any, name: Any, value: Any, chosen: dict[str, str] | None = None) -> Answer:
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    return client.request(
        "completion/complete", params if chosen is None else {**params, "context": {"arguments": chosen}}
    )


def completed(client: Client, ref: Any, name: str, value: str, chosen: dict[str, str] | None = None) -> dict[str, Any]:
    return ask(client, ref, name, value, chosen).result["completion"]


def offer(server: MCPServer, completer: Callable[..., Any]) -> dict[str, str]:
    """A prompt ``plan`` whose argument ``city`` is completed."""

    @prompt(server=server, completions={"city": completer})
    def plan(city: str) -> str:
        return city

    return of_prompt("plan")


def test_an_argument_of_a_prompt_or_template_is_completed_by_a_function(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    cases = [
        cities,
        cities_async,
        cities_generated,
        cities_generated_async,
        Search(),
        Search().method,
        partial(filtered, CITIES),
        partial(filtered, source=CITIES),
        lambda value="": cities(value),
    ]
    for completer in cases:
        with subtests.test(completer=completer), afresh():
            ref = offer(server, completer)
            resource("travel://{city}", server=server, name="c", completions={"city": completer})(lambda city: city)
            for each in (ref, of_template("travel://{city}")):
                assert completed(client, each, "city", "Par") == {"values": CITIES[:2], "total": 2, "hasMore": False}
                assert completed(client, each, "city", "") == {"values": CITIES, "total": 4, "hasMore": False}
                assert completed(client, each, "city", "x") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
def test_every_older_version_has_completion(server: MCPServer, version: str, edge: str, open_database: None) -> None:
    client = Client(server, version, edge)
    assert completed(client, offer(server, cities), "city", "Po")["values"] == ["Porto", "Potsdam"]
    assert capabilities(client)["completions"] == {}


def test_a_completer_may_know_the_call_and_what_has_been_chosen(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for colour in ["sync", "async"]:
        with subtests.test(colour=colour), afresh():

            def district(arguments: Mapping[str, str], ctx: Context, text: str) -> list[str]:
                return [f"{text} of {arguments.get('city')} for {ctx.user}, {ctx.method}"]

            async def adistrict(arguments: Mapping[str, str], ctx: Context, text: str) -> list[str]:
                return district(arguments, ctx, text)

            @resource(
                "travel://{city}/{district}",
                server=server,
                completions={"district": district if colour == "sync" else adistrict},
            )
            def place(city: str, district: str) -> str:
                return city

            ref = of_template("travel://{city}/{district}")
            (value,) = completed(client, ref, "district", "No", {"city": "Rome"})["values"]
            assert value == "No of Rome for AnonymousUser, completion/complete"
            (value,) = completed(client, ref, "district", "No")["values"]
            assert value.startswith("No of None")


# How many


def test_no_more_than_a_hundred_values_are_sent_and_a_list_knows_its_total(server: MCPServer, client: Client) -> None:
    ref = offer(server, lambda value: [f"{number:03}" for number in range(int(value))])
    assert completed(client, ref, "city", "100") == {
        "values": [f"{number:03}" for number in range(100)],
        "total": 100,
        "hasMore": False,
    }
    assert completed(client, ref, "city", "250") == {
        "values": [f"{number:03}" for number in range(100)],
        "total": 250,
        "hasMore": True,
    }


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_generator_is_asked_for_one_value_more_than_is_sent(server: MCPServer, client: Client, colour: str) -> None:
    given: list[int] = []

    def endless(value: str) -> Iterator[str]:
        while True:
            given.append(1)
            yield value

    async def endless_async(value: str) -> AsyncIterator[str]:
        for each in endless(value):
            yield each

    ref = offer(server, endless if colour == "sync" else endless_async)
    assert completed(client, ref, "city", "x") == {"values": ["x"] * 100, "hasMore": True}
    assert len(given) == 101


@pytest.fixture
def groups(open_database: None) -> Iterator[None]:
    """150 groups, seen by all threads, and gone after the test."""
    Group.objects.bulk_create(Group(name=f"{'ab'[number % 3 == 0]}{number:03}") for number in range(150))
    yield
    Group.objects.all().delete()


@pytest.fixture
def queries(groups: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The SQL of all threads."""
    said: list[str] = []
    execute = CursorWrapper.execute

    def recorded(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        said.append(sql)
        return execute(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", recorded)
    return said


@pytest.mark.postgresql
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_of_a_queryset_no_more_rows_are_read_than_needed(
    server: MCPServer, client: Client, queries: list[str], colour: str
) -> None:
    def names(value: str) -> "QuerySet[Group, str]":
        return Group.objects.filter(name__startswith=value).order_by("name").values_list("name", flat=True)

    async def anames(value: str) -> "QuerySet[Group, str]":
        return names(value)

    ref = offer(server, names if colour == "sync" else anames)
    all_of_them = completed(client, ref, "city", "")
    assert (len(all_of_them["values"]), all_of_them["total"], all_of_them["hasMore"]) == (100, 150, True)
    read, counted = (sql for sql in queries if "auth_group" in sql)
    assert "LIMIT 101" in read
    assert "COUNT(" in counted
    queries.clear()
    some = completed(client, ref, "city", "b")
    assert (len(some["values"]), some["total"], some["hasMore"]) == (50, 50, False)
    assert len([sql for sql in queries if "auth_group" in sql]) == 1, "fifty rows need not be counted again"


# Arguments that complete themselves


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"


class Stars(enum.IntEnum):
    ONE = 1
    TWO = 2


class Season(models.TextChoices):
    SPRING = "spring", "Spring"
    SUMMER = "summer", "Summer"


class Level(models.IntegerChoices):
    LOW = 10
    HIGH = 20


def test_an_annotation_that_lists_its_values_completes_them(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    cases = [
        (Literal["museums", "music", "food"], "MU", ["museums", "music"]),
        (Literal["museums", "music", "food"], "", ["museums", "music", "food"]),
        (Literal["only"], "", ["only"]),
        (Literal["Straße"], "STRASS", ["Straße"]),
        (Literal["a", "b"] | None, "", ["a", "b"]),
        (Literal["a", None], "", ["a"]),  # noqa: PYI061
        (Literal["metric"] | Season, "", ["metric", "spring", "summer"]),
        (Annotated[Literal["a", "b"], Field(description="Which.")], "b", ["b"]),
        (Board, "h", ["half"]),
        (Season, "S", ["spring", "summer"]),
        (Stars, "", ["1", "2"]),
        (Level, "2", ["20"]),
        (bool, "", ["true", "false"]),
        (bool | None, "T", ["true"]),
        (str, "", []),
        (int, "1", []),
        (list[Season], "", []),
    ]
    for annotation, typed, values in cases:
        with subtests.test(annotation=annotation, typed=typed, values=values), afresh():

            def plan(argument: Any, city: str) -> str:
                return str(argument)

            plan.__annotations__["argument"] = annotation
            prompt(server=server, completions={"city": cities})(plan)
            ref = of_prompt("plan")
            assert completed(client, ref, "argument", typed)["values"] == values
            for value in values:
                answer = client.request("prompts/get", {"name": "plan", "arguments": {"argument": value, "city": "x"}})
                assert answer.result["messages"], "what is offered is taken"


def test_a_completer_goes_before_the_annotation(server: MCPServer, client: Client) -> None:
    @resource("travel://{season}", server=server, completions={"season": lambda value: ["summer first"]})
    def travel(season: Season) -> str:
        return season

    assert completed(client, of_template("travel://{season}"), "season", "s")["values"] == ["summer first"]


# What there is nothing for


def test_an_argument_that_nothing_completes_has_no_values(server: MCPServer, client: Client) -> None:
    @prompt(server=server, completions={"city": cities})
    def plan(city: str, wishes: str = "") -> str:
        return city

    nothing = {"values": [], "total": 0, "hasMore": False}
    assert completed(client, of_prompt("plan"), "wishes", "P") == nothing


def test_a_plain_resource_has_nothing_to_complete(server: MCPServer, client: Client) -> None:
    offer(server, cities)
    resource("travel://guide", server=server, name="guide")(lambda: "x")
    assert completed(client, of_template("travel://guide"), "anything", "")["values"] == []


def capabilities(client: Client) -> dict[str, Any]:
    if client.is_modern:
        return client.request("server/discover").result["capabilities"]
    hello = {"protocolVersion": client.version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return client.request("initialize", hello).result["capabilities"]


def test_the_capability_is_declared_where_something_can_be_completed(server: MCPServer, client: Client) -> None:
    prompt(server=server, name="hello")(lambda who: who)
    resource("travel://{city}", server=server, name="city")(lambda city: city)
    assert "completions" not in capabilities(client)
    answer = ask(client, of_prompt("hello"), "who", "")
    assert (answer.status, answer.code) == (404 if client.is_modern else 200, -32601)

    @resource("travel://seasons/{season}", server=server)
    def season(season: Season) -> str:
        return season

    assert capabilities(client)["completions"] == {}
    assert completed(client, of_prompt("hello"), "who", "")["values"] == []


# What a caller may not know


class Visitor(BaseAuthentication):
    """Lets everybody in; who brings a key may view users."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        if head.headers.get("x-key") == "1":
            return Principal("test", "1", SimpleNamespace(has_perm=lambda permission: permission == "auth.view_user"))
        return Principal("test", "0", AnonymousUser())


@pytest.mark.parametrize(
    ("hidden", "missing", "words"),
    [
        (of_prompt("back"), of_prompt("nope"), "Unknown prompt: 'nope'."),
        (of_template("back://{city}"), of_template("nope://{city}"), "Unknown resource template: 'nope://{city}'."),
        (of_template("back://door"), of_template("nope://door"), "Unknown resource template: 'nope://door'."),
    ],
)
@pytest.mark.parametrize("argument", ["city", "town"])
def test_what_somebody_may_not_use_is_as_unknown_as_what_is_not_there(
    make_server: Any,
    version: str,
    edge: str,
    open_database: None,
    hidden: dict[str, str],
    missing: dict[str, str],
    words: str,
    argument: str,
) -> None:
    server = make_server("hiding", authentication=[Visitor()])
    asked: list[str] = []

    def complete(value: str) -> list[str]:
        asked.append(value)
        return ["secret"]

    options: dict[str, Any] = {"server": server, "permission": "auth.view_user"}
    prompt(name="back", completions={"city": complete}, **options)(lambda city: city)
    resource("back://{city}", name="back", completions={"city": complete}, **options)(lambda city: city)
    resource("back://door", name="door", **options)(lambda: "x")
    client = Client(server, version, edge)
    denied, absent = ask(client, hidden, argument, ""), ask(client, missing, argument, "")
    assert (absent.code, absent.error["message"]) == (-32602, words)
    assert denied.status == absent.status == (400 if client.is_modern else 200)
    assert denied.error == {**absent.error, "message": words.replace("nope", "back")}
    assert asked == []
    if argument == "city":
        params = {"ref": hidden, "argument": {"name": "city", "value": ""}}
        allowed = client.request("completion/complete", params, headers={"x-key": "1"})
        assert allowed.result["completion"]["values"] == ([] if "door" in str(hidden) else ["secret"])


def test_a_prompt_is_hidden_in_the_words_of_getting_it(server: MCPServer, client: Client) -> None:
    offer(server, cities)
    prompt(server=server, name="back", permission="auth.view_user")(lambda: "x")
    got = client.request("prompts/get", {"name": "back"})
    assert ask(client, of_prompt("back"), "city", "").error == got.error


def test_a_tool_is_no_prompt(server: MCPServer, client: Client) -> None:
    from django_mcp import tool

    offer(server, cities)
    tool(server=server, name="hammer")(lambda city: city)
    assert ask(client, of_prompt("hammer"), "city", "").error["message"] == "Unknown prompt: 'hammer'."


# What is sent wrong

ARGUMENT = {"name": "city", "value": "P"}
REF = of_prompt("plan")
SAYS_REF = '"params.ref" must be {"type": "ref/prompt", "name": …} or {"type": "ref/resource", "uri": …}'
SAYS_ARGUMENT = '"params.argument" must be {"name": …, "value": …}, with strings.'
SAYS_CONTEXT = '"params.context" must be {"arguments": {…}}, with strings.'


def test_a_question_of_the_wrong_shape_is_invalid_params_in_words(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    offer(server, cities)
    prompt(server=server, name="bare")(lambda: "x")
    resource("travel://{city}", server=server, name="c", completions={"city": cities})(lambda city: city)
    cases = [
        ({}, SAYS_REF),
        *(
            ({"ref": ref, "argument": ARGUMENT}, SAYS_REF)
            for ref in (
                None,
                "plan",
                [],
                3,
                {},
                {"type": "ref/prompt"},
                {"type": ["ref/prompt"], "name": "plan"},
                {"type": "ref/tool", "name": "plan"},
                {"type": "ref/prompt", "name": 3},
                {"type": "ref/prompt", "name": ["plan"]},
                {"type": "ref/prompt", "uri": "plan"},
                {"type": "ref/resource", "name": "plan"},
                {"type": "ref/resource", "uri": {}},
            )
        ),
        *(
            ({"ref": REF, "argument": argument}, SAYS_ARGUMENT)
            for argument in (
                None,
                "city",
                [],
                {},
                {"name": "city"},
                {"value": "P"},
                {"name": 1, "value": "P"},
                {"name": "city", "value": None},
                {"name": "city", "value": 5},
                {"name": "city", "value": ["P"]},
                {"name": ["city"], "value": "P"},
            )
        ),
        ({"ref": REF}, SAYS_ARGUMENT),
        *(
            ({"ref": REF, "argument": ARGUMENT, "context": context}, SAYS_CONTEXT)
            for context in (
                [],
                "",
                0,
                False,
                {"arguments": []},
                {"arguments": "x"},
                {"arguments": False},
                {"arguments": {"a": 1}},
                {"arguments": {"a": None}},
            )
        ),
        ({"ref": REF, "argument": {"name": "town", "value": ""}}, "Unknown argument: 'town'. It takes 'city'."),
        ({"ref": REF, "argument": {"name": "t" * 9000, "value": ""}}, "Unknown argument: 'ttt"),
        ({"ref": of_prompt("bare"), "argument": ARGUMENT}, "Unknown argument: 'city'. It takes no arguments."),
        ({"ref": of_prompt("p" * 9000), "argument": ARGUMENT}, "Unknown prompt: 'ppp"),
        ({"ref": of_template("travel://Paris"), "argument": ARGUMENT}, "Unknown resource template: 'travel://Paris'."),
        ({"ref": of_template(""), "argument": ARGUMENT}, "Unknown resource template: ''."),
    ]
    for params, says in cases:
        with subtests.test(params=params, says=says):
            answer = client.request("completion/complete", params)
            assert (answer.status, answer.code) == (400 if client.is_modern else 200, -32602)
            assert says in answer.error["message"]
            assert len(answer.error["message"]) < 300


def test_nothing_need_have_been_chosen(server: MCPServer, client: Client, subtests: pytest.Subtests) -> None:
    for context in [None, {}, {"arguments": None}, {"arguments": {}}, {"more": 1}]:
        with subtests.test(context=context), afresh():
            ref = offer(server, lambda value, arguments: [f"{arguments}"])
            answer = client.request("completion/complete", {"ref": ref, "argument": ARGUMENT, "context": context})
            assert answer.result["completion"]["values"] == ["{}"]


def test_any_text_may_be_typed(server: MCPServer, client: Client, subtests: pytest.Subtests) -> None:
    for value in ["\0", "é" * 30_000, "%", "'; --", "\ufffe", "🙂"]:
        with subtests.test(value=value), afresh():
            ref = offer(server, lambda value: [value])
            assert completed(client, ref, "city", value)["values"] == [value]


# What goes wrong on our side


@pytest.mark.parametrize(
    ("returns", "logged"),
    [
        ("Paris", "a completer must return an iterable of strings, not str"),
        (None, "a completer must return an iterable of strings, not NoneType"),
        (7, "a completer must return an iterable of strings, not int"),
        ([7], "a completer must return strings, not 7"),
        (["Paris", b"Oslo"], "a completer must return strings, not b'Oslo'"),
        (["Paris", None], "a completer must return strings, not None"),
    ],
)
def test_a_completer_that_returns_something_else_is_our_fault(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture, returns: Any, logged: str
) -> None:
    answer = ask(client, offer(server, lambda value: returns), "city", "P")
    assert (answer.status, answer.code) == (200, -32603)
    assert logged in caplog.text


@pytest.mark.parametrize("colour", ["sync", "async", "generator"])
def test_a_completer_that_fails_tells_the_log_and_not_the_client(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture, colour: str
) -> None:
    def fail(value: str) -> list[str]:
        raise RuntimeError("hunter2")

    async def fail_async(value: str) -> list[str]:
        raise RuntimeError("hunter2")

    def fail_late(value: str) -> Iterator[str]:
        yield "Paris"
        raise RuntimeError("hunter2")

    completer = {"sync": fail, "async": fail_async, "generator": fail_late}[colour]
    answer = ask(client, offer(server, completer), "city", "P")
    assert (answer.status, answer.code) == (200, -32603)
    assert b"hunter2" not in answer.body
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionDenied("because hunter2"), "Unknown prompt: 'plan'."),
        (ValidationError("Type three letters."), "Type three letters."),
        (ToolError("Choose a country first."), "Choose a country first."),
    ],
)
def test_what_a_completer_says_is_told_as_that_of_a_prompt(
    server: MCPServer, client: Client, error: Exception, says: str
) -> None:
    def complete(value: str) -> list[str]:
        raise error

    answer = ask(client, offer(server, complete), "city", "P")
    assert (answer.code, answer.error["message"]) == (-32602, says)


# What is registered wrong


def test_completions_that_cannot_work_are_refused_at_once(server: MCPServer, subtests: pytest.Subtests) -> None:
    cases = [
        (
            {"town": cities},
            r"prompt 'plan' .*: completions for unknown arguments 'town'\. Its arguments: 'city', 'days'\.",
        ),
        ({"city": cities, "ctx": cities}, r"completions for unknown arguments 'ctx'"),
        ({"city": ["Paris"]}, r"completions\['city'\] must be a function from the typed text .*, not list\."),
        ({"city": "cities"}, r"completions\['city'\] must be a function .*, not str\."),
        ({"city": lambda: ["Paris"]}, r"completions\['city'\] must take the typed text, .*; it takes nothing\."),
        ({"city": lambda arguments: []}, r"must take the typed text, .*; it takes arguments\."),
        ({"city": lambda value, country: []}, r"optionally 'arguments' and a Context; it takes value, country\."),
        ({"city": lambda *values: []}, r"parameter \*values cannot be an argument"),
    ]
    for completions, says in cases:
        with subtests.test(completions=completions, says=says):

            def plan(ctx: Context, city: str, days: int = 3) -> str:
                return city

            with pytest.raises(ImproperlyConfigured, match=says):
                prompt(server=server, completions=completions)(plan)
            assert server.capabilities == {}


def test_a_plain_resource_takes_no_completions(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"completions for unknown arguments 'city'\. Its arguments: none\."):
        resource("travel://guide", server=server, name="guide", completions={"city": cities})(lambda: "x")
