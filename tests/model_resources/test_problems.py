"""Declarations with a problem: each is told of once, with what would be right, and nothing at all is offered."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from django_mcp import MCPServer, ModelResource, register, tool
from django_mcp.core import server as registry
from django_mcp.model_resources import receivers
from django_mcp.model_resources.checks import found_problems
from django_mcp.model_resources.options import HOOKS
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Plant, Publisher, Review, Tag

MakeReader = Callable[..., Reader]


def masked(self: Any, obj: Any) -> str:
    """Shows nothing of the row."""
    return "***"


PROBLEMS: dict[str, tuple[type[models.Model], dict[str, Any], str, str]] = {
    "no fields": (Book, {}, "E065", "does not declare fields"),
    "all fields": (Book, {"fields": "__all__"}, "E065", "does not declare a list of fields"),
    "a field that is not there": (Book, {"fields": ["titel"]}, "E022", "'titel'"),
    "a path that leads nowhere": (Book, {"fields": ["author__nam"]}, "E022", "'author__nam'"),
    "a step behind a value": (Book, {"fields": ["title__name"]}, "E022", "not a relation"),
    "a key in JSON": (Book, {"fields": ["extra", "extra__password"]}, "E022", "not a relation"),
    "two sets": (Author, {"fields": ["books__tags__word"]}, "E022", "only one set of rows"),
    "the column of a relation": (Book, {"fields": ["author_id"]}, "E022", "'author', not 'author_id'"),
    "the accessor of a set": (Publisher, {"fields": ["name", "copy_set"]}, "E022", "queries call these rows 'copy'"),
    "a method that deletes": (Book, {"fields": ["title", "delete"]}, "E022", "'delete'"),
    "a file of another row": (Review, {"fields": ["book__cover"]}, "E022", "a file of a related row cannot be shown"),
    "a set of what is not registered": (Author, {"fields": ["name", "books"]}, "E022", "not registered"),
    "an address that is not there": (Book, {"fields": ["title"], "lookup_field": "isbn"}, "E025", "'isbn'"),
    "an address of another row": (Book, {"fields": ["title"], "lookup_field": "author__name"}, "E025", "not a column"),
    "an address that is not unique": (Book, {"fields": ["title"], "lookup_field": "shelf"}, "E025", "not unique"),
    "a title that is not shown": (Book, {"fields": ["title"], "title_field": "internal"}, "E072", "'internal'"),
    "a relation as title": (
        Book,
        {"fields": ["author"], "title_field": "author"},
        "E072",
        "must be a column of the model",
    ),
    "a text as moment": (Book, {"fields": ["title"], "modified_field": "title"}, "E072", "date or datetime"),
    "a list that lists more": (Book, {"fields": ["title"], "list_fields": ["shelf"]}, "E022", "list_fields"),
    "contents that are not shown": (
        Book,
        {"fields": ["title"], "content_fields": {"text": "text/markdown"}},
        "E022",
        "content_fields",
    ),
    "contents behind a mask": (
        Book,
        {"fields": ["text"], "text": masked, "content_fields": {"text": "text/markdown"}},
        "E022",
        "content_fields",
    ),
    "filter_only_fields letter by letter": (
        Book,
        {"fields": ["title"], "filterset_fields": ["shelf"], "filter_only_fields": "shelf_internal"},
        "E066",
        "a string instead of a list",
    ),
    "secrets letter by letter": (
        Author,
        {"fields": ["password"], "secret_fields": "old_password"},
        "E066",
        "a string instead of a list",
    ),
    "dimensions of nothing": (Book, {"fields": ["shelf"], "group_by_fields": ["shelf"]}, "E069", "without aggregates"),
    "one field without a comma": (Book, {"fields": "title"}, "E065", "fields is 'title', a string"),
    "a regular expression": (Book, {"fields": ["title"], "filterset_fields": {"title": ["regex"]}}, "E022", "'regex'"),
    "where a file is stored": (
        Book,
        {"fields": ["cover"], "filterset_fields": ["cover__startswith"]},
        "E022",
        "cannot be filtered",
    ),
    "words where a file is stored": (Book, {"fields": ["cover"], "search_fields": ["cover"]}, "E022", "is a file"),
    "the last file there is": (
        Book,
        {"fields": ["cover"], "aggregates": {"cover": ["max"]}},
        "E022",
        "does not support max",
    ),
    "an unknown tool": (Book, {"fields": ["title"], "tools": ["find"]}, "E067", "tools"),
    "tools as a string": (Book, {"fields": ["title"], "tools": "shared"}, "E067", "tools is 'shared'"),
    "an unknown verb": (Book, {"fields": ["title"], "actions": ["destroy"]}, "E067", "actions"),
    "a filter that is not shown": (
        Book,
        {"fields": ["title"], "filterset_fields": ["shelf"]},
        "E024",
        "'shelf' in filterset_fields",
    ),
    "a search that is not shown": (
        Book,
        {"fields": ["title"], "search_fields": ["author__name"]},
        "E024",
        "'author__name' in search_fields",
    ),
    "an order that is not shown": (Book, {"fields": ["title"], "ordering": ["-pages"]}, "E024", "'pages' in ordering"),
    "a way of sorting that is not shown": (
        Book,
        {"fields": ["title"], "ordering_fields": ["pages"]},
        "E024",
        "'pages' in ordering",
    ),
    "a sum that is not shown": (
        Book,
        {"fields": ["title"], "aggregates": {"price": ["max"]}},
        "E024",
        "'price' in aggregates",
    ),
    "a group that is not shown": (
        Book,
        {"fields": ["title"], "aggregates": {}, "group_by_fields": ["published__year"]},
        "E024",
        "'published' in group_by_fields",
    ),
    "a filter behind a mask": (
        Book,
        {"fields": ["internal"], "internal": masked, "filterset_fields": ["internal__startswith"]},
        "E024",
        "'internal' in filterset_fields",
    ),
    "sums of what is asked about row by row": (
        Book,
        {"fields": ["price"], "object_permissions": True, "aggregates": {"price": ["sum"]}},
        "E026",
        "has_view_permission",
    ),
}


def declared(server: MCPServer, model: type[models.Model], attributes: dict[str, Any]) -> None:
    register(model, type("Declared", (ModelResource,), {"__doc__": "A declaration.", **attributes}), server=server)


def test_a_problem_is_told_of_once_and_nothing_is_offered(server: MCPServer, reader: MakeReader, books: Any) -> None:
    wrong = []
    for name, (model, attributes, number, words) in PROBLEMS.items():
        with registering(server):
            declared(server, model, attributes)
            found = found_problems()
            told = [(each.id, each.msg, each.hint) for each in run_checks(tags=["django_mcp"])]
            if (
                [(each.id, words in each.msg, bool(each.hint)) for each in found]
                != [(f"django_mcp.{number}", True, True)]
                or [each for each in told if each[0] == f"django_mcp.{number}"]
                != [(each.id, each.msg, each.hint) for each in found]
                or offered(server, reader("root"), model)
            ):
                wrong.append((name, found, offered(server, reader("root"), model)))
    assert wrong == []


def offered(server: MCPServer, root: Reader, model: type[models.Model]) -> list[Any]:
    """What there is of a model at the endpoint, where nothing should be."""
    name = model.__name__.lower()
    found = [each for each in (server.tools, server.resources, server.templates, server.rows) if each]
    for uri in (f"library://{name}", f"library://{name}/1", f"schema://library/{name}"):
        answer = root.request("resources/read", {"uri": uri})
        found += [answer.json] * ("error" not in answer.json)
    answer = root.call(f"search_{name}s")
    return [*found, answer.json] if "error" not in answer.json else found


def test_a_misspelt_attribute_is_told_of_and_nothing_is_offered(
    server: MCPServer, reader: MakeReader, books: Any
) -> None:
    misspelt = [
        ("get_quryset", lambda self, ctx: Book.objects.none(), "get_queryset"),
        ("view_permision", None, "view_permission"),
        ("search_field", ["title"], "search_fields"),
        ("filterset_field", ["title"], "filterset_fields"),
        ("has_view_permisson", lambda self, user, obj=None: False, "has_view_permission"),
    ]
    hint = "Correct the name. If it is an attribute of your own, choose a less similar name."
    wrong = []
    for (name, value, meant), is_inherited in product(misspelt, (True, False)):
        base = type("Base", (ModelResource,), {name: value}) if is_inherited else ModelResource
        own = {} if is_inherited else {name: value}
        with registering(server):
            register(Book, type("Declared", (base,), {"fields": ["title"], **own}), server=server)
            found = [(each.id, each.msg, each.hint) for each in found_problems()]
            text = f"<Declared of library.Book on 'test'>: unknown attribute {name!r}. Did you mean {meant!r}?"
            if found != [("django_mcp.E068", text, hint)] or offered(server, reader("root"), Book):
                wrong.append((name, is_inherited, found))
    assert wrong == []


def test_an_attribute_that_replaces_one_of_the_packages_own_is_told_of_and_nothing_is_offered(
    server: MCPServer, reader: MakeReader, books: Any
) -> None:
    public = {*ModelResource.__annotations__, *HOOKS}
    inner = [name for name in vars(ModelResource) if name not in public and not name.startswith("__")]
    assert {"_may", "allows", "checks_each_row"} <= set(inner)
    wrong = []
    for name, way in product(inner, ("itself", "mixin", "mixin behind")):
        member = {name: lambda self, user, rights, row: True}
        bases: tuple[type, ...] = (ModelResource,)
        if way != "itself":
            mixin = type("Mixin", (), member)
            bases = (mixin, ModelResource) if way == "mixin" else (ModelResource, mixin)
        with registering(server):
            own = member if way == "itself" else {}
            register(Book, type("Declared", bases, {"fields": ["title"], **own}), server=server)
            found = [(each.id, each.msg, each.hint) for each in found_problems()]
            text = f"<Declared of library.Book on 'test'>: the name {name!r} is used by ModelResource itself."
            if found != [("django_mcp.E077", text, "Choose another name.")] or offered(server, reader("root"), Book):
                wrong.append((name, way, found))
    assert wrong == []


def test_options_methods_and_other_names_of_the_site_stay_allowed(server: MCPServer) -> None:
    class Helpers:
        def _can(self, ctx: Any, action: str, obj: Any) -> bool:
            return True

    class Declared(Helpers, ModelResource):
        fields = ("title",)
        model = Author  # what a mixin of generic views has; the registered model counts

        def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
            return self._can(ctx, "change", obj)

    with registering(server):
        register(Book, Declared, server=server)
        assert found_problems() == []
        assert server.model_resources[Book].resource.model is Book


GROUPED = "Register library.{}, which has a row for each of the set, with group_by_fields there."
HINTS: list[tuple[Any, dict[str, Any], str]] = [
    (Book, {"fields": ["titel"]}, "Correct the name."),
    (Book, {"fields": ["title__name"]}, "End the path at 'title'. A part of a value needs a method or an annotation."),
    (Book, {"fields": ["cover"], "search_fields": ["cover"]}, "Remove it."),
    (Author, {"fields": ["name", "books"]}, "Register the model, or use a path to one of its values."),
    (
        Book,
        {"fields": ["tags__word"], "ordering": ["tags__word"]},
        "Use a column, or an annotation that is one value of each row, such as Count('tags__word').",
    ),
    *(
        (
            model,
            {"fields": ["id"], "aggregates": {}, "group_by_fields": [path]},
            f"Register library.{target}, which has a row for each of the set, with group_by_fields there.",
        )
        for model, path, target in (
            (Book, "reviews__stars", "Review"),
            (Author, "books", "Book"),
            (Book, "tags__word", "Book_tags"),
            (Tag, "books__shelf", "Book_tags"),
            (Plant, "notes__text", "Note"),
        )
    ),
    (Book, {"fields": ["extra"], "aggregates": {}, "group_by_fields": ["extra"]}, "Use a column with a plain value."),
    (
        Book,
        {"fields": ["title"], "aggregates": {}, "group_by_fields": ["title__year"]},
        "Use 'title', without the part.",
    ),
]


@pytest.mark.parametrize(("model", "attributes", "hint"), HINTS)
def test_the_hint_says_what_would_be_right(
    server: MCPServer, model: Any, attributes: dict[str, Any], hint: str
) -> None:
    register(model, type("Wrong", (ModelResource,), attributes), server=server)
    (problem,) = found_problems()
    assert (problem.id, problem.hint) == ("django_mcp.E022", hint), problem.msg


def test_names_of_ones_own_are_fine(server: MCPServer) -> None:
    def names(self: Any, obj: Any) -> str:
        return "Anna and Carl"

    own = {
        "fields": ["title", "names"],
        "names": names,
        "fields_for": names,
        "_get_queryset": names,
        "house": "Harbour",
    }
    declared(server, Book, own)
    assert found_problems() == []


def test_all_mistakes_that_keep_a_declaration_from_being_read_are_told_at_once(server: MCPServer) -> None:
    declared(
        server, Book, {"fields": ["title"], "filterset_fields": "shelf", "search_fields": "title", "search_field": []}
    )
    assert [problem.msg.partition(": ")[2] for problem in found_problems()] == [
        "search_fields is 'title', a string instead of a list.",
        "filterset_fields is 'shelf', a string instead of a list.",
        "unknown attribute 'search_field'. Did you mean 'search_fields'?",
    ]


SECRETS = ["password", "api_key", "secret_terms", "token", "access_token", "keys", "apikey", "pin_code", "otp", "key"]
NO_SECRETS = ["keyword", "monkey", "hashtags", "keyboard", "opinion", "basalt", "turkey_name", "compass"]


def test_what_is_called_like_a_secret_is_one_unless_it_is_said_to_be_meant(server: MCPServer) -> None:
    wrong = []
    for name, is_meant in product(SECRETS, (True, False)):
        with registering(server):
            declared(server, Book, {"fields": [name], name: masked, "secret_fields": [name] * is_meant})
            found = [(each.id, repr(name) in each.msg) for each in found_problems()]
            if found != [("django_mcp.E023", True)] * (not is_meant):
                wrong.append((name, is_meant, found))
    assert wrong == []


def test_what_only_sounds_like_a_secret_is_none(server: MCPServer) -> None:
    assert problems_of(server, [{"fields": [name], name: masked} for name in NO_SECRETS]) == [[]] * len(NO_SECRETS)


def problems_of(server: MCPServer, declarations: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Of each of several declarations of books the ids of its problems."""
    found = []
    for attributes in declarations:
        with registering(server):
            declared(server, Book, attributes)
            found.append([problem.id for problem in found_problems()])
    return found


