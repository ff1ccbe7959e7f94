"""Sites around the admin: transactions of requests, languages and a path in addresses, two databases."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.contrib.auth.models import User
from django.db import connection
from django.urls import get_script_prefix, path, set_script_prefix
from django.utils import translation

from benchmarks.process import ROOT
from django_mcp.test.admin import Browser, effects, walk
from tests.integrations.back_office import models
from tests.integrations.back_office.shop import site


@contextmanager
def atomic_requests(settings: Any) -> Iterator[None]:
    before = connection.settings_dict["ATOMIC_REQUESTS"]
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        yield
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = before


@contextmanager
def languages(settings: Any) -> Iterator[None]:
    """Addresses have the language in front, and middleware reads it there."""
    made = ModuleType("urls_with_languages")
    made.urlpatterns = i18n_patterns(path("office/", site.urls))
    settings.ROOT_URLCONF = made
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    settings.LANGUAGE_CODE = "de"
    with translation.override("de"):
        yield


@contextmanager
def script_name(settings: Any) -> Iterator[None]:
    settings.FORCE_SCRIPT_NAME = "/shop"
    before = get_script_prefix()
    set_script_prefix("/shop/")
    try:
        yield
    finally:
        set_script_prefix(before)


AROUND: dict[str, tuple[Callable[[Any], Any], str]] = {
    "ATOMIC_REQUESTS": (atomic_requests, "/back_office/back_office/order/"),
    "i18n_patterns": (languages, "/de/office/back_office/order/"),
    "FORCE_SCRIPT_NAME": (script_name, "/shop/back_office/back_office/order/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AROUND)
def test_a_setting_around_the_admin_makes_no_difference(people: SimpleNamespace, settings: Any, name: str) -> None:
    around, address = AROUND[name]
    with around(settings):
        assert Browser(site, people.superuser).address(models.Order, "changelist") == address
        found = walk(site, people.clerk, only=[models.Order], links=2, rows=1)
        assert not found, str(found)
        assert {*found.compared} >= {"changelist", "filter", "order", "add", "change", "delete", "history", "actions"}
        saved = effects(site, people.superuser, only=[models.Tag])
        assert not saved, str(saved)
        assert saved.compared["saved"] > 2
        assert saved.compared["invalid"] > 2
    assert User.objects.count() == 4, "the transaction of the test goes on"


@pytest.mark.slow
def test_a_router_to_a_second_database_makes_no_difference() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.testing.admin.two_databases"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.testing.admin.two_databases_settings"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["differences"] == []
    assert told["walked"]["change"] == 6
    assert told["saved"]["saved"] > 6
    assert told["is_rolled_back"]
    assert told["found_in_second"] == ["table second.back_office_tag"]
