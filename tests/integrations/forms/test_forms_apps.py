"""A form in the conversation: what the page of a form tool shows, and what it submits."""

import copy
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.postgres.forms import DateRangeField, IntegerRangeField, SimpleArrayField
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from django_mcp.core.policies import Decision, Limit, Policies, Rule
from django_mcp.model_resources import form_app
from django_mcp.test import MCPClient
from tests.model_resources.library.models import Author, Book, Tag

pytestmark = pytest.mark.django_db
Shown = Callable[..., MCPClient]


class TripForm(forms.Form):
    """Plan a trip."""

    name = forms.CharField(max_length=20, label="Who travels", help_text="As in the passport.")
    day = forms.DateField(initial=datetime.date(2026, 12, 24))
    when = forms.DateTimeField(required=False, localize=True)
    split = forms.SplitDateTimeField(required=False)
    price = forms.DecimalField(required=False, localize=True, max_digits=8, decimal_places=2, initial="1234.50")
    room = forms.ChoiceField(choices=[("city", "City"), ("sea", "Sea")], initial="sea")
    extras = forms.MultipleChoiceField(choices=[(1, "Towels")], widget=forms.CheckboxSelectMultiple, required=False)
    stars = forms.TypedChoiceField(choices=[(4, "Four"), (5, "Five")], coerce=int, initial=4)
    quiet = forms.NullBooleanField(required=False)
    more = forms.JSONField(required=False)
    notes = forms.CharField(widget=forms.Textarea, required=False, initial="none")
    code = forms.CharField(widget=forms.PasswordInput(render_value=True), required=False)
    photo = forms.FileField(required=False)
    source = forms.CharField(disabled=True, initial="internal")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("room") == "city" and data.get("notes"):
            raise forms.ValidationError("The city takes no notes.")
        return data

    def save(self) -> str:
        return f"Planned for {self.cleaned_data['name']}, {self.cleaned_data['price']}, {self.cleaned_data['notes']!r}."


def other(server: MCPServer) -> MCPClient:
    return MCPClient(AnonymousUser(), server=server)


def host(server: MCPServer, user: Any = None, **options: Any) -> MCPClient:
    """A client that shows apps."""
    return MCPClient(AnonymousUser() if user is None else user, server=server, apps=True, **options)


@pytest.fixture
def trip(server: MCPServer) -> MCPClient:
    form_tool(TripForm, app=True, title="Plan a trip", server=server)
    return host(server)


def field(html: str, name: str) -> str:
    """The tag of an input, with its attributes."""
    found = re.search(rf'<(?:input|select|textarea)[^>]*name="{name}"[^>]*>', html)
    return found[0] if found else ""


def test_a_model_shows_the_form_and_only_the_page_submits_it(server: MCPServer, trip: MCPClient) -> None:
    tool, page = trip.definition("trip"), trip.definition("trip_form")

    assert tool["_meta"]["ui"] == {"visibility": ["app"]}
    assert page["_meta"]["ui"] == {"resourceUri": "ui://django_mcp/apps/form.html"}
    assert page["title"] == "Plan a trip (form)"
    assert page["annotations"]["readOnlyHint"] is True
    assert "required" not in page["inputSchema"]
    assert set(page["inputSchema"]["properties"]) == set(TripForm.base_fields) - {"code", "photo", "source"}


def test_other_clients_have_the_tool_as_before(server: MCPServer, trip: MCPClient) -> None:
    assert other(server).names() == ["trip"]
    assert "_meta" not in other(server).definition("trip")
    called = other(server).call("trip", name="Ann")
    assert called.text == "Planned for Ann, 1234.50, 'none'."
    assert called.html == ""
    assert other(server).call("trip", name="x" * 30).html == ""
    assert other(server).call("trip_form").is_hidden


def test_an_endpoint_that_selects_the_tool_has_its_form_and_only_then(
    server: MCPServer, make_server: Callable[..., MCPServer], trip: MCPClient
) -> None:
    guests = make_server("guests", source=server, select=lambda primitive: primitive.key == "trip")
    assert set(host(guests).names()) == {"trip", "trip_form"}
    assert "Ann" in field(host(guests).call("trip_form", name="Ann").html, "name")
    inner = make_server("inner", source=server, select=lambda primitive: primitive.key == "trip_form")
    assert host(inner).names() == []


