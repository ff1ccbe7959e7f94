"""What a page of the admin tells, from a browser or from an endpoint, and how two such pages are compared."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from django.db.models import Model


class State(StrEnum):
    """How a side answered."""

    SHOWN = "shown"
    SAVED = "saved"
    INVALID = "invalid"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Link:
    """A link of a changelist that leads to other rows of it, such as a filter's.

    Attributes:
        kind: ``"filter"``, ``"date"``, ``"order"``, ``"page"`` or ``"search"``.
        query: its query string.
        text: its text; of an order the position of the column, from 1.
    """

    kind: str
    query: str
    text: str = ""


@dataclass(frozen=True)
class Page:
    """What a page tells.

    Attributes:
        state: how the side answered. An unknown page is not compared.
        parts: what is compared, by its name.
        keys: primary keys of a changelist's rows, as text.
        links: links of a changelist.
        fields: fields of a form that can be filled in.
        inlines: rows of other models in a form.
        unread: parts that the page shows otherwise than Django's, as those of a theme. Not compared.
        why: the reason for a refusal or failure. Not compared.
    """

    state: State
    parts: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    fields: tuple["Field", ...] = ()
    inlines: tuple["Inline", ...] = ()
    unread: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Field:
    """A field of a form as its page shows it.

    Attributes:
        name: its name.
        kind: ``"text"``, ``"choice"``, ``"choices"``, ``"checkbox"``, ``"split"`` (a date and a time) or ``"file"``.
        controls: names of its controls.
        current: their values.
        options: values that can be chosen.
        sort: a hint at what a text is: the type of the control, or a name such as ``"json"``.
    """

    name: str
    kind: str
    controls: tuple[str, ...]
    current: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    sort: str = ""


@dataclass(frozen=True)
class Row:
    """A row of an inline, or one that can be added to it.

    Attributes:
        pk: its key, or None for a row to add.
        fields: those that can be filled in.
        delete: name of the control that deletes it, or "".
        controls: names and values of controls that come with it, if it is not in the page yet: of its own, untouched,
            and of the number of rows.
        type: name of the model, of a row to add where rows are of several.
    """

    pk: str | None
    fields: tuple[Field, ...] = ()
    delete: str = ""
    controls: tuple[tuple[str, str], ...] = ()
    type: str = ""


@dataclass(frozen=True)
class Inline:
    """Rows of another model in a form.

    Attributes:
        name: what the names of its controls begin with, such as ``"lines"``.
        model: the model of its rows.
        rows: its rows, and last those that can be added.
    """

    name: str
    model: type[Model]
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Value:
    """A value for a field, or the rows of an inline, as a browser sends it and as an MCP client does.

    Attributes:
        controls: names and values of controls, which replace all of the field's, and others of these names.
        argument: the same value in JSON. A text is converted to the type of the tool's schema.
        files: names of controls, with the name and content of the file that is chosen.
        emptied: names of controls that are not sent.
    """

    controls: tuple[tuple[str, str], ...]
    argument: Any
    files: tuple[tuple[str, str, bytes], ...] = ()
    emptied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A difference between the admin in a browser and the endpoint.

    Attributes:
        model: label of the model, such as ``"shop.product"``.
        page: the page, such as ``"change 7"`` or ``"changelist ?status=live"``.
        what: what differs, such as ``"rows"`` or ``"control price"``.
        browser: the browser's value, or None if it has none.
        endpoint: the endpoint's value, or None if it has none.
        url: what the browser visited, if its side says so.
        call: what was called at the endpoint, likewise.
    """

    model: str
    page: str
    what: str
    browser: Any
    endpoint: Any
    url: str = ""
    call: str = ""

    def __str__(self) -> str:
        return (
            f"{self.model}, {self.page}: {self.what}: {self.browser!r} in a browser, {self.endpoint!r} at the endpoint"
        )


class Differences(list[Difference]):
    """Differences, with what was compared.

    Attributes:
        compared: number of comparisons by kind of page, of saves by outcome; pages that
            the browser is refused under ``"refused"``, those at which the admin fails under ``"failed"``.
        values: number of values compared: cells, controls, texts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.compared: Counter[str] = Counter()
        self.values = 0

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no differences"


class Side(Protocol):
    """The admin as one user meets it: in a browser, or at an endpoint. Keys of rows are text; None is the add page."""

    def offers(self, model: type[Model]) -> bool:
        """Return True if the side has the model at all, whoever may see it. What a side leaves out is not compared."""

    def changelist(self, model: type[Model], link: Link | None) -> Page:
        """Return keys, number and column texts of the rows of the changelist, or of those that a link leads to."""

    def form_data(self, model: type[Model], pk: str | None) -> Page:
        """Return the data that the untouched form would send, and the texts of read-only fields."""

    def delete_page(self, model: type[Model], pk: str) -> Page:
        """Return what the deletion of a row would take along, or what prevents it."""

    def history(self, model: type[Model], pk: str) -> Page:
        """Return users and texts of a row's history."""

    def actions(self, model: type[Model]) -> Page:
        """Return the names of the actions that the list offers, sorted, and the title of each."""

    def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
        """Send the form with these values, by name of the field or inline, and return messages and errors."""


def compare(model: type[Model], name: str, browser: Page, endpoint: Page) -> Iterator[Difference]:
    """Yield the differences between two pages."""
    label = model._meta.label_lower  # noqa: SLF001 - Django's documented API
    if State.UNKNOWN in {browser.state, endpoint.state}:
        return
    if browser.state == State.REFUSED and endpoint.state == State.INVALID:
        return  # a tool refuses in words, whatever the reason
    if browser.state != endpoint.state:
        # What the admin fails at, the endpoint may refuse in words.
        if browser.state == State.FAILED and endpoint.state in {State.REFUSED, State.INVALID}:
            return
        yield Difference(label, name, "page", describe_state(browser), describe_state(endpoint))
        return
    for what in sorted({*browser.parts, *endpoint.parts}.difference(browser.unread, endpoint.unread)):
        ours, theirs = browser.parts.get(what), endpoint.parts.get(what)
        if what == "errors":
            # An endpoint may name arguments and say more. What the page says it has to say.
            said = normalize(" ".join(theirs or ()))
            lost = tuple(error for error in ours or () if normalize(error) not in said)
            if lost:
                yield Difference(label, name, what, lost, theirs)
        elif ours != theirs:
            yield Difference(label, name, what, ours, theirs)


def describe_state(page: Page) -> str:
    return f"{page.state} ({page.why})" if page.why else str(page.state)


def normalize(text: str) -> str:
    """Return the text with each run of white space as one space."""
    return re.sub(r"\s+", " ", text).strip()


def stable(found: list[Difference], browser: Page, reread: Callable[[], Page]) -> list[Difference]:
    """Return the differences without those in which the browser also differs from itself: clocks, random defaults.

    Args:
        found: differences of a page.
        browser: the page.
        reread: reads the page again.
    """
    if not found:
        return []
    again = reread()
    return [
        difference
        for difference in found
        if difference.what == "page" or again.parts.get(difference.what) == browser.parts.get(difference.what)
    ]
