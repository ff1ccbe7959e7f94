"""What tools of models are called: the same in every language; only their titles are translated."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import override_settings
from django.utils import translation

from django_mcp import MCPServer, ModelResource, register
from tests.model_resources.conftest import Reader, registering


def names_in(language: str, server: MCPServer, reader: Callable[..., Reader]) -> set[str]:
    """Names of the tools of a model with a translated name, at a site that starts in a language."""
    with translation.override(language), registering(server):

        @register(User, server=server)
        class Users(ModelResource):
            fields = ("username",)

        assert Users
        return reader("root").tool_names()


@pytest.mark.parametrize("language", ["en", "de", "ru", "ja"])
def test_tools_have_the_same_names_whatever_the_language_of_the_site(
    language: str, server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    assert names_in(language, server, reader) == {"search_users", "get_user"}


def test_a_name_that_is_not_of_latin_letters_gives_way_to_that_of_the_class(
    server: MCPServer, reader: Callable[..., Reader], people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Group._meta, "verbose_name", "группа API")
    monkeypatch.setattr(Group._meta, "verbose_name_plural", "группы API")

    @register(Group, server=server)
    class Groups(ModelResource):
        fields = ("name",)

    assert Groups
    assert reader("root").tool_names() == {"search_groups", "get_group"}


@pytest.mark.parametrize(
    ("plural", "title"),
    [
        ("IP addresses", "Search IP addresses"),
        ("VRFs", "Search VRFs"),
        ("Own Events", "Search own events"),
        ("hotels in Paris", "Search hotels in Paris"),
    ],
)
def test_titles_keep_the_capitals_of_abbreviations_and_names(
    plural: str,
    title: str,
    server: MCPServer,
    reader: Callable[..., Reader],
    people: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Group._meta, "verbose_name_plural", plural)
    register(Group, server=server)(type("Groups", (ModelResource,), {"fields": ("name",), "plural": None}))
    titles = [tool["title"] for tool in reader("root").list("tools/list")]
    assert title in titles


def test_a_name_of_the_declaration_is_in_titles_and_errors_too(
    server: MCPServer, reader: Callable[..., Reader], people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Group._meta, "verbose_name", "entry")
    monkeypatch.setattr(Group._meta, "verbose_name_plural", "entries")
    own = {"fields": ("name",), "name": "blog_post", "plural": "blog_posts"}
    register(Group, server=server)(type("Groups", (ModelResource,), own))
    root = reader("root")
    titles = {tool["name"]: tool["title"] for tool in root.list("tools/list")}
    assert titles == {"search_blog_posts": "Search blog posts", "get_blog_post": "Get blog post"}
    assert root.problem("get_blog_post", pk=7) == "No blog post with pk '7' found."


def test_a_declaration_with_a_name_and_a_title_tells_models_of_one_translated_name_apart(
    server: MCPServer, reader: Callable[..., Reader], people: Any
) -> None:
    """NetBox calls two models "interface", in every language."""
    own = {"fields": ("username",), "name": "account", "plural": "accounts", "title": "Accounts"}
    register(User, server=server)(type("Users", (ModelResource,), own))
    root = reader("root")
    titles = {tool["name"]: tool["title"] for tool in root.list("tools/list")}
    assert titles == {"search_accounts": "Search accounts", "get_account": "Get account"}
    assert root.problem("get_account", pk=7) == "No account with pk '7' found."


def test_titles_are_told_in_the_language_of_who_lists_the_tools(
    server: MCPServer, reader: Callable[..., Reader], people: Any
) -> None:
    @register(User, server=server)
    class Users(ModelResource):
        fields = ("username",)

    assert Users
    with override_settings(LANGUAGE_CODE="de"):
        titles = {tool["name"]: tool["title"] for tool in reader("root").list("tools/list")}
    assert titles == {"search_users": "Search Benutzer", "get_user": "Get Benutzer"}
