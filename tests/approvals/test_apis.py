"""APIs as tools of which calls have to be approved: the row that was addressed is the one that is changed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework import permissions, serializers, throttling, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.approvals.decisions import approve
from django_mcp.contrib.drf import drf_tools
from tests.approvals.asking import People, kind_of, newest, serve
from tests.contrib.drf.beside import api_beside
from tests.model_resources.conftest import registering
from tests.model_resources.library.models import Author, Book, Tag

pytestmark = pytest.mark.postgresql

Ask = Callable[..., dict[str, Any]]


class TagSerializer(serializers.ModelSerializer):
    class Meta:
        model = Tag
        fields = ["word"]


class Tags(viewsets.ModelViewSet):
    queryset = Tag.objects.all()
    serializer_class = TagSerializer
    lookup_field = "word"


class TagsByEither(Tags):
    """Its rows are named by their keys, or by their words."""

    lookup_field = "pk"

    def get_object(self) -> Tag:
        named = self.kwargs["pk"]
        return get_object_or_404(Tag, **({"pk": named} if named.isdecimal() else {"word": named}))


class TagsOfABook(viewsets.ModelViewSet):
    """Of which the URL says which book, and the request who asks."""

    serializer_class = TagSerializer
    lookup_field = "word"

    def get_queryset(self) -> QuerySet[Tag]:
        assert self.request.user.is_authenticated
        return Tag.objects.filter(books__slug=self.kwargs["book_slug"])


class TagsWithoutRows(viewsets.ViewSet):
    """Does not say which rows there are, nor of which model."""

    lookup_field = "word"

    def destroy(self, request: Request, word: str) -> Response:
        Tag.objects.filter(word=word).delete()
        return Response(status=204)


class TagsByHand(viewsets.GenericViewSet[Tag]):
    """Does not say which rows there are, but of which model."""

    serializer_class = TagSerializer
    lookup_field = "word"

    def destroy(self, request: Request, word: str) -> Response:
        Tag.objects.filter(word=word).delete()
        return Response(status=204)


@pytest.fixture
def tags(open_database: None) -> Iterator[list[Tag]]:
    author = Author.objects.create(name="Jane")
    book = Book.objects.create(title="Emma", slug="emma", author=author)
    made = [Tag.objects.create(word=word) for word in ("a4", "a5")]
    book.tags.set(made)
    yield made
    Tag.objects.all().delete()
    author.delete()


@pytest.fixture
def publish(server: MCPServer, people: People, tags: list[Tag]) -> Callable[..., Ask]:
    """Offers the deletion of tags, and calls it."""

    def make(view: Any, **options: Any) -> Ask:
        given = {"mounted": False, "policy": "ask", "names": {"destroy": "delete"}, "actions": ["destroy"], **options}
        drf_tools(view, server=server, **given)
        return lambda **arguments: serve(server, people["ann"], "delete", arguments)

    return make


def test_a_call_is_approved_for_the_row_that_the_url_addressed_and_not_for_the_one_that_is_called_so_since(
    server: MCPServer, people: People, publish: Callable[..., Ask], subtests: pytest.Subtests
) -> None:
    cases: dict[Any, dict[str, Any]] = {
        Tags: {"word": "a4"},
        TagsByEither: {"pk": "a4"},
        TagsOfABook: {"book_slug": "emma", "word": "a4"},
        TagsByHand: {"word": "a4"},
    }
    book = Book.objects.get(slug="emma")
    for view, given in cases.items():
        with subtests.test(view=view), registering(server):
            options = {"path_arguments": {"book_slug": str}} if "book_slug" in given else {}
            ask = publish(view, **options)
            assert kind_of(ask(**given)) == "approval_required"
            ticket = newest()
            assert approve(ticket, people["cleo"])
            first = Tag.objects.get(word="a4")
            Tag.objects.filter(pk=first.pk).update(word="was-a4")
            other = Tag.objects.create(word="a4")
            book.tags.add(other)
            assert kind_of(ask(**given)) == "approval_required"
            assert newest().pk != ticket.pk, "somebody has to look at the other row"
            assert Tag.objects.filter(pk=other.pk).exists()
            other.delete()
            Tag.objects.filter(pk=first.pk).update(word="a4")
            assert not ask(**given).get("isError"), "the row that was meant"
            assert not Tag.objects.filter(word="a4").exists()
            book.tags.add(Tag.objects.create(word="a4"))


def test_an_auto_approval_of_the_variables_of_a_url_is_for_the_row_that_they_addressed(
    people: People, publish: Callable[..., Ask]
) -> None:
    ask = publish(Tags, actions=["update"], names={"update": "delete"})
    ask(word="a4", new_word="a4")
    assert approve(newest(), people["cleo"], names=["word"], calls=None, seconds=3600)
    assert not ask(word="a4", new_word="a4").get("isError")
    Tag.objects.filter(word="a4").update(word="was-a4")
    other = Tag.objects.create(word="a4")
    assert kind_of(ask(word="a4", new_word="b4")) == "approval_required"
    assert Tag.objects.filter(pk=other.pk, word="a4").exists()


def test_which_rows_there_are_for_others_does_not_show_in_whether_somebody_is_asked_anew(
    server: MCPServer, publish: Callable[..., Ask], subtests: pytest.Subtests
) -> None:
    """A row that is none for the caller makes no other call of it, so that is no way to learn of it."""

    class OfNobody(Tags):
        queryset = Tag.objects.none()

    class Forbidden(Tags):
        permission_classes = [permissions.IsAdminUser]

    for view in (OfNobody, Forbidden):
        with subtests.test(view=view), registering(server):
            ask = publish(view)
            ask(word="a4")
            ticket = newest()
            Tag.objects.filter(word="a4").update(word="was-a4")
            other = Tag.objects.create(word="a4")
            ask(word="a4")
            assert newest().pk == ticket.pk
            other.delete()
            Tag.objects.filter(word="was-a4").update(word="a4")


def test_where_there_is_no_row_the_call_says_so(people: People, publish: Callable[..., Ask]) -> None:
    ask = publish(TagsByEither)
    for named in ("99999", "no-such-tag", "9" * 30):
        assert kind_of(ask(pk=named)) == "approval_required"
        assert approve(newest(), people["cleo"])
        answer = ask(pk=named)
        assert answer["isError"]
        assert "No Tag matches" in answer["content"][0]["text"]


def test_a_call_of_a_view_that_finds_its_rows_by_itself_is_approved_for_its_arguments(
    people: People, publish: Callable[..., Ask]
) -> None:
    ask = publish(TagsWithoutRows)
    assert kind_of(ask(word="a4")) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not ask(word="a4").get("isError")
    assert not Tag.objects.filter(word="a4").exists()


class ShelfSerializer(serializers.Serializer):
    first = serializers.SlugRelatedField("word", queryset=Tag.objects.all())


class TagByWord(serializers.ModelSerializer):
    """Takes the row itself, by its word."""

    class Meta:
        model = Tag
        fields = ["word"]

    def to_internal_value(self, data: Any) -> Tag:
        return get_object_or_404(Tag, word=data)


class OfTheCaller(serializers.SlugRelatedField):
    def get_queryset(self) -> QuerySet[Tag]:
        return Tag.objects.all() if self.context["request"].user.is_authenticated else Tag.objects.none()


class BookSerializer(serializers.ModelSerializer):
    tags = OfTheCaller("word", queryset=Tag.objects.none(), many=True, required=False)
    shelves = ShelfSerializer(many=True, required=False)
    about = TagByWord(required=False)

    class Meta:
        model = Book
        fields = ["title", "slug", "author", "tags", "shelves", "about"]


class Books(viewsets.ModelViewSet):
    queryset = Book.objects.all()
    serializer_class = BookSerializer

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Response("made")

    @action(detail=False, methods=["post"])
    def create_all(self, request: Request) -> Response:
        serializer = self.get_serializer(data=request.data, many=True)
        serializer.is_valid(raise_exception=True)
        return Response("made")


def test_a_call_is_approved_for_the_rows_that_its_body_names(
    server: MCPServer, people: People, publish: Callable[..., Ask], subtests: pytest.Subtests
) -> None:
    names = {"create": "delete", "create_all": "create_all"}
    publish(Books, actions=["create", "create_all"], names=names)
    book = {"title": "Emma", "slug": "emma-2", "author": Author.objects.get().pk}
    bodies = [{"tags": ["a5", "a4"]}, {"shelves": [{"first": "a5"}, {"first": "a4"}]}, {"about": "a4"}]
    for each in bodies:
        for name, given in (("delete", {**book, **each}), ("create_all", {"body": [{**book, **each}]})):
            with subtests.test(name=name, given=each):
                assert kind_of(serve(server, people["ann"], name, given)) == "approval_required"
                assert approve(newest(), people["cleo"])
                Tag.objects.filter(word="a4").update(word="was-a4")
                other = Tag.objects.create(word="a4")
                assert kind_of(serve(server, people["ann"], name, given)) == "approval_required"
                other.delete()
                Tag.objects.filter(word="was-a4").update(word="a4")
                assert "made" in serve(server, people["ann"], name, given)["content"][0]["text"]


class Once(throttling.UserRateThrottle):
    rate = "1/day"
    scope = "tests-of-approvals"


def test_to_look_for_the_row_neither_counts_as_a_call_nor_leaves_anything_behind(
    people: People, publish: Callable[..., Ask]
) -> None:
    class Watched(Tags):
        throttle_classes = [Once]

        def get_object(self) -> Tag:
            Tag.objects.get_or_create(word="watched")
            return super().get_object()

        def perform_destroy(self, instance: Tag) -> None:
            Tag.objects.filter(word="watched").delete()
            instance.delete()

    cache.clear()
    ask = publish(Watched)
    assert kind_of(ask(word="a4")) == "approval_required"
    assert not Tag.objects.filter(word="watched").exists()
    assert approve(newest(), people["cleo"])
    assert not ask(word="a4").get("isError")
    cache.clear()


def test_a_view_that_needs_what_is_around_it_in_the_urlconf_is_bound_to_its_row_too(
    people: People, publish: Callable[..., Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfAShop(Tags):
        def get_queryset(self) -> QuerySet[Tag]:
            return Tag.objects.filter(word__startswith=self.request.shop)  # type: ignore[attr-defined]

    view = OfAShop.as_view({"delete": "destroy"})

    def with_shop(request: Any, **variables: Any) -> Any:
        request.shop = "a"
        return view(request, **variables)

    with_shop.__dict__.update(vars(view))
    with api_beside([path("tags/<slug:word>/", with_shop, name="tag")], monkeypatch):
        ask = publish(OfAShop, mounted=True)
        assert kind_of(ask(word="a4")) == "approval_required"
        assert approve(newest(), people["cleo"])
        Tag.objects.filter(word="a4").update(word="was-a4")
        other = Tag.objects.create(word="a4")
        assert kind_of(ask(word="a4")) == "approval_required"
        other.delete()
        Tag.objects.filter(word="was-a4").update(word="a4")
        assert not ask(word="a4").get("isError")
