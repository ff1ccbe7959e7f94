"""The demo's apps in the host: each is driven, in both themes, and keeps the rules of the extension."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.process import HOST as ADDRESS
from scripts import screenshots
from tests.conformance.prepared import prepare
from tests.ports import free_port
from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.host import Host, Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients
from tests.real_clients.sites import TASKS, Site, load_agency

APPS: Mapping[str, Mapping[str, Any]] = {}
"""Arguments for each tool of the demo that has an app, from which the app shows something."""

KEY = """
from django.contrib.auth.models import User
from django_mcp.auth.api_keys import create_key
ben = User.objects.get(username="ben")
print(create_key(ben, "apps", endpoints=["default"], scopes=["travel:read", "travel:write"], days=1)[1])
"""


@pytest.fixture(scope="module")
def ben(host: Host, connect: Open, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A page of the host at the demo, with the key of a customer."""
    database, port = tmp_path_factory.mktemp("demo") / "demo.sqlite3", free_port()
    prepare(database, "agency", load_agency)
    key = Site("uvicorn", database, Path(), TASKS).run(KEY).strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOST_ORIGIN", host.origin)
        with screenshots.demo(database, "tests.real_browser.apps.demo_settings", port):
            headers = {"Authorization": f"Bearer {key}"}
            yield connect(endpoint=f"http://{ADDRESS}:{port}/mcp", headers=headers)


def test_every_app_of_the_demo_keeps_the_rules(ben: Hosted, clients: Clients) -> None:
    validator = Validator(ben, clients.libraries)
    have_apps = {tool["name"] for tool in ben.tools if "resourceUri" in tool.get("_meta", {}).get("ui", {})}
    assert have_apps == APPS.keys()
    problems = {tool: validator.problems(tool, arguments) for tool, arguments in APPS.items()}
    assert {tool: found for tool, found in problems.items() if found} == {}