def test_secrets_are_refused_wherever_they_are_declared(server: MCPServer, reader: MakeReader, books: Any) -> None:
    places: list[dict[str, Any]] = [
        {"fields": ["title", "author__password"]},
        {"fields": ["title", "author__publisher__secret_terms"]},
        {"filterset_fields": ["author__password__startswith"]},
        {"filterset_fields": {"author__password": ["gte"]}},
        {"search_fields": ["^author__password"]},
        {"ordering": ["-author__password"]},
        {"ordering_fields": ["author__password"]},
        {"aggregates": {"author__password": ["min"]}},
        {"group_by_fields": ["author__password"]},
        {"lookup_field": "key"},
        {"writable_fields": ["key"]},
    ]
    wrong = []
    for place in places:
        with registering(server):
            declared(
                server,
                Book,
                {"fields": ["title"], "aggregates": {}, "filter_only_fields": ["author__password"], **place},
            )
            found = {problem.id for problem in found_problems()}
            if found - {"django_mcp.E027"} != {"django_mcp.E023"} or offered(server, reader("root"), Book):
                wrong.append((place, found))
    assert wrong == []


def test_a_secret_named_in_secret_fields_is_meant(server: MCPServer) -> None:
    path = "author__password"
    options = {"fields": ["title", path], "filterset_fields": [path], "search_fields": [path], "secret_fields": [path]}
    declared(server, Book, options)
    assert found_problems() == []


