"""The demo with its apps, and their pictures for ``docs/images/apps``: ``python -m tests.real_browser.apps.demo``."""

import datetime
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from benchmarks.process import HOST as ADDRESS
from scripts import screenshots
from tests.auth_check.browser import launched
from tests.conformance.prepared import prepare
from tests.ports import free_port
from tests.real_browser.apps.host import Host, Hosted, bundle, opened
from tests.real_clients.node import Clients, find_node, install
from tests.real_clients.sites import TASKS, Site, load_agency

SOON = datetime.datetime.now(tz=datetime.UTC).date() + datetime.timedelta(days=30)
APPS: Mapping[str, Mapping[str, Any]] = {
    "search_flights": {"origin": "London", "destination": "Barcelona", "date": SOON.isoformat()},
    "search_hotels": {"query": "Rome", "stars__gte": 3, "order_by": "-price"},
    "get_hotel": {"pk": 1},
    "aggregate_hotels": {"measures": ["count", "avg_price"], "by": ["stars"]},
    "search_cities": {"region": "europe", "limit": 10},
    "get_city": {"slug": "rome"},
    "aggregate_cities": {"by": ["region"]},
    "search_trips": {"limit": 5},
    "get_trip": {"slug": f"{SOON.year - 2}-rome"},
    "hold_rooms_form": {},
}
"""Arguments for each tool of the demo that has an app, from which the app shows something."""
FOLDER = screenshots.ROOT / "docs" / "images" / "apps"
WIDTHS = {"wide": 720, "narrow": 360}
PEOPLE = f"""
from datetime import timedelta
from django.conf import settings
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from django_mcp import server
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.protected_resource import resource_of
from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from django_mcp.models import Approval, ToolPolicy
from django_mcp.test import MCPClient
ToolPolicy.objects.all().delete()  # under which other tests need no approver
ben, admin = (User.objects.get(username=name) for name in ("ben", "admin"))
scopes = ["travel:read", "travel:write"]
print(create_key(ben, "apps", endpoints=["default"], scopes=scopes, days=1)[1])
application = get_application_model().objects.create(
    name="Host", client_type="public", authorization_grant_type="authorization-code", redirect_uris="http://127.0.0.1/"
)
print(get_access_token_model().objects.create(
    user=admin, application=application, token="of-an-approver", expires=timezone.now() + timedelta(days=1),
    scope=" ".join([*scopes, "mcp:approvals"]), resource=[resource_of(server)],
).token)
with override_settings(DJANGO_MCP={{**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}}):
    ask = MCPClient(ben, scopes=scopes)
    ask.call("book_hotel", city="Rome", check_in="{SOON}", nights=3)
    ask.call("send_email", to="guest@example.com", subject="Your trip to Rome", body="Your rooms are booked.")
Approval.objects.update(client={{"name": "Claude", "version": "1.8.2"}})
"""
"""Prints an API key of a customer and an OAuth access token of an approver, and makes two calls that need approval."""


class Demo(NamedTuple):
    """The demo's endpoint, and the headers of a customer and of an approver."""

    endpoint: str
    customer: Mapping[str, str]
    approver: Mapping[str, str]


@contextmanager
def demo(host: Host, folder: Path) -> Iterator[Demo]:
    """Serve the demo for pages of the host."""
    database, port = folder / "demo.sqlite3", free_port()
    prepare(database, "agency", load_agency)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOST_ORIGIN", host.origin)
        patch.setenv("BASE_URL", f"http://{ADDRESS}:{port}")  # whose resource the token is for
        tokens = Site("uvicorn", database, Path(), TASKS).run(PEOPLE).split()
        with screenshots.demo(database, "tests.real_browser.apps.demo_settings", port):
            yield Demo(f"http://{ADDRESS}:{port}/mcp", *({"Authorization": f"Bearer {each}"} for each in tokens))


def take(hosted: Hosted, tool: str, arguments: Mapping[str, Any], folder: Path) -> None:
    """Take pictures of an app in each theme and width."""
    for theme in screenshots.THEMES:
        for size, width in WIDTHS.items():
            hosted.open(tool, arguments, theme=theme, width=width)
            save(hosted.picture(), folder / f"{tool.replace('_', '-')}-{theme}-{size}.png")


def save(picture: bytes, file: Path) -> None:
    """Save a PNG with fewer colours."""
    Image.open(BytesIO(picture)).convert("RGB").quantize(screenshots.COLOURS).save(file, optimize=True)


def main() -> None:
    """Serve the demo and the host, and take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    node = find_node()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        host = Host(bundle(Clients(node, install(node, folder), folder)))
        with (
            launched() as browser,
            host.serve(),
            demo(host, folder) as (endpoint, customer, approver),
        ):
            with opened(browser, host, endpoint, headers=customer) as hosted:
                for tool, arguments in APPS.items():
                    take(hosted, tool, arguments, FOLDER)
            with opened(browser, host, endpoint, headers=approver) as hosted:
                take(hosted, "pending_approvals", {}, FOLDER)


if __name__ == "__main__":
    main()
