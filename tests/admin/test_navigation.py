"""Pages of a second admin site link to that site, and need no page that it leaves out."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.urls import reverse
from django.utils import timezone

from django_mcp.auth.api_keys import create_key
from django_mcp.core.principal import Principal
from django_mcp.core.server import servers
from django_mcp.models import Approval, AutoApprovalRule, Session
from django_mcp.revisions.legacy.sessions import open_session
from django_mcp.tasks import store
from tests.admin.second_sites import ALONE
from tests.admin.test_calls import made

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.admin.second_sites")]


@pytest.fixture
def rows() -> dict[str, Any]:
    """A row for the page of each model, each with what it may link to."""
    user, now = User.objects.get(username="owner-of-the-site"), timezone.now()
    asked = {"principal_kind": "session", "principal_id": str(user.pk), "user": user, "server": "default"}
    task = store.create(tool="work", backend="process", request={"method": "tools/call", "params": {}}, **asked)
    call = {"tool": "pay", "arguments": {}, "created": now, "expires": now + timedelta(1), **asked}
    rule = AutoApprovalRule.objects.create(created_by=user, **call)
    waiting = Approval.objects.create(public_id="waiting", digest="x", **call)
    approved = {"state": "approved", "rule": rule, "decided": now, "decided_by": user, "digest": "y"}
    decided = Approval.objects.create(public_id="decided", task=task, **call, **approved)
    server = next(each for each in servers() if each.name == "default")
    assert open_session(server, Principal("session", str(user.pk), user), "2025-11-25", {}, {})
    entry = made(user=user, task_id=task.task_id, approval="decided")
    key, _key = create_key(user, "nightly", endpoints=["default"])
    return {
        "task": [task.pk],
        "autoapprovalrule": [rule.pk],
        "approval": [waiting.pk, decided.pk],
        "session": [Session.objects.latest("pk").pk],
        "requestlog": [entry.pk],
        "apikey": [key.pk],
        "tools": ["default.search_hotels"],
    }


def links(html: str) -> list[str]:
    found = re.findall(r'(?:href|action|data-url)="(/[^"]*)"', html)
    return [each for each in found if each != "/" and not each.startswith("/static/")]  # "/" is "View site"


def pages(site: str, name: str, rows: dict[str, Any]) -> list[str]:
    listing = reverse(f"{site}:django_mcp_{name}_changelist")
    found = [listing, *(reverse(f"{site}:django_mcp_{name}_change", args=[pk]) for pk in rows.get(name, ()))]
    if name in {"task", "session"}:
        found.append(f"{listing}{rows[name][0]}/stop/")
    if name in {"apikey", "autoapprovalrule"}:
        found.append(f"{listing}{rows[name][0]}/revoke/")
    if name == "approval":
        found += [f"{listing}pending/", f"{listing}{rows[name][0]}/pending/"]
    return found


@pytest.mark.parametrize("one", [False, True])
def test_every_link_of_a_second_site_leads_to_that_site(
    browser: Browser, rows: dict[str, Any], one: bool, subtests: pytest.Subtests
) -> None:
    for name, site in ALONE.items():
        at = site.name if one else "ops"
        for address in pages(at, name, rows):
            with subtests.test(address=address):
                answer = browser.get(address)
                assert answer.status_code == 200
                html = answer.content.decode()
                assert [each for each in links(html) if not each.startswith(f"/{at}/")] == []
                # No link is empty, but for the page itself.
                assert set(re.findall(r'<a href=""[^>]*>([^<]*)', html)) <= {"Reload"}
