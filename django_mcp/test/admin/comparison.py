"""Walk an admin, and save what can be saved, on two sides, and tell where they differ."""

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model

from django_mcp.test.admin.browser import Browser
from django_mcp.test.admin.database import trial
from django_mcp.test.admin.endpoint import Endpoint
from django_mcp.test.admin.pages import (
    Difference,
    Differences,
    Field,
    Inline,
    Page,
    Row,
    Side,
    State,
    Value,
    compare,
    describe_state,
    stable,
)
from django_mcp.test.client import rehearsal


def walk(
    site: AdminSite,
    user: Any,
    endpoint: Side | None = None,
    *,
    browser: Side | None = None,
    only: Collection[type[Model]] = (),
    rows: int = 2,
    links: int = 20,
) -> Differences:
    """Compare what the admin shows a user in a browser with what an endpoint does, page by page.

    For each registered model: keys, number and column texts of the changelist, also behind its filters, date hierarchy,
    orders, pages and search; the data that an untouched add page and change pages would send; delete pages, histories,
    actions. What one side refuses, the other has to refuse. The database stays as it was.

    Args:
        site: the admin site.
        user: the user.
        endpoint: the side to judge. Default: the tools of ``admin_tools``.
        browser: the side to judge it by. Default: a browser.
        only: models to look at. Default: all.
        rows: number of rows of each model whose pages are read.
        links: number of links of a changelist that are followed, of each kind.

    Returns:
        The differences, except in what differs between two visits in a browser, and what was compared.
    """
    found = Differences()
    with rehearsal():
        sides = (browser or Browser(site, user), endpoint or Endpoint(site, user))
        models = models_of(site, only, sides)
    judge = _Walk(*sides, found, rows, links)
    for model in models:
        # One after the other: what a page writes locks no table for the whole walk.
        with rehearsal():
            sign_in(sides[0])
            judge.model(model)
    return found


def models_of(site: AdminSite, only: Collection[type[Model]], sides: Collection[Side]) -> list[type[Model]]:
    """Return the site's models that all sides have, in a fixed order."""
    chosen = [model for model in site._registry if not only or model in only]  # noqa: SLF001 - it has no public list
    offered = [model for model in chosen if all(side.offers(model) for side in sides)]
    return sorted(offered, key=lambda model: model._meta.label_lower)  # noqa: SLF001 - documented


class _Walk:
    def __init__(self, browser: Side, endpoint: Side, found: Differences, rows: int, links: int) -> None:
        self.browser = browser
        self.endpoint = endpoint
        self.found = found
        self.rows = rows
        self.links = links

    def model(self, model: type[Model]) -> None:
        first = self.compare(model, "changelist", "changelist", None)
        followed: dict[str, int] = {}
        for link in first.links:
            followed[link.kind] = followed.get(link.kind, 0) + 1
            if followed[link.kind] <= self.links:
                self.compare(model, f"changelist ?{link.query}", "changelist", link, kind=link.kind)
        self.compare(model, "actions", "actions")
        self.compare(model, "add", "form_data", None)
        for pk in self.keys(model, first):
            self.compare(model, f"change {pk}", "form_data", pk, kind="change")
            self.compare(model, f"delete {pk}", "delete_page", pk, kind="delete")
            self.compare(model, f"history {pk}", "history", pk, kind="history")

    def keys(self, model: type[Model], first: Page) -> list[str]:
        """Return keys of the first rows, and of one that the list does not have."""
        others = model._base_manager.order_by("pk").values_list("pk", flat=True)  # noqa: SLF001 - documented
        hidden = [str(pk) for pk in others[: len(first.keys) + 1] if str(pk) not in first.keys]
        return [*first.keys[: self.rows], *hidden[:1]]

    def compare(self, model: type[Model], name: str, method: str, *arguments: Any, kind: str = "") -> Page:
        # Each in a savepoint: a page that fails in the database would abort the transaction of all.
        with rehearsal():
            page: Page = getattr(self.browser, method)(model, *arguments)
        with rehearsal():
            other: Page = getattr(self.endpoint, method)(model, *arguments)
        if State.UNKNOWN not in {page.state, other.state}:
            is_shown = page.state == State.SHOWN
            self.found.compared[kind or name if is_shown else str(page.state)] += 1
            self.found.values += len({*page.parts, *other.parts}) if is_shown else 0
        places = {"url": getattr(self.browser, "visited", ""), "call": getattr(self.endpoint, "called", "")}
        differing = [replace(difference, **places) for difference in compare(model, name, page, other)]
        self.found += stable(differing, page, lambda: getattr(self.browser, method)(model, *arguments))
        return page


