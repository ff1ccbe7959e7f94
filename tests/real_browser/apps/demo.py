"""The demo with its apps, and their pictures for ``docs/images/apps``: ``python -m tests.real_browser.apps.demo``."""

import argparse
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
OFFICE_APPS: Mapping[str, Mapping[str, Any]] = {
    "search_hotels": {"query": "Rome", "filters": {"stars": "3"}, "order_by": "-price"},
    "get_city": {"pk": 1},
    "get_hotel": {"pk": 1},
}
"""The same for the back office, whose other lists and forms are made in the same way."""
OFFICE_WIDTHS = {"wide": 1280, "narrow": 390}
FOLDER = screenshots.ROOT / "docs" / "images" / "apps"
WIDTHS = {"wide": 720, "narrow": 360}
PEOPLE = f"""
from datetime import timedelta
from django.conf import settings
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from demo_project.travel.endpoints import office
from django_mcp import server
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.protected_resource import resource_of
from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from django_mcp.models import Approval, ToolPolicy
from django_mcp.test import MCPClient
ToolPolicy.objects.all().delete()  # under which other tests need no approver
ben, admin, anna = (User.objects.get(username=name) for name in ("ben", "admin", "anna"))
scopes = ["travel:read", "travel:write"]
print(create_key(ben, "apps", endpoints=["default"], scopes=scopes, days=1)[1])
application = get_application_model().objects.create(
    name="Host", client_type="public", authorization_grant_type="authorization-code", redirect_uris="http://127.0.0.1/"
)
print(get_access_token_model().objects.create(
    user=admin, application=application, token="of-an-approver", expires=timezone.now() + timedelta(days=1),
    scope=" ".join([*scopes, "mcp:approvals"]), resource=[resource_of(server)],
).token)
print(get_access_token_model().objects.create(
    user=anna, application=application, token="of-an-agent", expires=timezone.now() + timedelta(days=1),
    scope="travel:office", resource=[resource_of(office)],
).token)
with override_settings(DJANGO_MCP={{**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}}):
    ask = MCPClient(ben, scopes=scopes)
    ask.call("book_hotel", city="Rome", check_in="{SOON}", nights=3)
    ask.call("send_email", to="guest@example.com", subject="Your trip to Rome", body="Your rooms are booked.")
Approval.objects.update(client={{"name": "Claude", "version": "1.8.2"}})
"""
"""Prints an API key of a customer and OAuth access tokens of an approver and of an agent at the back office, and makes
two calls that need approval."""


class Demo(NamedTuple):
    """The demo's endpoint, the headers of a customer and of an approver there, and of an agent at the back office."""

    endpoint: str
    customer: Mapping[str, str]
    approver: Mapping[str, str]
    agent: Mapping[str, str]

    @property
    def office(self) -> str:
        return self.endpoint.replace("/mcp", "/backoffice/mcp")

    @property
    def admin(self) -> str:
        return self.endpoint.replace("/mcp", "/admin/")


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


def take(
    hosted: Hosted,
    tool: str,
    arguments: Mapping[str, Any],
    folder: Path,
    widths: Mapping[str, int] = WIDTHS,
    prefix: str = "",
    **options: Any,
) -> None:
    """Take pictures of an app in each theme and width. *options* are those of ``Hosted.open``."""
    for theme in screenshots.THEMES:
        for size, width in widths.items():
            hosted.open(tool, arguments, theme=theme, width=width, **options)
            save(hosted.picture(), folder / f"{prefix}{tool.replace('_', '-')}-{theme}-{size}.png")


def save(picture: bytes, file: Path) -> None:
    """Save a PNG with fewer colours."""
    Image.open(BytesIO(picture)).convert("RGB").quantize(screenshots.COLOURS).save(file, optimize=True)


def main() -> None:
    """Serve the demo and the host, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--office", action="store_true", help="the back office alone")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    node = find_node()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        host = Host(bundle(Clients(node, install(node, folder), folder)))
        with (
            launched() as browser,
            host.serve(),
            demo(host, folder) as agency,
        ):
            if not options.office:
                with opened(browser, host, agency.endpoint, headers=agency.customer) as hosted:
                    for tool, arguments in APPS.items():
                        take(hosted, tool, arguments, FOLDER)
                with opened(browser, host, agency.endpoint, headers=agency.approver) as hosted:
                    take(hosted, "pending_approvals", {}, FOLDER)
            with opened(browser, host, agency.office, headers=agency.agent) as hosted:
                for tool, arguments in OFFICE_APPS.items():
                    take(hosted, tool, arguments, FOLDER, OFFICE_WIDTHS, "office-", maxHeight=2500)


if __name__ == "__main__":
    main()
