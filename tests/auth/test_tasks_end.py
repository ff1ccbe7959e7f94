"""Who loses the right to call loses what still runs for them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from django_mcp.auth.api_keys import create_key, revoke_key
from django_mcp.models import Task
from django_mcp.tasks import store

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]


@pytest.fixture
def ada() -> Any:
    return get_user_model().objects.create_user("ada-of-tasks", password="x")


@pytest.fixture
def make_task(ada: Any) -> Callable[..., Task]:
    def make(kind: str, principal_id: str, **fields: Any) -> Task:
        return store.create(
            server="default",
            tool="report",
            principal_kind=kind,
            principal_id=principal_id,
            request={"method": "tools/call", "params": {"name": "report"}},
            backend="process",
            **fields,
        )

    return make


def status(task: Task) -> str:
    task.refresh_from_db()
    return task.status


def test_a_revoked_key_stops_what_was_asked_for_with_it(ada: Any, make_task: Callable[..., Task]) -> None:
    key, _ = create_key(ada, "script", endpoints=["default"])
    theirs, done = make_task("api_key", str(key.pk)), make_task("api_key", str(key.pk), status=Task.Status.COMPLETED)
    others = make_task("api_key", "another")
    revoke_key(key)
    assert (status(theirs), status(done), status(others)) == ("cancelled", "completed", "working")


def test_a_deactivated_user_has_nothing_running(ada: Any, make_task: Callable[..., Task]) -> None:
    theirs, others = make_task("oauth", f"{ada.pk}:1", user=ada), make_task("oauth", "9:1")
    ada.first_name = "Ada"
    ada.save()
    assert status(theirs) == "working"
    ada.is_active = False
    ada.save()
    assert (status(theirs), status(others)) == ("cancelled", "working")


def test_logging_out_of_the_site_stops_nothing(ada: Any, make_task: Callable[..., Task]) -> None:
    theirs = make_task("session", str(ada.pk), user=ada)
    browser = Client()
    browser.force_login(ada)
    browser.logout()
    assert status(theirs) == "working"


def test_a_user_who_is_deleted_takes_their_tasks_along(ada: Any, make_task: Callable[..., Task]) -> None:
    theirs = make_task("session", str(ada.pk), user=ada)
    ada.delete()
    assert not Task.objects.filter(pk=theirs.pk).exists()