# Effects.


def effects(
    site: AdminSite,
    user: Any,
    endpoint: Side | None = None,
    *,
    browser: Side | None = None,
    only: Collection[type[Model]] = (),
    rows: int = 1,
) -> Differences:
    """Save on both sides, each in a transaction that is rolled back, and compare what came of it.

    For each field of each page a good value, a nonsense value and nothing; for add pages also all good values at once.
    Of each inline, the first row is changed likewise and deleted, and one is added. Compared are the outcome, messages,
    errors, the mail sent, the files stored and the rows of all tables, except for moments of the run.

    Args:
        site: the admin site.
        user: the user.
        endpoint: the side to judge. Default: the tools of ``admin_tools``.
        browser: the side to judge it by. Default: a browser.
        only: models to save. Default: all.
        rows: number of rows of each model that are changed.

    Returns:
        The differences, except in what differs between two saves in a browser, and what was compared.
    """
    found = Differences()
    with rehearsal():
        ours = browser or Browser(site, user)
        theirs = endpoint or Endpoint(site, user)
        for model in models_of(site, only, (ours, theirs)):
            sign_in(ours)
            for pk in (None, *ours.changelist(model, None).keys[:rows]):
                _save_page(ours, theirs, found, model, pk)
    return found


def _save_page(browser: Side, endpoint: Side, found: Differences, model: type[Model], pk: str | None) -> None:
    sign_in(browser)
    for name, values in trials(model, browser.form_data(model, pk), pk):
        page = f"{'add' if pk is None else f'change {pk}'} with {name}"
        ours, theirs = outcome(browser, model, pk, values), outcome(endpoint, model, pk, values)
        if theirs.state == State.UNKNOWN:
            continue
        found.compared["refused" if ours.state == State.REFUSED else str(ours.state)] += 1
        differing = [*compare(model, page, ours, theirs)]
        found += stable(differing, ours, partial(save_anew, browser, model, pk, values))


