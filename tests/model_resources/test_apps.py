"""Rows in clients with MCP Apps: a table, a card, and no more in them than the caller may read."""

import html
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import models
from django.test import override_settings

from django_mcp import MCPServer, ModelResource, register, ui
from django_mcp.model_resources.apps import FILTER_WORDS, readable_text, reader_of, value_of
from django_mcp.model_resources.checks import found_problems
from django_mcp.model_resources.filters import LOOKUP_DESCRIPTIONS
from django_mcp.test import MCPClient
from tests.model_resources.family.models import Chief, Column, Person
from tests.model_resources.library.models import Author, Book, Publisher, Review

pytestmark = pytest.mark.usefixtures("books")


class Books(ModelResource):
    """Books."""

    fields = ["title", "author", "author__name", "binding", "price", "pages", "published"]
    title_field, lookup_field = "title", "slug"
    search_fields, filterset_fields = ["title"], ["binding", "pages__gte", "author"]
    ordering, ordering_fields = ["title"], ["price", "author__name"]
    aggregates, group_by_fields = {"price": ["avg"]}, ["binding", "author"]
    app = True


class Authors(ModelResource):
    fields, title_field, app = ["name", "books"], "name", True


@pytest.fixture
def library(server: MCPServer) -> MCPServer:
    register(Author, Authors, server=server)
    register(Book, Books, server=server)
    return server


@pytest.fixture
def host(server: MCPServer, people: Mapping[str, Any]) -> Callable[..., MCPClient]:
    """Makes a client of a person that shows apps."""

    def make(name: str = "ann", **options: Any) -> MCPClient:
        return MCPClient(people[name], server=server, apps=True, **options)

    return make


def texts(shown: str, tag: str = r"\w+") -> list[str]:
    """The texts of elements, in order."""
    found = re.findall(rf"<(?:{tag})\b[^>]*>(.*?)</(?:{tag})>", shown, re.DOTALL)
    return [" ".join(html.unescape(re.sub("<[^>]+>", " ", each)).split()) for each in found]


