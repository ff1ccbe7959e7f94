"""The lists of the admin take only what their own filters and links send."""

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin

import pytest
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.contrib.messages.storage.cookie import CookieStorage
from django.db import connection, transaction
from django.test import Client as Browser
from django.test import RequestFactory
from django.urls import reverse

from django_mcp.models import RequestLog
from tests.admin.test_calls import made

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]

OURS = {model: each for model, each in admin.site._registry.items() if model._meta.app_label == "django_mcp"}
LISTS = {model._meta.model_name: each for model, each in OURS.items() if not model._meta.proxy and model._meta.managed}
SLOW = "(x+x+)+y"


def lookups(model_admin: Any) -> list[str]:
    """Lookups of the model's columns, and of those of related models, that no filter sends."""
    names = [field.name for field in model_admin.opts.get_fields() if not field.auto_created]
    kinds = ("regex", "iregex", "contains", "istartswith", "endswith", "lt", "gt", "in", "range", "isnull__foo", "year")
    return [f"{name}__{kind}" for name in names for kind in kinds] + [f"{name}__pk__regex" for name in names]


def test_each_list_of_rows_is_looked_at() -> None:
    assert {*LISTS} == {"requestlog", "approval", "session", "task", "apikey", "clientpolicy", "autoapprovalrule"}


def list_of(model_admin: Any, user: User, **query: str) -> ChangeList:
    request = RequestFactory().get("/", query)
    request.user, request._messages = user, CookieStorage(request)
    return model_admin.get_changelist_instance(request)


@pytest.mark.parametrize("name", LISTS)
def test_a_lookup_that_no_filter_sends_is_refused(browser: Browser, name: str, subtests: pytest.Subtests) -> None:
    owner, address = User.objects.get(username="owner-of-the-site"), reverse(f"admin:django_mcp_{name}_changelist")
    for lookup in lookups(LISTS[name]):
        with subtests.test(lookup=lookup), pytest.raises((IncorrectLookupParameters, DisallowedModelAdminLookup)):
            list_of(LISTS[name], owner, **{lookup: SLOW})
    answer = browser.get(address, {f"{LISTS[name].opts.pk.name}__regex": SLOW})
    assert (answer.status_code, answer["location"]) == (302, f"{address}?e=1")
    assert browser.get(answer["location"]).status_code == 200


@pytest.mark.parametrize("name", LISTS)
def test_what_the_filters_of_a_list_send_is_taken(name: str, subtests: pytest.Subtests) -> None:
    model_admin, owner = LISTS[name], User.objects.create_superuser("owner-of-the-site")
    page = list_of(model_admin, owner)
    found = [choice["query_string"] for spec in page.filter_specs for choice in spec.choices(page)]
    assert found
    for query in [*found, *("?" + urlencode({lookup: "x"}) for lookup in model_admin.linked_lookups)]:
        with subtests.test(query=query):
            list_of(model_admin, owner, **dict(parse_qsl(query[1:])))


ODD = ("\0", "9" * 30, "9" * 5000, "9223372036854775808", "-1", "0001-01-01T00:00:00+14:00", "\\", "２", "x")


@pytest.mark.parametrize("name", LISTS)
def test_no_value_in_the_url_of_a_list_is_an_error_of_the_server(name: str) -> None:
    owner = User.objects.create_superuser("owner-of-the-site")
    page = list_of(LISTS[name], owner)
    sent = {parameter for spec in page.filter_specs for parameter in spec.expected_parameters() if parameter}
    for parameter in (*sent, *LISTS[name].linked_lookups, "q", "p", "o", "_facets"):
        for odd in ODD:
            with suppress(IncorrectLookupParameters), transaction.atomic():
                list_of(LISTS[name], owner, **{parameter: odd})


@pytest.mark.parametrize(
    ("path", "status"),
    [("session/", 302), ("approval/", 302), ("requestlog/export.csv", 302), ("approval/pending/", 400)],
)
def test_a_page_with_a_value_that_no_column_can_have_says_so(browser: Browser, path: str, status: int) -> None:
    query = {"since" if path.startswith("requestlog") else "created__gte": ODD[5]}
    answer = browser.get(f"/admin/django_mcp/{path}", query)
    # PostgreSQL's driver takes that moment of the year 0.
    takes_all = connection.vendor == "postgresql" and "export" not in path
    assert answer.status_code == (200 if takes_all else status)
    if answer.status_code == 302:
        assert browser.get(urljoin(f"/admin/django_mcp/{path}", answer["location"])).status_code == 200


@pytest.mark.parametrize("field", ["apikey/add/?user", "clientpolicy/add/?service_account"])
def test_a_user_of_the_url_who_cannot_be_is_left_out(browser: Browser, field: str) -> None:
    for odd in (*ODD, "1.5", "None"):
        assert browser.get(f"/admin/django_mcp/{field}={quote(odd)}").status_code == 200, odd


def test_a_row_with_the_text_of_a_caller_is_compared_with_no_pattern(browser: Browser) -> None:
    made(name="x" * 60, error="x" * 60)
    address = reverse("admin:django_mcp_requestlog_changelist")
    for path in (address, f"{address}export.csv"):
        for lookup in ("error__regex", "error__iregex", "name__regex", "caller__contains", "id__lt", "nosuch"):
            answer = browser.get(path, {lookup: SLOW})
            assert answer.status_code == 302, (path, lookup)
            assert (
                browser.get(answer["location"] if answer["location"].startswith("/") else address + "?e=1").status_code
                == 200
            )
    assert RequestLog.objects.count() == 1
