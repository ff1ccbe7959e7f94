"""Skills in development: what changes on disk is served at once. In production it is not looked at."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils.autoreload import BaseReloader, file_changed

from django_mcp import MCPServer, skill
from django_mcp.skills import serving
from django_mcp.skills.skill import Root
from tests.clients import MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room
from tests.skills.conftest import Serve, Write, skill_md


@pytest.fixture
def development(settings: Any, make_server: Callable[..., MCPServer]) -> Iterator[None]:
    """``DEBUG``, and no endpoint looks at skills any more when it is over."""
    settings.DEBUG = True
    yield
    for each in serving.every_server():
        each.refresh = None


@pytest.fixture
def asking(server: MCPServer, open_database: None) -> Client:
    return Client(server, MODERN, "asgi")


def described(client: Client) -> dict[str, str]:
    listed = client.request("skills/list").result["skills"]
    return {each["frontmatter"]["name"]: each["frontmatter"]["description"] for each in listed}


@pytest.mark.usefixtures("development")
def test_a_changed_file_is_served_by_the_next_call_with_its_new_digest(
    asking: Client, serve: Serve, write: Write
) -> None:
    where = write("packing", {"list.md": "socks"})
    serve()
    before = asking.request("skills/get", {"uri": "skill://packing/SKILL.md"}).result["skill"]["resources"]

    (where / "list.md").write_text("socks and shoes")
    (where / "new.md").write_text("new")

    read = asking.request("resources/read", {"uri": "skill://packing/list.md"}).result
    assert read["contents"][0]["text"] == "socks and shoes"
    after = asking.request("skills/get", {"uri": "skill://packing/SKILL.md"}).result["skill"]["resources"]
    assert {each["uri"]: each["size"] for each in after} == {
        **{each["uri"]: each["size"] for each in before},
        "skill://packing/list.md": len("socks and shoes"),
        "skill://packing/new.md": 3,
    }
    assert len(asking.request("resources/directory/read", {"uri": "skill://packing"}).result["resources"]) == 3


@pytest.mark.usefixtures("development")
def test_skills_come_change_and_go_in_every_list(asking: Client, serve: Serve, write: Write) -> None:
    first = write("packing")
    serve()

    write("refunds", description="How to refund.")
    assert described(asking)["refunds"] == "How to refund."
    assert [each["name"] for each in asking.list("resources/list")] == ["packing", "refunds"]

    write("refunds", {"SKILL.md": skill_md("refunds", "Otherwise.")})
    assert described(asking)["refunds"] == "Otherwise."

    (first / "SKILL.md").unlink()
    first.rmdir()
    assert described(asking) == {"refunds": "Otherwise."}
    assert asking.request("resources/read", {"uri": "skill://packing/SKILL.md"}).code == -32602


@pytest.mark.usefixtures("development")
def test_what_was_said_of_a_skill_holds_after_it_changed(
    server: MCPServer, asking: Client, serve: Serve, write: Write
) -> None:
    write("packing")
    write("refunds")
    serve(lambda: skill("packing", permission="travel.view_booking"))
    assert list(described(asking)) == ["refunds"]

    write("packing", {"new.md": "new"})

    assert list(described(asking)) == ["refunds"]
    assert asking.request("resources/read", {"uri": "skill://packing/new.md"}).code == -32602


@pytest.mark.usefixtures("development")
def test_a_mistake_is_logged_once_and_the_skill_stays_as_it_was_until_it_is_mended(
    asking: Client, serve: Serve, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    where = write("packing", description="Before.")
    serve()

    (where / "SKILL.md").write_text(skill_md("packing", "with: colon"))
    assert described(asking) == described(asking) == {"packing": "Before."}
    (message,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "line 3: mapping values are not allowed here" in message

    (where / "SKILL.md").write_text(skill_md("packing", "After."))
    assert described(asking) == {"packing": "After."}


@pytest.mark.usefixtures("development")
def test_a_file_that_is_just_being_written_is_looked_at_again_by_the_next_call(
    asking: Client, serve: Serve, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("packing", description="Before.")
    serve()
    write("packing", description="After it.")

    def vanishing(*_: Any) -> Any:
        raise FileNotFoundError

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(serving, "find_skills", vanishing)
        assert described(asking) == {"packing": "Before."}
    assert described(asking) == {"packing": "After it."}


@pytest.mark.usefixtures("development")
def test_skills_change_while_the_database_is_away(
    server: MCPServer, asking: Client, serve: Serve, write: Write, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    write("packing", description="Before.")
    serve()

    def away(kind: str) -> None:
        raise OperationalError(kind)

    monkeypatch.setattr(server, "notify_list_changed", away)
    write("packing", description="After it.")

    assert described(asking) == {"packing": "After it."}
    assert "clients were not notified" in caplog.text


def test_in_production_files_are_read_once(asking: Client, serve: Serve, write: Write, settings: Any) -> None:
    assert settings.DEBUG is False
    where = write("packing", {"list.md": "socks"})
    serve()

    (where / "list.md").write_text("shoes")
    write("refunds")

    assert list(described(asking)) == ["packing"]
    assert asking.request("resources/read", {"uri": "skill://packing/list.md"}).result["contents"][0]["text"] == "socks"


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.usefixtures("development")
def test_clients_that_listen_hear_of_a_change(
    server: MCPServer, serve: Serve, write: Write, edge: str, open_database: None
) -> None:
    where = write("packing", {"list.md": "socks"})
    made = serve()
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": ["skill://packing/list.md"]}

    with Room(server, edge) as room:
        call = Conversation(room, MODERN).begin("subscriptions/listen", {"notifications": wanted})
        call.next()
        (where / "list.md").write_text("shoes!")
        assert made.refresh()
        told = [call.next(), call.next()]

    assert [each["method"] for each in told] == [
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    ]
    assert told[1]["params"]["uri"] == "skill://packing/list.md"


def test_runserver_watches_the_folders_and_does_not_start_anew_for_a_skill(
    root: Path, write: Write, serve: Serve, server: MCPServer, monkeypatch: pytest.MonkeyPatch, open_database: None
) -> None:
    where = write("packing")
    made = serve()
    monkeypatch.setattr(serving, "skills", made)
    monkeypatch.setattr(serving, "app_roots", lambda: [Root("holiday", root)])
    reloader = BaseReloader()

    serving.autoreload_started.send(sender=reloader)
    (where / "SKILL.md").write_text(skill_md("packing", "Changed."))
    answers = [
        file_changed.send(sender=None, file_path=path) for path in (where / "SKILL.md", root.parent / "views.py")
    ]

    assert "**/*" in reloader.directory_globs[root]
    assert [any(answer for _, answer in each) for each in answers] == [True, False]
    assert server.resources["skill://packing/SKILL.md"].definition["description"] == "Changed."