def test_findable_says_that_what_is_not_shown_may_be_compared(server: MCPServer) -> None:
    ways: list[dict[str, Any]] = [
        {"filterset_fields": ["shelf"]},
        {"search_fields": ["shelf"]},
        {"ordering_fields": ["shelf"]},
        {"aggregates": {"shelf": ["min"]}},
        {"aggregates": {}, "group_by_fields": ["shelf"]},
    ]
    found = problems_of(server, [{"fields": ["title"], "filter_only_fields": ["shelf"], **way} for way in ways])
    assert found == [[]] * len(ways)


def test_nothing_is_compared_behind_rows_that_are_asked_about_one_by_one(server: MCPServer) -> None:
    ways: list[dict[str, Any]] = [
        {"filterset_fields": ["author__name"]},
        {"search_fields": ["author__name"]},
        {"ordering_fields": ["author__name"]},
        {"filterset_fields": ["author"]},
        {"aggregates": {}, "group_by_fields": ["author__publisher"]},
        {"filterset_fields": ["author__isnull"]},
    ]
    declared(server, Author, {"fields": ["name"], "object_permissions": True})
    wrong = []
    for way in ways:
        with registering(server):
            declared(server, Book, {"fields": ["author", "author__name", "author__publisher"], **way})
            found = found_problems()
            if {each.id for each in found} != {"django_mcp.E076"} or (
                "<Declared of library.Author on 'test'> hides" not in found[0].msg
            ):
                wrong.append((way, found))
    assert wrong == []


