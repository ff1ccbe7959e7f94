"""Shared admin classes (read-only, stoppable, without a table) and choices of forms."""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import DataError
from django.db.models import F, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.display import NOTHING
from django_mcp.approvals import unmatched_policies
from django_mcp.approvals.approvers import APPROVE
from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.oauth import has_toolkit
from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.permissions import declared
from django_mcp.core.server import servers
from django_mcp.models import Approval, AutoApprovalRule, ClientPolicy, Task
from django_mcp.models.fields import JSONTextField
from django_mcp.tasks.store import UNFINISHED

if TYPE_CHECKING:
    from django.core.paginator import Page
    from django.utils.functional import _StrPromise as Words

    _ModelAdmin = admin.ModelAdmin[Any]
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    _ModelForm = forms.ModelForm
    Words = str

_INVALID = (ValueError, TypeError, OverflowError, DataError)
"""Exceptions of Python and of databases for a value that does not fit a column, such as a number of 30 digits."""


@contextmanager
def values_of_url(request: HttpRequest) -> Iterator[None]:
    """Surround queries that compare columns with values of the URL.

    Raises:
        IncorrectLookupParameters: the database, or its driver, does not take such a value.
    """
    try:
        yield
    except _INVALID as error:
        if not request.GET:
            raise  # not for what the URL has
        raise IncorrectLookupParameters(type(error).__name__) from error