def test_the_form_is_filled_in_with_what_is_known_and_its_initial_values(trip: MCPClient) -> None:
    shown = trip.call("trip_form", name="Ann", stars=5, extras=["1"], more={"a": 1}, day="2027-01-02")

    assert 'data-mcp-tool="trip"' in shown.html
    assert 'value="Ann"' in field(shown.html, "name")
    assert 'value="2027-01-02"' in field(shown.html, "day")
    assert '<option value="5" selected>' in shown.html
    assert '<option value="sea" selected>' in shown.html
    assert " checked" in field(shown.html, "extras")
    assert "{&quot;a&quot;: 1}" in shown.html
    assert '<label for="id_name">Who travels</label>' in shown.html
    assert 'aria-describedby="id_name_helptext"' in field(shown.html, "name")
    assert shown.text.startswith("The user now sees the form of trip, filled in with name, stars, extras, more, day.")
    assert "Ann" not in shown.text


def test_a_page_submits_what_the_tool_takes_in_every_language(trip: MCPClient) -> None:
    with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True, TIME_ZONE="Europe/Berlin"):
        html = trip.call("trip_form", split="2026-12-01T10:00:00Z", when="2026-07-01T10:00:00Z").html

    assert 'type="date"' in field(html, "day")
    assert 'value="2026-12-24"' in field(html, "day")
    assert 'type="number"' in field(html, "price")
    assert 'value="1234.50"' in field(html, "price")
    assert 'type="datetime-local"' in field(html, "split")
    assert 'value="2026-12-01T11:00:00"' in field(html, "split")
    assert 'value="2026-07-01T12:00:00"' in field(html, "when")
    for name in ("stars", "quiet", "more"):
        assert " data-mcp-json" in field(html, name)
    assert " data-mcp-list" in field(html, "extras")


def test_a_field_that_the_user_empties_does_not_get_its_initial_value_back(trip: MCPClient) -> None:
    html = trip.call("trip_form").html
    assert 'data-mcp-empty="&quot;&quot;"' in field(html, "notes")
    assert "data-mcp-empty" not in field(html, "when")
    assert trip.call("trip", name="Ann", price=None, notes="").text == "Planned for Ann, None, ''."


def test_an_invalid_submission_comes_back_with_the_errors_and_what_was_filled_in(trip: MCPClient) -> None:
    called = trip.call("trip", name="x" * 30, day="soon", room="city", price="", stars=9)

    assert not called.ok
    assert "Argument 'name': Ensure this value has at most 20 characters (it has 30)." in called.text
    assert 'aria-invalid="true"' in field(called.html, "name")
    assert f'value="{"x" * 30}"' in field(called.html, "name")
    assert 'id="id_name_error"' in called.html
    assert "<li>Ensure this value has at most 20 characters (it has 30).</li>" in called.html
    assert '<option value="city" selected>' in called.html
    assert "value=" not in field(called.html, "price")

    called = trip.call("trip", name="Ann", room="city")
    assert '<ul class="errorlist nonfield"><li>The city takes no notes.</li></ul>' in called.html


def test_a_kind_of_value_that_the_field_does_not_have_is_an_error_of_the_field(trip: MCPClient) -> None:
    called = trip.call("trip", name=["Ann"], extra=1)
    assert "<li>Must be a string, not an array.</li>" in called.html
    assert "Unknown argument &#x27;extra&#x27;." in called.html


def test_a_success_is_confirmed(trip: MCPClient) -> None:
    html = trip.call("trip", name="<Ann>").html
    assert "Planned for &lt;Ann&gt;, 1234.50, &#x27;none&#x27;." in html
    assert "<form" not in html