def test_nor_behind_rows_of_the_model_itself(server: MCPServer) -> None:
    """Rows that lead back to their own model, such as to a parent, are not all rows the caller has come through."""
    attributes = {
        "fields": ["books__author__name"],
        "filterset_fields": ["books__author__name"],
        "object_permissions": True,
    }
    declared(server, Author, attributes)
    assert [problem.id for problem in found_problems()] == ["django_mcp.E076"]


def test_links_to_rows_of_a_model_with_a_problem_lead_nowhere(
    server: MCPServer, reader: MakeReader, books: Any
) -> None:
    fields = ["title", "author", "author__name", "author__publisher"]
    filters = ["author__name", "author__name__isnull"]
    declared(server, Book, {"fields": fields, "filterset_fields": filters, "ordering_fields": ["author__name"]})
    declared(server, Publisher, {"fields": ["name", "authors", "authors__name"]})
    problems: list[dict[str, Any]] = [
        {"fields": ["name"], "lookup_field": "nothing"},
        {"fields": ["name", "email"], "title_field": "email", "filterset_fields": ["born"]},
        {"fields": ["password"], "title_field": "password"},
        {"fields": ["nothing"]},
    ]
    for problem in problems:
        with registering(server):
            declared(server, Author, problem)
            assert len(found_problems()) == 1, problem
            assert_authors_are_nowhere(reader("root"), problem)


