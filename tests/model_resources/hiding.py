"""A library of which a part is hidden, in every way there is to hide it, and everything that can be asked of it.

What is hidden must make no difference: the tests ask everything, change what is hidden, and ask again.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from django.contrib.auth.models import Permission, User

from django_mcp import MCPServer, ModelResource, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Draft, Publisher, Review, Tag

HIDDEN_WORDS = ("Carl", "Zed", "Shadow", "Umbra", "x-night", "x-zz", "Secret praise", "Vault", "Binned", "not to be")
"""What no answer may have in it."""


def make_rows() -> None:
    """Rows of which some are hidden, and that hang on each other in all ways."""
    harbour = Publisher.objects.create(name="Harbour House")
    shadow = Publisher.objects.create(name="Shadow Press", secret_terms="hidden")
    anna = Author.objects.create(name="Anna Berg", publisher=shadow, born=date(1970, 1, 2))
    dora = Author.objects.create(name="Dora Elk", publisher=harbour, born=date(1980, 1, 2))
    carl = Author.objects.create(name="Carl Dahl", publisher=harbour, born=date(1990, 1, 2), is_anonymous_writer=True)
    Author.objects.create(name="Zed Zorn", born=date(1950, 1, 2), is_anonymous_writer=True)
    sea, night = Tag.objects.create(word="sea"), Tag.objects.create(word="x-night")
    book = Book.objects.create
    salt = book(title="Salt", slug="salt", author=anna, price=12, pages=210, published=date(2001, 1, 1))
    book(title="Tides", slug="tides", author=anna, price=9, pages=90, published=date(2003, 1, 1))
    ferry = book(title="Ferry", slug="ferry", author=carl, price=15, pages=340, published=date(2005, 1, 1))
    drift = book(title="Drift", slug="drift", author=dora, price=7, pages=60, published=date(2007, 1, 1))
    vault = book(title="Vault One", slug="vault-one", author=anna, price=99, pages=999, shelf="vault", text="Vault")
    book(title="Vault Two", slug="vault-two", author=dora, price=1, pages=1, shelf="vault")
    for each, tags in ((salt, [sea]), (ferry, [sea, night]), (drift, [night]), (vault, [sea, night])):
        each.tags.set(tags)
    review = Review.objects.create
    review(book=salt, text="Wet.", stars=4)
    review(book=salt, text="Secret praise", stars=5, is_public=False)
    review(book=drift, text="Secret praise too", stars=1, is_public=False)
    review(book=vault, text="Locked.", stars=2)
    Draft.objects.create(title="Kept", book=salt)
    Draft.objects.create(title="Binned", book=salt, deleted=True)
    Draft.objects.create(title="Binned too", book=drift, deleted=True)
    Draft.objects.create(title="Loose", book=vault)


def change_what_is_hidden() -> None:
    """Give hidden rows other values, and hang them on other rows."""
    shown = Book.objects.exclude(shelf="vault")
    zed = Author.objects.get(name="Zed Zorn")
    Author.objects.filter(name="Carl Dahl").update(name="Zed Carl", email="zed@example.com", born=None, publisher=None)
    Book.objects.filter(slug="ferry").update(author=zed)
    Publisher.objects.filter(secret_terms="hidden").update(name="Umbra")
    Tag.objects.filter(word="x-night").update(word="x-zz")
    for book in shown:
        book.tags.add(Tag.objects.create(word=f"x-{book.slug}"))
        Review.objects.create(book=book, text="Secret praise again", stars=0, is_public=False)
        Draft.objects.create(title="Binned again", book=book, deleted=True)
    Book.objects.filter(shelf="vault").update(title="Vault", price=50, published=date(1999, 1, 1), author=zed)
    Book.objects.create(title="Vault Three", slug="vault-three", author=zed, shelf="vault", price=3)


def delete_what_is_hidden() -> None:
    """Have nothing where something is hidden, as far as the database allows it."""
    Author.objects.filter(publisher__secret_terms="hidden").update(publisher=None)
    Publisher.objects.filter(secret_terms="hidden").delete()
    Tag.objects.filter(word__startswith="x-").delete()
    Review.objects.filter(is_public=False).delete()
    Draft.everything.filter(deleted=True).delete()
    Draft.everything.filter(book__shelf="vault").update(book=None)
    # The other one has a review that is not hidden, and would go with it.
    Book.objects.get(slug="vault-two").delete()


def change_all_but_books() -> None:
    """Give all rows but books other values, for somebody who may view books alone."""
    for model, field in ((Author, "name"), (Publisher, "name"), (Review, "text"), (Draft, "title")):
        for at, row in enumerate(model._default_manager.all()):
            setattr(row, field, f"Zed {9 - at}")
            row.save()
    Author.objects.update(born=None, publisher=None)
    Review.objects.update(stars=0)
    Review.objects.first().delete()
    Draft.objects.update(book=None)
    Tag.objects.first().delete()
    Book.objects.filter(slug="salt").update(author=Author.objects.last())


def declare(server: MCPServer) -> None:
    """Declare all that can be declared over paths that lead to hidden rows."""

    @register(Publisher, server=server)
    class Publishers(ModelResource):
        fields = ("name",)
        title_field = "name"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(secret_terms="hidden")

    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ("name", "born", "publisher", "publisher__name", "books", "books__title", "books__published")
        list_fields = fields
        title_field = "name"
        search_fields = ("name", "publisher__name", "books__title")
        filterset_fields = (
            "publisher__name",
            "books",
            "books__title",
            "books__published__isnull",
            "books__isnull",
            "books__in",
        )
        filter_only_fields = ("books__pages",)
        ordering_fields = ("publisher__name",)
        aggregates = {"born": ["min", "max"], "publisher__name": ["min"]}
        group_by_fields = ("publisher__name", "publisher")

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(is_anonymous_writer=True)

    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ("word", "books", "books__title", "books__author__name", "books__author__publisher__name")
        list_fields = fields
        title_field = "word"
        search_fields = ("word", "books__title", "books__author__name")
        filterset_fields = ("word", "books__title", "books__author__name", "books__author__name__isnull")

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(word__startswith="x-")

    @register(Review, server=server)
    class Reviews(ModelResource):
        fields = ("text", "stars", "book", "book__title", "book__author", "book__author__name")
        search_fields = ("text", "book__author__name")
        filterset_fields = ("stars__gte", "book", "book__title", "book__isnull", "book__author__name__isnull")
        ordering_fields = ("book__title", "book__author__name", "book")
        aggregates = {"stars": ["avg", "sum", "min", "max"], "book__price": ["max"]}
        group_by_fields = ("book__author__name", "book__title")
        filter_only_fields = ("book__price",)

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).filter(is_public=True)

    @register(Draft, server=server)
    class Drafts(ModelResource):
        fields = ("title", "book", "book__title", "book__author__name")
        search_fields = ("title", "book__title")
        filterset_fields = ("book__isnull", "book__title", "book__title__isnull", "book__title__gte")
        ordering_fields = ("book__title", "book")
        aggregates: Mapping[str, Any] = {}
        group_by_fields = ("book__title", "book")

    register(Book, Books, server=server)


class Books(ModelResource):
    """Books, with everything that hangs on them."""

    fields = (
        *("title", "price", "pages", "text", "published", "author", "author__name", "author__born"),
        *("author__publisher", "author__publisher__name", "tags", "tags__word", "reviews", "reviews__text"),
        *("reviews__stars", "drafts", "drafts__title"),
    )
    list_fields = fields
    lookup_field = "slug"
    title_field = "title"
    search_fields = ("title", "author__name", "author__publisher__name", "tags__word", "reviews__text", "drafts__title")
    filterset_fields = {
        "author": ["exact", "in", "isnull"],
        "author__name": ["exact", "in", "isnull", "gte", "icontains"],
        "author__born": ["isnull", "year", "lte"],
        "author__publisher": ["exact", "in", "isnull"],
        "author__publisher__name": ["exact", "isnull", "startswith"],
        "tags": ["exact", "isnull"],
        "tags__word": ["exact", "in", "startswith", "isnull"],
        "reviews": ["isnull"],
        "reviews__text": ["icontains"],
        "reviews__stars": ["gte", "lte", "isnull"],
        "drafts": ["isnull"],
        "drafts__title": ["exact", "startswith"],
        "price": ["gte"],
    }
    ordering_fields = (
        "price",
        "author",
        "author__name",
        "author__born",
        "author__publisher",
        "author__publisher__name",
    )
    aggregates = {
        "price": ["sum", "max"],
        "author__name": ["min", "max"],
        "author__born": ["max"],
        "author__publisher__name": ["min"],
    }
    group_by_fields = ("author", "author__name", "author__born__year", "author__publisher__name", "author__publisher")

    def get_queryset(self, ctx: Any) -> Any:
        return super().get_queryset(ctx).exclude(shelf="vault")


def reader_of_books_alone() -> None:
    """Cara may view books, and nothing else."""
    cara = User.objects.create_user("cara")
    cara.user_permissions.set(Permission.objects.filter(codename="view_book"))


# Everything that can be asked


def _ids(model: Any) -> list[int]:
    return list(model._base_manager.order_by("pk").values_list("pk", flat=True))


NAMES = ("Carl Dahl", "Zed Zorn", "Zed Carl", "Zed 9", "Anna Berg", "Zed")
HOUSES = ("Shadow Press", "Umbra", "Harbour House")
WORDS = ("x-night", "x-zz", "x-salt", "sea")
TEXTS = ("praise", "Wet", "Binned", "Kept", "Vault")
SLUGS = ("salt", "ferry", "vault-one", "vault-two", "vault-three")
TITLES = ("Salt", "Vault One", "Vault", "A")
VALUES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "books": {
        **dict.fromkeys(("author__name", "author__name__icontains", "author__name__gte"), NAMES),
        "author__name__in": (["Carl Dahl", "Zed Zorn", "Dora Elk"],),
        "author__born__year": (1950, 1970, 1990),
        "author__born__lte": ("1950-12-31", "1970-12-31", "1990-12-31"),
        "author__publisher__name": HOUSES,
        "author__publisher__name__startswith": ("S", "U", "H"),
        "tags__word": WORDS,
        "tags__word__startswith": ("x-", "s"),
        "tags__word__in": (["sea", "x-night"],),
        "reviews__stars__gte": (0, 2, 5, 9),
        "reviews__stars__lte": (0, 1, 4),
        "reviews__text__icontains": TEXTS,
        "drafts__title__startswith": TEXTS,
        "query": (*NAMES, *HOUSES, *WORDS, *TEXTS, "salt praise"),
    },
    "authors": {"publisher__name": HOUSES, "query": (*HOUSES, *TEXTS), "books": SLUGS, "books__title": TITLES},
    "reviews": {"query": NAMES, "book": SLUGS, "book__title": TITLES},
    "tags": {"query": NAMES, "books__author__name": NAMES, "word": WORDS, "books__title": TITLES},
    "drafts": {"query": TEXTS, "book__title": TITLES, "book__title__gte": TITLES},
}
IS_NULL = {
    "books": [f"{path}__isnull" for path, lookups in Books.filterset_fields.items() if "isnull" in lookups],
    "authors": ["books__published__isnull", "books__isnull"],
    "reviews": ["book__isnull", "book__author__name__isnull"],
    "tags": ["books__author__name__isnull"],
    "drafts": ["book__isnull", "book__title__isnull"],
}


def filters() -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments of searches; those with primary keys name each row there is, hidden or not."""
    for plural, given in VALUES.items():
        yield from ((plural, {name: value}) for name, values in given.items() for value in values)
    for plural, names in IS_NULL.items():
        yield from ((plural, {name: value}) for name in names for value in (True, False))
    for name, model in (("author", Author), ("author__publisher", Publisher), ("tags", Tag)):
        yield from (("books", {name: pk}) for pk in _ids(model))
    yield from (("books", {"author__in": [pk, 0]}) for pk in _ids(Author))


