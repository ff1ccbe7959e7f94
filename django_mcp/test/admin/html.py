"""Pages of the admin as a browser reads them: rows, links, successful controls, texts."""

import re
from collections.abc import Iterator

from bs4 import BeautifulSoup, Tag

from django_mcp.test.admin.pages import Field, Link, normalize

SAVE = ("_continue", "_save", "_addanother", "_saveasnew")
"""Names of buttons that save, in the order in which one is chosen."""
UNSENT = {"submit", "button", "reset", "image", "file"}
SPLIT = re.compile(r"_[01]$")


ICONS = {"check_small": "True", "close_small": "False"}
"""What icons of django-unfold, whose names are texts, stand for."""


def text_of(tag: Tag) -> str:
    """Return the text that a person reads, with the names of icons and the values of controls."""
    found = tag.find_all(["input", "select", "textarea"])
    controls = [control for control in found if control.get("type") not in {"submit", "button", "image", "reset"}]
    if controls:
        return normalize(" ".join(filter(None, map(shown_value, controls))))
    for icon in tag.find_all("img"):
        icon.replace_with(str(icon.get("alt", "")))
    for icon in tag.select(".material-symbols-outlined"):
        icon.replace_with(ICONS.get(normalize(icon.get_text()), ""))
    for line_break in tag.find_all("br"):
        line_break.replace_with("\n")
    return normalize(tag.get_text())


def shown_value(control: Tag) -> str:
    if control.name == "select":
        # The option for no value has any text, such as dashes.
        return " ".join(normalize(option.get_text()) for option in chosen_options(control) if option_value(option))
    if control.name == "textarea":
        return control.get_text()
    if control.get("type") == "hidden":
        return ""
    if control.get("type") == "checkbox":
        return str(control.has_attr("checked"))
    if control.get("type") == "radio":
        label = control.find_parent("label")
        return normalize(label.get_text()) if control.has_attr("checked") and label is not None else ""
    return str(control.get("value", ""))


def named_class(tag: Tag, prefix: str) -> str | None:
    """Return the rest of the first class with a prefix: "price" of "field-price"."""
    for name in tag.get_attribute_list("class"):
        if name and name.startswith(prefix):
            return str(name[len(prefix) :])
    return None


# Changelists.


def list_rows(page: BeautifulSoup) -> list[tuple[str | None, list[str]]]:
    """Return each row's key, or None if it has no box to select it, and its texts, column by column."""
    rows = []
    for row in page.select("#result_list > tbody > tr"):
        box = row.select_one("input.action-select, input[name=_selected_action]")
        cells = [
            text_of(cell)
            for cell in row.find_all(["th", "td"], recursive=False)
            if named_class(cell, "field-") is not None
        ]
        if cells or box:
            rows.append((None if box is None else str(box["value"]), cells))
    return rows


def total(page: BeautifulSoup) -> int | None:
    """Return the number of rows that the changelist tells."""
    place = page.select_one(".paginator")
    numbers = re.findall(r"\d+", place.get_text(" ")) if place else []
    return int(numbers[-1]) if numbers else None


LINKS = {
    "filter": "#changelist-filter a[href^='?']",
    "date": ".toplinks a[href^='?']",
    "order": "#result_list thead .text a[href^='?']",
    "page": ".paginator a[href^='?']",
}


def list_links(page: BeautifulSoup) -> Iterator[Link]:
    seen = set()
    for kind, selector in LINKS.items():
        for link in page.select(selector):
            if link.find_parent(class_="column-__str__") is not None:
                continue  # Django shows such a link, which orders by nothing
            query = str(link["href"])[1:]
            if query and "_facets" not in query and query not in seen:
                seen.add(query)
                yield Link(kind, query, str(position(link)) if kind == "order" else normalize(link.get_text()))


def position(link: Tag) -> int:
    """Return the position of the column in whose head a link is, from 1."""
    head = link.find_parent("th")
    before = head.find_previous_siblings("th") if head is not None else []
    return 1 + sum(not is_of_boxes(each) for each in before)


def is_of_boxes(head: Tag) -> bool:
    """Return True for the column of boxes that select rows. A theme may drop its class."""
    return "action-checkbox-column" in head.get_attribute_list("class") or head.select_one("#action-toggle") is not None


def list_actions(page: BeautifulSoup) -> dict[str, str]:
    """Return the labels of actions by name."""
    options = page.select("select[name=action] option")
    return {str(option["value"]): normalize(option.get_text()) for option in options if option.get("value")}


# Forms.


