"""What is registered where, and what cannot be."""

from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

import django_mcp
from django_mcp import AllowAny, Icon, MCPServer
from django_mcp.core import server as registry

EMPTY: tuple[dict[str, Any], ...] = ({}, {}, {}, {})


def one() -> str: ...


def two() -> str: ...


KINDS: dict[str, Callable[..., Any]] = {
    "tool": lambda server, call: django_mcp.tool(server=server, name="same")(call),
    "prompt": lambda server, call: django_mcp.prompt(server=server, name="same")(call),
    "resource": lambda server, call: django_mcp.resource("x:same", server=server)(call),
}


def names(server: MCPServer) -> list[set[str]]:
    return [set(each) for each in (server.tools, server.resources, server.templates, server.prompts)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_of_the_same_key_is_refused_and_both_places_are_named(server: MCPServer, kind: str) -> None:
    KINDS[kind](server, one)
    with pytest.raises(ImproperlyConfigured) as caught:
        KINDS[kind](server, two)
    assert f"{__name__}.one" in str(caught.value)
    assert f"{__name__}.two" in str(caught.value)
    assert "same" in str(caught.value)
    (kept,) = [*server.tools.values(), *server.prompts.values(), *server.resources.values()]
    assert kept.function.call is one


def test_a_template_registered_twice_is_refused(server: MCPServer) -> None:
    django_mcp.resource("x:{name}", server=server)(lambda name: name)
    with pytest.raises(ImproperlyConfigured, match=r"'x:\{name\}'"):
        django_mcp.resource("x:{name}", server=server)(lambda name: name)


def test_a_tool_and_a_prompt_may_have_the_same_name(server: MCPServer) -> None:
    django_mcp.tool(server=server)(one)
    django_mcp.prompt(server=server)(one)
    assert names(server) == [{"one"}, set(), set(), {"one"}]


def test_two_servers_may_have_a_tool_of_the_same_name(make_server: Callable[..., MCPServer]) -> None:
    first, second = make_server("first"), make_server("second")
    django_mcp.tool(server=first)(one)
    django_mcp.tool(server=second)(one)
    assert first.tools["one"] is not second.tools["one"]


def test_what_is_on_one_server_is_on_no_other(make_server: Callable[..., MCPServer]) -> None:
    first, second = make_server("first"), make_server("second")
    before = names(registry.server)
    django_mcp.tool(server=first)(one)
    assert names(second) == [set()] * 4
    assert names(registry.server) == before


@pytest.mark.parametrize(
    "decorate",
    [django_mcp.tool, django_mcp.tool(), django_mcp.prompt, django_mcp.prompt(), django_mcp.resource("x:decorated")],
)
def test_a_decorator_works_bare_and_called_gives_the_function_back_and_registers_on_the_default_server(
    make_server: Callable[..., MCPServer], decorate: Any
) -> None:
    make_server()  # puts back what is registered here
    registry.server.restore(({}, {}, {}, {}, {}))

    def decorated() -> str: ...

    assert decorate(decorated) is decorated
    (made,) = [*registry.server.tools.values(), *registry.server.prompts.values(), *registry.server.resources.values()]
    assert made.function.call is decorated


def test_a_server_takes_tools_resources_and_prompts_and_nothing_else(server: MCPServer) -> None:
    with pytest.raises(TypeError, match="not a tool, resource or prompt"):
        server.add(one)  # type: ignore[arg-type]


def test_registering_makes_kept_pages_obsolete(server: MCPServer) -> None:
    server.pages["tools", -1] = object()  # type: ignore[assignment]
    django_mcp.tool(server=server)(one)
    assert server.pages == {}


def test_positions_go_up_across_kinds_and_are_never_given_twice(server: MCPServer) -> None:
    django_mcp.tool(server=server)(one)
    snapshot = server.snapshot()
    django_mcp.tool(server=server)(two)
    used = {server.tools["one"].position, server.tools["two"].position}
    server.restore(snapshot)
    django_mcp.prompt(server=server)(two)
    assert server.prompts["two"].position > max(used)


# Snapshots


def fill(server: MCPServer) -> None:
    django_mcp.tool(server=server)(one)
    django_mcp.prompt(server=server)(one)
    django_mcp.resource("x:one", server=server)(one)
    django_mcp.resource("x:{name}", server=server)(lambda name: name)


def test_a_snapshot_undoes_every_registration_since(server: MCPServer) -> None:
    snapshot = server.snapshot()
    fill(server)
    assert all(names(server))
    server.restore(snapshot)
    assert names(server) == [set()] * 4


def test_a_snapshot_keeps_what_was_there(server: MCPServer) -> None:
    fill(server)
    before = names(server)
    snapshot = server.snapshot()
    django_mcp.tool(server=server)(two)
    server.restore(snapshot)
    assert names(server) == before


def test_a_snapshot_can_be_restored_more_than_once(server: MCPServer) -> None:
    snapshot = server.snapshot()
    for _ in range(3):
        fill(server)
        server.restore(snapshot)
        assert names(server) == [set()] * 4


def test_a_restored_server_shows_no_page_of_what_was_undone(server: MCPServer) -> None:
    snapshot = server.snapshot()
    server.pages["tools", -1] = object()  # type: ignore[assignment]
    server.restore(snapshot)
    assert server.pages == {}


def test_restoring_all_takes_new_servers_away_so_that_their_names_and_paths_are_free(
    make_server: Callable[..., MCPServer],
) -> None:
    kept = make_server("kept")
    before = registry.snapshots()
    fill(kept)
    make_server("gone", path="gone")
    registry.restore_all(before)
    assert names(kept) == [set()] * 4
    assert "gone" not in registry.snapshots()
    make_server("gone", path="gone")


# Servers


def test_a_server_of_a_strange_name_is_refused(make_server: Callable[..., MCPServer]) -> None:
    for name in ("", "a b", "a/b", "a.b", "é", "x" * 65, "a\n"):
        with pytest.raises(ImproperlyConfigured, match="1 to 64 letters"):
            make_server(name)


def test_a_server_is_at_its_name_unless_told_otherwise(make_server: Callable[..., MCPServer]) -> None:
    assert make_server("internal").path == "internal/mcp"
    assert make_server("partners", path="/api/partners/mcp/").path == "api/partners/mcp"


def test_a_name_taken_is_refused_and_the_other_is_named(make_server: Callable[..., MCPServer]) -> None:
    make_server("internal")
    with pytest.raises(ImproperlyConfigured, match="'internal' at 'internal/mcp'"):
        make_server("internal", path="elsewhere")


def test_a_path_taken_is_refused_however_its_slashes_are_and_nothing_is_left_behind(
    make_server: Callable[..., MCPServer],
) -> None:
    make_server("first", path="shared/mcp")
    for path in ("shared/mcp", "/shared/mcp", "shared/mcp/", "/shared/mcp/"):
        with pytest.raises(ImproperlyConfigured, match="'first' at 'shared/mcp'"):
            make_server("second", path=path)
    for path in ("mcp", "/mcp/"):
        with pytest.raises(ImproperlyConfigured, match="'default'"):
            make_server("second", path=path)
    make_server("second", path="other")


def test_the_default_server_is_served_when_it_is_the_only_one_even_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_servers", {"default": registry.server})
    before = registry.server.snapshot()
    registry.server.restore(({}, {}, {}, {}, {}))
    try:
        assert list(registry.servers()) == [registry.server]
    finally:
        registry.server.restore(before)


def test_the_default_server_left_empty_beside_others_is_not_served(make_server: Callable[..., MCPServer]) -> None:
    other = make_server("other")
    registry.server.restore(({}, {}, {}, {}, {}))
    assert registry.server not in registry.servers()
    assert other in registry.servers()
    django_mcp.tool(one)
    assert registry.server in registry.servers()


# What a server says of itself


def test_a_server_says_what_it_was_told(make_server: Callable[..., MCPServer]) -> None:
    server = make_server(
        "internal",
        title="Internal",
        version="1.2",
        instructions="Ask.",
        website_url="https://example.com",
        icons=[Icon("https://example.com/a.png")],
    )
    mcp_types.Implementation.model_validate(server.implementation)
    assert server.implementation == {
        "name": "internal",
        "title": "Internal",
        "version": "1.2",
        "websiteUrl": "https://example.com",
        "icons": [{"src": "https://example.com/a.png"}],
    }
    assert server.instructions == "Ask."


@override_settings(
    DJANGO_MCP={"NAME": "site", "TITLE": "Site", "VERSION": "9", "INSTRUCTIONS": "All.", "AUTHENTICATION": ["a.B"]}
)
def test_a_server_of_its_own_takes_from_the_settings_all_but_name_and_title(
    make_server: Callable[..., MCPServer],
) -> None:
    server = make_server("internal", authentication=None)
    assert server.implementation == {"name": "internal", "version": "9"}
    assert server.instructions == "All."
    assert list(server.authentication) == ["a.B"]


def test_authentication_of_a_server_goes_before_that_of_the_settings(make_server: Callable[..., MCPServer]) -> None:
    public = AllowAny()
    assert make_server("unlocked", authentication=[public]).authentication == [public]
    assert list(make_server("closed", authentication=[]).authentication) == []


@pytest.mark.parametrize(
    ("register", "capability"),
    [
        (lambda server: django_mcp.tool(server=server)(one), "tools"),
        (lambda server: django_mcp.prompt(server=server)(one), "prompts"),
        (lambda server: django_mcp.resource("x:one", server=server)(one), "resources"),
        (lambda server: django_mcp.resource("x:{name}", server=server)(lambda name: name), "resources"),
    ],
)
def test_a_server_declares_just_the_capabilities_it_has(server: MCPServer, register: Any, capability: str) -> None:
    assert server.capabilities == {}
    assert server.is_empty()
    register(server)
    assert server.capabilities == {capability: {}}
    assert capability in server.capabilities
    assert not server.is_empty()


def test_the_repr_of_a_server_says_which_it_is(server: MCPServer) -> None:
    assert repr(server) == "<MCPServer 'test' at 'test/mcp'>"
