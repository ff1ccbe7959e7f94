"""The demo's apps keep the rules of the extension in the host, in both themes, for a customer."""

from collections.abc import Iterator

import pytest

from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.demo import APPS, demo
from tests.real_browser.apps.host import Host, Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients


@pytest.fixture(scope="module")
def ben(host: Host, connect: Open, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A page of the host at the demo, with the key of a customer."""
    with demo(host, tmp_path_factory.mktemp("demo")) as (endpoint, headers):
        yield connect(endpoint=endpoint, headers=headers)


def test_every_app_of_the_demo_keeps_the_rules(ben: Hosted, clients: Clients) -> None:
    validator = Validator(ben, clients.libraries)
    have_apps = {tool["name"] for tool in ben.tools if "resourceUri" in tool.get("_meta", {}).get("ui", {})}
    assert have_apps == APPS.keys()
    problems = {tool: validator.problems(tool, arguments) for tool, arguments in APPS.items()}
    assert {tool: found for tool, found in problems.items() if found} == {}
