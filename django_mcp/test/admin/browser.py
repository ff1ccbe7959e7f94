"""The admin in a browser: Django's test client with a session, whole pages, parsed."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote as url_unquote
from urllib.parse import urlencode

from bs4 import BeautifulSoup, Tag
from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import Model
from django.forms import DurationField, IntegerField, JSONField, SlugField, UUIDField
from django.test import Client
from django.urls import NoReverseMatch, get_script_prefix, reverse

from django_mcp.auth.session import sign_in
from django_mcp.client.in_process import HOST
from django_mcp.test.admin import html
from django_mcp.test.admin.pages import Field, Inline, Link, Page, Row, State, Value, normalize

SORTS = {
    JSONField: "json",
    UUIDField: "uuid",
    DurationField: "duration",
    SlugField: "slug",
    IntegerField: "number",
}
"""Form fields whose texts have a form that their control does not tell."""


class Browser:
    """The side of a person who is signed in to the admin.

    Args:
        site: the admin site.
        user: the person.
        host: of the site. Default: that of Django's test client, which only tests allow.

    Attributes:
        visited: path and query of the last page.
    """

    def __init__(self, site: AdminSite, user: Any, *, host: str = HOST) -> None:
        self.site = site
        self.user = user
        self.host = host
        self.visited = ""
        self._open: tuple[str, BeautifulSoup | None] = ("", None)
        self.sign_in()

    def sign_in(self) -> None:
        """Begin a new session, without a login: the time of the last one stays, for a form may show it."""
        self.client = Client(raise_request_exception=False, SERVER_NAME=self.host)
        session = sign_in(self.user)
        session.save()
        self.client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key

    def offers(self, model: type[Model]) -> bool:
        """Return True if the model has pages at the site's addresses."""
        try:
            self.address(model, "changelist")
        except NoReverseMatch:
            return False
        return True

    def index(self) -> Page:
        """Return the front page of the admin, which shows whether it admits the person."""
        visited = self._get(reverse(f"{self.site.name}:index"))
        return visited if isinstance(visited, Page) else Page(State.SHOWN)

    # Pages.

    def changelist(self, model: type[Model], link: Link | None) -> Page:
        """Return keys, number and column texts of the rows, and the links that lead to others."""
        address = self.address(model, "changelist")
        visited = self._get(address, "" if link is None else link.query)
        if isinstance(visited, Page):
            return visited
        response, page = visited
        rows = html.list_rows(page)
        keys = self._keys(page, response.context_data, address, rows)
        total = html.total(page)
        unread: tuple[str, ...] = ()
        parts: dict[str, Any] = {"rows": keys}
        if total is None and "cl" in (response.context_data or {}):
            unread = ("number of rows",)
        else:
            parts["number of rows"] = total
        for key, (_, cells) in zip(keys, rows, strict=False):
            parts |= {f"column {number} of {key}": text for number, text in enumerate(cells, 1)}
        links = [*html.list_links(page)]
        if page.select_one("#searchbar") is not None:
            links += [Link("search", urlencode({"q": word})) for word in self._words(rows)]
        return Page(State.SHOWN, parts, keys, tuple(links), unread=unread)

    def form_data(self, model: type[Model], pk: str | None) -> Page:
        """Return what the untouched form would send, and the texts of read-only fields."""
        address = self._form_address(model, pk)
        visited = self._get(address)
        if isinstance(visited, Page):
            return visited
        response, page = visited
        self._open = (address, page)
        return self._form(page, response)

    def _form(self, page: BeautifulSoup, response: Any) -> Page:
        form, button = html.find_form(page)
        if form is None:
            return Page(State.REFUSED, why="no form")
        parts: dict[str, Any] = {"can be saved": button is not None}
        controls = html.controls_of(page, form)
        for name, value in html.successful(controls) if button else ():
            parts[f"control {name}"] = (*parts.get(f"control {name}", ()), value)
        parts |= {f"read-only {name}": text for name, text in html.read_only_texts(form).items()}
        fields = tuple(self._sorted(field, response) for field in html.form_fields(controls)) if button else ()
        inlines = tuple(self._inlines(page, form, controls, response)) if button else ()
        return Page(State.SHOWN, parts, fields=fields, inlines=inlines)

    def _inlines(self, page: BeautifulSoup, form: Tag, controls: list[Tag], response: Any) -> Iterator[Inline]:
        names = {str(control["name"]) for control in controls}
        for shown in (response.context_data or {}).get("inline_admin_formsets", ()):
            formset = shown.formset
            rows = []
            for number, row in enumerate(formset.initial_forms):
                prefix = f"{formset.prefix}-{number}-"
                delete = f"{prefix}DELETE" if f"{prefix}DELETE" in names else ""
                rows.append(Row(str(row.instance.pk), tuple(html.form_fields(controls, prefix)), delete))
            for fields, sent in html.rows_to_add(page, form, controls, formset.prefix):
                rows.append(Row(None, tuple(fields), controls=tuple(sent), type=self._type(sent)))
            yield Inline(formset.prefix, formset.model, tuple(rows))

    def _type(self, sent: list[tuple[str, str]]) -> str:
        """Return the model of a new row that says of which type it is, as django-polymorphic's do."""
        key = next((value for name, value in sent if name.endswith("-polymorphic_ctype")), None)
        return "" if key is None else ContentType.objects.get_for_id(int(key)).model

    def _sorted(self, field: Field, response: Any) -> Field:
        form = getattr((response.context_data or {}).get("adminform"), "form", None)
        form_field = None if form is None else form.fields.get(field.name)
        for kind, sort in SORTS.items():
            if isinstance(form_field, kind) and field.kind == "text":
                return Field(field.name, field.kind, field.controls, field.current, field.options, sort)
        return field

    def delete_page(self, model: type[Model], pk: str) -> Page:
        """Return what the deletion takes along, or what prevents it."""
        visited = self._get(self.address(model, "delete", pk))
        if isinstance(visited, Page):
            return visited
        parts = html.deletion(visited[1])
        unread = tuple(name for name, told in parts.items() if told is None)
        return Page(State.SHOWN, {name: told for name, told in parts.items() if told is not None}, unread=unread)

    def history(self, model: type[Model], pk: str) -> Page:
        """Return user and text of each entry."""
        visited = self._get(self.address(model, "history", pk))
        return visited if isinstance(visited, Page) else Page(State.SHOWN, {"entries": html.history_rows(visited[1])})

    def actions(self, model: type[Model]) -> Page:
        """Return the names and titles of the actions. A list without rows does not show them."""
        visited = self._get(self.address(model, "changelist"))
        if isinstance(visited, Page):  # a list that fails was compared already
            return visited if visited.state != State.FAILED else Page(State.UNKNOWN, why=visited.why)
        response, page = visited
        titles = html.list_actions(page)
        if not titles and not getattr((response.context_data or {}).get("cl"), "show_admin_actions", True):
            return Page(State.UNKNOWN, why="no rows")
        return Page(
            State.SHOWN,
            {
                "names": tuple(sorted(titles)),
                **{f"title of {name}": title for name, title in titles.items()},
            },
        )

    def save(self, model: type[Model], pk: str | None, values: Mapping[str, Value]) -> Page:
        """Fill in the form, press "Save and continue editing", and return messages and errors.

        If ``form_data`` read this form last, it is that page which is filled in.
        """
        address = self._form_address(model, pk)
        page: BeautifulSoup | None
        opened, page = self._open
        if opened != address:
            visited = self._get(address)
            if isinstance(visited, Page):
                return visited
            page = visited[1]
        form, button = html.find_form(page) if page is not None else (None, None)
        if page is None or form is None or button is None:
            return Page(State.REFUSED, why="cannot be saved")
        controls = html.controls_of(page, form)
        sent = html.successful(controls)
        fields = {field.name: field for field in html.form_fields(controls)}
        data: dict[str, list[Any]] = {button: [""]}
        for name, value in values.items():
            own = fields[name].controls if name in fields else ()
            replaced = {*own, *value.emptied, *(control for control, _ in value.controls)}
            sent = [(control, text) for control, text in sent if control not in replaced] + [*value.controls]
            for control, filename, content in value.files:
                data[control] = [SimpleUploadedFile(filename, content)]
        for control, text in sent:
            data.setdefault(control, []).append(text)
        return self._saved(self.client.post(data=data, **self._request(address)))

    def _saved(self, response: Any) -> Page:
        if response.status_code >= 500:  # noqa: PLR2004
            return Page(State.FAILED, why=f"HTTP {response.status_code}")
        if response.status_code == 200:  # noqa: PLR2004
            page = parsed(response)
            if html.find_form(page)[1] is None:
                return Page(State.SHOWN, why="a page that is no form")
            return Page(State.INVALID, {"errors": html.form_errors(page)})
        messages = tuple(shown_text(message.message) for message in get_messages(response.wsgi_request))
        if response.status_code == 302:  # noqa: PLR2004
            return Page(State.SAVED, {"messages": messages})
        return Page(State.REFUSED, why=f"HTTP {response.status_code}")

    # Requests.

    def address(self, model: type[Model], page: str, pk: str | None = None) -> str:
        """Return the path of a page.

        Raises:
            NoReverseMatch: the model has no such page.
        """
        meta = model._meta  # noqa: SLF001 - Django's documented API
        name = f"{self.site.name}:{meta.app_label}_{meta.model_name}_{page}"
        return reverse(name, args=() if pk is None else (quote(pk),))

    def _form_address(self, model: type[Model], pk: str | None) -> str:
        return self.address(model, "add") if pk is None else self.address(model, "change", pk)

    def _request(self, address: str) -> dict[str, Any]:
        """Return what the client needs for an address: a server takes the script prefix away."""
        below = get_script_prefix().rstrip("/")
        path = address.removeprefix(below)
        return {"path": path, "secure": bool(settings.SECURE_SSL_REDIRECT), "SCRIPT_NAME": below}

    def _get(self, address: str, query: str = "") -> tuple[Any, BeautifulSoup] | Page:
        """Return the response and its page as it was parsed, or the reason why there is none."""
        self.visited = f"{address}?{query}" if query else address
        response = self.client.get(**self._request(self.visited))
        if response.status_code >= 500:  # noqa: PLR2004
            return Page(State.FAILED, why=f"HTTP {response.status_code}")
        if response.status_code != 200:  # noqa: PLR2004
            why = f"HTTP {response.status_code} {response.headers.get('Location', '')}".strip()
            return Page(State.REFUSED, why=why)
        return response, parsed(response)

    # Changelists.

    def _keys(
        self, page: BeautifulSoup, context: Any, address: str, rows: list[tuple[str | None, list[str]]]
    ) -> tuple[str, ...]:
        """Return the keys of rows, from their boxes, their links or, where the page has neither, its context."""
        if all(key is not None for key, _ in rows):
            return tuple(str(key) for key, _ in rows)
        links = []
        for row in page.select("#result_list > tbody > tr"):
            for link in row.select("th a[href], td a[href]"):
                place, _, rest = str(link["href"]).partition("?")[0].removeprefix(address).partition("/change/")
                if not rest and place and "/" not in place:
                    links.append(unquote(url_unquote(place)))
                    break
        if len(links) == len(rows):
            return tuple(links)
        return tuple(str(row.pk) for row in context["cl"].result_list)

    def _words(self, rows: list[tuple[str | None, list[str]]]) -> list[str]:
        """Return words to search for: one of the first row, and one that no row has."""
        words = [text.split()[0] for _, cells in rows[:1] for text in cells if text.split()]
        return [*words[:1], "zzzqqq"]


def shown_text(message: Any) -> str:
    """Return a message as a page shows it: markup only where it is marked as such."""
    text = str(message)
    return normalize(BeautifulSoup(text, "html.parser").get_text() if hasattr(message, "__html__") else text)


def parsed(response: Any) -> BeautifulSoup:
    return BeautifulSoup(response.content.decode(response.charset), "html.parser")