def test_a_template_shows_the_result_and_may_show_the_form(server: MCPServer, settings: Any) -> None:
    pages = {
        "part.html": "<b>{{ text }}</b>",
        "whole.html": (
            '{% extends "django_mcp/apps/form.html" %}{% block form %}[{{ form.name }} {{ tool }}]{% endblock %}'
            "{% block done %}<i>{{ words }}</i>{% endblock %}"
        ),
    }
    engine = copy.deepcopy(settings.TEMPLATES[0])
    engine["APP_DIRS"] = False
    loaders = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
    engine["OPTIONS"] = {**engine["OPTIONS"], "loaders": [("django.template.loaders.locmem.Loader", pages), *loaders]}
    settings.TEMPLATES = [engine]
    for name in ("part", "whole"):
        form_tool(TripForm, app=f"{name}.html", name=name, server=server)
    client = host(server)

    assert client.call("part", name="Ann", notes="").html == "<b>Planned for Ann, 1234.50, &#x27;&#x27;.</b>"
    assert '<form data-mcp-tool="part"' in client.call("part_form").html
    assert client.call("whole", name="Ann", notes="").html == "<i>Planned for Ann, 1234.50, &#x27;&#x27;.</i>"
    assert client.call("whole_form").html.startswith('[<input type="text" name="name"')
    assert client.read("ui://whole.html").ok


def test_values_are_escaped_and_secrets_are_not_shown_again(trip: MCPClient) -> None:
    attack = '"><script>x</script>'
    assert "<script" not in trip.call("trip_form", name=attack, notes="</textarea><script>", more=attack).html
    html = trip.call("trip", name=attack * 2, notes="</textarea><script>", code="hunter2", room=attack).html
    assert "<script" not in html
    assert "hunter2" not in html
    assert "internal" not in html


def test_what_cannot_be_filled_in_is_said_to_the_model(trip: MCPClient, subtests: pytest.Subtests) -> None:
    for given, message in [
        ({"nam": "Ann"}, "Unknown argument 'nam'. Did you mean 'name'?"),
        ({"code": "x"}, "Unknown argument 'code'."),
        ({"day": "soon"}, "Argument 'day': Enter a valid date."),
        ({"room": "cellar"}, "Argument 'room': Select a valid choice. cellar is not one of the available choices."),
    ]:
        with subtests.test(given=given):
            called = trip.call("trip_form", **given)
            assert not called.ok
            assert called.text.startswith(message)
            assert called.html == ""


def test_the_form_is_for_those_who_may_submit_it(server: MCPServer) -> None:
    options = {"scopes": ["travel:write"], "visible": lambda ctx: ctx.user.is_authenticated, "tags": ["trip"]}
    form_tool(TripForm, app=True, server=server, **options)
    ann = User.objects.create_user("ann")

    assert host(server).names() == []
    assert host(server, ann).names() == ["trip", "trip_form"]
    assert not host(server, ann, scopes=["travel:read"]).call("trip_form").ok
    assert host(server, ann).definition("trip_form")["_meta"]["fastmcp"] == {"tags": ["trip"]}


def test_a_client_that_may_call_the_tool_may_show_its_form(server: MCPServer, trip: MCPClient) -> None:
    form_tool(TripForm, app=True, name="other", server=server)
    server.policies = Policies({}, {"laptop": Limit(Rule(Decision.BLOCK), frozenset({"trip"}))})
    client = host(server, User.objects.create_user("ann"), client_id="laptop")
    assert client.names() == ["trip", "trip_form"]
    assert client.call("trip_form").ok


def test_the_form_of_a_blocked_tool_is_not_shown(server: MCPServer, trip: MCPClient) -> None:
    server.tools["trip"].visible = lambda _: False
    assert trip.call("trip_form").is_hidden


def test_a_namespace_names_both_tools(server: MCPServer) -> None:
    form_tool(TripForm, app=True, server=server.namespace("eu"))
    form_tool(TripForm, app=True, namespace="us", server=server)
    client = host(server)
    assert client.names() == ["eu_trip", "eu_trip_form", "us_trip", "us_trip_form"]
    assert 'data-mcp-tool="eu_trip"' in client.call("eu_trip_form").html
    assert 'data-mcp-tool="us_trip"' in client.call("us_trip_form").html


def test_a_form_that_requires_approval_says_so(policies: None, server: MCPServer) -> None:
    form_tool(TripForm, app=True, policy="ask", server=server)
    client = host(server, User.objects.create_user("ann"), protocol_version="modern")
    assert "Requires approval" in client.call("trip_form").html
    assert "<li>Enter a valid date.</li>" in client.call("trip", name="Ann", day="soon").html  # and asks nobody
    assert client.call("trip", name="Ann").is_waiting