ORDERS = {
    "books": ("price", "author", "author__name", "author__born", "author__publisher", "author__publisher__name"),
    "authors": ("publisher__name",),
    "reviews": ("book__title", "book__author__name", "book"),
    "drafts": ("book__title", "book"),
}
SUMS: Mapping[str, tuple[list[str], list[str]]] = {
    "books": (["count", *(f"{f}_{s}" for s, fs in Books.aggregates.items() for f in fs)], list(Books.group_by_fields)),
    "authors": (["count", "min_born", "max_born", "min_publisher__name"], ["publisher__name", "publisher"]),
    "reviews": (
        ["count", "avg_stars", "sum_stars", "min_stars", "max_stars", "max_book__price"],
        ["book__author__name", "book__title"],
    ),
    "drafts": (["count"], ["book__title", "book"]),
}


def pages(reader: Reader, tool: str, **arguments: Any) -> list[Any]:
    """All pages of a search, cursors aside; or the words of the error."""
    found: list[Any] = []
    cursor: dict[str, Any] = {}
    for _ in range(30):
        answer = reader.call(tool, **arguments, **cursor)
        if "error" in answer.json or answer.result.get("isError"):
            return [*found, without_id(answer.json)]
        page = answer.result["structuredContent"]
        found.append([page["rows"], page["total"], page["note"], page["next_cursor"] is None])
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}
    raise AssertionError("the pages do not end")


