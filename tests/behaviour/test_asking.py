"""A tool asks its client, and the client answers: the same words in the tool for either era at every edge."""

import asyncio
from typing import Any, Literal

import pytest
from django import forms
from pydantic import BaseModel, Field

from django_mcp import (
    Context,
    Elicitation,
    InputRequired,
    MCPServer,
    Roots,
    Sampling,
    prompt,
    resource,
    tool,
)
from tests.behaviour.afresh import afresh
from tests.behaviour.asking import NAME, YES, asking
from tests.clients import LEGACY
from tests.conversation import CANCEL, DECLINE, Conversation, Person, accept, said
from tests.exchange import Room


class Booking(BaseModel):
    """What is to be booked."""

    seats: int = Field(ge=1, le=9)
    where: Literal["aisle", "window"] = "window"


class BookingForm(forms.Form):
    seats = forms.IntegerField(min_value=1, max_value=9)
    where = forms.ChoiceField(choices=[("aisle", "Aisle"), ("window", "Window")], required=False)


BOOKING = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["seats"],
}
FORMS = {"pydantic": Booking, "django": BookingForm, "dict": BOOKING}


def seats(data: Any) -> int:
    return data.seats if isinstance(data, Booking) else data["seats"]


# Forms


@pytest.mark.parametrize("form", FORMS)
def test_a_person_fills_in_a_form_and_the_tool_gets_it_checked(
    server: MCPServer, talk: Conversation, form: str
) -> None:
    @tool(server=server)
    def book(ctx: Context, flight: str) -> str:
        answer = ctx.elicit(f"How many seats on {flight}?", FORMS[form])
        return f"{answer.action} {seats(answer.data)} on {flight}, {type(answer.data).__name__}"

    outcome = talk.call("book", flight="LH 1", answers=[accept(seats=2)])
    assert outcome.text == f"accept 2 on LH 1, {'Booking' if form == 'pydantic' else 'dict'}"
    (question,) = outcome.asked
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "How many seats on LH 1?"
    asked = question["params"]["requestedSchema"]["properties"]["seats"]
    assert (asked["type"], asked["minimum"], asked["maximum"]) == ("integer", 1, 9)
    assert question["params"]["requestedSchema"]["required"] == ["seats"]


def test_saying_no_and_closing_the_form_are_told_apart(
    server: MCPServer, talk: Conversation, kind: str, subtests: pytest.Subtests
) -> None:
    for answer, told in [(YES, "accept"), (DECLINE, "decline"), (CANCEL, "cancel")]:
        with subtests.test(answer=answer, told=told), afresh():

            def body(ctx: Context) -> str:
                answer = ctx.elicit("May we?", {"type": "object", "properties": {"confirm": {"type": "boolean"}}})
                return f"{answer.action} {answer.accepted} {answer.data}"

            asking(server, kind, body)
            data = {"confirm": True} if told == "accept" else None
            assert talk.call("ask", answers=[answer]).text == f"{told} {told == 'accept'} {data}"


def test_a_confirmation_is_yes_or_not_yes(
    server: MCPServer, legacy_talk: Conversation, subtests: pytest.Subtests
) -> None:
    for answer, told in [(YES, "True"), (accept(confirm=False), "False"), (DECLINE, "False"), (CANCEL, "False")]:
        with subtests.test(answer=answer, told=told), afresh():
            asking(server, "sync", lambda ctx: str(ctx.confirm("Delete everything?")))
            outcome = legacy_talk.call("ask", answers=[answer])
            assert outcome.text == told
            assert outcome.asked[0]["params"]["requestedSchema"]["required"] == ["confirm"], "an empty form is no yes"


def test_an_answer_that_does_not_fit_is_asked_for_again_in_words(server: MCPServer, talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: str(ctx.elicit("How many seats?", Booking).data.seats))
    person = Person([accept(seats=12), accept(seats="many"), accept(seats=3)])
    assert talk.call("ask", answers=person).text == "3"
    first, second, third = person.words
    assert first == "How many seats?"
    assert second.startswith("How many seats?\n\n")
    assert "seats" in second
    assert "9" in second
    assert "seats" in third
    assert third != second
    schemas = [each["params"]["requestedSchema"] for each in person.asked]
    assert schemas[0] == schemas[1] == schemas[2]


