"""Actions on rows of a list, as the admin's changelist offers them, with the pages they put in between."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

from django import forms
from django.contrib.admin.actions import delete_selected
from django.db import models
from django.forms.utils import pretty_name

from django_mcp.core.context import Context
from django_mcp.core.database import without_effects
from django_mcp.integrations.admin_site.changelist import found_list, open_changelist
from django_mcp.integrations.admin_site.controls import PageForm, Pair, forms_of
from django_mcp.integrations.admin_site.deletion import require_deletable
from django_mcp.integrations.admin_site.visit import Visit, page_url, visit
from django_mcp.integrations.requests import stand_in_request, unsaved_superuser
from django_mcp.integrations.results import tool_result
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, unknown_argument

MAX_ROWS = 100
"""Rows that an action runs on at once."""
MAX_FOUND = 500
"""Rows that a search may find for an action. Their keys are sent in one form, and Django takes 1,000 fields."""
MAX_PAGES = 5
"""Pages in between that one call goes through."""
ACTION, SELECTED = "action", "_selected_action"
DELETE = "delete_selected"
_OF_SELECTION = frozenset({ACTION, SELECTED, "select_across", "index"})


def action_names(site: Any, admin: Any) -> dict[str, Any]:
    """Return titles of actions by name: those that a ``ModelAdmin`` and its site declare or ``get_actions`` adds."""
    added = {name: _title_of(action) or pretty_name(name) for name, action in _actions_of_superuser(admin).items()}
    if admin.actions is None:
        return added
    declared = dict(site.actions)
    for action in admin.actions:
        declared[_name_of(action)] = getattr(admin, action, None) if isinstance(action, str) else action
    named = {
        name: getattr(function, "short_description", "") or pretty_name(name) for name, function in declared.items()
    }
    return {**named, **added}


def _actions_of_superuser(admin: Any) -> Mapping[str, Any]:
    """Return what ``get_actions`` returns for a superuser: packages add actions there that no attribute names."""
    try:
        with without_effects():
            return dict(admin.get_actions(stand_in_request(unsaved_superuser())))
    except Exception:  # noqa: BLE001 - the site's code may need a user or a database that is not there yet
        return {}


def _title_of(action: Any) -> Any:
    """Return the title of one of the values of ``get_actions``: a tuple, or from Django 6.1 on an ``Action``."""
    return getattr(action, "plural_description", None) or action[2]


def _name_of(action: Any) -> str:
    return str(action if isinstance(action, str) else getattr(action, "name", None) or action.__name__)


def may_run(admin: Any, request: Any, name: str) -> bool:
    """Return True if the admin offers an action to the user of a request."""
    return name in admin.get_actions(request)


def rows_for(admin: Any, request: Any, keys: Sequence[Any]) -> list[models.Model]:
    """Return the rows of some keys, in that order.

    Raises:
        ToolError: one of them is not in the list of this user.
    """
    name = admin.model._meta.verbose_name  # noqa: SLF001 - Django's documented API
    if not keys:
        raise ArgumentError([about_argument(["pks"], "names no row.")])
    if len(keys) > MAX_ROWS:
        raise ArgumentError([about_argument(["pks"], f"names {len(keys)} rows; at most {MAX_ROWS} are possible.")])
    fitting = [key for key in keys if _fits(admin.model, key)]
    found = {str(row.pk): row for row in admin.get_queryset(request).filter(pk__in=fitting)}
    missing = [key for key in keys if str(key) not in found]
    if missing:
        raise ToolError(f"There is no {name} {missing[0]}.")
    return [found[str(key)] for key in dict.fromkeys(keys)]


def rows_found(
    ctx: Context, site: Any, model: type[models.Model], asked: Mapping[str, Any], shown: Collection[str]
) -> list[models.Model]:
    """Return all rows that a search of the list finds, in its order.

    Raises:
        ArgumentError: it finds none or too many, or an argument does not fit; see ``found_list``.
    """
    page, _ = found_list(ctx, site, model, asked, shown)
    if "cl" not in page.context:
        raise ArgumentError([about_argument(["search"], "the admin has no list to search.")])
    rows = page.context["cl"].queryset
    count = rows.count()
    if not 0 < count <= MAX_FOUND:
        words = f"finds {count:,} rows; at most {MAX_FOUND} are possible." if count else "finds no row."
        raise ArgumentError([about_argument(["search"], words)])
    return list(rows[:MAX_FOUND])


def _fits(model: type[models.Model], key: Any) -> bool:
    try:
        model._meta.pk.to_python(key)  # noqa: SLF001 - Django's documented API
    except Exception:  # noqa: BLE001 - such as ValidationError: no row has this key
        return False
    return True


@dataclass
class InBetween:
    """A page that an action shows before it does its work.

    Attributes:
        visit: the page.
        form: its form.
    """

    visit: Visit
    form: PageForm

    @property
    def fields(self) -> dict[str, dict[str, Any]]:
        """The schema of each control that a person would fill in."""
        known = _form_fields(self.visit.context.values())
        asked = {name: choices for name, choices in self.form.shown.items() if name not in _OF_SELECTION}
        return {name: _schema_of(name, choices, known) for name, choices in asked.items()}

    @property
    def text(self) -> str:
        """What the page says."""
        return self.visit.text


def open_deletion(ctx: Context, site: Any, model: type[models.Model], keys: Iterable[Any]) -> Visit | None:
    """Return the page with which Django's ``delete_selected`` asks for a confirmation.

    None if the site has an action of its own by that name, which may do its work at once.

    Raises:
        ToolError: something protects the rows, or the user may not delete what goes along.
    """
    admin = site._registry[model]  # noqa: SLF001 - get_model_admin() is new in Django 5.0
    if dict(site.actions).get(DELETE) is not delete_selected or hasattr(admin, DELETE):
        return None
    sent = visit(ctx, _list_url(ctx, site, model), data=_selection(DELETE, keys))
    require_deletable(sent, model._meta)  # noqa: SLF001 - Django's documented API
    return sent


def _list_url(ctx: Context, site: Any, model: type[models.Model]) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return page_url(ctx, site, f"{options.app_label}_{options.model_name}_changelist")


def _selection(name: str, keys: Iterable[Any]) -> list[Pair]:
    return [(ACTION, name), ("select_across", "0"), ("index", "0"), *((SELECTED, str(key)) for key in keys)]


def run(
    ctx: Context,
    site: Any,
    model: type[models.Model],
    name: str,
    keys: Iterable[Any],
    values: Mapping[str, Any] | None,
    button: str | None = None,
) -> ToolResult[Any]:
    """Run an action on rows, and return its messages, its file, or what it needs to know.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        model: of the list.
        name: of the action.
        keys: of the rows.
        values: for the controls of pages in between, by name; None if they are not known yet.
        button: name of the button to press, if a page has several.

    Raises:
        ToolError: the admin refuses it, or answers with the page again.
        ArgumentError: a page has no such control or button.
    """
    path, data = _list_url(ctx, site, model), _selection(name, keys)
    own = _action_form_fields(open_list(ctx, site, model))
    given = dict(values or {})
    data += [(field, str(given.pop(field))) for field in own if field in given]
    sent = visit(ctx, path, data=data)
    is_filled = False
    for _ in range(MAX_PAGES):
        if sent.location is not None or not _is_page(sent):
            return _result(sent, given if not is_filled else {})
        require_deletable(sent, model._meta)  # noqa: SLF001 - Django's documented API
        page = _in_between(sent)
        if page is None:
            raise ToolError(f"The admin answered with a page:\n\n{sent.text}")
        if page.fields and (values is None or is_filled):
            if is_filled:
                raise ToolError(f"The page of the admin does not accept these values:\n\n{page.text}")
            return _needs_values(page)
        data = _filled(page, given, button)
        is_filled = is_filled or bool(page.fields)
        sent = _send(ctx, path, sent, page, data)
    raise ToolError("The admin answered with one page after the other.")


def _send(ctx: Context, path: str, sent: Visit, page: InBetween, data: Sequence[Pair]) -> Visit:
    url = urlsplit(urljoin(sent.request.build_absolute_uri(), page.form.action))
    if url.netloc != sent.request.get_host():
        raise ToolError("The page of the admin leads to another site.")
    return visit(ctx, url.path if page.form.action else path, data=data)


def _is_page(sent: Visit) -> bool:
    response: Any = sent.response
    kind = response.headers.get("Content-Type", "")
    return "html" in kind and "attachment" not in response.headers.get("Content-Disposition", "")


def _in_between(sent: Visit) -> InBetween | None:
    found = [form for form in forms_of(sent.html) if form.method == "post"]
    form = next((form for form in found if any(name in {ACTION, SELECTED} for name, _ in form.pairs)), None)
    return None if form is None else InBetween(sent, form)


def _filled(page: InBetween, given: Mapping[str, Any], button: str | None) -> list[Pair]:
    # Not those of the selection, even if the page shows them: the call was approved for these rows and this action.
    fields = list(page.fields)
    unknown = [unknown_argument(["values", name], fields) for name in given if name not in fields]
    if unknown:
        raise ArgumentError(unknown)
    pairs = [pair for pair in page.form.pairs if pair[0] not in given]
    pairs += [(name, text) for name, value in given.items() for text in _texts(value)]
    buttons = page.form.buttons
    if button is not None:
        pressed = [pair for pair in buttons if button in pair]
        if not pressed:
            known = ", ".join(name for name, _ in buttons) or "none"
            raise ArgumentError([about_argument(["button"], f"must be one of: {known}.")])
        return pairs + pressed[:1]
    return pairs + buttons[:1]


def _texts(value: Any) -> list[str]:
    match value:
        case None | False:
            return []
        case True:
            return ["on"]
        case list():
            return [text for entry in value for text in _texts(entry)]
    return [str(value)]


def _result(sent: Visit, unused: Mapping[str, Any]) -> ToolResult[Any]:
    if unused:
        raise ArgumentError([unknown_argument(["values", name], []) for name in unused])
    if sent.location is None and sent.response.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return tool_result(sent.response, sent.request)
    messages = sent.messages
    return ToolResult({"messages": messages}, text="\n".join(messages) or "Done.")


def _needs_values(page: InBetween) -> ToolResult[Any]:
    buttons = [name for name, _ in page.form.buttons]
    told = {"needs_values": {"type": "object", "properties": page.fields}, "page": page.text}
    told |= {"buttons": buttons} if len(buttons) > 1 else {}
    words = "Nothing was done yet. The admin asks for values; call again with the same rows and values={…}:"
    return ToolResult(told, text=f"{words} {', '.join(page.fields)}\n\n{page.text}")


def open_list(ctx: Context, site: Any, model: type[models.Model]) -> Visit:
    """Return the list that actions run on.

    Raises:
        ToolError: there is none. A form may be in its place, which would be saved.
    """
    page = open_changelist(ctx, site, model, {})
    if "cl" not in page.context:
        raise ToolError(f"The admin has no list of {model._meta.verbose_name_plural} to run it on.")  # noqa: SLF001 - Django's documented API
    return page


def _action_form_fields(page: Visit) -> list[str]:
    """Return the fields that a site has added to the form of actions above a list."""
    form = page.context.get("action_form")
    return [name for name in getattr(form, "fields", {}) if name not in _OF_SELECTION]


def _form_fields(values: Iterable[Any]) -> dict[str, forms.Field]:
    return {
        form.add_prefix(name): field
        for form in values
        if isinstance(form, forms.BaseForm)
        for name, field in form.fields.items()
    }


def _schema_of(name: str, choices: Sequence[str], known: Mapping[str, forms.Field]) -> dict[str, Any]:
    from django_mcp.model_resources.form_schema import describe_field  # noqa: PLC0415 - few actions ask
    from django_mcp.primitives.markers import MAX_BYTES  # noqa: PLC0415 - likewise

    if name in known:
        return describe_field(name, known[name], None, MAX_BYTES)
    named = [choice for choice in choices if choice]
    return {"type": "string", **({"enum": named} if named else {})}