def without_id(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in {"id", "jsonrpc"}}


def answers(reader: Reader, asked: list[tuple[str, dict[str, Any]]], uris: list[str]) -> dict[str, Any]:
    """What everything is answered with."""
    found = {
        f"search {plural} {given}": pages(reader, f"search_{plural}", **given)
        for plural, given in (*asked, *_sorted())
        if plural in _searched(reader)
    }
    for plural, given in _sums():
        if plural in _searched(reader):
            found[f"aggregate {plural} {given}"] = without_id(reader.call(f"aggregate_{plural}", **given).json)
    for uri in uris:
        found[uri] = without_id(reader.request("resources/read", {"uri": uri}).json)
    found["resources/list"] = reader.list("resources/list")
    return {**found, **dict(_completions(reader))}


def _searched(reader: Reader) -> set[str]:
    return {"books"} if reader.user == "cara" else {*VALUES}


def _sorted() -> Iterator[tuple[str, dict[str, Any]]]:
    for plural, names in ORDERS.items():
        for name in names:
            yield from ((plural, {"order_by": way, "limit": 2}) for way in (name, f"-{name}"))


def _sums() -> Iterator[tuple[str, dict[str, Any]]]:
    for plural, (measures, dimensions) in SUMS.items():
        for by in ([], *([each] for each in dimensions), dimensions[:2]):
            yield plural, {"measures": measures, "by": by}


def _completions(reader: Reader) -> Iterator[tuple[str, Any]]:
    for template in reader.list("resources/templates/list"):
        ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
        name = "slug" if "{slug}" in template["uriTemplate"] else "pk"
        for value in ("", "v", "x", "1"):
            argument = {"name": name, "value": value}
            answer = reader.request("completion/complete", {"ref": ref, "argument": argument})
            yield f"complete {template['name']} {value!r}", without_id(answer.json)


def addresses() -> list[str]:
    """Where rows can be read, those of hidden rows among them."""
    found = [f"library://book{each}" for each in ("", "/vault-one/text", "/vault-three", "/salt/text")]
    for slug in ("salt", "ferry", "drift", "vault-one", "vault-two"):
        found += [f"library://book/{slug}{each}" for each in ("", "?format=markdown")]
    for model in (Author, Publisher, Review, Draft, Tag):
        name = model.__name__.lower()
        found += [f"library://{name}", f"schema://library/{name}"]
        found += [f"library://{name}/{pk}" for pk in _ids(model)]
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What was answered differently."""
    return {key: (before[key], after.get(key)) for key in before if json.dumps(before[key]) != json.dumps(after[key])}
