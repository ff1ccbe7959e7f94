"""Names, titles, hints and permissions."""

from itertools import product

import mcp_types
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy

from django_mcp import Icon
from tests.primitives.makers import make_prompt, make_resource, make_tool


def ping() -> str:
    """Answer."""
    return "pong"


def test_a_name_of_letters_digits_dashes_and_underscores_is_taken(subtests: pytest.Subtests) -> None:
    for make, name in product([make_tool, make_prompt], ["a", "A-b_9", "-", "_", "0", "x" * 64]):
        with subtests.test(make=make, name=name):
            assert make(ping, name=name).definition["name"] == name


BAD_NAMES = ["x" * 65, "a b", "a.b", "a/b", "é", "a\n", "ping ", "a:b", "<lambda>", "ａ", "١"]


def test_a_name_some_clients_refuse_is_refused_here(subtests: pytest.Subtests) -> None:
    for make, name in product([make_tool, make_prompt], BAD_NAMES):
        with subtests.test(make=make, name=name):
            with pytest.raises(ImproperlyConfigured, match="1 to 64 letters") as caught:
                make(ping, name=name)
            assert f"{ping.__module__}.ping" in str(caught.value)


def test_the_name_is_that_of_the_function_unless_given(subtests: pytest.Subtests) -> None:
    for make in [make_tool, make_prompt, lambda call: make_resource(call, "x:ping")]:
        with subtests.test(make=make):
            assert make(ping).definition["name"] == "ping"


def test_a_tool_is_left_as_small_as_it_is() -> None:
    assert make_tool(ping).definition == {
        "name": "ping",
        "description": "Answer.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_everything_said_of_a_tool_is_listed() -> None:
    tool = make_tool(
        ping,
        title="Ping",
        icons=[Icon("data:image/svg+xml,x", sizes=["any"])],
        meta={"example.com/a": 1},
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    mcp_types.Tool.model_validate(tool.definition)
    assert tool.definition["title"] == "Ping"
    assert tool.definition["icons"] == [{"src": "data:image/svg+xml,x", "sizes": ["any"]}]
    assert tool.definition["_meta"] == {"example.com/a": 1}
    assert tool.definition["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def test_only_hints_that_were_given_are_listed(subtests: pytest.Subtests) -> None:
    for (option, hint), value in product(
        [
            ("read_only", "readOnlyHint"),
            ("destructive", "destructiveHint"),
            ("idempotent", "idempotentHint"),
            ("open_world", "openWorldHint"),
        ],
        [True, False],
    ):
        with subtests.test(option=option, hint=hint, value=value):
            implied = {"destructiveHint": False} if option == "read_only" and value else {}
            assert make_tool(ping, **{option: value}).definition["annotations"] == {hint: value, **implied}


def test_a_permission_without_its_app_is_refused_at_once(subtests: pytest.Subtests) -> None:
    for make, permission in product([make_tool, make_prompt], ["change_book", "library.book.change", "", "library"]):
        with (
            subtests.test(make=make, permission=permission),
            pytest.raises(ImproperlyConfigured, match=r"'app_label\.codename'"),
        ):
            make(ping, permission=permission)


def test_a_permission_is_kept_and_not_shown() -> None:
    tool = make_tool(ping, permission="library.change_book")
    assert tool.permissions == ("library.change_book",)
    assert "library" not in str(tool.definition)


def test_two_tools_of_one_function_do_not_share_their_definitions() -> None:
    meta = {"example.com/a": 1}
    one, two = make_tool(ping, meta=meta), make_tool(ping, meta=meta)
    one.definition["_meta"]["more"] = 1
    assert two.definition["_meta"] == meta == {"example.com/a": 1}


def test_an_option_nobody_knows_is_refused(subtests: pytest.Subtests) -> None:
    for option in ["readonly", "hidden", "uri"]:
        with subtests.test(option=option), pytest.raises(ImproperlyConfigured, match=f"unknown option {option!r}"):
            make_tool(ping, **{option: True})


def test_meta_that_is_no_json_is_refused_where_it_is_declared_for_it_would_fail_the_whole_list() -> None:
    for meta in ({"example.com/a": object()}, {"example.com/a": "\ud800"}):
        with pytest.raises(ImproperlyConfigured, match="meta must be JSON"):
            make_tool(ping, meta=meta)
    meta = {"example.com/a": gettext_lazy("Yes")}
    assert make_tool(ping, meta=meta).definition["_meta"] == meta
