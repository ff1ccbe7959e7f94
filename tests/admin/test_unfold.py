"""The pages under another theme of the admin: each is there, whole, and dressed by the theme."""

import json
import os
import subprocess
import sys

import pytest

ROOT = "/admin/django_mcp/"
SHOWN = {
    "overview/": ['class="mcp-overview"', "django_mcp/admin.css", "No requests in this period."],
    "tools/?endpoint=default": [
        'class="mcp-tools"',
        "django_mcp/admin.css",
        "book_hotel",
        'name="policy:default.book_hotel"',
    ],
    "tools/default.book_5Fhotel/change/": ["Policy of book_hotel", "Input schema"],
    "approval/": ["django_mcp/admin.css", "django_mcp/approvals.js"],
    "autoapprovalrule/": ["auto-approval rules"],
    "requestlog/": ["changelist", "Export"],
    "playground/": ["book_hotel", "django_mcp/admin.css"],
    "oauthclient/": ['class="mcp-tools mcp-oauth-clients"', "django_mcp/admin.css"],
    "session/": ["changelist"],
    "task/": ["changelist"],
    "apikey/": ["changelist"],
    "apikey/add/": ['name="name"'],
    "clientpolicy/add/": ["client_id"],
}
"""Words of each page that nobody else's has, or without which it would be of no use."""


@pytest.mark.slow
def test_every_page_works_with_unfold() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"DEMO_DATABASE": ":memory:", "DJANGO_SETTINGS_MODULE": "tests.admin.unfold_settings"}
    command = [sys.executable, "-m", "tests.admin.unfolded", *(ROOT + page for page in SHOWN)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    pages = json.loads(done.stdout)
    assert [page for page, text in pages.items() if "unfold/css/" not in text] == []
    missing = [(page, words) for page, each in SHOWN.items() for words in each if words not in pages[ROOT + page]]
    assert missing == []
