"""Two sides of an admin, compared: nothing differs between two browsers, and each kind of fault is found."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import Model

from django_mcp.test.admin import Browser, Link, Page, State, Value, effects, walk
from django_mcp.test.admin.comparison import trials
from tests.integrations.back_office import models
from tests.integrations.back_office.shop import site

ROLES = ["superuser", "clerk", "viewer", "outsider"]


class Faulty(Browser):
    """A browser whose pages are changed before they are compared.

    Args:
        user: the user.
        method: the method whose pages are changed.
        change: returns the page as it is told.
    """

    def __init__(self, user: Any, method: str, change: Callable[[Page], Page]) -> None:
        super().__init__(site, user)
        honest = getattr(self, method)
        setattr(self, method, lambda *arguments: change(honest(*arguments)))


def with_part(page: Page, prefix: str, value: Any) -> Page:
    """Return a page whose first part with this prefix has another value, or is missing."""
    name = next((each for each in page.parts if each.startswith(prefix)), None)
    if name is None:
        return page
    parts = {**page.parts, name: value}
    return replace(page, parts={each: told for each, told in parts.items() if told is not None})


@pytest.mark.parametrize("role", ["clerk", "outsider"])
def test_two_browsers_of_one_user_see_the_same(people: SimpleNamespace, role: str) -> None:
    user = getattr(people, role)
    found = walk(site, user, Browser(site, user), only=[models.Product], links=1, rows=1)
    assert not found, str(found)
    assert found.compared["refused"] > 4 or role != "outsider"
    assert found.compared["changelist"] == (role != "outsider")


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_two_browsers_of_one_user_see_the_same_of_the_whole_shop(people: SimpleNamespace, role: str) -> None:
    user = getattr(people, role)
    found = walk(site, user, Browser(site, user))
    assert not found, str(found)
    assert found.compared["refused"] > 20 or role == "superuser"
    assert found.compared["filter"] > 10 or role == "outsider"


WRONG_PAGES: dict[str, tuple[str, Callable[[Page], Page], str]] = {
    "a row is missing": ("changelist", lambda page: with_part(page, "rows", page.keys[1:]), "rows"),
    "rows are in another order": ("changelist", lambda page: with_part(page, "rows", page.keys[::-1]), "rows"),
    "the number of rows is wrong": ("changelist", lambda page: with_part(page, "number of rows", 99), "number of rows"),
    "a column's text is changed": ("changelist", lambda page: with_part(page, "column ", "Other"), "column"),
    "a column is missing": ("changelist", lambda page: with_part(page, "column ", None), "column"),
    "an initial value is missing": (
        "form_data",
        lambda page: with_part(page, "control initial-", None),
        "control initial-",
    ),
    "a control has another value": ("form_data", lambda page: with_part(page, "control ", ("other",)), "control"),
    "a form says that it can be saved": (
        "form_data",
        lambda page: with_part(page, "can be saved", "other"),
        "can be saved",
    ),
    "a deletion is said to be possible": ("delete_page", lambda page: with_part(page, "allowed", "other"), "allowed"),
    "what is deleted along is missing": ("delete_page", lambda page: with_part(page, "counts", ()), "counts"),
    "what protects is missing": ("delete_page", lambda page: with_part(page, "objects", ()), "objects"),
    "an action is missing": ("actions", lambda page: with_part(page, "names", ()), "names"),
    "an action is called otherwise": ("actions", lambda page: with_part(page, "title of ", "Other"), "title of "),
    "a refused page is shown": (
        "form_data",
        lambda page: Page(State.SHOWN, {"name": "x"}) if page.state == State.REFUSED else page,
        "page",
    ),
    "a page is refused": ("history", lambda page: Page(State.REFUSED), "page"),
    "an endpoint fails": ("changelist", lambda page: Page(State.FAILED), "page"),
}


@pytest.mark.parametrize("fault", WRONG_PAGES)
def test_a_walk_finds_each_kind_of_fault(people: SimpleNamespace, fault: str) -> None:
    method, change, what = WRONG_PAGES[fault]
    user = people.clerk if "refused page" in fault else people.superuser
    found = walk(
        site,
        user,
        Faulty(user, method, change),
        only=[models.Customer if "refused page" in fault else models.Order],
        links=0,
        rows=1,
    )
    assert found, "nothing was found"
    assert all(difference.what.startswith(what) for difference in found), str(found)
    assert all(difference.browser != difference.endpoint for difference in found)


def test_a_missing_entry_of_a_history_is_found(people: SimpleNamespace) -> None:
    without = Faulty(people.superuser, "history", lambda page: with_part(page, "entries", ()))
    [difference] = walk(site, people.superuser, without, only=[models.Product], links=0, rows=1)
    assert difference.page.startswith("history ")
    assert difference.browser == (("boss", "Changed Price."),)


def test_a_filter_that_is_ignored_is_found(people: SimpleNamespace) -> None:
    class Unfiltered(Browser):
        def changelist(self, model: type[Model], link: Link | None) -> Page:
            return super().changelist(model, None)

    found = walk(site, people.superuser, Unfiltered(site, people.superuser), only=[models.Order], links=1, rows=0)
    assert "changelist ?status__exact=open" in {difference.page for difference in found}


def test_a_default_by_the_clock_or_at_random_is_no_difference(people: SimpleNamespace) -> None:
    found = walk(site, people.superuser, Browser(site, people.superuser), only=[models.Supplier], rows=0)
    assert not found, str(found)  # each add page has a new key


# Effects.


@pytest.mark.slow
def test_two_browsers_save_the_same(people: SimpleNamespace) -> None:
    found = effects(site, people.superuser, Browser(site, people.superuser), only=[models.Tag])
    assert not found, str(found)
    assert found.compared["saved"] >= 3
    assert found.compared["invalid"] >= 3
    assert not models.Tag.objects.filter(name="7").exists(), "the database is as it was"


@pytest.mark.slow
def test_a_random_default_that_is_saved_is_no_difference(people: SimpleNamespace) -> None:
    class Anew(Browser):
        def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
            self.form_data(model, pk)
            return super().save(model, pk, values)

    found = effects(site, people.superuser, Anew(site, people.superuser), only=[models.Supplier], rows=0)
    assert not found, str(found)
    assert found.compared["saved"] > 1


class Meddling(Browser):
    """A browser that does something else after each save."""

    def __init__(self, user: Any, meddle: Callable[[], Any]) -> None:
        super().__init__(site, user)
        self.meddle = meddle

    def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
        page = super().save(model, pk, values)
        if page.state == State.SAVED:
            self.meddle()
        return page


WRONG_ROWS: dict[str, tuple[Callable[[], Any], str]] = {
    "another table is changed": (lambda: models.Person.objects.create(name="Eve"), "table back_office_person"),
    "a row is deleted": (lambda: models.Note.objects.all().delete(), "table back_office_note"),
    "one value differs": (lambda: models.Tag.objects.update(name="other"), "table back_office_tag"),
    "the history is not written": (lambda: LogEntry.objects.all().delete(), "table django_admin_log"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG_ROWS)
def test_a_save_that_differs_in_one_table_is_found(people: SimpleNamespace, fault: str) -> None:
    meddle, what = WRONG_ROWS[fault]
    found = effects(site, people.superuser, Meddling(people.superuser, meddle), only=[models.Tag], rows=0)
    assert {difference.what for difference in found} == {what}


def lost(part: str) -> Callable[[Page], Page]:
    return lambda page: replace(page, parts={**page.parts, **({part: ()} if part in page.parts else {})})


@pytest.mark.slow
@pytest.mark.parametrize("part", ["messages", "errors"])
def test_a_lost_message_is_found(people: SimpleNamespace, part: str) -> None:
    found = effects(site, people.superuser, Faulty(people.superuser, "save", lost(part)), only=[models.Tag], rows=0)
    assert {difference.what for difference in found} == {part}


def test_a_save_that_only_one_side_refuses_is_found(people: SimpleNamespace) -> None:
    faulty = Faulty(people.superuser, "save", lambda page: Page(State.INVALID) if page.state == State.SAVED else page)
    found = effects(site, people.superuser, faulty, only=[models.Tag], rows=0)
    assert {difference.what for difference in found} == {"page"}
    assert {difference.browser for difference in found} == {"saved"}


@pytest.mark.slow
def test_mail_that_only_one_side_sends_is_found(people: SimpleNamespace) -> None:
    def send() -> None:
        people.superuser.email_user("Saved", "It was saved.")

    found = effects(site, people.superuser, Meddling(people.superuser, send), only=[models.Tag], rows=0)
    assert {difference.what for difference in found} == {"mails"}


def test_rows_of_inlines_are_changed_deleted_and_added(people: SimpleNamespace) -> None:
    side = Browser(site, people.superuser)
    order = models.Order.objects.get(number="O-1")
    tried = dict(trials(models.Order, side.form_data(models.Order, str(order.pk)), str(order.pk)))
    names = [name.removesuffix(" of lines") for name in tried if name.endswith(" of lines")]
    changes = [f"{kind} {field}" for field in ("product", "quantity") for kind in ("a good", "a nonsense", "no")]
    assert names == [
        *changes,
        "a row deleted",
        "a row added",
        *(f"a row with {field} added" for field in ("product", "quantity")),
    ]
    side.save(models.Order, str(order.pk), tried["a row added of lines"])
    assert [line.quantity for line in order.lines.order_by("pk")] == [2, 7]
    side.form_data(models.Order, str(order.pk))
    side.save(models.Order, str(order.pk), tried["a good quantity of lines"])
    assert [line.quantity for line in order.lines.order_by("pk")] == [7, 7]
    side.form_data(models.Order, str(order.pk))
    side.save(models.Order, str(order.pk), tried["a row deleted of lines"])
    assert order.lines.count() == 1


def test_a_row_is_added_where_the_page_has_one_ready(people: SimpleNamespace) -> None:
    side = Browser(site, people.superuser)
    [inline, _] = side.form_data(models.Product, None).inlines
    [row] = inline.rows
    assert not row.controls
    assert [field.controls for field in row.fields] == [("variant_set-0-name",), ("variant_set-0-price",)]


@pytest.mark.slow
def test_a_row_of_an_inline_that_only_one_side_saves_is_found(people: SimpleNamespace) -> None:
    class Alone(Browser):
        def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
            return super().save(model, pk, {name: value for name, value in values.items() if name != "badge_set"})

    found = effects(site, people.superuser, Alone(site, people.superuser), only=[models.Person])
    assert "table back_office_badge" in {difference.what for difference in found}
    assert all("of badge_set" in difference.page for difference in found), str(found)


def test_messages_of_one_save_are_not_those_of_the_next(people: SimpleNamespace) -> None:
    side = Browser(site, people.superuser)
    values = [{"name": Value((("name", name),), name)} for name in ("a", "b")]
    first, second = (side.save(models.Tag, None, each).parts["messages"] for each in values)
    assert len(first) == len(second) == 1
    assert "“b”" in second[0]
