"""Streams and tasks of logins that end at the token and revocation endpoints."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.models import Event, Task
from django_mcp.pubsub.publish import revocation_topic
from django_mcp.tasks import store
from tests.oauth.site import Site

pytestmark = pytest.mark.postgresql

Login = dict[str, Any]
ENDS: dict[str, Callable[[Site, Login], Any]] = {
    "access token revoked": lambda site, login: site.revoke(login["access_token"]),
    "refresh token revoked": lambda site, login: site.revoke(login["refresh_token"]),
    "code used twice": lambda site, login: site.exchange(login["code"]),
    "refresh token reused": lambda site, login: reuse(site, login["refresh_token"]),
}


def reuse(site: Site, token: str) -> None:
    """Use a refresh token after the grace period of the one that replaced it."""
    site.refresh(token)
    get_refresh_token_model().objects.exclude(revoked=None).update(revoked=timezone.now() - datetime.timedelta(hours=1))
    assert site.refresh(token).status_code == 400


def log_in(site: Site) -> Login:
    code = site.code_for()
    return {**site.exchange(code).json(), "code": code}


def make_task(site: Site) -> Task:
    return store.create(
        server=site.alpha.name,
        tool="change",
        principal_kind="oauth",
        principal_id=caller(site),
        user=site.user,
        caller={},
        client={},
        capabilities={},
        request={},
        dialogue={},
    )


def caller(site: Site) -> str:
    return f"{site.user.pk}:{site.application.pk}"


def streams_ended(site: Site, kind: str = "oauth") -> bool:
    return Event.objects.filter(topic=revocation_topic(kind, caller(site))).exists()


@pytest.mark.parametrize("end", ENDS)
def test_streams_and_tasks_end_with_their_login(site: Site, end: str) -> None:
    login, task = log_in(site), make_task(site)
    assert not streams_ended(site)
    ENDS[end](site, login)
    assert not get_access_token_model().objects.exists()
    assert streams_ended(site)
    task.refresh_from_db()
    assert task.status == "cancelled"


@pytest.mark.parametrize("end", ENDS)
def test_tasks_go_on_if_the_client_has_another_login_of_the_user(site: Site, end: str) -> None:
    """Streams do not know their login: those of the other one are opened again."""
    login, other, task = log_in(site), log_in(site), make_task(site)
    ENDS[end](site, login)
    assert streams_ended(site)
    assert site.status(other["access_token"]) == 200
    task.refresh_from_db()
    assert task.status == "working"


def test_another_client_ends_nothing(site: Site) -> None:
    login, other = log_in(site), site.make_client("another")
    site.revoke(login["access_token"], other)
    site.revoke(login["refresh_token"], other)
    assert not streams_ended(site)


def test_a_refresh_ends_no_task(site: Site) -> None:
    login, task = log_in(site), make_task(site)
    assert site.refresh(login["refresh_token"]).status_code == 200
    task.refresh_from_db()
    assert task.status == "working"
    assert not streams_ended(site)