def assert_authors_are_nowhere(root: Reader, problem: dict[str, Any]) -> None:
    rows = root.data("search_books")["rows"]
    found = {(row["author"], row["author__name"], row["author__publisher"]) for row in rows}
    assert found == {(None, None, None)}, problem
    assert root.data("search_books", author__name="Anna Berg")["rows"] == [], problem
    assert root.data("search_books", author__name__isnull=True)["total"] == 5, problem
    publisher = Publisher.objects.get()
    assert root.read(f"library://publisher/{publisher.pk}")["authors"] == [], problem
    uris = {entry["uri"].partition("://")[2].partition("/")[0] for entry in root.list("resources/list")}
    assert "author" not in uris, problem
    assert "relation" not in str(root.read("schema://library/book")["fields"][1]), problem


def test_a_problem_of_one_model_does_not_take_others_away(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    declared(server, Author, {"fields": ["nothing"]})
    declared(server, Book, {"fields": ["title"]})
    assert reader("root").tool_names() == {"search_books", "get_book"}


class Measured(models.Model):
    """What other models inherit from."""

    width = models.IntegerField()

    class Meta:
        """It has no table."""

        app_label = "library"
        abstract = True


def test_an_abstract_model_is_refused_by_a_check_that_names_it(
    server: MCPServer, reader: MakeReader, books: Any
) -> None:
    declared(server, Measured, {"fields": ["width"], "filterset_fields": ["width"]})
    declared(server, Book, {"fields": ["title"]})
    (found,) = found_problems()
    assert found.id == "django_mcp.E052"
    assert "library.Measured is abstract" in found.msg
    assert reader("root").tool_names() == {"search_books", "get_book"}


def test_two_models_of_one_name_are_told_to_say_another_and_one_of_them_is_served(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    declared(server, Book, {"fields": ["title"]})
    declared(server, Author, {"fields": ["name"], "name": "book", "plural": "books"})
    declared(server, Publisher, {"fields": ["name"]})
    (found,) = found_problems()
    assert found.id == "django_mcp.E051"
    assert "library.Author" in found.msg
    assert "library.Book" in found.msg
    assert "search_books" in found.msg
    assert "name =" in found.hint
    assert "plural =" in found.hint
    names = reader("root").tool_names()
    assert names == {"search_books", "get_book", "search_publishers", "get_publisher"}


def test_a_model_whose_tool_is_called_like_one_of_the_site_is_told_so(server: MCPServer, reader: MakeReader) -> None:
    @tool(server=server)
    def search_books() -> str:
        """Search in the cellar."""
        return ""

    declared(server, Book, {"fields": ["title"]})
    (found,) = found_problems()
    assert found.id == "django_mcp.E051"
    assert "search_books" in found.msg


def test_all_tools_that_cannot_be_offered_are_told_of_at_once(server: MCPServer) -> None:
    def take(server: MCPServer) -> None:
        @tool(server=server)
        def lend(book: Book) -> str:
            """Lend a book."""
            return ""

        @tool(server=server)
        def pay(author: Author) -> str:
            """Pay an author."""
            return ""

    was, registry.is_started = registry.is_started, False
    try:
        take(server)
        with pytest.raises(ImproperlyConfigured) as refused:
            receivers.start()
    finally:
        registry.is_started = was
    assert "lend" in str(refused.value)
    assert "library.Book" in str(refused.value)
    assert "pay" in str(refused.value)
    assert "library.Author" in str(refused.value)


def test_an_error_of_a_declaration_is_logged_once(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    register(Tag, type("Tags", (ModelResource,), {"fields": ["nosuch"]}), server=server)
    register(Author, type("Authors", (ModelResource,), {"fields": ["name"]}), server=server)
    register(Book, type("Books", (ModelResource,), {"fields": ["title"]}), server=server)
    assert len([record for record in caplog.records if "'nosuch'" in record.getMessage()]) == 1
