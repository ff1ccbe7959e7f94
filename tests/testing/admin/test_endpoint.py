"""The admin at an endpoint, as the judge reads it."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import user_logged_in
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db.models import Model

from django_mcp.models import RequestLog
from django_mcp.test.admin import Endpoint, Value, effects, walk
from django_mcp.test.admin.endpoint import Mentioning, Told, typed
from tests.integrations.back_office import models
from tests.integrations.back_office.shop import site
from tests.lanes import at_night
from tests.testing.admin.reasons import unexplained

OPEN = ["back_office.customer.api_key"]
EACH_TIME = [models.Category, models.Label, models.Person]
AT_NIGHT = [
    models.Tag,
    models.Customer,
    models.Club,
    models.Supplier,
    models.Order,
    models.Product,
    models.Download,
    Group,
    User,
]


def judged(people: SimpleNamespace, role: str, **options: Any) -> Any:
    user = getattr(people, role)
    return walk(site, user, Endpoint(site, user, show=OPEN), **options)


def test_tools_show_what_pages_show(people: SimpleNamespace) -> None:
    found = judged(people, "clerk", only=[models.Order], links=1, rows=1)
    assert not found, str(found)
    assert {*found.compared} >= {"changelist", "filter", "date", "order", "add", "change", "delete", "history"}


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("role", ["superuser", "clerk", "viewer", "outsider"])
def test_tools_show_what_pages_show_of_the_whole_shop(people: SimpleNamespace, role: str) -> None:
    found = judged(people, role)
    assert not found, str(found)
    assert not found.compared["failed"]
    assert found.compared["refused"] > 20 or role == "superuser"
    assert found.compared["filter"] > 10 or role == "outsider"


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("model", [*EACH_TIME, *map(at_night, AT_NIGHT)], ids=lambda model: model.__name__)
def test_tools_save_what_pages_save(people: SimpleNamespace, model: type[Model]) -> None:
    user = people.superuser
    found = effects(site, user, Endpoint(site, user, show=OPEN), only=[model])
    assert not unexplained(found)
    assert found.compared["saved"]
    assert found.compared["invalid"] > 1


def test_what_is_hidden_by_design_is_no_difference(people: SimpleNamespace) -> None:
    hidden = walk(site, people.superuser, only=[models.Customer], links=3, rows=0)
    assert not hidden, str(hidden)
    opened = walk(site, people.superuser, Endpoint(site, people.superuser, show=OPEN), only=[models.Customer], links=3)
    assert not opened, str(opened)
    assert opened.compared["order"] == hidden.compared["order"] + 1


def test_what_a_declaration_leaves_out_is_not_compared(people: SimpleNamespace) -> None:
    reading = Endpoint(site, people.superuser, write=False)
    found = walk(site, people.superuser, reading, only=[models.Tag], rows=1)
    assert not found, str(found)
    assert {"add", "delete"}.isdisjoint(found.compared)
    assert found.compared["change"]


def test_a_difference_says_where_it_is_and_how_to_see_it(people: SimpleNamespace) -> None:
    class Forgetful(Endpoint):
        def changelist(self, model: type[Model], link: Any) -> Any:
            return super().changelist(model, None)

    found = walk(site, people.superuser, Forgetful(site, people.superuser), only=[models.Order], links=1, rows=0)
    difference = next(each for each in found if each.what == "rows" and "status" in each.page)
    assert difference.url == "/back_office/back_office/order/?status__exact=open"
    assert difference.call == "search_orders {}"
    assert found.values > 20


def test_a_walk_tells_nobody_of_a_login_and_leaves_no_session(people: SimpleNamespace) -> None:
    before = Session.objects.count()
    told: list[Any] = []
    listen = lambda **sent: told.append(sent)  # noqa: E731 - a receiver of this test
    user_logged_in.connect(listen)
    try:
        walk(site, people.superuser, only=[models.Tag], rows=1)
    finally:
        user_logged_in.disconnect(listen)
    assert not told
    assert Session.objects.count() == before
    assert not RequestLog.objects.exists()


CLERKS = [models.Product, models.LiveProduct, models.Order, models.Customer, models.Club, models.Person, models.Tag]
OF_OTHERS = [
    *(at_night(("clerk", model)) for model in CLERKS),
    *(at_night(("viewer", model)) for model in (models.Product, models.Order, models.Label)),
    at_night(("outsider", models.Order)),
]


@pytest.mark.slow
@pytest.mark.parametrize("saver", OF_OTHERS, ids=lambda saver: f"{saver[0]}-{saver[1].__name__}")
def test_tools_save_for_others_what_their_pages_save(people: SimpleNamespace, saver: tuple[str, type[Model]]) -> None:
    role, model = saver
    found = effects(site, getattr(people, role), Endpoint(site, getattr(people, role), show=OPEN), only=[model])
    assert not unexplained(found)
    assert found.compared["refused"] or role == "clerk"
    assert sum(found.compared.values())


def test_a_model_without_tools_is_not_compared(people: SimpleNamespace) -> None:
    endpoint = Endpoint(site, people.superuser, exclude=["back_office.tag"])
    assert not walk(site, people.superuser, endpoint, only=[models.Tag]).compared


def test_the_server_of_the_judge_is_nobody_elses(people: SimpleNamespace) -> None:
    first, second = (Endpoint(site, people.superuser, exclude=["back_office"]) for _ in range(2))
    assert first.client.server is not second.client.server


def test_a_refusal_is_told_in_words(people: SimpleNamespace) -> None:
    page = Endpoint(site, people.superuser).save(models.Tag, "1", {"name": Value((), "")})
    assert "required" in page.why


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (None, "nothing"),
        ({}, "-"),
        (True, "True"),
        (7, "7"),
        ("1.00", "1.00"),
        ("2026-02-03", "Feb. 3, 2026"),
        ("2026-02-03T12:30:15Z", "Feb. 3, 2026, 12:30 p.m."),
        ("12:30:15", "12:30 p.m."),
        ("P0DT03H00M00S", "3:00:00"),
        ({"a": [1]}, '{"a": [1]}'),
        ("[look **here**](/there/)", "look here"),
        ("hidden; see the page in the admin", "secret"),
    ],
)
def test_a_value_is_what_a_page_shows_of_it(value: Any, text: str) -> None:
    told = Told(value, ["-", "nothing"])
    assert told == text
    assert told == "secret" or told != "other"


def test_a_history_of_a_package_is_a_text_that_has_every_entry() -> None:
    page = Mentioning("| [Ada](/1/) | **boss**  |\n| Changed |")
    assert page == (("Ada", "boss"), ("Changed", ""))
    assert page != (("Ada", "clerk"),)
    assert page != "Ada"


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("7", {"type": "integer"}, 7),
        ("7", {"type": ["null", "number"]}, 7),
        ("7.5", {"type": "number"}, 7.5),
        ("7", {"type": "string"}, "7"),
        ("7", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 7),
        ("2", {"enum": [1, 2]}, 2),
        ("true", {"type": "boolean"}, True),
        ("nonsense", {"type": "integer"}, "nonsense"),
        (["1"], {"type": "array", "items": {"type": "integer"}}, [1]),
    ],
)
def test_a_text_of_a_form_is_of_the_schemas_type(text: Any, schema: dict[str, Any], value: Any) -> None:
    assert typed(text, schema) == value
    assert type(typed(text, schema)) is type(value)
