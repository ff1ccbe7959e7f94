"""System checks of what runs tasks."""

from typing import Any

import pytest
from django.test import modify_settings, override_settings

from django_mcp import MCPServer, tool
from django_mcp.conf import given
from django_mcp.tasks.checks import check_backend

DB = {"BACKEND": "django_tasks_db.DatabaseBackend"}
IMMEDIATE = {"BACKEND": "django_tasks.backends.immediate.ImmediateBackend"}


@pytest.fixture
def with_tasks(server: MCPServer) -> None:
    @tool(server=server, task="optional")
    def work() -> str:
        """Work."""
        return ""


def found(tasks: dict[str, Any] | None = None, *, app: bool = True, **mcp: Any) -> list[tuple[str, str]]:
    """Ids and texts of what is found."""
    changed = {"DJANGO_MCP": {**given(), **mcp}, **({} if tasks is None else {"TASKS": tasks})}
    apps = {"append": ["django_tasks"] if app else []}
    with override_settings(**changed), modify_settings(INSTALLED_APPS=apps):
        return [(each.id.removeprefix("django_mcp."), each.msg) for each in check_backend()]


@pytest.mark.parametrize("tasks", [None, {"default": DB}, {"default": IMMEDIATE}, {"other": DB}])
def test_a_good_site_hears_nothing(with_tasks: None, tasks: dict[str, Any] | None) -> None:
    assert found(tasks) == []


@pytest.mark.parametrize("alias", [None, "process"])
def test_nor_does_one_whose_serving_process_does_the_work(with_tasks: None, alias: str | None) -> None:
    assert found({"other": DB}, TASK_BACKEND=alias) == []


def test_a_backend_that_tasks_does_not_have(with_tasks: None) -> None:
    assert found({"default": DB}, TASK_BACKEND="celery") == [
        ("E030", "DJANGO_MCP[\"TASK_BACKEND\"] is 'celery', which is not an alias in TASKS.")
    ]


def test_a_backend_that_cannot_be_made(with_tasks: None) -> None:
    ((id_, text),) = found({"default": {"BACKEND": "nowhere.Backend"}})
    assert id_ == "E030"
    assert text.startswith("TASKS['default'] cannot be used: Could not find backend 'nowhere.Backend'")


def test_a_queue_that_the_backend_does_not_have(with_tasks: None) -> None:
    tasks = {"default": {**DB, "QUEUES": ["mail", "mcp"]}}
    assert found(tasks, TASK_QUEUE="mcp") == []
    assert found(tasks) == [
        ("E030", "DJANGO_MCP[\"TASK_QUEUE\"] is 'default', which is not a queue of TASKS['default'].")
    ]


def test_workers_that_are_not_used(with_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.VERSION", (5, 2, 0, "final", 0))
    ((id_, text),) = found({"default": DB}, app=False)
    assert id_ == "W015"
    assert text.endswith("the setting TASKS is ignored, and tasks run in the serving process.")


def test_workers_that_are_asked_for_and_cannot_be_used(with_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.VERSION", (5, 2, 0, "final", 0))
    ((id_, text),) = found({"default": DB}, app=False, TASK_BACKEND="default")
    assert id_ == "E030"
    assert text.endswith('and "django_tasks" is not in INSTALLED_APPS.')


def test_a_site_without_tasks_may_have_what_it_likes(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.tasks.checks.every_server", lambda: [server])
    assert found({"default": DB}, app=False) == []
    assert found({"default": {**DB, "QUEUES": ["mail"]}}) == []