class StrictFiltersList(ChangeList):
    """A list that takes from a URL only what its own filters and links send.

    Django takes any lookup of a column of the model. With ``regex`` a link can make SQLite, which runs Python's regular
    expressions, block the process over a text that a caller placed.
    """

    def get_filters(self, request: HttpRequest) -> Any:
        """Return Django's filters.

        Raises:
            IncorrectLookupParameters: a parameter belongs to no filter; Django's page redirects to itself without it.
        """
        found = super().get_filters(request)
        known = {*getattr(self.model_admin, "linked_lookups", ())}
        if self.date_hierarchy:
            known |= {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day", "gte", "lt")}
        if unknown := [name for name in found[2] if name not in known]:
            raise IncorrectLookupParameters(f"no filter of this page sends {', '.join(unknown)[:200]!r}")
        return found

    def get_results(self, request: HttpRequest) -> None:
        with values_of_url(request):
            super().get_results(request)


class Filter(NamedTuple):
    """A filter as a button with a menu.

    Attributes:
        spec: Django's filter.
        chosen: label of the choice; empty if there is none.
        without: query without it.
        choices: as ``ListFilter.choices`` yields them.
    """

    spec: Any
    chosen: str
    without: str
    choices: Sequence[Mapping[str, Any]]


class FiltersAboveList(StrictFiltersList):
    """A list with its filters above the rows, which need the width (``filters.html``)."""

    def get_filters(self, request: HttpRequest) -> Any:
        specs, _has_filters, *rest = super().get_filters(request)
        return specs, False, *rest

    def filters(self) -> list[Filter]:
        found = []
        for spec in self.filter_specs:
            choices = list(spec.choices(self))
            chosen = getattr(spec, "words", "") or next(
                (str(choice["display"]) for choice in choices[1:] if choice["selected"]), ""
            )
            parameters = [parameter for parameter in spec.expected_parameters() if parameter]
            found.append(Filter(spec, chosen, self.get_query_string(remove=parameters), choices))
        return found


def has_word(model: type[Model], names: Iterable[str], word: str) -> Q:
    """Return the filter for rows with a word in any of these columns, however its letters are written.

    Columns of JSON have a backslash before quotes and backslashes.
    """
    forms = _forms_of(word)
    in_json = dict.fromkeys([*forms, *(json.dumps(form, ensure_ascii=False)[1:-1] for form in forms)])
    fields = {field.name: field for field in model._meta.get_fields()}  # noqa: SLF001 - Django's documented API
    found = (
        (name, form) for name in names for form in (in_json if isinstance(fields.get(name), JSONTextField) else forms)
    )
    return Q.create([(f"{name}__icontains", form) for name, form in found], connector=Q.OR)


def _forms_of(word: str) -> list[str]:
    """Return the ways to write a word: letters with accents are one character or two, and of any case.

    SQLite, and PostgreSQL in the locale C, know the case of ASCII letters only.
    """
    if word.isascii():
        return [word]
    cases = (word, word.lower(), word.upper(), word.capitalize())
    return list(dict.fromkeys(unicodedata.normalize(form, case) for case in cases for form in ("NFC", "NFD")))


def required_permission(request: HttpRequest, codename: str) -> str:
    """Return the name of a permission of this app that the user lacks; empty if they have it, or for no codename."""
    if not codename or request.user.has_perm(f"django_mcp.{codename}"):
        return ""
    named = Permission.objects.filter(content_type__app_label="django_mcp", codename=codename)
    return named.values_list("name", flat=True).first() or codename


class StrictFiltersAdmin(_ModelAdmin):
    """Admin whose list takes only the lookups that its filters send, and says what its reader may not do.

    Attributes:
        linked_lookups: further lookups, which links of other pages send.
        acts_with: codename of the permission that changes need; empty for pages of records.
        nothing_yet: shown in place of an empty list.
    """

    linked_lookups: ClassVar[tuple[str, ...]] = ()
    acts_with: ClassVar[str] = ""
    nothing_yet: ClassVar[Words] = gettext_lazy("There are no entries yet.")
    empty_value_display = NOTHING
    change_list_template = "admin/django_mcp/change_list.html"
    change_form_template = "admin/django_mcp/change_form.html"

    class Media:
        """The stylesheet of the package."""

        css = {"all": ["django_mcp/admin.css"]}  # noqa: RUF012 - as Django documents it

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        # "Select … to change" is wrong for readers who may not.
        shown = {
            "title": capfirst(self.opts.verbose_name_plural),
            "required_permission": required_permission(request, self.acts_with),
            "nothing_yet": self.nothing_yet,
        }
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        shown = {"required_permission": required_permission(request, self.acts_with)}
        return super().changeform_view(request, object_id, form_url, {**shown, **(extra_context or {})})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows with all terms in the search fields, as Django does, but in every way to write letters."""
        from django_mcp.model_resources.queryset import search_terms  # noqa: PLC0415 - not needed to start

        names = self.get_search_fields(request)
        for word in search_terms(search_term):
            queryset = queryset.filter(has_word(self.model, names, word))
        return queryset, False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        base = super().get_changelist(request, **kwargs)
        return base if issubclass(base, StrictFiltersList) else type(base.__name__, (StrictFiltersList, base), {})


class ApproverReadOnlyAdmin(StrictFiltersAdmin):
    """Read-only admin for approvers and users with the view permission."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(APPROVE) or super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The page that deletes a user also asks, for the user's related rows.
        match = request.resolver_match
        own = f"{self.opts.app_label}_{self.opts.model_name}_"
        if match is None or (match.url_name or "").startswith(own):
            return False
        return super().has_delete_permission(request, obj)


class UserChoiceAdmin(_ModelAdmin):
    """Lets superusers find the user of a field by name, if the site's users can be searched in this admin site.

    Others choose themselves only: a key acts as its user.

    Attributes:
        user_field: name of the foreign key. It is in ``raw_id_fields`` too, for sites without such a search.
    """

    user_field: ClassVar[str]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        """Add the field, if users can be searched."""
        site, users = self.admin_site, get_user_model()
        found = list(super().get_autocomplete_fields(request))
        if site.is_registered(users):
            page = site.get_model_admin(users)
            if page.get_search_fields(request) and page.has_view_permission(request):
                found.append(self.user_field)
        return found

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # The select would raise for a user that cannot exist.
        found: dict[str, Any] = super().get_changeform_initial_data(request)
        given = found.get(self.user_field)
        if given is not None and not database.keys_of(get_user_model(), [str(given)]):
            del found[self.user_field]
        return found


class DecisionForm(_ModelForm):
    """A form of decisions. Saves only what its user changed, if that is still what the page showed.

    What gives more than now is saved only if a check box says so, which appears then.

    Attributes:
        decided: columns that are compared with what the page showed.
        before: their values when the form was made, as JSON.
        changed: names of those that a valid form changes.
    """

    shown = forms.CharField(required=False, widget=forms.HiddenInput)
    weakens = forms.BooleanField(required=False, widget=forms.HiddenInput)

    decided: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.before = {name: _plain(self.instance.serializable_value(name)) for name in self.decided}
        self.initial["shown"] = json.dumps(self.before)
        self.changed: list[str] = []

    def prepare(self, given: dict[str, Any]) -> None:
        """Change values before they are compared."""

    def find_weakened(self) -> list[str]:
        return []

    def clean(self) -> dict[str, Any]:
        """Return what is to be saved. What was changed since the page was shown is an error."""
        given = super().clean() or self.cleaned_data
        self.prepare(given)
        if not self.errors:
            self._compare(given)
        is_asked = "weakens" in self.fields and self.instance.pk is not None and not given.get("weakens")
        if is_asked and not self.errors and (found := self.find_weakened()):
            self.fields["weakens"].widget = forms.CheckboxInput()
            words = _("%(what)s Tick “%(box)s” to save this.")
            self.add_error("weakens", words % {"what": " ".join(found), "box": self.fields["weakens"].label})
        return given

    def _compare(self, given: dict[str, Any]) -> None:
        """Keep what the user did not change; refuse to change what is not what the page showed."""
        try:
            shown = dict(json.loads(given.get("shown") or ""))
        except (TypeError, ValueError):
            shown = self.before if self.instance.pk is None else {}
        for name in [decided for decided in self.decided if decided in self.fields]:
            value = given.get(name)
            wanted = _plain(value.pk if isinstance(value, Model) else value)
            if name in shown and _same(wanted, shown[name]):
                given[name] = getattr(self.instance, name)
            elif _same(wanted, self.before[name]):
                continue
            elif name in shown and _same(self.before[name], shown[name]):
                self.changed.append(name)
            else:
                self.add_error(name, _("This was changed since the page was shown. Open the page again, then decide."))


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else json.loads(json.dumps(value, default=str))


def _same(one: Any, other: Any) -> bool:
    return bool(_plain(one) == _plain(other))


class DecisionAdmin(_ModelAdmin):
    """Saves a ``DecisionForm``."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None and request.method == "POST" and database.own_connection().in_atomic_block:
            # Locked until it is saved: the form compares it with what the page showed.
            found = self.get_queryset(request).select_for_update().filter(pk=found.pk).first()
        return found

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        others = [name for name in form.changed_data if name in form.Meta.fields and name not in form.decided]
        columns = {field.name for field in obj._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
        obj.save(update_fields=[name for name in (*others, *form.changed) if name in columns])


def user_lookups(field: str = "user") -> tuple[str, ...]:
    """Return the lookups for a search by username and e-mail address of a row's user."""
    model = get_user_model()
    columns = {field.name for field in model._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
    names = dict.fromkeys((model.USERNAME_FIELD, model.get_email_field_name()))
    return tuple(f"{field}__{name}" for name in names if name in columns)


Choices = list[tuple[str, str]]


def endpoint_choices() -> Choices:
    return [
        (
            server.name,
            f"{server.name} ({path_of(server)})" + ("" if takes_keys(server) else _(" – does not accept API keys")),
        )
        for server in servers()
    ]


def scope_choices() -> Choices:
    return [(name, f"{scope.text} ({name})") for name, scope in declared().items()]


def with_stored(choices: Choices, stored: Iterable[str] | None) -> Choices:
    # Stored values that no longer exist stay choices, so that saving keeps them.
    known = {name for name, _words in choices}
    return [*choices, *((name, _("%s – no longer exists") % name) for name in stored or () if name not in known)]


def checkboxes(**options: Any) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple(attrs={"class": "mcp-checkboxes"}), **options)


CLIENTS = "mcp-client-list"
"""Id of the list of clients that a page offers."""
MAX_CLIENTS = 500
"""Maximum offered clients; others can be typed."""
MAX_OF_NAME = 5
"""Maximum clients of one name that an error lists."""


class ClientField(forms.CharField):
    """An OAuth client, given by its id or by a name that only one has. Its value is the id."""

    def __init__(self, **options: Any) -> None:
        widget = forms.TextInput(attrs={"list": CLIENTS, "autocomplete": "off", "class": "vTextField"})
        super().__init__(**{"max_length": 255, "widget": widget, **options})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        if not text or not unmatched_policies.unknown_clients([text]):
            return text
        named = list(_applications().filter(name=text).values_list("client_id", flat=True)[: MAX_OF_NAME + 1])
        if len(named) == 1:
            return str(named[0])
        if named:
            listed = ", ".join([*named[:MAX_OF_NAME], *(["…"] if len(named) > MAX_OF_NAME else [])])
            msg = _("Several clients are named “%(name)s”. Enter the id of one: %(ids)s.")
            raise forms.ValidationError(msg % {"name": text, "ids": listed})
        is_document = settings.CLIENT_DOCUMENTS and text.startswith("https://")  # registered at its first sign-in
        if is_document or unmatched_policies.may_register_elsewhere():
            return text
        raise forms.ValidationError(_("No OAuth client has the id or name “%s”. Choose one of the list.") % text)


def _applications() -> Any:
    if not has_toolkit():
        return ClientPolicy.objects.none().annotate(name=F("client_id"))
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

    return get_application_model().objects.order_by("name", "client_id")


def client_list() -> SafeString:
    """Return a ``<datalist>`` of clients, for ``ClientField``."""
    found = list(_applications().values_list("client_id", "name")[:MAX_CLIENTS])
    known = {client_id for client_id, _name in found}
    more = ClientPolicy.objects.exclude(client_id__in=known).values_list("client_id", flat=True)
    options = [*found, *((client_id, "") for client_id in more[: MAX_CLIENTS - len(found)])]
    return format_html(
        '<datalist id="{}">{}</datalist>', CLIENTS, format_html_join("", '<option value="{}">{}</option>', options)
    )


def address_in(site: admin.AdminSite, name: str, *arguments: Any) -> str:
    """Return the URL of a page of this app in an admin site, or "" if the site removed it."""
    try:
        return reverse(f"admin:django_mcp_{name}", args=arguments, current_app=site.name)
    except NoReverseMatch:
        return ""


def page_of(request: HttpRequest, site: admin.AdminSite, model: type[Model], key: Any, page: str = "change") -> str:
    """Return the address of a page of an object in an admin site; empty if the user may not view it or it has no page.

    Args:
        request: of the user.
        site: where the page is.
        model: of the object.
        key: of the object; None if there is no such object.
        page: ``"change"`` or ``"history"``.
    """
    if key is None or not site.is_registered(model) or not site.get_model_admin(model).has_view_permission(request):
        return ""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"  # noqa: SLF001 - Django's documented API
    try:
        return reverse(name, args=[quote(key)], current_app=site.name)
    except NoReverseMatch:
        return ""


class VirtualModelAdmin(_ModelAdmin):
    """Base of admin pages of a model without a table.

    Attributes:
        template_dir: folder of its templates, below ``admin/django_mcp``.
        permission_model: name of the model whose permissions to view and change apply.
    """

    template_dir: ClassVar[str]
    permission_model: ClassVar[str]

    # Permissions

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(f"django_mcp.view_{self.permission_model}") or self.has_change_permission(
            request, obj
        )

    has_module_permission = has_view_permission

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return request.user.has_perm(f"django_mcp.change_{self.permission_model}")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def can_view_log(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_mcp.view_requestlog")

    # Parts of a page

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> TemplateResponse:
        """Return a response with a template of the template_dir in the admin's layout."""
        request.current_app = self.admin_site.name
        shared = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "may_change": self.has_change_permission(request),
            "required_permission": required_permission(request, f"change_{self.permission_model}"),
        }
        return TemplateResponse(request, f"admin/django_mcp/{self.template_dir}/{template}.html", {**shared, **context})

    def address_of(self, key: str) -> str:
        return self.address(f"{self.opts.model_name}_change", quote(key))

    def address(self, name: str, *arguments: Any) -> str:
        return address_in(self.admin_site, name, *arguments)


def page_queries(request: HttpRequest, page: "Page[Any]") -> list[tuple[int, str]]:
    """Return number and URL of each page of a list, or nothing if there is only one page."""
    if page.paginator.num_pages < 2:  # noqa: PLR2004 - one is none to choose
        return []
    query, found = request.GET.copy(), []
    for number in page.paginator.page_range:
        query["p"] = str(number)
        found.append((number, f"?{query.urlencode()}"))
    return found


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Paginator that counts at most ``most`` rows; filters find the rest."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[: self.most].count()
        return found


class ReadOnlyAdmin(StrictFiltersAdmin):
    """Denies adding, changing and deleting, also to superusers."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False


def revocation_effects(*wanted: Q, **of: Any) -> list[str]:
    """Return what ends with a caller's access, beside tokens and streams: tasks, approvals and auto-approval rules.

    Four queries.

    Args:
        wanted: conditions on fields of callers, which tasks, approval requests and rules have.
        of: likewise.
    """
    now = timezone.now()
    live = Approval.objects.filter(*wanted, **of, expires__gt=now)
    rules = AutoApprovalRule.objects.filter(*wanted, **of, revoked=None, expires__gt=now).exclude(remaining=0)
    tasks = Task.objects.filter(*wanted, **of, status__in=UNFINISHED).count()
    waiting, unused = (live.filter(state=state).count() for state in (Approval.State.PENDING, Approval.State.APPROVED))
    active = rules.count()
    found = [
        (tasks, ngettext("%d task is cancelled.", "%d tasks are cancelled.", tasks)),
        (waiting, ngettext("%d pending approval is withdrawn.", "%d pending approvals are withdrawn.", waiting)),
        (unused, ngettext("%d unused approval is withdrawn.", "%d unused approvals are withdrawn.", unused)),
        (active, ngettext("%d auto-approval rule is revoked.", "%d auto-approval rules are revoked.", active)),
    ]
    return [words % number for number, words in found if number]


MAX_NAMED = 20
"""Rows that are named where it is asked whether to stop many."""


class StoppableAdmin(StrictFiltersAdmin):
    """Adds a page, a button and an action that stop rows, with the change permission.

    Attributes:
        stop_path: last part of the page's URL and of its name.
        stop_title: title of the confirmation page and of the link to it, for a number of rows.
        stop_question: question on that page; ``%s`` is the row.
        stop_many_question: the same of the action; ``%d`` is the number of rows.
        stop_answer: label of the confirming button, for a number of rows.
        stopped_one: message on success; ``%s`` is the row.
        stopped_none: message if the row had already ended.
        stopped_many: message after the action; ``%d`` is the number of rows.
        note: entry in the row's history.
    """

    stop_path = "stop"
    stop_title: ClassVar[Words]
    stop_question: ClassVar[Words]
    stop_many_question: ClassVar[Words]
    stop_answer: ClassVar[Words]
    stopped_one: ClassVar[Words]
    stopped_none: ClassVar[Words]
    stopped_many: ClassVar[Words]
    note: ClassVar[Words]
    change_form_template = "admin/django_mcp/stoppable_change_form.html"

    def stop(self, row: Any) -> bool:
        raise NotImplementedError

    def can_stop(self, row: Any) -> bool:
        raise NotImplementedError

    def effects(self, rows: Iterable[Any]) -> list[str]:  # noqa: ARG002
        return []

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.stop_view)
        return [path(f"<int:pk>/{self.stop_path}/", view, name=self._name(self.stop_path)), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        stops = row is not None and self.can_stop(row) and self.has_change_permission(request, row)
        shown = {
            "stop_title": self.stop_title % 1,
            "stop_url": self._address(self.stop_path, object_id) if stops else None,
        }
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **shown})

    def stop_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the confirmation page; stop the row on POST."""
        row = self.get_object(request, str(pk))
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(pk))  # type: ignore[attr-defined, no-any-return]
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if request.method == "POST":
            if self.stop_and_log(request, row):
                self.message_user(request, self.stopped_one % row, messages.SUCCESS)
            else:
                self.message_user(request, self.stopped_none % row, messages.WARNING)
            return HttpResponseRedirect(self._address("changelist"))
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": self.stop_title % 1,
            "opts": self.opts,
            "row": row,
            "effects": self.effects([row]),
            "question": self.stop_question % row,
            "answer": self.stop_answer % 1,
            "listing": f"admin:{self._name('changelist')}",
            "page": f"admin:{self._name('change')}",
        }
        return TemplateResponse(request, "admin/django_mcp/stop_confirmation.html", context)

    def stop_all(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Stop rows, for an action: ask first, and return the page that asks."""
        if "confirmed" in request.POST:
            count = sum(self.stop_and_log(request, row) for row in queryset)
            self.message_user(request, self.stopped_many % count, messages.SUCCESS if count else messages.WARNING)
            return None
        rows = [row for row in queryset if self.can_stop(row)]
        if not rows:
            self.message_user(request, self.stopped_many % 0, messages.WARNING)
            return None
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": self.stop_title % len(rows),
            "opts": self.opts,
            "question": self.stop_many_question % len(rows),
            "rows": rows[:MAX_NAMED],
            "more": max(len(rows) - MAX_NAMED, 0),
            "effects": self.effects(rows),
            "keys": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "action": request.POST.get("action", ""),
            "across": request.POST.get("select_across", "0"),
            "answer": self.stop_answer % len(rows),
            "listing": f"admin:{self._name('changelist')}",
        }
        return TemplateResponse(request, "admin/django_mcp/stop_confirmation.html", context)

    def stop_and_log(self, request: HttpRequest, row: Model) -> bool:
        pk = row.pk
        if changed := self.stop(row):
            row.pk = pk
            self.log_change(request, row, str(self.note))
        return changed

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        # So that streams and tasks end.
        self.stop(obj)
        if type(obj)._default_manager.filter(pk=obj.pk).exists():  # noqa: SLF001 - Django's documented API
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        # So that streams and tasks end.
        for row in queryset:
            self.stop(row)
        super().delete_queryset(request, queryset)

    def _name(self, view: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"

    def _address(self, view: str, *arguments: Any) -> str:
        return reverse(f"admin:{self._name(view)}", args=arguments, current_app=self.admin_site.name)


class ReadOnlyStoppableAdmin(StoppableAdmin):
    """Rows can be viewed and stopped, not edited. Subclasses add the action ``stop_selected``, in their words."""

    actions = ("stop_selected",)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        return self.fields or ()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Hide the save buttons, and save nothing: a row that was read would overwrite what has changed since.

        Raises:
            PermissionDenied: the page was sent.
        """
        if request.method == "POST":
            raise PermissionDenied
        shown = {"title": capfirst(self.opts.verbose_name), "show_save": False, "show_save_and_continue": False}
        return super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})})
