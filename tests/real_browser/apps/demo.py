"""The demo with its apps, and their pictures for ``docs/images/apps``: ``python -m tests.real_browser.apps.demo``."""

import datetime
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.process import HOST as ADDRESS
from scripts import screenshots
from tests.conformance.prepared import prepare
from tests.ports import free_port
from tests.real_browser.apps.host import Host, Hosted, bundle, opened
from tests.real_browser.chromium import launched
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
KEY = """
from django.contrib.auth.models import User
from django_mcp.auth.api_keys import create_key
ben = User.objects.get(username="ben")
print(create_key(ben, "apps", endpoints=["default"], scopes=["travel:read", "travel:write"], days=1)[1])
"""


@contextmanager
def demo(host: Host, folder: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Serve the demo for pages of the host; yields its endpoint, and the headers of a customer."""
    database, port = folder / "demo.sqlite3", free_port()
    prepare(database, "agency", load_agency)
    key = Site("uvicorn", database, Path(), TASKS).run(KEY).strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOST_ORIGIN", host.origin)
        with screenshots.demo(database, "tests.real_browser.apps.demo_settings", port):
            yield f"http://{ADDRESS}:{port}/mcp", {"Authorization": f"Bearer {key}"}


def take(hosted: Hosted, tool: str, arguments: Mapping[str, Any], folder: Path) -> None:
    """Take pictures of an app in each theme and width."""
    for theme in screenshots.THEMES:
        for size, width in WIDTHS.items():
            picture = Image.open(BytesIO(hosted.open(tool, arguments, theme=theme, width=width).picture()))
            colours = picture.convert("RGB").quantize(screenshots.COLOURS)
            colours.save(folder / f"{tool.replace('_', '-')}-{theme}-{size}.png", optimize=True)


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
            demo(host, folder) as (endpoint, headers),
            opened(browser, host, endpoint, headers=headers) as hosted,
        ):
            for tool, arguments in APPS.items():
                take(hosted, tool, arguments, FOLDER)


if __name__ == "__main__":
    main()