class RangeWidget(forms.MultiWidget):
    def __init__(self) -> None:
        super().__init__([forms.NumberInput, forms.NumberInput])

    def decompress(self, value: Any) -> list[Any]:
        return list(value or (None, None))


class RangeField(forms.MultiValueField):
    widget = RangeWidget

    def __init__(self, **options: Any) -> None:
        super().__init__([forms.IntegerField(), forms.IntegerField()], **options)

    def compress(self, values: list[Any]) -> Any:
        return tuple(values)


class OwnWidget(forms.TextInput):
    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return data.get(f"{name}_of_a_script")


class SearchedSelect(forms.Select):
    """A list whose options a script gets while the user types."""

    def optgroups(self, name: str, value: list[str], attrs: Any = None) -> Any:
        return [(None, [self.create_option(name, each, each, True, 0)], 0) for each in value if each]


class PartsForm(forms.Form):
    """Choose the parts."""

    prefix = "parts"
    pages = RangeField(required=False)
    born = forms.DateField(required=False, widget=forms.SelectDateWidget)
    color = forms.CharField(required=False, widget=OwnWidget({"class": "wide"}))
    large = forms.DecimalField(required=False, max_digits=30, decimal_places=2, localize=True)
    seen = forms.DateTimeField(required=False, widget=forms.SplitHiddenDateTimeWidget)
    loud = forms.BooleanField(required=False)
    shelf = forms.ChoiceField(required=False, choices=[("a", "Aisle"), ("b", "Back")], widget=SearchedSelect)


def test_inputs_of_several_parts_or_with_scripts_become_those_of_a_browser(server: MCPServer) -> None:
    form_tool(PartsForm, app=True, handle=lambda _, form: str(form.cleaned_data["pages"]), server=server)
    html = host(server).call("parts_form", pages=[3, 9], large="12345678901234567890.50", loud=True).html

    parts = re.findall(r'<input type="number" name="pages"[^>]*>', html)
    assert [re.findall(r'value="(\d+)"', part) for part in parts] == [["3"], ["9"]]
    assert all(" data-mcp-list" in part for part in parts)
    assert 'type="date"' in field(html, "born")
    assert field(html, "color") == '<input type="text" name="color" class="wide" id="id_color">'
    assert 'value="12345678901234567890.50"' in field(html, "large")
    assert 'type="text"' in field(html, "large")
    assert 'type="hidden"' in field(html, "seen")
    assert " checked" in field(html, "loud")
    assert '<option value="b">Back</option>' in html
    assert host(server).call("parts", pages=[3, 9]).text == "(3, 9)"


def test_ranges_and_arrays_of_postgresql_are_taken_and_shown(server: MCPServer) -> None:
    class SpanForm(forms.Form):
        """Give the spans."""

        weeks = IntegerRangeField(required=False)
        days = DateRangeField(required=False)
        sizes = SimpleArrayField(forms.IntegerField(), required=False)
        blocks = SimpleArrayField(IntegerRangeField(), required=False)

    def tell(_: Context, form: Any) -> str:
        spans = form.cleaned_data
        return f"{spans['weeks']} {spans['days']} {spans['sizes']} {' '.join(map(str, spans['blocks']))}"

    form_tool(SpanForm, app=True, handle=tell, server=server)
    blocks = [[1, 4], [7, None]]
    given: dict[str, Any] = {"weeks": [3, 9], "days": ["2026-01-01", None], "sizes": [4, 5], "blocks": blocks}
    page = host(server).call("span_form", **given)
    assert re.findall(r'type="(\w+)" name="weeks" value="(\d+)"', page.html) == [("number", "3"), ("number", "9")]
    assert re.findall(r'name="days" value="([^"]*)"', page.html) == ["2026-01-01"]
    assert 'value="4,5"' in field(page.html, "sizes")
    assert " data-mcp-json " in field(page.html, "blocks")
    assert 'value="[[1,4],[7,null]]"' in field(page.html, "blocks")
    other(server).call("span", **given).assert_text("[3, 9) [2026-01-01, None) [4, 5] [1, 4) [7, None)")
    other(server).call("span", weeks=[9, 3]).assert_error_mentions("weeks")
    other(server).call("span", blocks=[[9, 3]]).assert_error_mentions("blocks")


