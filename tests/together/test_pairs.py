"""Each two features of the table ``features.py`` on one site: what each promises holds beside the other."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.core import execution
from django_mcp.core import server as registry
from tests.together.features import FEATURES
from tests.together.pair_site import Site

CANNOT_MEET = {
    ("Tasks", "Connector"): "search and fetch are made by the package and have no option that makes tasks of them",
    ("Apps", "Connector"): "ChatGPT reads search and fetch as text, and no option gives them an app",
    ("Connector", "Questions"): "search and fetch ask nothing",
    ("Connector", "Scopes"): "search and fetch have the scopes of their models, and no option of their own",
}
"""Pairs without a test, and why."""

PAIRS = [
    pytest.param(*pair, marks=[pytest.mark.slow] if any(FEATURES[name].is_slow for name in pair) else [])
    for pair in itertools.combinations(FEATURES, 2)
    if pair not in CANNOT_MEET
]


@pytest.fixture(scope="module")
def people(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, User]]:
    """Make those who use the sites, once."""
    made = {name: User(username=f"{name}-of-pairs") for name in ("ann", "ben", "cleo", "dora")}
    for name in ("cleo", "dora"):
        made[name].is_superuser = made[name].is_staff = True
    with django_db_blocker.unblock():
        User.objects.bulk_create(made.values())
        yield made
        for person in made.values():
            person.delete()


@pytest.fixture
def make_site(
    people: dict[str, User],
    policies: None,
    make_server: Callable[..., MCPServer],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Site]]:
    """Make a site, which is gone afterwards."""
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.01)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001, "POLL_INTERVAL": 0.02}
    monkeypatch.setattr(registry, "_servers", {})  # those of the demo would be read before each call
    made: list[Site] = []

    def make(*names: str) -> Site:
        made.append(Site(settings, make_server, people, [FEATURES[name]() for name in names]))
        return made[-1]

    yield make
    for site in made:
        site.clean()


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_features_hold_beside_each_other(make_site: Callable[..., Site], one: str, other: str) -> None:
    site = make_site(one, other)
    deeds = site.build()
    first, second = site.features
    orders = [(first, second), (second, first)] if len(deeds) > 1 else [(first, second, first)]
    for deed, features in zip(deeds, itertools.cycle(orders), strict=False):
        for feature in features:
            if deed.has_options or not feature.needs_options:
                feature.holds(site, deed)


def test_the_reasons_are_of_pairs_of_features() -> None:
    assert CANNOT_MEET.keys() <= {*itertools.combinations(FEATURES, 2)}