def calls(shown: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The tools and arguments of buttons by their texts."""
    found = re.findall(r'<button[^>]*data-mcp-tool="(\w+)" data-mcp-arguments="([^"]*)"[^>]*>([^<]*)<', shown)
    return {html.unescape(text): (tool, json.loads(html.unescape(given))) for tool, given, text in found}


@pytest.mark.usefixtures("library")
def test_a_search_is_a_table_with_labels_and_values_as_people_read_them(host: Callable[..., MCPClient]) -> None:
    shown = host().call("search_books", limit=2).html

    assert texts(shown, "h1") == ["Books"]
    assert texts(shown, "caption") == ["2 of 5 books"]
    assert texts(shown, "thead") == ["Title Author Binding Price Pages Published"]
    assert texts(shown, "tr")[1:] == [
        "Foghorn Carl Dahl Paperback 21.00 500 –",
        "Lanterns Carl Dahl Paperback 7.00 60 –",
    ]


@pytest.mark.usefixtures("library")
def test_the_result_is_the_same_as_without_the_app(
    host: Callable[..., MCPClient], server: MCPServer, people: Mapping[str, Any]
) -> None:
    plain = MCPClient(people["ann"], server=server).call("search_books")
    called = host().call("search_books")

    assert plain.html == ""
    assert (called.structured, called.text) == (plain.structured, plain.text)


@pytest.mark.usefixtures("library")
def test_a_header_sorts_by_its_column_where_callers_may(host: Callable[..., MCPClient]) -> None:
    shown = host().call("search_books", query="t", order_by="-price", limit=1).html

    found = calls(shown)
    assert re.findall(r'aria-sort="(\w+)"', shown) == ["descending"]
    assert found["Price"] == ("search_books", {"query": "t", "order_by": "price", "limit": 1})
    assert found["Author"][1]["order_by"] == "author__name"
    assert "Pages" not in found
    assert calls(host().call("search_books").html)["Title"][1] == {"order_by": "-title"}


@pytest.mark.usefixtures("library")
def test_a_table_goes_on_to_its_next_page_and_back_to_the_first(host: Callable[..., MCPClient]) -> None:
    client = host()
    tool, given = calls(client.call("search_books", limit=3).html)["Next page"]
    shown = client.call(tool, **given).html

    assert texts(shown, "caption") == ["2 books"]
    assert "Next page" not in calls(shown)
    assert calls(shown)["First page"][1] == {"limit": 3}
    assert client.call("search_books", cursor=given["cursor"], limit=3, query="x").html == ""


@pytest.mark.usefixtures("library")
def test_the_form_of_a_table_keeps_the_filters_of_its_call(host: Callable[..., MCPClient]) -> None:
    shown = host().call("search_books", query="o", binding="paper", pages__gte=100).html

    (kept,) = re.findall(r'<form[^>]*data-mcp-arguments="([^"]*)"', shown)
    assert json.loads(html.unescape(kept)) == {"pages__gte": 100}
    assert 'name="query" value="o"' in shown
    assert texts(shown, "option") == ["All", "Paperback", "Cloth"]
    assert re.findall(r'<option value="([^"]*)" selected', shown) == ["&quot;paper&quot;"]
    assert texts(shown, "li") == ["Pages ≥ 100 ×"]
    assert calls(shown)["×"][1] == {"query": "o", "binding": "paper"}


@pytest.mark.parametrize(
    ("filters", "chips"),
    [
        ({"title__icontains": "a"}, "Title contains “a”"),
        ({"title__istartswith": "Sa"}, "Title begins with “Sa”"),
        ({"added__date": "2026-11-27"}, "Added: Nov. 27, 2026"),
        ({"published__year": 2030}, "Published, year: 2030"),
        ({"published__month": 5}, "Published, month: May"),
        ({"published__isnull": True}, "Published: empty"),
        ({"price__gte": "1234.50"}, "Price ≥ 1,234.50"),
        ({"author__name": "Anna Berg"}, "Author name: Anna Berg"),
        ({"author": "Anna Berg"}, "Author: Anna Berg"),
        ({"author__in": ["Anna Berg", "Carl Dahl"]}, "Author: Anna Berg, Carl Dahl"),
        ({"author": "nobody"}, "Author: {pk}"),
    ],
)
def test_filters_above_a_table_are_in_words_with_the_names_of_columns_and_rows(
    host: Callable[..., MCPClient], server: MCPServer, filters: dict[str, Any], chips: str
) -> None:
    class Filtered(Books):
        fields = [*Books.fields, "added"]
        filterset_fields = [*dict.fromkeys(filters)]

    class Known(Authors):
        def get_queryset(self, ctx: Any) -> Any:
            return Author.objects.exclude(name="nobody")

    register(Author, Known, server=server)
    register(Book, Filtered, server=server)
    keys = {each.name: each.pk for each in (*Author.objects.all(), Author.objects.create(name="nobody"))}

    def given(value: Any) -> Any:
        return [keys[each] for each in value] if isinstance(value, list) else keys.get(value, value)

    asked = {name: value if name == "author__name" else given(value) for name, value in filters.items()}
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        shown = host().call("search_books", **asked).html
    assert texts(shown, "li") == [f"{chips} ×".format(pk=keys["nobody"])]


@pytest.mark.parametrize("relation", ["person", "alias", "critic", "chief"])
def test_a_filter_names_rows_of_a_class_that_only_a_relative_of_it_declares(
    host: Callable[..., MCPClient], server: MCPServer, relation: str
) -> None:
    class People(ModelResource):
        fields, title_field, view_permission = ["name"], "name", None

        def get_queryset(self, ctx: Any) -> Any:
            return Person.objects.exclude(hidden=True)

    class Columns(ModelResource):
        fields, filterset_fields, app, view_permission = ["title", relation], [relation], True, None

    register(Person, People, server=server)
    register(Column, Columns, server=server)
    seen, hidden = Chief.objects.create(name="Ida"), Chief.objects.create(name="Secret", hidden=True)
    label = relation.capitalize()
    for chief, chip in ((seen, f"{label}: Ida ×"), (hidden, f"{label}: {hidden.pk} ×")):
        assert texts(host().call("search_columns", **{relation: chief.pk}).html, "li") == [chip]


def test_every_filter_has_words_for_people() -> None:
    assert FILTER_WORDS.keys() == LOOKUP_DESCRIPTIONS.keys()


@pytest.mark.usefixtures("library")
def test_a_row_opens_as_a_card_and_so_do_the_rows_it_links_to(host: Callable[..., MCPClient]) -> None:
    client = host()
    found = calls(client.call("search_books", query="salt").html)
    assert found["Salt"] == ("get_book", {"slug": "salt"})

    shown = client.call(found["Salt"][0], **found["Salt"][1]).html
    assert texts(shown, "h1") == ["Salt"]
    assert texts(shown, "dl") == ["Author Anna Berg Binding Paperback Price 12.50 Pages 210"]
    tool, given = calls(shown)["Anna Berg"]
    assert tool == "get_author"
    assert texts(client.call(tool, **given).html, "li") == ["Salt", "Tides"]


@pytest.mark.usefixtures("library")
def test_nothing_found_and_groups_are_tables_too(host: Callable[..., MCPClient]) -> None:
    client = host()
    assert texts(client.call("search_books", query="nothing").html, "p") == ["No rows match."]

    shown = client.call("aggregate_books", by=["author"], measures=["count", "avg_price"], pages__gte=100).html
    assert texts(shown, "tr") == ["Author Number Average: Price", "Anna Berg 1 12.50", "Carl Dahl 2 18.00"]
    assert calls(shown)["×"] == ("aggregate_books", {"by": ["author"], "measures": ["count", "avg_price"]})
    assert texts(client.call("aggregate_books").html, "tr") == ["Number", "5"]


@pytest.mark.usefixtures("library")
def test_labels_numbers_and_dates_are_in_the_callers_language(host: Callable[..., MCPClient]) -> None:
    Book.objects.filter(slug="salt").update(published="2030-05-01", price="1234.50")
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        shown = host(headers={"Accept-Language": "de"}).call("get_book", slug="salt").html
    assert "1.234,50" in texts(shown, "dd")
    assert '<time datetime="2030-05-01">1. Mai 2030</time>' in shown


RICH = """<h1 id="a">Salt &amp; sea</h1><p>A <b>long</b>
 voyage.<br>It ends.</p><script>alert(1)</script><ul><li>one</li><li>two</li></ul>"""


@pytest.mark.parametrize("media", [None, "text/html", "text/plain"])
def test_html_is_shown_as_text_unless_it_is_declared_as_plain(
    server: MCPServer, host: Callable[..., MCPClient], media: str | None
) -> None:
    @register(Book, server=server)
    class Texts(ModelResource):
        fields, lookup_field, app = ["title", "text"], "slug", True
        content_fields = {"text": media} if media else {}

    Book.objects.filter(slug="salt").update(text=RICH)
    shown = host().call("get_book", slug="salt").html
    (text,) = texts(shown, "section")
    if media == "text/plain":
        assert "<h1 id=" in text
        assert "alert(1)" in text
    else:
        assert text == "Text Salt & sea A long voyage. It ends. • one • two"
        assert "<script>alert" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>a</b> < b", "<b>a</b> < b"),
        ("<p>a", "<p>a"),
        ("if a <p> b", "if a <p> b"),
        (" <p>1 &lt; 2</p>\n", "1 < 2"),
        ("<div><p>a</p><p>b</p></div>", "a\n\nb"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ('<figure><img src="x.png" alt="A boat"></figure>', "A boat"),
    ],
)
def test_only_what_looks_like_rich_text_is_read_as_html(text: str, shown: str) -> None:
    assert readable_text(text) == shown


def test_a_page_without_optional_tags_keeps_its_text() -> None:
    assert readable_text("<html><head><meta charset=utf-8><title>T</title><body>a<p>b", "text/html") == "a\n\nb"
    assert readable_text("<head><title>T</title><p>b", "text/html") == "b"


def test_values_are_shown_by_their_types(subtests: pytest.Subtests) -> None:
    text = {"type": "string"}
    for value, schema, kind, shown in [
        (True, {"type": "boolean"}, "text", "Yes"),
        (None, text, "", ""),
        ("", text, "", ""),
        (0, {"type": "integer"}, "number", "0"),
        ("2030-05-01T12:00:00+02:00", {**text, "format": "date-time"}, "time", "May 1, 2030, noon"),
        ("today", {**text, "format": "date"}, "text", "today"),
        ("P0DT02H30M00S", {**text, "format": "duration"}, "text", "2\xa0hours, 30\xa0minutes"),
        ("P0DT00H00M30S", {**text, "format": "duration"}, "text", "0:00:30"),
        ("https://example.com/a/", {**text, "format": "uri"}, "link", "example.com/a"),
        ("javascript:alert(1)", {**text, "format": "uri"}, "text", "javascript:alert(1)"),
        ({"a": [1]}, {}, "json", '{\n  "a": [\n    1\n  ]\n}'),
    ]:
        with subtests.test(value=value):
            found = value_of(value, schema)
            assert (found.kind, found.text) == (kind, shown)


def test_a_value_is_shown_by_the_label_of_its_choice_however_many_there_are() -> None:
    class SeveralField(models.CharField):
        """As that of django-countries."""

        flatchoices = None  # type: ignore[assignment]

    text, choices = {"type": "string"}, [(f"C{number}", f"Country {number}") for number in range(500)]
    assert reader_of(text, models.CharField(choices=choices))("C499").text == "Country 499"
    assert reader_of(text, models.CharField(choices=choices))("D1").text == "D1"
    assert reader_of(text, SeveralField(choices=choices))("Country 1, Country 2").text == "Country 1, Country 2"


def test_all_kinds_of_fields_fit_into_a_table_and_a_card(
    server: MCPServer, host: Callable[..., MCPClient], people: Mapping[str, Any]
) -> None:
    @register(Book, server=server)
    class Everything(ModelResource):
        fields = [
            *("title", "owner", "weight", "reading_time", "added", "summary", "extra", "raw", "tags__word"),
            *("pages_in_words", "reviews__text", "initials", "author__publisher__name"),
        ]
        list_fields = [*fields]
        view_permission, app, ordering = None, True, ["title"]

        def initials(self, obj: Book) -> list[str]:
            return [word[0] for word in obj.title.split()]

        initials.short_description = "First letters"  # type: ignore[attr-defined]

    book = Book.objects.get(slug="salt")
    book.summary, book.extra, book.raw = "One.\n\nTwo." * 30, {"a": {"b": [1]}}, b"\0"
    book.weight, book.reading_time = 1.5, timedelta(hours=2)
    book.added, book.owner = datetime(2030, 5, 1, 12, tzinfo=UTC), people["bob"]
    book.save()

    table, card = host().call("search_books", limit=10).html, host().call("get_book", pk=book.pk).html

    assert "First letters" in texts(table, "th")
    assert f'"pk": {book.pk}' in html.unescape(table)
    assert "Author publisher name" in texts(card, "dt")
    assert texts(card, "h2") == ["Summary", "Extra"]
    assert card.count("<p>One.</p>") == 1
    assert "sea" in texts(card, "li")
    assert "application/octet-stream, 1\xa0byte" in html.unescape(card)


def test_an_image_is_read_by_the_page_as_a_resource_within_the_callers_rights(
    server: MCPServer, host: Callable[..., MCPClient], tmp_path: Any
) -> None:
    @register(Book, server=server)
    class Covers(ModelResource):
        fields, title_field, lookup_field, app = ["title", "cover"], "title", "slug", True

    with override_settings(MEDIA_ROOT=tmp_path):
        book = Book.objects.get(slug="salt")
        book.cover.save("salt.png", ContentFile(b"\x89PNG"))
        client = host()
        (uri,) = re.findall(r'<img data-mcp-src="([^"]+)"', client.call("get_book", slug="salt").html)
        assert client.read(uri).result["contents"][0]["blob"]
        assert "<img" not in client.call("search_books").html
        assert host("bob").read(uri).is_hidden
    page = client.read("ui://django_mcp/apps/card.html").result["contents"][0]
    assert page["_meta"]["ui"]["csp"]["resourceDomains"] == ["http://127.0.0.1:8000"]  # of static files only


@pytest.mark.usefixtures("library")
def test_no_script_in_a_field_or_an_argument_reaches_the_page(host: Callable[..., MCPClient]) -> None:
    Book.objects.filter(slug="salt").update(title='"><script>alert(1)</script>')
    Author.objects.update(name="<img src=x onerror=alert(1)>")
    client = host()
    for shown in (
        client.call("search_books").html,
        client.call("get_book", slug="salt").html,
        client.call("search_books", query='"><script>alert(1)</script>').html,
        client.call("aggregate_books", by=["author"]).html,
    ):
        assert shown
        assert "<script" not in shown
        assert "<img" not in shown


@pytest.mark.usefixtures("library")
def test_no_field_outside_the_declaration_is_shown(host: Callable[..., MCPClient]) -> None:
    client = host()
    shown = client.call("search_books").html + client.call("get_book", slug="salt").html
    shown += client.call("search_authors").html
    for hidden in ("not to be seen", "internal", "carl@example.com", "pbkdf2"):
        assert hidden not in shown


def test_no_hidden_row_is_shown(server: MCPServer, host: Callable[..., MCPClient]) -> None:
    @register(Review, server=server)
    class Reviews(ModelResource):
        fields, title_field, app = ["text", "stars"], "text", True

        def get_queryset(self, ctx: Any) -> Any:
            return Review.objects.filter(is_public=True)

    @register(Book, server=server)
    class Reviewed(ModelResource):
        fields, title_field, lookup_field, app = ["title", "reviews"], "title", "slug", True

    hidden = Review.objects.get(is_public=False)
    client = host()

    assert "Secret" not in client.call("search_reviews").html
    assert texts(client.call("get_book", slug="salt").html, "li") == ["Wet."]
    called = client.call("get_review", pk=hidden.pk)
    assert (called.html, called.ok) == ("", False)
    assert host("bob").call("search_reviews").is_hidden
    assert host("bob").read("ui://django_mcp/apps/table.html").is_hidden


@pytest.mark.usefixtures("library")
def test_the_cursor_of_somebody_else_shows_nothing(host: Callable[..., MCPClient]) -> None:
    _, given = calls(host("ann").call("search_books", limit=2).html)["Next page"]
    called = host("root").call("search_books", **given)
    assert "Invalid cursor" in called.text
    assert called.html == ""


def test_a_row_is_no_button_for_a_caller_who_may_not_open_it(
    library: MCPServer, host: Callable[..., MCPClient]
) -> None:
    for name in ("get_book", "get_author"):
        library.tools[name].visible = lambda ctx: ctx.user.is_superuser
    client = host("ann")
    found = calls(client.call("search_books").html)
    assert "Salt" not in found
    assert "Anna Berg" not in found
    assert "Salt" in calls(host("root").call("search_books").html)


def test_a_row_of_a_model_without_an_app_is_no_button(server: MCPServer, host: Callable[..., MCPClient]) -> None:
    @register(Author, server=server)
    class Plain(Authors):
        app = False

    register(Book, Books, server=server)
    found = calls(host().call("search_books").html)
    assert "Salt" in found
    assert "Anna Berg" not in found


def test_a_row_that_was_written_is_shown_as_a_card(server: MCPServer, host: Callable[..., MCPClient]) -> None:
    @register(Publisher, server=server)
    class Publishers(ModelResource):
        fields, writable_fields, actions, title_field, app = ["name"], ["name"], ["create", "delete"], "name", True

    client = host("root")
    assert texts(client.call("create_publisher", name="New").html, "h1") == ["New"]
    assert "ui" not in client.definition("delete_publisher").get("_meta", {})


def test_templates_of_the_site_replace_ours(server: MCPServer, host: Callable[..., MCPClient]) -> None:
    page = ui("ui://books/card", template="django_mcp/apps/card.html", prefers_border=True, server=server)

    @register(Book, server=server)
    class Chosen(Books):
        app = {"search": "django_mcp/apps/value.html", "get": page}

    client = host()
    assert client.definition("get_book")["_meta"]["ui"] == {"resourceUri": "ui://books/card"}
    assert texts(client.call("get_book", slug="salt").html, "h1") == ["Salt"]
    assert client.definition("search_books")["_meta"]["ui"] == {"resourceUri": "ui://django_mcp/apps/value.html"}
    assert "ui" not in client.definition("aggregate_books").get("_meta", {})


def test_what_app_cannot_be_is_said_at_start(server: MCPServer, subtests: pytest.Subtests) -> None:
    for given in ("table.html", 1, {"list": True}, {"search": 3}):
        with subtests.test(app=given):
            register(Book, type("Wrong", (Books,), {"app": given}), server=server)
            (problem,) = found_problems()
            assert f"app is {given!r}, which is not valid" in problem.msg
            assert "'search', 'get', 'aggregate'" in problem.hint
            server.model_resources.clear()