def test_a_form_that_cannot_be_rendered_loses_no_errors(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch, trip: MCPClient
) -> None:
    monkeypatch.setattr(form_app, "TEMPLATE", "missing.html")
    monkeypatch.setattr(form_app.FormApp, "is_whole", False)
    called = trip.call("trip", day="soon")
    assert "Argument 'day': Enter a valid date." in called.text
    assert called.html == ""


def test_what_has_no_page_is_said_at_start(server: MCPServer) -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"form_tool\(TripForm\): app must be True or the name of a template"
    ):
        form_tool(TripForm, app=3, server=server)  # type: ignore[call-overload]
    with pytest.raises(ImproperlyConfigured, match="app is for forms; a formset has no page"):
        form_tool(forms.formset_factory(TripForm), handle=lambda _, made: "", app=True, server=server)


class BookForm(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("title", "slug", "author", "pages", "binding", "published", "summary", "tags")


def key(name: str) -> int:
    return Author.objects.get(name=name).pk


@pytest.mark.postgresql
@pytest.mark.usefixtures("books")
class TestRows:
    """Forms of models show rows that the caller may see."""

    @pytest.fixture
    def ann(self, server: MCPServer, people: Mapping[str, User]) -> MCPClient:
        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)

            def get_queryset(self, ctx: Context) -> Any:
                return Author.objects.exclude(name="Carl Dahl")

        @register(Tag, server=server)
        class Tags(ModelResource):
            fields = ("word",)
            lookup_field = "word"
            object_permissions = True

            def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.word != "night"

        @register(Book, server=server)
        class Books(ModelResource):
            fields = ("title", "author__name", "tags__word", "slug", "summary")

            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(slug="tides")

        assert Authors
        assert Tags
        assert Books
        form_tool(BookForm, app=True, permission=None, server=server)
        form_tool(BookForm, app=True, lookup="pk", permission=None, policy="allow", server=server)
        return host(server, people["ann"])

    def test_choices_are_the_rows_of_the_caller_with_declared_titles(self, ann: MCPClient) -> None:
        html = ann.call("create_book_form", author=key("Anna Berg")).html
        assert f'<option value="{key("Anna Berg")}" selected>Anna Berg</option>' in html
        assert "@" not in html  # str() of an author has the address
        assert "Carl" not in html
        assert '<option value="sea">sea</option>' in html
        assert "night" not in html

    def test_a_row_out_of_sight_is_no_choice(self, ann: MCPClient) -> None:
        hidden = key("Carl Dahl")
        for given in ({"author": hidden}, {"author": 10**6}):
            words = ann.call("create_book_form", **given).text
            assert words.replace(str(hidden), "1000000") == (
                "Argument 'author': Select a valid choice. That choice is not one of the available choices. "
                f"Choose one of: {key('Anna Berg')} (Anna Berg). Use search_authors to find one."
            )
        html = ann.call("create_book", title="Reef", author=hidden).html
        assert "Carl" not in html
        assert re.search(r'<option value="" selected>-+[^<]*-</option>', html)

    def test_a_row_is_shown_to_be_changed_as_far_as_the_caller_may_read_it(self, ann: MCPClient) -> None:
        salt = Book.objects.get(slug="salt")
        shown = ann.call("update_book_form", pk=salt.pk, title="Sugar")

        assert f'data-mcp-arguments="{{&quot;pk&quot;: {salt.pk}}}"' in shown.html
        assert 'value="Sugar"' in field(shown.html, "title")
        assert 'value="salt"' in field(shown.html, "slug")
        assert '<option value="sea" selected>' in shown.html
        assert field(shown.html, "pages") == field(shown.html, "published") == ""  # not declared
        assert ann.call("update_book_form").text == "Missing argument 'pk'."
        assert not ann.call("update_book_form", pk=Book.objects.get(slug="tides").pk).ok

    def test_a_related_row_out_of_sight_is_kept(self, ann: MCPClient) -> None:
        ferry = Book.objects.get(slug="night-ferry")
        html = ann.call("update_book_form", pk=ferry.pk).html
        assert "Carl" not in html
        assert "Leave empty to keep the present value." in html
        assert " required" not in field(html, "author")
        assert "data-mcp-empty" not in field(html, "author")

        ann.call("update_book", pk=ferry.pk, title="Ferry", slug="ferry", tags=[]).assert_ok()
        ferry.refresh_from_db()
        assert ferry.author.name == "Carl Dahl"
        assert [tag.word for tag in ferry.tags.all()] == ["night"]

    def test_a_rejected_change_keeps_what_was_emptied(self, ann: MCPClient) -> None:
        salt = Book.objects.get(slug="salt")
        Book.objects.filter(pk=salt.pk).update(summary="Wet.")
        html = ann.call("update_book", pk=salt.pk, title="", summary="", author=None).html
        assert "Wet." not in html
        assert re.search(r'<option value="" selected>-+[^<]*-</option>', html)
        assert 'data-mcp-empty="&quot;&quot;"' in field(html, "summary")
        assert f'data-mcp-arguments="{{&quot;pk&quot;: {salt.pk}}}"' in html

    def test_without_a_declaration_a_row_is_shown_as_the_form_of_the_site_shows_it(
        self, server: MCPServer, people: Mapping[str, User]
    ) -> None:
        rows = {"lookup": "pk", "queryset": lambda _: Book.objects.all(), "permission": None}
        form_tool(BookForm, app=True, name="edit", server=server, **rows)
        html = host(server, people["ann"]).call("edit_form", pk=Book.objects.get(slug="salt").pk).html
        assert 'value="210"' in field(html, "pages")
        assert "Anna Berg &lt;author@example.com&gt;</option>" in html

    def test_a_made_row_is_confirmed_with_its_declared_fields(self, ann: MCPClient) -> None:
        html = ann.call("create_book", title="Reef", slug="reef", author=key("Anna Berg")).html
        assert "The book was created." in html
        assert "<dt>Author name</dt><dd>Anna Berg</dd>" in html.replace("Author  name", "Author name")

    def test_only_the_first_of_many_rows_are_listed(self, ann: MCPClient, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(form_app, "MAX_CHOICES", 2)
        Author.objects.bulk_create(Author(name=f"Writer {number}") for number in range(4))
        last = key("Writer 3")

        html = ann.call("create_book_form", author=last).html

        assert f'<option value="{last}" selected>Writer 3</option>' in html
        assert "Writer 2" not in html
        assert "Only the first 2 are listed. To choose another one, name it in the conversation." in html

    def test_a_caller_without_the_permission_sees_no_form(self, server: MCPServer, people: Mapping[str, User]) -> None:
        form_tool(BookForm, app=True, name="add", server=server)
        client = host(server, people["bob"])
        assert client.names() == []
        assert client.call("add_form").is_hidden
        people["bob"].user_permissions.add(Permission.objects.get(codename="add_book"))
        assert host(server, User.objects.get(username="bob")).call("add_form").ok


class Loading(forms.Select):
    """Loads its choices by a script, with a template that has a button for it."""

    template_name = "tests/loading.html"

    def __init__(self, api_url: str | None = None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if api_url:  # as of NetBox's lists, whose first argument is not attrs
            self.attrs["data-url"] = api_url.lstrip("/")


class LoadingSeveral(forms.SelectMultiple):
    class Media:
        js = ("loading.js",)


class Loaded(forms.ModelChoiceField):
    widget = Loading

    def widget_attrs(self, widget: forms.Widget) -> dict[str, str]:
        return {"class": "loads"}

    def get_bound_field(self, form: Any, field_name: str) -> Any:
        self.queryset = self.queryset.none()
        return super().get_bound_field(form, field_name)


def test_choices_that_a_script_would_load_are_listed(server: MCPServer) -> None:
    sea = Tag.objects.create(word="sea")

    class Shelve(forms.Form):
        tag = Loaded(Tag.objects.all())
        tags = forms.ModelMultipleChoiceField(Tag.objects.all(), widget=LoadingSeveral)

        def save(self) -> str:
            return "done"

    form_tool(Shelve, name="shelve", app=True, server=server)
    result = host(server).call("shelve_form", tags=[sea.pk])
    html = result.assert_ok().html
    assert "<select" in field(html, "tag")
    assert f'<option value="{sea.pk}">sea</option>' in html
    assert f'<option value="{sea.pk}" selected>sea</option>' in html
    assert "multiple" in field(html, "tags")