def find_form(page: BeautifulSoup) -> tuple[Tag | None, str | None]:
    """Return the form of a change page and the name of the button to press, None if it cannot be saved.

    A form is found by its buttons: its id is made from the model, which a package may replace.
    """
    for name in SAVE:
        button = page.select_one(f"input[name={name}], button[name={name}]")
        if button is not None:
            form = page.find(id=str(button["form"])) if button.get("form") else button.find_parent("form")
            if isinstance(form, Tag):
                return form, name
    forms = page.select("#content-main form[method=post], #content form[method=post]")
    return (forms[0] if forms else None), None


TEMPLATE = "__prefix__"
"""Stands for the number of a row in the names of controls that the page's script copies."""


def controls_of(page: BeautifulSoup, form: Tag, *, templates: bool = False) -> list[Tag]:
    """Return the controls that belong to a form, also those outside that name it.

    Args:
        page: the page.
        form: the form.
        templates: True for those that scripts copy for new rows, instead of the others.
    """
    own = form.get("id")
    return [
        control
        for control in page.find_all(["input", "select", "textarea"])
        if (control.get("form") == own if control.has_attr("form") else control.find_parent("form") is form)
        and control.get("name")
        and (TEMPLATE in str(control["name"])) is templates
        and control["name"] != "csrfmiddlewaretoken"
    ]


def successful(controls: list[Tag]) -> list[tuple[str, str]]:
    """Return the names and values that a browser would send.

    Source: HTML, "Constructing the entry list".
    """
    sent: list[tuple[str, str]] = []
    for control in controls:
        name = str(control["name"])
        if control.has_attr("disabled") or control.find_parent("fieldset", disabled=True) is not None:
            continue
        kind = str(control.get("type", "text")).lower()
        if control.name == "select":
            sent += [(name, option_value(option)) for option in chosen_options(control)]
        elif control.name == "textarea":
            # The first line break belongs to the markup, and a browser sends all as CRLF.
            text = re.sub(r"\r\n?", "\n", control.get_text())
            sent.append((name, text.removeprefix("\n").replace("\n", "\r\n")))
        elif kind in {"checkbox", "radio"}:
            if control.has_attr("checked"):
                sent.append((name, str(control.get("value", "on"))))
        elif kind not in UNSENT:
            sent.append((name, str(control.get("value", ""))))
    return sent


def chosen_options(select: Tag) -> list[Tag]:
    options = [option for option in select.find_all("option") if not option.has_attr("disabled")]
    chosen = [option for option in options if option.has_attr("selected")]
    if select.has_attr("multiple"):
        return chosen
    return chosen[-1:] or options[:1]


def option_value(option: Tag) -> str:
    value = option.get("value")
    return normalize(option.get_text()) if value is None else str(value)


def read_only_texts(form: Tag) -> dict[str, str]:
    """Return texts of read-only fields by name; those of inlines have the id of their row in front."""
    texts = {}
    for place in form.select(".readonly, .inline-group td[class^=field-] > p"):
        parent = place.find_parent(lambda tag: named_class(tag, "field-") is not None)
        if parent is None or place.find(["input", "select", "textarea"]) is not None:
            continue  # some widgets have a paragraph of their own
        row = place.find_parent(class_="form-row" if parent.name == "td" else "inline-related")
        inline = place.find_parent(class_="inline-group")
        name = named_class(parent, "field-")
        if inline is not None:
            row_id = "" if row is None else str(row.get("id", ""))
            if row_id.endswith("-empty"):
                continue
            name = f"{row_id}-{name}"
        texts[str(name)] = text_of(place)
    return texts


def form_fields(controls: list[Tag], prefix: str = "") -> Iterator[Field]:
    """Yield the fields of a form itself, or those of an inline's row, whose controls have this prefix."""
    by_name: dict[str, list[Tag]] = {}
    for control in controls:
        is_of_row = control.find_parent(class_="inline-group") is not None
        own_name = str(control["name"])
        if is_of_row is not bool(prefix) or not own_name.startswith(prefix) or own_name.startswith("initial-"):
            continue
        place = control.find_parent(lambda tag: named_class(tag, "field-") is not None)
        if place is None:
            continue
        # A row of several fields has the class of each. What the control is named for counts.
        names = [
            str(each)[len("field-") :] for each in place.get_attribute_list("class") if str(each).startswith("field-")
        ]
        bare = own_name.removeprefix(prefix)
        name = next((each for each in names if SPLIT.sub("", bare) == each), names[0])
        if prefix and not bare.startswith(name):
            continue  # of a row within the row
        by_name.setdefault(name, []).append(control)
    for name, own in by_name.items():
        if not any(control.has_attr("disabled") for control in own):
            yield Field(
                name,
                kind_of(own),
                tuple(dict.fromkeys(str(control["name"]) for control in own)),
                tuple(successful(own)),
                options_of(own),
                sort_of(own[0]),
            )