def test_three_answers_that_do_not_fit_are_the_tools_error(server: MCPServer, talk: Conversation) -> None:
    asking(server, "async", lambda ctx: str(ctx.elicit("How many seats?", Booking).data.seats))
    outcome = talk.call("ask", answers=[accept(seats=0), accept(), {"action": "accept"}])
    assert outcome.failed
    assert "do not match" in outcome.text
    assert "accepted without content" in outcome.text
    assert len(outcome.asked) == 3


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("elicit", {"action": "maybe"}),
        ("elicit", {}),
        ("sample", {"role": "assistant", "content": {"type": "hologram"}, "model": "m"}),
        ("sample", {"role": "assistant", "model": "m"}),
        ("roots", {"roots": "everywhere"}),
    ],
)
def test_an_answer_that_is_none_is_the_clients_error(
    server: MCPServer, talk: Conversation, method: str, answer: dict[str, Any]
) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        asked = {"elicit": lambda: ctx.confirm("?"), "sample": lambda: ctx.sample("?"), "roots": ctx.roots}
        return str(asked[method]())

    outcome = talk.call("ask", answers=[answer])
    assert outcome.error["code"] == -32602
    assert "answer to" in outcome.error["message"]


# Several questions


def test_several_questions_are_asked_at_once_and_answered_in_any_order(
    server: MCPServer, talk: Conversation, kind: str
) -> None:
    def body(ctx: Context) -> str:
        name, poem, roots = ctx.ask(Elicitation("Who?", NAME), Sampling("A poem.", max_tokens=7), Roots())
        return f"{name.data['name']} {poem.text} {[root.uri for root in roots]}"

    asking(server, kind, body)
    answers = {"Who?": accept(name="Ada"), "A poem.": said("Roses."), "roots/list": {"roots": [{"uri": "file:///a"}]}}
    outcome = talk.call("ask", answers=answers)
    assert outcome.text == "Ada Roses. ['file:///a']"
    assert {each["method"] for each in outcome.asked} == {"elicitation/create", "sampling/createMessage", "roots/list"}
    if talk.is_modern:
        assert [len(each) for each in outcome.rounds] == [3]


def test_a_legacy_call_goes_on_with_the_last_answer_whatever_it_is_to(
    server: MCPServer, legacy_talk: Conversation
) -> None:
    runs: list[int] = []

    def body(ctx: Context) -> str:
        runs.append(1)
        return str(ctx.ask(Elicitation("First?", NAME), Elicitation("Second?", NAME))[1].data)

    asking(server, "sync", body)
    call = legacy_talk.begin_call("ask")
    first, second = call.next(), call.next()
    legacy_talk.reply(second, accept(name="b"))
    assert len(runs) == 1, "one answer is missing"
    legacy_talk.reply(first, accept(name="a"))
    *_, response = call
    assert response["result"]["content"][0]["text"] == "{'name': 'b'}"
    assert len(runs) == 2


def test_questions_may_follow_from_answers(server: MCPServer, talk: Conversation, kind: str) -> None:
    def body(ctx: Context) -> str:
        name = ctx.elicit("Who?", NAME).data["name"]
        if not ctx.confirm(f"Really {name}?"):
            return "No."
        return ctx.sample(f"Greet {name}.").text

    asking(server, kind, body)
    outcome = talk.call("ask", answers=[accept(name="Ada"), YES, said("Hello, Ada!")])
    assert outcome.text == "Hello, Ada!"
    assert [each["params"].get("message") for each in outcome.asked] == ["Who?", "Really Ada?", None]
    assert outcome.asked[2]["params"]["messages"][0]["content"]["text"] == "Greet Ada."


def test_the_same_question_twice_gets_two_answers(server: MCPServer, talk: Conversation) -> None:
    def body(ctx: Context) -> str:
        return " ".join(ctx.elicit("Another name?", NAME).data["name"] for _ in range(3))

    asking(server, "sync", body)
    assert talk.call("ask", answers=[accept(name=each) for each in "abc"]).text == "a b c"


