"""Looking for words: what each kind of search field finds."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from django.contrib.auth.models import User
from django.db import connection

from django_mcp import MCPServer, ModelResource, register
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Book

pytestmark = pytest.mark.postgresql
ON_POSTGRESQL = connection.vendor == "postgresql"
Search = Callable[[Sequence[str], str], list[str]]


@pytest.fixture
def search(server: MCPServer, books: list[Book], reader: Callable[..., Reader]) -> Search:
    """Titles that are found for words in some search fields."""
    Book.objects.filter(slug="salt").update(summary="The fishermen were sailing home")
    Book.objects.filter(slug="tides").update(summary="A sailor's almanac")

    def found(fields: Sequence[str], words: str) -> list[str]:
        class Books(ModelResource):
            """Books."""

            search_fields = fields
            search_config = "english"
            ordering = ["title"]

        Books.fields = ["title", "summary", "shelf", "author__name"]
        with registering(server):
            register(Book, Books, server=server)
            return [row["title"] for row in reader("ann").data("search_books", query=words)["rows"]]

    return found


def test_a_field_is_searched_as_its_first_character_says(search: Search) -> None:
    found = {
        ("title", "ERR"): ["Night Ferry"],
        ("^title", "night"): ["Night Ferry"],
        ("^title", "ferry"): [],
        ("=shelf", "b"): ["Night Ferry", "Tides"],
        ("=title", "night"): [],
        ("author__name", "anna"): ["Salt", "Tides"],
        ("title", "100%"): [],
        ("title", "_"): [],
    }
    assert {(field, words): search([field], words) for field, words in found} == found


def test_all_words_must_occur_in_whichever_field(search: Search) -> None:
    assert search(["title", "author__name"], "carl night") == ["Night Ferry"]


def test_what_stands_in_quotes_is_one_word(search: Search) -> None:
    assert search(["summary"], '"sailing home"') == ["Salt"]


def test_and_what_does_not_are_several(search: Search) -> None:
    assert search(["summary"], "home sailing") == ["Salt"]


def test_full_text_search_finds_other_forms_of_a_word_where_the_database_has_it(search: Search) -> None:
    """``sails`` is in neither text as it stands; on SQLite it is looked for as it stands."""
    assert search(["@summary"], "sails") == (["Salt"] if ON_POSTGRESQL else [])


def test_full_text_search_finds_the_word_itself_everywhere(search: Search) -> None:
    assert search(["@summary"], "sailing") == ["Salt"]


def test_common_words_do_not_keep_full_text_search_from_finding(search: Search) -> None:
    assert search(["@summary"], "the sailing") == ["Salt"]


def test_no_words_find_all_and_too_many_are_refused(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class Books(ModelResource):
        fields = ["title"]
        search_fields = ["title"]

    register(Book, Books, server=server)
    for words in ("   ", "a b c d e f g h i j k"):
        assert "must have 1 to 10 search terms" in reader("ann").problem("search_books", query=words), words
    assert reader("ann").data("search_books", query="")["total"] == 5


def test_a_description_is_shown_as_written_and_a_docstring_without_sections_for_developers(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader], subtests: pytest.Subtests
) -> None:
    class Documented(ModelResource):
        """Books of the library.

        Attributes:
            fields: what developers need to know.
        """

        fields = ["title"]

    class Described(Documented):
        description = "Books of the library.\n\nExample:\n    The Sea"

    for declaration, words in [
        (Documented, "Books of the library.\n\nReturns one row"),
        (Described, "Books of the library.\n\nExample:\n    The Sea\n\nReturns one row"),
    ]:
        with subtests.test(declaration=declaration.__name__), registering(server):
            register(Book, declaration, server=server)
            (tool,) = [each for each in reader("ann").list("tools/list") if each["name"] == "get_book"]
            assert tool["description"].startswith(words)


def test_a_filter_is_described_without_the_help_text_of_the_column(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    @register(User, server=server)
    class Users(ModelResource):
        fields = ("username",)
        filterset_fields = ("username", "username__icontains")

    assert Users
    (tool,) = [each for each in reader("root").list("tools/list") if each["name"] == "search_users"]
    told = [tool["inputSchema"]["properties"][name]["description"] for name in ("username", "username__icontains")]
    assert told == [
        "Filter: username equals this value.",
        "Filter: username contains this text (case-insensitive).",
    ]


def test_a_filter_by_a_decimal_takes_text_or_a_number_and_may_be_left_out(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class Books(ModelResource):
        """Books."""

        fields = ("title", "price")
        filterset_fields = ("price__lte",)

    register(Book, Books, server=server)
    tool = next(each for each in reader("ann").list("tools/list") if each["name"] == "search_books")
    price = tool["inputSchema"]["properties"]["price__lte"]
    assert price["anyOf"] == [{"type": "number"}, {"type": "string"}]
    assert "default" not in price
    for limit in (9, "9.00"):
        assert [row["title"] for row in reader("ann").data("search_books", price__lte=limit)["rows"]] == ["Lanterns"]