def rows_to_add(
    page: BeautifulSoup, form: Tag, controls: list[Tag], prefix: str
) -> Iterator[tuple[list[Field], list[tuple[str, str]]]]:
    """Yield the fields of each row that can be added to an inline, and the controls that adding it brings.

    That is the first row that the page has ready, or else a copy of its template, of which there may be one for each
    type of rows.
    """
    numbers = dict(successful([control for control in controls if str(control["name"]).startswith(f"{prefix}-")]))
    total, initial = (int(numbers.get(f"{prefix}-{name}_FORMS") or 0) for name in ("TOTAL", "INITIAL"))
    if total > initial:
        ready = [*form_fields(controls, f"{prefix}-{initial}-")]
        if ready:
            yield ready, []
        return
    if total >= int(numbers.get(f"{prefix}-MAX_NUM_FORMS") or total + 1):
        return
    templates: dict[int, list[Tag]] = {}
    for control in controls_of(page, form, templates=True):
        if str(control["name"]).startswith(f"{prefix}-{TEMPLATE}-"):
            templates.setdefault(id(control.find_parent(class_="empty-form")), []).append(control)
    before, after = f"{prefix}-{TEMPLATE}-", f"{prefix}-{total}-"
    for template in templates.values():
        for control in template:
            control["name"] = str(control["name"]).replace(before, after, 1)
        yield [*form_fields(template, after)], [*successful(template), (f"{prefix}-TOTAL_FORMS", str(total + 1))]
        for control in template:
            control["name"] = str(control["name"]).replace(after, before, 1)


def kind_of(own: list[Tag]) -> str:
    first = own[0]
    kind = str(first.get("type", "text")).lower()
    names = {str(control["name"]) for control in own}
    if any(str(control.get("type")).lower() == "file" for control in own):
        return "file"
    if first.name == "select" and len(names) == 1:
        return "choices" if first.has_attr("multiple") else "choice"
    if kind == "radio":
        return "choice"
    if kind == "checkbox":
        return "checkbox" if len(own) == 1 else "choices"
    if len(names) == 1:
        return "text"
    is_split = {name[-2:] for name in names} == {"_0", "_1"} and len(names) == len(("date", "time"))
    is_split = is_split and all(control.name == "input" for control in own)  # an amount with its currency is not
    return "split" if is_split else "several"


def options_of(own: list[Tag]) -> tuple[str, ...]:
    if own[0].name == "select":
        return tuple(option_value(option) for option in own[0].find_all("option"))
    return tuple(str(control.get("value", "on")) for control in own if control.get("type") in {"radio", "checkbox"})


SORTS = {
    "vDateField": "date",
    "vTimeField": "time",
    "vUUIDField": "uuid",
    "vForeignKeyRawIdAdminField": "row",
    "vManyToManyRawIdAdminField": "rows",
    "admin-autocomplete": "row",
}


def sort_of(control: Tag) -> str:
    if "image" in str(control.get("accept", "")):
        return "image"
    for name in control.get_attribute_list("class"):
        if name in SORTS:
            return SORTS[str(name)]
    return control.name if control.name == "textarea" else str(control.get("type", "text")).lower()


# Deletion, history, messages.


def own_text(item: Tag) -> str:
    """Return the text of a list's item without that of the lists in it."""
    return normalize(
        "".join(
            str(part) if not isinstance(part, Tag) else part.get_text()
            for part in item.children
            if not isinstance(part, Tag) or part.name not in {"ul", "ol"}
        )
    )


def deletion(page: BeautifulSoup) -> dict[str, object]:
    """Return whether a page offers to delete, and what it lists, or None for what is not where Django has it."""
    place = page.select_one("#deleted-objects")
    if place is None:
        return {"allowed": page.select_one("form input[name=post]") is not None, "counts": None, "objects": None}
    summary = place.find_previous_sibling("ul")
    return {
        "allowed": page.select_one("form input[name=post]") is not None,
        "counts": tuple(own_text(item) for item in summary.find_all("li")) if isinstance(summary, Tag) else (),
        "objects": tuple(own_text(item) for item in place.find_all("li")),
    }


def history_rows(page: BeautifulSoup) -> tuple[tuple[str, str], ...]:
    """Return name of the user and text of each entry. Its time is a clock's."""
    rows = []
    for row in page.select("#change-history tbody tr"):
        user, action = row.find_all("td")[:2]
        rows.append((text_of(user).partition(" (")[0], text_of(action)))
    return tuple(rows)


def form_errors(page: BeautifulSoup) -> tuple[str, ...]:
    return tuple(normalize(item.get_text()) for item in page.select(".errorlist li"))