def test_keys_are_the_same_in_each_round_and_for_each_try(server: MCPServer, modern_talk: Conversation) -> None:
    def body(ctx: Context) -> str:
        ctx.elicit("How many?", Booking)
        ctx.elicit("Who?", NAME, key="who")
        return "done"

    asking(server, "sync", body)
    outcome = modern_talk.call("ask", answers=[accept(seats=0), accept(seats=1), accept(name="x")])
    first, again, second = (list(each) for each in outcome.rounds)
    assert first == again != second == ["who"]


def test_an_answer_to_another_question_under_the_same_key_counts_for_nothing(
    server: MCPServer, talk: Conversation
) -> None:
    price = iter([10, 99, 99, 99])

    def body(ctx: Context) -> str:
        cost = next(price)
        return f"{ctx.confirm(f'Pay {cost}?', key='pay')} {cost}"

    asking(server, "sync", body)
    person = Person([YES, YES])
    assert talk.call("ask", answers=person).text == "True 99"
    assert person.words == ["Pay 10?", "Pay 99?"], "the price went up, so the yes was to something else"


def test_questions_of_tasks_side_by_side_are_asked_at_once(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    async def ask(ctx: Context) -> str:
        async def one(who: str) -> str:
            await asyncio.sleep(0)
            return ctx.elicit(f"Name of {who}?", NAME).data["name"]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(who)) for who in ("cat", "dog")]
        return " ".join(task.result() for task in tasks)

    outcome = talk.call("ask", answers={"cat": accept(name="Tom"), "dog": accept(name="Rex")})
    assert outcome.text == "Tom Rex"
    if talk.is_modern:
        assert [len(each) for each in outcome.rounds] == [2]


