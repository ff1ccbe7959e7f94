"""No secret gets into the log, whatever it is called and wherever it stands; and no more than people can take in."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.test import override_settings

from django_mcp import MCPServer, Secret, prompt, resource
from django_mcp.core.redaction import redact_uri, redacted
from django_mcp.models import RequestLog
from tests.clients import Client

Log = Callable[[], list[RequestLog]]
LOGIN = {"name": "ada", "pass_phrase": "hush-1"}


def test_what_the_schema_marks_is_hidden_at_any_depth(call_log: Log, site: MCPServer, client: Client) -> None:
    answer = client.call("sign_in", login=LOGIN, again=[LOGIN], code="hush-2", note="Bearer " + "hush3" * 8)
    assert answer.text == "hello"
    [row] = call_log()
    hidden = {"name": "ada", "pass_phrase": "***"}
    assert row.arguments == {"login": hidden, "again": [hidden], "code": "***", "note": "Bearer ***"}


def test_arguments_that_do_not_fit_have_no_secrets_either(call_log: Log, site: MCPServer, client: Client) -> None:
    client.call("sign_in", login={"pass_phrase": {"deep": "hush-1"}}, code=["hush-2"], extra={"my_password": "hush-3"})
    assert "hush" not in json.dumps(call_log()[0].arguments)


def test_secrets_are_hidden_however_a_call_is_malformed(
    call_log: Log, site: MCPServer, client: Client, settings: Any, subtests: pytest.Subtests
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TOOL_SEARCH_THRESHOLD": 1}

    @prompt(server=site)
    def introduce(name: str, code: Annotated[str, Secret()]) -> str:
        """Introduce."""
        return f"Introduce {name}."

    @resource("vault://box{?label,password}", server=site, mime_type="text/plain")
    def box(label: str = "", password: str = "") -> str:
        """A box."""
        return "things"

    login = json.dumps(LOGIN)
    through = {"name": "sign_in", "arguments": {"code": "hush-1", "login": LOGIN}}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "sign_in", "arguments": {"code": ["hush-1"]}}),
        ("tools/call", {"name": "sign_in", "arguments": {"code": {"hush-1": "hush-2"}}}),
        ("tools/call", {"name": "sign_in", "arguments": {"code": "hush-1" * 40, "login": login}}),
        ("tools/call", {"name": "sign_in", "arguments": {"code": 5, "note": login, "login": f" {login}"}}),
        ("tools/call", {"name": "sign_in", "arguments": {"note": "https://ada:hush-1@db.example/?a=1"}}),
        ("tools/call", {"name": "sign_in", "arguments": {"pairs": [{"name": "password", "value": "hush-1"}]}}),
        ("tools/call", {"name": "sign_in", "arguments": {"note": '{"password": "hush-1"}'}}),
        ("tools/call", {"name": "call_destructive_tool", "arguments": {**through, "extra": 1}}),
        (
            "tools/call",
            {"name": "call_destructive_tool", "arguments": {**through, "arguments": json.dumps(through["arguments"])}},
        ),
        ("tools/call", {"name": "call_destructive_tool", "arguments": {"name": "sign_in", "code": "hush-1"}}),
        ("prompts/get", {"name": "introduce", "arguments": {"name": "ada", "code": "hush-1"}}),
        ("prompts/get", {"name": "introduce", "arguments": {"code": "hush-1"}}),
        ("resources/read", {"uri": "vault://box?label=a&password=hush-1"}),
        ("resources/read", {"uri": "vault://ada:hush-1@box?label=a"}),
        ("resources/read", {"uri": "vault://nowhere?pass%77ord=hush-1"}),
    ]
    for method, params in requests:
        with subtests.test(params=params):
            RequestLog.objects.all().delete()
            client.request(method, params)
            [row] = call_log()
            assert "hush" not in json.dumps([row.name, row.arguments, row.error])


def test_a_tool_may_keep_its_arguments_to_itself(call_log: Log, site: MCPServer, client: Client) -> None:
    client.call("whisper", text="quiet")
    assert [(row.name, row.arguments) for row in call_log()] == [("whisper", None)]


def test_a_site_may_keep_no_arguments(call_log: Log, site: MCPServer, client: Client, settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "LOG_ARGUMENTS": False}
    client.call("add", a=1)
    assert call_log()[0].arguments is None


def test_an_argument_is_hidden_by_what_it_is_called() -> None:
    for name in ("password", "newPassword", "userpassword", "API-Key", "x_api_key", "card", "accessToken", "CVV"):
        assert "hush" not in json.dumps(redacted(None, {"deep": [{name: "hush"}], name: ["hush"]})), name


def test_what_is_no_secret_is_shown() -> None:
    shown = {
        "cards": [{"cards": "hush"}],
        "wildcard": "*.py",
        "discard": "all",
        "reset_password": True,
        "token": None,
        "max_tokens": 500,
    }
    assert {name: redacted(None, {name: value})[name] for name, value in shown.items()} == shown


def test_a_site_has_names_of_its_own() -> None:
    with override_settings(DJANGO_MCP={"REDACTED_ARGUMENTS": ["diagnosis"]}):
        assert redacted(None, {"diagnosis": "flu", "password": "x"}) == {"diagnosis": "***", "password": "x"}


def test_long_texts_are_cut_and_say_so() -> None:
    shown = redacted(None, {"text": "a" * 5000})
    assert shown["text"] == "a" * 1000 + "… (5000 characters)"


def test_many_arguments_are_cut_as_a_whole() -> None:
    shown = redacted(None, {f"key{number}": ["x" * 50] * 50 for number in range(500)})
    assert len(json.dumps(shown)) < 12_000
    assert any("more" in str(each) for each in (*shown.values(), *shown))


def test_all_is_shown_where_all_is_asked_for() -> None:
    arguments = {"text": "a" * 50_000, "list": list(range(9000))}
    assert redacted(None, arguments, longest=None, whole=None) == arguments


def test_half_a_credential_is_none() -> None:
    shown = redacted(None, {"text": "a" * 980 + " Bearer " + "hush" * 20})
    assert "hush" not in shown["text"]


def test_very_deep_arguments_end_somewhere() -> None:
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]
    assert "bottom" not in json.dumps(redacted(None, {"deep": deep}))


def test_a_secret_behind_what_is_cut_is_not_in_the_error_either(call_log: Log, site: MCPServer, client: Client) -> None:
    note = {f"filler{number}": "x" * 1000 for number in range(20)}
    client.call("sign_in", login={**note, "pass_phrase": 5}, code=["hush-1"])
    [row] = call_log()
    assert "hush" not in json.dumps([row.arguments, row.error])
    assert "code" in row.error
    assert len(json.dumps(row.arguments)) < 12_000


def test_the_error_of_a_call_with_too_many_values_to_look_for_secrets_is_not_kept(
    call_log: Log, site: MCPServer, client: Client
) -> None:
    assert "Missing" in client.call("sign_in", nobody=list(range(6000)), code="hush-1").text
    assert call_log()[0].error == "***"


def test_nothing_is_shown_of_json_that_is_too_long_to_be_read(call_log: Log, site: MCPServer, client: Client) -> None:
    client.call(
        "sign_in", login=LOGIN, again=[], code="c", note=json.dumps({"password": "hush-1", "more": "x" * 20_000})
    )
    assert call_log()[0].arguments["note"] == "… (20034 characters of JSON)"


def test_a_uri_of_very_many_parameters_shows_no_value_of_the_last(
    call_log: Log, site: MCPServer, client: Client
) -> None:
    client.request("resources/read", {"uri": "vault://nowhere?" + "a=1&" * 120 + "b=2&password=hush-1"})
    assert "hush" not in json.dumps([call_log()[0].name, call_log()[0].error])
    assert redact_uri("x:?" + "a=1&" * 120 + "b=hush").endswith("&b=***")