def save_anew(side: Side, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
    """Read the form again, with other random defaults, and save."""
    sign_in(side)
    side.form_data(model, pk)
    return outcome(side, model, pk, values)


def outcome(side: Side, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
    """Save on a side, and return the page with what was changed in each table."""
    with trial(partial(sign_in, side)) as changes:
        page = side.save(model, pk, values)
    if page.state == State.UNKNOWN:
        return page
    tables = {f"table {table}": rows for table, rows in changes.tables.items()}
    sent = {"mails": changes.mails, "files": changes.files}
    return Page(page.state, {**page.parts, **tables, **sent}, why=page.why)


def sign_in(side: Side) -> None:
    """Begin a new session: that of a run went with its transaction, or with the cache."""
    if isinstance(side, Browser):
        side.sign_in()


def trials(model: type[Model], form: Page, pk: str | None) -> Iterator[tuple[str, dict[str, Value]]]:
    """Yield what to save: a name, and values by field."""
    if form.state != State.SHOWN or not form.parts.get("can be saved"):
        if form.state == State.REFUSED:
            yield "nothing changed", {}
        return
    yield "nothing changed", {}
    for field in form.fields:
        for name, value in values_for(model, field):
            yield name, {field.name: value}
    good = good_values(model, form.fields)
    if pk is None:
        yield "all fields", good
    for inline in form.inlines:
        for name, value in trials_of_rows(inline):
            # A new row needs its own fields before its inlines are looked at.
            yield f"{name} of {inline.name}", {**(good if pk is None else {}), inline.name: value}


def values_for(model: type[Model], field: Field) -> Iterator[tuple[str, Value]]:
    """Yield the values to try for a field, with their names."""
    for name, value in (
        (f"a good {field.name}", good_value(model, field)),
        (f"a nonsense {field.name}", nonsense_value(field)),
        (f"no {field.name}", no_value(field)),
    ):
        if value is not None:
            yield name, value


def good_values(model: type[Model], fields: Iterable[Field]) -> dict[str, Value]:
    """Return good values for all fields that have one."""
    found = ((field.name, good_value(model, field)) for field in fields)
    return {name: value for name, value in found if value is not None}


def trials_of_rows(inline: Inline) -> Iterator[tuple[str, Value]]:
    """Yield what to do with the rows of an inline: a name, and the rows as a value."""
    first = next((row for row in inline.rows if row.pk is not None), None)
    if first is not None:
        for field in first.fields:
            for name, value in values_for(inline.model, field):
                yield name, of_row(first, {field: value})
        if first.delete:
            yield "a row deleted", Value(((first.delete, "on"),), [{"pk": first.pk, "delete": True}])
    for new in inline.rows:
        if new.pk is None and new.fields:
            good = good_values(inline.model, new.fields)
            fields = {field: good[field.name] for field in new.fields if field.name in good}
            kind = f"a {new.type}" if new.type else "a row"
            yield f"{kind} added", of_row(new, fields)
            for field in new.fields:
                if field.name in good:
                    yield f"{kind} with {field.name} added", of_row(new, {field: good[field.name]})


def of_row(row: Row, values: Mapping[Field, Value]) -> Value:
    """Return the value of an inline in which a row has these values."""
    replaced = {control for field in values for control in field.controls}
    controls = [pair for pair in row.controls if pair[0] not in replaced]
    controls += [pair for value in values.values() for pair in value.controls]
    emptied = {control for field in values for control in field.controls} - {name for name, _ in controls}
    argument = {field.name: value.argument for field, value in values.items()}
    named = {name: value for name, value in (("pk", row.pk), ("type", row.type)) if value}
    return Value(
        tuple(controls),
        [{**named, **argument}],
        tuple(file for value in values.values() for file in value.files),
        tuple(sorted(emptied)),
    )


GOOD = {
    "number": "7",
    "date": "2026-03-04",
    "time": "05:06:07",
    "uuid": str(uuid.UUID(int=7)),
    "duration": "01:02:03",
    "json": '{"a": 1}',
    "url": "https://example.com/a",
    "email": "a@example.com",
    "slug": "good-7",
    "password": "correct-horse-7",
}


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""An image."""


def good_value(model: type[Model], field: Field) -> Value | None:  # noqa: PLR0911 - one for each kind
    """Return a value that the field most likely takes, other than its own, or None if none is known."""
    name = field.controls[0]
    if field.sort in {"row", "rows"}:
        return related_row(model, field)
    match field.kind:
        case "checkbox":
            is_on = bool(field.current)
            return Value(() if is_on else ((name, field.options[0]),), not is_on)
        case "choice":
            current = {value for _, value in field.current}
            others = (option for option in field.options if option and option not in current)
            return next((Value(((name, other),), other) for other in others), None)
        case "choices":
            chosen = [option for option in field.options if option][:1]
            return Value(tuple((name, option) for option in chosen), chosen)
        case "split":
            first, second = field.controls
            return Value(((first, "2026-03-04"), (second, "05:06:07")), "2026-03-04T05:06:07")
        case "file":
            is_image = field.sort == "image"
            filename, content = ("good.png", PIXEL) if is_image else ("good.txt", b"Good.")
            argument = {"filename": filename, "content": base64.b64encode(content).decode()}
            return Value((), argument, ((name, filename, content),))
        case "text":
            text = GOOD.get(field.sort, "7")
            return Value(((name, text),), {"a": 1} if field.sort == "json" else text)
    return None


def related_row(model: type[Model], field: Field) -> Value | None:
    """Return the key of a row for a field whose page does not offer any."""
    try:
        related = model._meta.get_field(field.name).related_model  # noqa: SLF001 - Django's documented API
    except FieldDoesNotExist:
        return None
    row = None if related is None or isinstance(related, str) else related._base_manager.order_by("pk").first()  # noqa: SLF001 - documented
    if row is None:
        return None
    pk = str(row.pk)
    return Value(((field.controls[0], pk),), [pk] if field.kind == "choices" or field.sort == "rows" else pk)


def nonsense_value(field: Field) -> Value | None:
    name = field.controls[0]
    match field.kind:
        case "split":
            return Value(((name, "nonsense"), (field.controls[1], "nonsense")), "nonsense")
        case "choices":
            return Value(((name, "nonsense"),), ["nonsense"])
        case "file":
            argument = {"filename": "bad.png", "content": base64.b64encode(b"bad").decode()}
            return Value((), argument, ((name, "bad.png", b"bad"),))
        case "choice" | "text":
            text = "nonsense" if field.sort != "text" else "nonsense " * 40
            return Value(((name, text),), ["nonsense"] if field.sort == "rows" else text)
    return None


def no_value(field: Field) -> Value | None:
    match field.kind:
        case "checkbox":
            return Value((), False)
        case "choices":
            return Value((), [])
        case "choice":
            # A browser cannot choose nothing unless there is such an option; then it is as if there were no control.
            return Value(((field.controls[0], ""),) if "" in field.options else (), None)
        case "text" | "split":
            return Value(tuple((name, "") for name in field.controls), None)
        case "file":
            clear = next((name for name in field.controls if name.endswith("-clear")), None)
            return None if clear is None else Value(((clear, "on"),), None)
    return None


__all__ = ["Difference", "Differences", "describe_state", "effects", "walk"]