def test_questions_that_are_gathered_are_all_asked(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    async def ask(ctx: Context) -> str:
        async def one(who: str) -> str:
            await asyncio.sleep(0)
            return ctx.elicit(f"Name of {who}?", NAME).data["name"]

        return " ".join(await asyncio.gather(one("cat"), one("dog")))

    assert talk.call("ask", answers={"cat": accept(name="Tom"), "dog": accept(name="Rex")}).text == "Tom Rex"


def test_a_task_that_fails_beside_one_that_asks_is_the_tools_failure(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    async def ask(ctx: Context) -> str:
        async def fail() -> None:
            raise LookupError("lost")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(asyncio.to_thread(ctx.confirm, "Really?"))
        return "never"

    outcome = talk.call("ask")
    assert outcome.failed
    assert "Internal server error" in outcome.text
    assert outcome.asked == []


# Elsewhere than in tools


def test_prompts_ask_too(server: MCPServer, talk: Conversation) -> None:
    @prompt(server=server)
    def plan(ctx: Context, city: str) -> str:
        return f"Plan {ctx.elicit(f'Days in {city}?', NAME).data['name']} days in {city}."

    outcome = talk.request("prompts/get", {"name": "plan", "arguments": {"city": "Rome"}}, [accept(name="three")])
    assert outcome.result["messages"][0]["content"]["text"] == "Plan three days in Rome."


def test_resources_ask_too(server: MCPServer, talk: Conversation) -> None:
    @resource("trip://{city}", server=server)
    async def trip(ctx: Context, city: str) -> str:
        return f"{city}, {ctx.elicit('Which year?', NAME).data['name']}"

    outcome = talk.request("resources/read", {"uri": "trip://rome"}, [accept(name="2026")])
    assert outcome.result["contents"][0]["text"] == "rome, 2026"


# How a round ends


def test_asking_passes_through_what_catches_exceptions(server: MCPServer, talk: Conversation, kind: str) -> None:
    caught: list[BaseException] = []

    def body(ctx: Context) -> str:
        try:
            return str(ctx.confirm("?"))
        except Exception as error:  # noqa: BLE001
            caught.append(error)
            return "caught"

    asking(server, kind, body)
    assert talk.call("ask", answers=[YES]).text == "True"
    assert caught == []


def test_code_may_clean_up_when_a_round_ends(server: MCPServer, talk: Conversation) -> None:
    closed: list[str] = []

    def body(ctx: Context) -> str:
        try:
            return str(ctx.confirm("?"))
        except InputRequired:
            closed.append("asked")
            raise
        finally:
            closed.append("closed")

    asking(server, "sync", body)
    assert talk.call("ask", answers=[YES]).text == "True"
    assert closed == ["asked", "closed", "closed"]


def test_what_a_round_that_asks_wrote_is_rolled_back(server: MCPServer, talk: Conversation, rows: Any) -> None:
    def body(ctx: Context) -> str:
        rows("before")
        sure = ctx.confirm("Sure?")
        rows("after")
        return f"{sure} {rows.written()}"

    asking(server, "sync", body)
    assert talk.call("ask", answers=[YES]).text == "True ['before', 'after']"
    assert rows.written() == ["before", "after"]


def test_nobody_who_says_no_leaves_anything_written(server: MCPServer, talk: Conversation, rows: Any) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        rows("before")
        if not ctx.confirm("Sure?"):
            from django_mcp import ToolError

            raise ToolError("Then not.")
        return "done"

    assert talk.call("ask", answers=[DECLINE]).text == "Then not."
    assert rows.written() == []


def test_a_tool_runs_again_with_the_arguments_it_was_called_with(server: MCPServer, talk: Conversation) -> None:
    seen: list[tuple[Any, ...]] = []

    @tool(server=server)
    def ask(ctx: Context, flight: str, seats: list[int]) -> str:
        seen.append((flight, seats, ctx.method, ctx.client.name))
        return str(ctx.confirm("?"))

    talk.call("ask", flight="LH 1", seats=[1, 2], answers=[YES])
    assert seen == [("LH 1", [1, 2], "tools/call", "tests")] * 2


def test_completion_cannot_ask(server: MCPServer, talk: Conversation) -> None:
    def cities(value: str, ctx: Context) -> list[str]:
        return [str(ctx.confirm("?"))]

    @prompt(server=server, completions={"city": cities})
    def plan(city: str) -> str:
        return city

    params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
    assert talk.request("completion/complete", params).error["code"] == -32603


# Older versions


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
def test_older_clients_are_asked_in_the_words_of_their_version(server: MCPServer, room: Room, version: str) -> None:
    def body(ctx: Context) -> str:
        name = ctx.elicit("Who?", NAME).data["name"] if ctx.supports("elicitation") else "?"
        return f"{name} {ctx.sample('Greet.').text} {len(ctx.roots())}"

    asking(server, "sync", body)
    forms = {"elicitation": {}} if version == "2025-06-18" else {}
    talk = Conversation(room, version, {**forms, "sampling": {}, "roots": {}})
    answers = {"Who?": accept(name="Ada"), "Greet.": said("Hello."), "roots/list": {"roots": []}}
    outcome = talk.call("ask", answers=answers)
    assert outcome.text == f"{'Ada' if forms else '?'} Hello. 0"
    assert all("elicitationId" not in each["params"] for each in outcome.asked)


def test_each_question_of_a_legacy_server_has_an_id_of_its_own(server: MCPServer, legacy_talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: " ".join(str(ctx.confirm(each)) for each in ("a?", "b?")))
    answers = Person([YES, YES])
    for _ in range(2):
        answers.asked.clear()
        legacy_talk.call("ask", answers=answers)
    ids = [each["id"] for each in legacy_talk.heard if each.get("method") == "elicitation/create"]
    assert len(set(ids)) == len(ids) == 4


def test_an_answer_counts_once_and_only_in_its_session(server: MCPServer, legacy_talk: Conversation) -> None:
    runs: list[bool] = []

    def body(ctx: Context) -> str:
        sure = ctx.confirm("?")
        runs.append(sure)
        return str(sure)

    asking(server, "sync", body)
    call = legacy_talk.begin_call("ask")
    question = call.next()
    other = Conversation(legacy_talk.room, LEGACY).open()
    other.reply(question, YES)
    assert runs == [], "another session's answer"
    legacy_talk.reply({"id": "unknown"}, YES)
    legacy_talk.reply(question, accept(confirm=False))
    *_, response = call
    legacy_talk.reply(question, YES)
    assert response["result"]["content"][0]["text"] == "False"
    assert runs == [False]


def test_an_answer_without_a_session_is_refused(server: MCPServer, legacy_talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: str(ctx.confirm("?")))
    question = legacy_talk.begin_call("ask").next()
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
    exchange = legacy_talk.post(answer, {"mcp-session-id": None}).done()
    assert exchange.status == 400
