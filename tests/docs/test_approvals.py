"""The page on approvals does what it says, in a site made for it."""

import base64
import hmac
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin

from tests.docs.test_blocks import BY_NAME, TWO_BOOKS, Site, call, code_of

TOOL, ADMIN, SETTINGS, VERIFICATION = code_of("approvals.md")
DECIDES = """
import json, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import Permission, User
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from library.models import Book
anna = User.objects.create_user("anna", is_staff=True)
anna.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
waiting = Approval.objects.get()
print(json.dumps([Book.objects.filter(title="Emma").exists(), waiting.preview, approve(waiting, anna)]))
"""

ANN = "from django.contrib.auth.models import User; User.objects.create_user('ann')"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    own = '{"AUTHENTICATION": ["mysite.who.ByName"], "APPROVAL_WAIT_TIMEOUT": 0.1}'
    site.append("mysite/settings.py", f"DJANGO_MCP = {own}")
    site.append("mysite/who.py", BY_NAME)
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    return site


def test_the_page_on_approvals_does_what_it_says(site: Site) -> None:
    site.append("library/mcp.py", TOOL)
    site.migrate(f"{TWO_BOOKS}\n{ANN}", check=True)
    wanted = call("withdraw_book", title="Emma")
    (waits,) = site.requests(wanted)
    assert waits["result"]["isError"] is True
    assert waits["result"]["content"][0]["text"].startswith("withdraw_book was not run: this call requires approval")
    assert waits["result"]["_meta"]["django-mcp/approval"]["kind"] == "approval_required"
    is_there, preview, approved = json.loads(site.run("-c", DECIDES))
    assert (is_there, preview["pages"], approved) == (True, 474, True)
    gone, again = site.requests(wanted, wanted)
    assert gone["result"]["content"][0]["text"] == "Emma is gone."
    assert "Book matching query" not in again["result"]["content"][0]["text"]
    assert again["result"]["isError"] is True


def test_the_settings_of_the_page_are_right(site: Site) -> None:
    site.append("mysite/settings.py", SETTINGS)
    site.append("mysite/settings.py", 'DJANGO_MCP["AUTHENTICATION"] = ["django_mcp.APIKeyAuthentication"]')
    site.migrate(check=True)


def test_the_pages_for_users_without_is_staff_are_those_of_whom_the_page_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin.site, "has_permission", admin.site.has_permission)
    exec(ADMIN, {})
    asked = [SimpleNamespace(user=SimpleNamespace(is_active=True, is_superuser=chief)) for chief in (True, False)]
    assert [admin.site.has_permission(each) for each in asked] == [True, False]


def test_the_page_tells_a_genuine_message_from_others() -> None:
    given: dict[str, Any] = {}
    exec(VERIFICATION, given)
    secret, body, now = "whsec_" + base64.b64encode(b"key").decode(), b"{}", str(int(time.time()))
    digest = hmac.digest(b"key", b"msg_1." + now.encode() + b"." + body, "sha256")
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    assert given["is_genuine"](headers, body, secret)
    assert not given["is_genuine"](headers, b"{ }", secret)
    assert not given["is_genuine"]({**headers, "webhook-timestamp": str(int(now) - 900)}, body, secret)
