"""What people see in a browser."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_mcp.auth.toolkit import oauth2_settings
from django_mcp.oauth import cimd
from tests.demo.kept import empty

pytestmark = pytest.mark.usefixtures("travel")

MODELS = sorted(apps.get_app_config("travel").get_models(), key=lambda model: model.__name__)
PAGES = [model._meta.model_name for model in MODELS]


@pytest.fixture(autouse=True)
def report(travel: None) -> None:
    """Of these, and of mails, there are none before somebody asks for one."""
    owner = get_user_model().objects.get(username="anna")
    apps.get_model("travel", "report").objects.create(owner=owner, title="Bookings of 2031", expires=timezone.now())
    apps.get_model("travel", "sentemail").objects.create(recipients="kim@example.com", subject="Barcelona", body="…")


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.get(username="admin"))
    return client


def test_every_model_is_in_the_admin():
    assert all(admin.site.is_registered(model) for model in MODELS)


def test_the_admin_lists_every_model_with_few_queries(browser):
    taken = {}
    for model in PAGES:
        with CaptureQueriesContext(connection) as queries:
            response = browser.get(reverse(f"admin:travel_{model}_changelist"))
        taken[model] = (response.status_code, len(queries))

    assert {model: found for model, found in taken.items() if found[0] != 200 or found[1] > 16} == {}


def test_the_admin_searches_every_model(browser):
    found = {
        model: browser.get(reverse(f"admin:travel_{model}_changelist"), {"q": "barcelona"}).status_code
        for model in PAGES
    }

    assert found == dict.fromkeys(PAGES, 200)


def test_the_admin_shows_a_form_for_every_model(browser):
    found = {}
    for model in PAGES:
        row = apps.get_model("travel", model)._default_manager.first()
        pages = reverse(f"admin:travel_{model}_change", args=[row.pk]), reverse(f"admin:travel_{model}_add")
        found[model] = [browser.get(page).status_code for page in pages]

    assert found == {model: [200, 200] for model in PAGES}


def test_an_agent_may_change_but_not_delete():
    client = Client()
    client.force_login(get_user_model().objects.get(username="anna"))
    trip = apps.get_model("travel", "trip").objects.first()

    assert client.get(reverse("admin:travel_trip_change", args=[trip.pk])).status_code == 200
    assert client.get(reverse("admin:travel_trip_delete", args=[trip.pk])).status_code == 403


def test_a_customer_is_not_let_into_the_admin():
    client = Client()
    client.force_login(get_user_model().objects.get(username="ben"))

    assert client.get(reverse("admin:index")).status_code == 302


def test_the_front_page_names_the_endpoints_and_counts_the_data():
    page = Client().get("/").content.decode()

    for path in ("mcp", "staff/mcp", "backoffice/mcp", "open/mcp"):
        assert f"<code>http://127.0.0.1:8000/{path}<" in page
    assert "<dt>flights</dt>" in page
    assert "<dd>71</dd>" in page
    assert "<script" not in page


def test_the_front_page_works_before_anything_is_loaded():
    empty()

    assert Client().get("/").status_code == 200


def test_the_front_page_is_only_for_reading():
    assert Client().post("/").status_code == 405


def test_the_front_page_says_which_address_to_use_to_whoever_came_by_another():
    assert (
        "You opened this page at <code>localhost:8000</code>"
        in Client(SERVER_PORT="8000").get("/", HTTP_HOST="localhost:8000").content.decode()
    )
    assert "You opened this page at" not in Client().get("/", HTTP_HOST="127.0.0.1:8000").content.decode()


def test_people_sign_in_and_out():
    client = Client()
    client.post(reverse("login"), {"username": "ben", "password": "travel-ben"})
    signed_in = client.get("/").content.decode()
    client.post(reverse("logout"))

    assert "<strong>ben</strong>" in signed_in
    assert "<strong>ben</strong>" not in client.get("/").content.decode()


def test_signed_in_one_goes_on_to_where_one_came_from():
    page = "/o/authorize/?client_id=x"
    asked = Client().get(reverse("login"), {"next": page}).content.decode()
    answer = Client().post(reverse("login"), {"username": "ben", "password": "travel-ben", "next": page})

    assert f'name="next" value="{page}"' in asked
    assert answer["Location"] == page


def test_but_never_to_another_site():
    for page in ("https://evil.example/", "//evil.example", "javascript:alert(1)"):
        answer = Client().post(reverse("login"), {"username": "ben", "password": "travel-ben", "next": page})

        assert answer["Location"] == "/", page


def test_a_wrong_password_is_answered_in_words():
    answer = Client().post(reverse("login"), {"username": "<ben>", "password": "wrong"})

    assert 'role="alert"' in answer.content.decode()
    assert 'value="&lt;ben&gt;"' in answer.content.decode()


@pytest.mark.parametrize("name", ["book", "departures", "event-list"])
def test_the_front_page_leads_to_what_the_site_had_already(browser, name):
    address = reverse(name, args=["BCN"] if name == "departures" else [])

    assert f'href="{address}"' in browser.get("/").content.decode()
    assert browser.get(address).status_code == 200


def test_clients_are_told_to_register_so_that_they_sign_in_without_the_internet() -> None:
    assert not cimd.is_advertised()
    assert oauth2_settings.DCR_ENABLED
