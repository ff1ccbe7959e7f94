"""What tools with tasks bring to an endpoint."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer, tool
from django_mcp.tasks.extension import NAME

RESULTS = "get_task_result"


def add(server: MCPServer, name: str = "work", **options: Any) -> None:
    tool(server=server, name=name, **{"task": "optional", **options})(lambda: "done")


def test_they_bring_the_extension_and_one_tool_for_results(server: MCPServer) -> None:
    add(server)
    add(server, "other")
    assert sorted(server.tools) == sorted(["work", "other", RESULTS])
    assert list(server.extensions) == [NAME]


def test_a_tool_that_is_always_a_task_brings_no_tool_for_those_who_know_none(server: MCPServer) -> None:
    add(server, task="required")
    assert list(server.tools) == ["work"]
    assert list(server.extensions) == [NAME]


@pytest.mark.parametrize("task", ["never", None])
def test_others_bring_nothing(server: MCPServer, task: Any) -> None:
    add(server, task=task)
    assert list(server.tools) == ["work"]
    assert server.extensions == {}


def test_an_endpoint_made_of_another_has_them_once(make_server: Callable[..., MCPServer]) -> None:
    source = make_server("source")
    add(source, "before", tags=["a"])
    all_of_it, some, none = (
        make_server("all", source=source),
        make_server("some", source=source, include_tags=["a"]),
        make_server("none", source=source, include_tags=["b"]),
    )
    add(source, "after", tags=["a"])
    assert sorted(all_of_it.tools) == sorted(some.tools) == sorted(["before", "after", RESULTS])
    assert list(all_of_it.extensions) == list(some.extensions) == [NAME]
    assert (none.tools, none.extensions) == ({}, {})


@pytest.mark.parametrize("own_first", [True, False])
def test_a_tool_of_that_name_is_refused_in_clear_words(server: MCPServer, own_first: bool) -> None:
    def register_own() -> None:
        tool(server=server, name=RESULTS)(lambda: "mine")

    if own_first:
        register_own()
        with pytest.raises(ImproperlyConfigured, match=f"adds a tool '{RESULTS}'.*Rename yours"):
            add(server)
        add(server, "always", task="required")
    else:
        add(server)
        with pytest.raises(ImproperlyConfigured, match=RESULTS):
            register_own()


def test_a_tool_with_tasks_cannot_have_that_name_itself(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="Rename yours"):
        add(server, RESULTS)


def test_a_word_that_is_none_of_the_three_is_refused(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="task must be one of 'optional', 'required', 'never', not 'always'"):
        add(server, task="always")


def test_definitions_of_the_newest_version_say_nothing_of_tasks(server: MCPServer) -> None:
    add(server)
    assert not {"execution", "task"} & set(server.tools["work"].definition)
