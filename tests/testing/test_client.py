"""``django_mcp.test.MCPClient``, used as the tests of a site use it."""

from collections.abc import Callable
from itertools import product
from typing import Annotated, Any
from unittest import mock

import pytest
from django.contrib.auth.models import Permission
from django.core import mail
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from pydantic import Field

from django_mcp import APIKeyAuthentication, Context, Elicitation, HeaderParam, MCPServer, URLElicitation, tool
from django_mcp.auth.api_keys import create_key
from django_mcp.models import RequestLog, ToolPolicy
from django_mcp.test import CANCEL, DECLINE, MCPClient
from tests.model_resources.library.models import Tag

pytestmark = pytest.mark.postgresql  # transactions of tests, and what goes back in them

ERAS = (None, "modern", "legacy", "2025-06-18", "2025-03-26", "2024-11-05")


def failing(call: Callable[[], Any]) -> str:
    """What the assertion says that fails."""
    with pytest.raises(AssertionError) as caught:
        call()
    return str(caught.value)


def test_a_tool_is_called_in_the_transaction_of_the_test(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    tag = Tag.objects.create(word="red")
    for revision in ERAS:
        with subtests.test(protocol_version=revision):
            Tag.objects.update(word="red")
            called = MCPClient(ann, server=site, protocol_version=revision).call(
                "rename_tag", old="red", new="blue", answers=[True]
            )
            called.assert_ok().assert_text("blue").assert_asked("Rename red to blue?")
            if called.protocol_version >= "2025-06-18":
                called.assert_structured({"word": "blue"}).assert_structured(word="blue")
            tag.refresh_from_db()
            assert tag.word == "blue"


def test_in_both_eras_the_call_is_made_twice_and_done_once(site: MCPServer, ann: Any) -> None:
    seen: list[str] = []

    @tool(server=site)
    def note(ctx: Context, word: str) -> int:
        """Note a word."""
        mail.send_mail(word, "", None, ["ann@example.com"])
        seen.append(ctx.channel.protocol)
        return Tag.objects.create(word=word).pk and 1

    MCPClient(ann, server=site).call("note", word="once").assert_ok()
    assert seen == ["2025-11-25", "2026-07-28"]
    assert [each.word for each in Tag.objects.all()] == ["once"]
    assert [each.subject for each in mail.outbox] == ["once"]


def test_a_tool_that_ends_otherwise_in_another_era_is_found(site: MCPServer, ann: Any) -> None:
    @tool(server=site)
    def whine(ctx: Context) -> str:
        """Fail for some."""
        assert ctx.channel.protocol == "2026-07-28"
        return "well"

    with mock.patch("django_mcp.core.failures.logger"):
        said = failing(lambda: MCPClient(ann, server=site).call("whine"))
    assert "The outcome in protocol 2025-11-25 differs from the one in 2026-07-28." in said
    assert "Internal server error" in said
    assert "well" in said


def test_answers_are_those_of_a_person(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    Tag.objects.create(word="red")
    answers = [(True, "blue"), (False, "red"), (DECLINE, "red"), (CANCEL, "red")]
    for revision, (answer, word) in product(("modern", "legacy"), answers):
        with subtests.test(protocol_version=revision, answer=answer):
            Tag.objects.update(word="red")
            client = MCPClient(ann, server=site, protocol_version=revision, answers={"Rename": answer})
            assert client.call("rename_tag", {"old": "red", "new": "blue"}).assert_ok().text.count(word) == 1
            assert Tag.objects.get().word == word


def test_whatever_a_tool_asks_can_be_answered(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    @tool(server=site)
    def survey(ctx: Context) -> list[str]:
        """Ask everything."""
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name"],
        }
        form = ctx.elicit("Who are you?", schema)
        drawn = ctx.sample("Draw a cat.")
        roots = ctx.roots()
        (opened,) = ctx.ask(URLElicitation("Open the page.", "https://example.com/"))
        return [str(form.data["name"]), drawn.text, roots[0].uri, str(opened.accepted)]

    answers = [{"name": "Ann", "age": 7}, "=^.^=", ["file:///home"], True]
    for revision in ["modern", "legacy"]:
        with subtests.test(protocol_version=revision):
            called = MCPClient(ann, server=site, protocol_version=revision).call("survey", answers=answers)
            said = ["Ann", "=^.^=", "file:///home", "True"]
            called.assert_structured(said if revision == "modern" else {"result": said})
            called.assert_asked("Who are you?", "Draw a cat.", "roots/list", "Open the page.")


def test_a_question_without_an_answer_says_what_was_asked(site: MCPServer, ann: Any) -> None:
    Tag.objects.create(word="red")
    said = failing(lambda: MCPClient(ann, server=site).call("rename_tag", old="red", new="blue"))
    assert "rename_tag (protocol 2025-11-25) asked:\n    Rename red to blue?\n" in said
    assert "answers=[…]" in said


def test_an_answer_that_nobody_asked_for_is_found(site: MCPServer, ann: Any) -> None:
    said = failing(lambda: MCPClient(ann, server=site).call("add", a=1, b=2, answers=["never"]))
    assert "unused answers: ['never']" in said


def test_progress_and_what_is_logged_come_with_the_outcome(site: MCPServer, ann: Any) -> None:
    Tag.objects.create(word="red")
    for revision in ("modern", "legacy"):
        client = MCPClient(ann, server=site, protocol_version=revision)
        called = client.call("rename_tag", old=Tag.objects.get().word, new=f"{revision}-blue", answers=[True])
        assert called.progress == [{"progress": 1, "total": 2, "message": "asked"}]
        assert [(each["level"], each["data"][-5:]) for each in called.logs] == [("info", "-blue")]


def test_what_the_caller_may_not_see_is_hidden(site: MCPServer, people: dict[str, Any]) -> None:
    client = MCPClient(people["bob"], server=site)
    client.call("rename_tag", old="a", new="b").assert_hidden()
    assert "rename_tag" not in client.names()
    assert "add" in client.names()
    client.read("library://tags/1").assert_hidden()
    said = failing(MCPClient(people["ann"], server=site).call("add", a=1, b=1).assert_hidden)
    assert "It should not exist for this caller." in said
    assert "add(a=1, b=1)" in said
    assert "as       ann, protocol 2026-07-28" in said


def test_rights_are_those_of_the_moment(site: MCPServer, people: dict[str, Any]) -> None:
    client = MCPClient(people["bob"], server=site)
    client.call("rename_tag", old="a", new="b").assert_hidden()
    people["bob"].user_permissions.add(Permission.objects.get(codename="change_tag", content_type__app_label="library"))
    client.call("rename_tag", old="a", new="b").assert_error_mentions("there is no tag 'a'")
    people["bob"].is_active = False
    people["bob"].save()
    client.call("rename_tag", old="a", new="b").assert_error_mentions("is_active")


def test_what_is_decided_about_a_tool_counts_at_once(site: MCPServer, ann: Any) -> None:
    client = MCPClient(ann, server=site)
    client.call("add", a=1, b=2).assert_structured(3)
    ToolPolicy.objects.create(server="site", tool="add", decision="block")
    client.call("add", a=1, b=2).assert_hidden()


def test_a_failure_says_what_came_instead(site: MCPServer, ann: Any) -> None:
    called = MCPClient(ann, server=site).call("rename_tag", old="grey", new="blue")
    assert not called.ok
    assert failing(called.assert_ok) == (
        "It should have succeeded.\n"
        "  request  rename_tag(old='grey', new='blue')\n"
        "  as       ann, protocol 2026-07-28\n"
        "  got      the tool failed: There is no tag 'grey'. Use one of the list."
    )
    called.assert_error_mentions("grey", "LIST")
    assert "should mention 'pink'" in failing(lambda: called.assert_error_mentions("pink"))


def test_what_a_tool_raised_is_shown_with_its_traceback(site: MCPServer, ann: Any) -> None:
    @tool(server=site)
    def crash() -> str:
        """Divide."""
        return str(1 // 0)

    called = MCPClient(ann, server=site).call("crash")
    assert isinstance(called.raised, ZeroDivisionError)
    said = failing(called.assert_ok)
    assert "raised   Traceback" in said
    assert "return str(1 // 0)" in said
    assert "1 // 0" not in called.text


def test_structured_content_that_differs_is_shown_line_by_line(site: MCPServer, ann: Any) -> None:
    called = MCPClient(ann, server=site).call("add", a=1, b=2)
    said = failing(lambda: called.assert_structured(4))
    assert "The structured content differs" in said
    assert "    - 4\n" in said
    assert "    + 3\n" in said
    assert "should be an object with the members result, but is 3" in failing(
        lambda: called.assert_structured(result=3)
    )
    called = MCPClient(ann, server=site, protocol_version="legacy").call("add", a=1, b=2)
    said = failing(lambda: called.assert_structured(result=4))
    assert "    - {'result': 4}\n" in said
    assert "    + {'result': 3}\n" in said
    assert "The structured content differs" in failing(lambda: called.assert_structured({"result": 3, "more": 1}))
    assert "should have failed" in failing(called.assert_error_mentions)
    assert "should contain 'four'" in failing(lambda: called.assert_text("four"))
    assert "should have asked" in failing(lambda: called.assert_asked("Sure?"))


def test_what_does_not_fit_its_schema_is_found(site: MCPServer, ann: Any) -> None:
    @tool(server=site)
    def lie() -> Annotated[dict[str, Any], Field(json_schema_extra={"properties": {"n": {"type": "integer"}}})]:
        """Promise a number."""
        return {"n": "seven"}

    said = failing(lambda: MCPClient(ann, server=site).call("lie"))
    assert "should match the output schema" in said
    assert "$.n: 'seven' is not of type 'integer'" in said
    MCPClient(ann, server=site, schemas=False).call("lie").assert_ok()


def test_without_the_package_for_schemas_the_client_says_what_to_install(
    site: MCPServer, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jsonschema", None)
    with pytest.raises(ImportError, match=r"pip install 'django-mcp-toolkit\[test\]'"):
        MCPClient(ann, server=site).call("add", a=1, b=2)


def test_a_call_is_approved_and_then_made(site: MCPServer, people: dict[str, Any]) -> None:
    client = MCPClient(people["ann"], server=site)
    waiting = client.call("pay", amount=5).assert_needs_approval()
    client.call("pay", amount=5).assert_needs_approval()
    assert "should have waited for approval" in failing(client.call("add", a=1, b=1).assert_needs_approval)
    with pytest.raises(PermissionDenied):
        client.approve(waiting, by=people["bob"])
    client.approve(waiting, by=people["cleo"], reason="fine").assert_text("Paid 5.")
    client.call("pay", amount=5).assert_needs_approval()


def test_a_call_is_refused_with_a_reason(site: MCPServer, people: dict[str, Any]) -> None:
    client = MCPClient(people["ann"], server=site)
    waiting = client.call("pay", amount=5)
    client.deny(waiting, by=people["cleo"], reason="too much").assert_error_mentions("too much")
    assert "it was already decided" in failing(lambda: client.approve(waiting, by=people["cleo"]))


def test_a_task_is_run_at_once(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    Tag.objects.create(word="red")
    for revision in ERAS[:3]:
        with subtests.test(protocol_version=revision):
            MCPClient(ann, server=site, protocol_version=revision).call("count_tags").assert_text("1")


def test_resources_prompts_and_completions(site: MCPServer, ann: Any) -> None:
    client = MCPClient(ann, server=site)
    tag = Tag.objects.create(word="red")
    assert client.read("site://about").assert_ok().text == "A site."
    uri = next(each["uri"] for each in client.resources() if each["uri"].endswith(f"/{tag.pk}"))
    assert client.read(uri).json["word"] == "red"
    client.read("site://nowhere").assert_hidden()
    client.prompt("describe", tag="red").assert_text("Describe red.")
    client.prompt("describes").assert_hidden()
    assert client.complete("describe", "tag", "bl").values == ["blue", "black"]
    assert client.names("prompt") == ["describe"]
    assert any("{" in each for each in client.names("template"))


def test_a_subscriber_hears_of_rows_and_of_lists(site: MCPServer, ann: Any) -> None:
    client = MCPClient(ann, server=site)
    tag = Tag.objects.create(word="red")
    other = Tag.objects.create(word="green")
    uri = next(each["uri"] for each in client.resources() if each["uri"].endswith(f"/{tag.pk}"))
    with client.subscribe(uri) as heard:
        tag.word = "blue"
        tag.save()
        other.save()
    assert (heard.updated, heard.lists) == ([uri], [])
    with client.subscribe() as heard:
        Tag.objects.create(word="new")
        site.notify_list_changed("tools")
    assert (heard.updated, sorted(heard.lists)) == ([], ["resources", "tools"])


def test_nobody_subscribes_to_what_they_may_not_see(site: MCPServer, people: dict[str, Any]) -> None:
    tag = Tag.objects.create(word="red")
    uri = next(each for each in MCPClient(people["ann"], server=site).names("resource") if each.endswith(f"/{tag.pk}"))
    said = failing(lambda: MCPClient(people["bob"], server=site).subscribe(uri).__enter__())
    assert f"there is no resource {uri} for this caller" in said


def test_a_token_without_the_scope_is_refused(make_server: Callable[..., MCPServer], ann: Any) -> None:
    server = make_server("scoped", scopes=["read"])

    @tool(server=server, scopes=["write"])
    def write() -> str:
        """Write."""
        return "written"

    client = MCPClient(ann, server=server, client_id="an-app", scopes=["read"])
    client.call("write").assert_needs_scopes("write")
    MCPClient(ann, server=server, client_id="an-app", scopes=["read", "write"]).call("write").assert_ok()
    said = failing(MCPClient(ann, server=server).call("write").assert_needs_scopes)
    assert "It should have been denied" in said


def test_without_a_user_the_endpoint_finds_the_caller_itself(make_server: Callable[..., MCPServer], ann: Any) -> None:
    server = make_server("keys", authentication=[APIKeyAuthentication()])

    @tool(server=server)
    def whoami(ctx: Context) -> str:
        """Say who calls."""
        return str(ctx.user)

    MCPClient(server=server).call("whoami").assert_error_mentions("Authentication required")
    _, key = create_key(ann, "test", endpoints=["keys"])
    client = MCPClient(server=server, headers={"Authorization": f"Bearer {key}"})
    client.call("whoami").assert_text("ann")


def test_an_endpoint_that_is_not_for_this_user_lets_nobody_in(make_server: Callable[..., MCPServer], ann: Any) -> None:
    server = make_server("closed", user_passes_test=lambda user: user.is_staff)
    tool(server=server, name="look")(lambda: "seen")
    client = MCPClient(ann, server=server, protocol_version="modern")
    assert "HTTP 401" in failing(client.tools)


def test_parameters_that_headers_repeat_are_repeated(site: MCPServer, ann: Any) -> None:
    @tool(server=site)
    def where(region: Annotated[str, HeaderParam("Region")]) -> str:
        """Say where."""
        return region

    MCPClient(ann, server=site).call("where", region="Zürich ").assert_text("Zürich")


def test_calls_are_logged_as_others_are(site: MCPServer, ann: Any, call_log: Any) -> None:
    MCPClient(ann, server=site, protocol_version="modern").call("add", a=1, b=2)
    row = RequestLog.objects.get()
    assert (row.name, row.user_id) == ("add", ann.pk)


def test_an_async_test_awaits_the_same(site: MCPServer, ann: Any) -> None:
    from asgiref.sync import async_to_sync

    async def main() -> None:
        client = MCPClient(ann, server=site)
        (await client.acall("add", a=1, b=2)).assert_structured(3)
        (await client.aread("site://about")).assert_text("A site.")
        (await client.aprompt("describe", tag="red")).assert_text("red")

    async_to_sync(main)()


def test_what_there_is_not_is_said_so(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    for options, error, words in [
        ({"server": "nowhere"}, ImproperlyConfigured, "There is no endpoint 'nowhere'"),
        ({"protocol_version": "stone"}, ValueError, "takes one of legacy, modern, 2026-07-28"),
        ({"answers": True}, TypeError, r"use \[True\]"),
    ]:
        with subtests.test(options=options, error=error, words=words), pytest.raises(error, match=words):
            MCPClient(ann, **{"server": site, **options}).call("add", a=1, b=2)


def test_form_answers_that_do_not_fit_say_so(site: MCPServer, ann: Any) -> None:
    @tool(server=site)
    def fill(ctx: Context) -> str:
        """Ask for two things."""
        schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
        return str(ctx.ask(Elicitation("Both, please.", schema)).data)

    said = failing(lambda: MCPClient(ann, server=site).call("fill", answers=["one"]))
    assert "'one' answers one field, but 'Both, please.' asks for ['a', 'b']" in said


def test_answers_may_be_given_in_three_ways(site: MCPServer, ann: Any, subtests: pytest.Subtests) -> None:
    Tag.objects.create(word="red")
    ways: dict[str, Any] = {"list": [True], "words": {"Rename": True}, "function": lambda question: True}
    for way, answers in ways.items():
        with subtests.test(way):
            Tag.objects.update(word="red")
            MCPClient(ann, server=site).call("rename_tag", old="red", new="blue", answers=answers).assert_text("blue")
