"""APIs as tools of which calls have to be approved: the row that was addressed is the one that is changed."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.decorators import login_required, permission_required, user_passes_test
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.core.checks import run_checks
from django.db.models import QuerySet
from django.http import HttpResponseForbidden
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Router
from ninja.decorators import decorate_view
from rest_framework import generics, permissions, serializers, throttling, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.request import Request
from rest_framework.response import Response

from django_mcp import MCPServer, view_tool
from django_mcp.approvals.decisions import approve
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from django_mcp.models import Approval
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


def test_which_rows_there_are_for_others_does_not_show_in_the_answer(
    server: MCPServer, publish: Callable[..., Ask], subtests: pytest.Subtests
) -> None:

    class OfNobody(Tags):
        queryset = Tag.objects.none()

    class Forbidden(Tags):
        permission_classes = [permissions.IsAdminUser]

    for view in (OfNobody, Forbidden):
        with subtests.test(view=view), registering(server):
            ask = publish(view)
            assert ask(word="a4") == ask(word="a9")
            assert not Approval.objects.exists()


def test_where_there_is_no_row_the_call_says_so(publish: Callable[..., Ask]) -> None:
    ask = publish(TagsByEither)
    for named in ("99999", "no-such-tag", "9" * 30):
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


# What the view refuses is refused before anybody is asked


class Never(permissions.BasePermission):
    message = "Ask the librarian."

    def has_permission(self, request: Request, view: Any) -> bool:
        return False


class NeverThisRow(permissions.BasePermission):
    def has_object_permission(self, request: Request, view: Any, obj: Tag) -> bool:
        return False


class Archived(Tags):
    """Its rows are archived, by way of the standard handler or not."""

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().destroy(request, *args, **kwargs)


class Trash(Tags):
    """Deletes for good what its queryset does not have."""

    queryset = Tag.objects.none()

    @action(detail=True, methods=["delete"])
    def purge(self, request: Request, word: str) -> Response:
        Tag.objects.filter(word=word).delete()
        return Response(status=204)


class Generic(generics.RetrieveUpdateDestroyAPIView):
    queryset = Tag.objects.all()
    serializer_class = TagSerializer
    lookup_field = "word"


class GenericTrash(Generic):
    queryset = Tag.objects.none()

    def destroy(self, request: Request, word: str) -> Response:
        Tag.objects.filter(word=word).delete()
        return Response(status=204)


class TagsInDetail(Tags):
    """Shows more of a row alone, and nothing for other actions."""

    def get_serializer_class(self) -> Any:
        assert self.action == "retrieve"

        class Detail(TagSerializer):
            class Meta(TagSerializer.Meta):
                fields = ["word", "pk"]

        return Detail


def permitted(view: Any, permission: Any) -> Any:
    return type("Permitted", (view,), {"permission_classes": [permission]})


DELETE: dict[str, Any] = {"word": "a4"}
REFUSED: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "the permission of the view": (
        permitted(Tags, Never),
        {},
        DELETE,
        "Ask the librarian.",
    ),
    "of the row": (permitted(Tags, NeverThisRow), {}, DELETE, "permission"),
    "the row": (Tags, {}, {"word": "a9"}, "No Tag matches"),
    "the row of a generic view": (Generic, {"actions": ["destroy"]}, {"word": "a9"}, "No Tag matches"),
    "a handler that calls the standard one": (Archived, {}, {"word": "a9"}, "No Tag matches"),
    "its own handler": (
        permitted(Trash, Never),
        {"actions": ["purge"]},
        DELETE,
        "librarian",
    ),
    "the body": (Tags, {"actions": ["update"]}, {"word": "a4", "new_word": "not a slug"}, "valid"),
    "a part of the body": (Tags, {"actions": ["partial_update"]}, {"word": "a4", "new_word": "a5"}, "already exists"),
    "the body of a new row": (Tags, {"actions": ["create"]}, {"word": "a4"}, "already exists"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nobody_is_asked_about_a_call_that_the_view_refuses(
    server: MCPServer, people: People, publish: Callable[..., Ask], case: str
) -> None:
    view, options, given, told = REFUSED[case]
    if options:
        options = {**options, "names": dict.fromkeys(options["actions"], "delete")}
    result = publish(view, **options)(**given)
    assert result["isError"]
    assert told in result["content"][0]["text"]
    assert not Approval.objects.exists()


def test_nor_if_the_site_has_written_the_preview(people: People, publish: Callable[..., Ask]) -> None:
    result = publish(permitted(Tags, Never), preview=lambda word: word)(**DELETE)
    assert result["content"][0]["text"] == "Ask the librarian."
    assert not Approval.objects.exists()


class ByObject:
    """A decorator that is an object."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self.__dict__.update({name: value for name, value in vars(view).items() if name in {"cls", "initkwargs"}})
        self.actions = view.actions

    def __call__(self, request: Any, **variables: Any) -> Any:
        return self.view(request, **variables) if request.user.is_staff else HttpResponseForbidden()


DECORATORS: dict[str, Any] = {
    "staff alone": user_passes_test(lambda user: user.is_staff),
    "a permission": permission_required("library.delete_tag"),
    "a permission, else 403": permission_required("library.delete_tag", raise_exception=True),
    "several": lambda view: csrf_exempt(login_required(user_passes_test(lambda user: user.is_staff)(view))),
    "an object": ByObject,
}


@pytest.mark.parametrize("decorator", DECORATORS)
def test_nobody_is_asked_about_a_call_that_a_decorator_in_the_urlconf_refuses(
    server: MCPServer,
    people: People,
    publish: Callable[..., Ask],
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    decorator: str,
) -> None:
    settings.LOGIN_URL = "/login/"
    view = DECORATORS[decorator](Tags.as_view({"delete": "destroy"}))
    with api_beside([path("tags/<slug:word>/", view, name="tag")], monkeypatch):
        publish(Tags, mounted=True)
        refused = serve(server, people["ann"], "delete", DELETE)
        assert refused["isError"]
        assert re.search("permission|Forbidden", refused["content"][0]["text"])
        assert not Approval.objects.exists()
        people["ann"].is_staff = True
        people["ann"].save()
        people["ann"].user_permissions.add(
            Permission.objects.get(codename="delete_tag", content_type__app_label="library")
        )
        ann = type(people["ann"]).objects.get(pk=people["ann"].pk)
        assert kind_of(serve(server, ann, "delete", DELETE)) == "approval_required"
        assert Tag.objects.filter(word="a4").exists()


@pytest.mark.parametrize(("view", "name"), [(Trash, "purge"), (GenericTrash, "destroy"), (TagsWithoutRows, "destroy")])
def test_a_handler_that_finds_rows_in_its_own_way_is_asked_about(
    people: People, publish: Callable[..., Ask], view: Any, name: str
) -> None:
    ask = publish(view, actions=[name], names={name: "delete"})
    assert kind_of(ask(word="a4")) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not ask(word="a4").get("isError")
    assert not Tag.objects.filter(word="a4").exists()


def test_an_approver_sees_the_row_as_the_api_shows_it(people: People, publish: Callable[..., Ask]) -> None:
    tag = Tag.objects.get(word="a4")
    publish(TagsInDetail)(word="a4")
    preview = newest().preview
    assert (preview["verb"], preview["object"]) == ("delete", f"tag {tag.pk}")
    assert {each["field"]: each["before"] for each in preview["changes"]} == {"word": "a4", "pk": tag.pk}


def test_an_approver_sees_what_a_call_of_an_api_changes(people: People, publish: Callable[..., Ask]) -> None:
    publish(Tags, actions=["partial_update"], names={"partial_update": "delete"})(word="a4", new_word="a6")
    assert newest().preview["changes"] == [{"field": "word", "label": "Word", "before": "a4", "after": "a6"}]
    assert Tag.objects.filter(word="a4").exists()


def test_a_throttle_counts_a_call_once(people: People, publish: Callable[..., Ask]) -> None:
    class Once(throttling.UserRateThrottle):
        rate = "1/day"

    cache.clear()
    ask = publish(type("V", (Tags,), {"throttle_classes": [Once]}))
    assert kind_of(ask(word="a4")) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not ask(word="a4").get("isError")
    cache.clear()


def test_nobody_is_asked_about_a_call_that_an_operation_of_ninja_refuses(
    server: MCPServer, people: People, tags: list[Tag]
) -> None:
    api = NinjaAPI(urls_namespace="approvals")
    ran: list[int] = []

    def staff(request: Any) -> bool:
        return bool(request.user.is_staff)

    @api.delete("/tags/{pk}")
    def drop(request: Any, pk: int) -> None:
        ran.append(pk)

    @api.delete("/staff/{pk}", auth=staff)
    def drop_as_staff(request: Any, pk: int) -> None:
        ran.append(pk)

    ninja_tools(api, server=server)
    assert serve(server, people["ann"], "drop_as_staff", {"pk": 1})["isError"]
    assert "pk" in serve(server, people["ann"], "drop", {"pk": "x"})["content"][0]["text"]
    assert not Approval.objects.exists()
    assert kind_of(serve(server, people["ann"], "drop", {"pk": 1})) == "approval_required"
    assert not ran


class StaffAlone:
    """A decorator of ninja that is an object."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __call__(self, request: Any, **variables: Any) -> Any:
        return self.run(request, **variables) if request.user.is_staff else HttpResponseForbidden()


def test_nobody_is_asked_about_a_call_that_a_decorator_of_a_ninja_view_refuses(
    server: MCPServer, people: People, tags: list[Tag], settings: Any, subtests: pytest.Subtests
) -> None:
    settings.LOGIN_URL = "/login/"
    ran: list[int] = []
    staff = user_passes_test(lambda user: user.is_staff)

    def drop() -> Any:
        return lambda request, pk: ran.append(pk)

    def below(api: NinjaAPI) -> None:
        api.delete("/tags/{pk}", operation_id="drop")(decorate_view(staff)(drop()))

    def above(api: NinjaAPI) -> None:
        permitted = permission_required("library.delete_tag", raise_exception=True)
        decorate_view(csrf_exempt, permitted)(api.delete("/tags/{pk}", operation_id="drop")(drop()))

    def an_object(api: NinjaAPI) -> None:
        api.delete("/tags/{pk}", operation_id="drop")(decorate_view(login_required, StaffAlone)(drop()))

    def a_coroutine(api: NinjaAPI) -> None:
        @api.delete("/tags/{pk}")
        @decorate_view(staff)
        async def drop(request: Any, pk: int) -> None:
            ran.append(pk)

    def of_the_api(api: NinjaAPI) -> None:
        api.add_decorator(staff, mode="view")
        api.delete("/tags/{pk}", operation_id="drop")(drop())

    def of_a_router(api: NinjaAPI) -> None:
        router = Router()
        router.add_decorator(staff, mode="view")
        router.delete("/tags/{pk}", operation_id="drop")(drop())
        api.add_router("", router)

    boss = people["ben"]
    boss.is_staff = True
    boss.save()
    boss.user_permissions.add(Permission.objects.get(codename="delete_tag", content_type__app_label="library"))
    boss = type(boss).objects.get(pk=boss.pk)
    for number, declare in enumerate((below, above, an_object, a_coroutine, of_the_api, of_a_router)):
        with subtests.test(declare=declare.__name__), registering(server):
            api = NinjaAPI(urls_namespace=f"decorated{number}")
            declare(api)
            ninja_tools(api, server=server)
            refused = serve(server, people["ann"], "drop", {"pk": 1})
            assert refused["isError"]
            assert re.search("permission|Forbidden", refused["content"][0]["text"])
            assert not Approval.objects.exists()
            assert kind_of(serve(server, boss, "drop", {"pk": 1})) == "approval_required"
            assert not ran
            Approval.objects.all().delete()


def test_a_post_that_seems_to_destroy_something_is_reported(server: MCPServer, tags: list[Tag]) -> None:
    class Bulk(serializers.Serializer):
        action = serializers.ChoiceField(["restore", "empty"])

    @api_view(["POST"])
    def trash(request: Request) -> Response:
        return Response()

    def publish(name: str, **options: Any) -> None:
        drf_tools(trash, names={"post": name}, request={"post": Bulk}, mounted=False, server=server, **options)

    publish("change_trash")
    publish("told", destructive=True)
    publish("harmless", destructive=False)
    publish("asked", policy="ask")
    view_tool(lambda request: None, path="x/", name="purge_all", method="POST", server=server)
    view_tool(lambda request: None, path="y/", name="look", method="POST", server=server)
    found = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W063"]
    assert [(each.split("'")[1], each.rpartition(": ")[2]) for each in sorted(found)] == [
        ("change_trash", "action=empty."),
        ("purge_all", "purge."),
    ]


def test_an_argument_has_the_name_that_the_site_chose(
    server: MCPServer, people: People, publish: Callable[..., Ask]
) -> None:
    """Also in errors, and in what an approval is for."""
    ask = publish(Tags, arguments={"word": "tag"}, output=False)
    (tool,) = server.tools.values()
    assert list(tool.definition["inputSchema"]["properties"]) == ["tag"]
    assert "tag" in ask(word="a4")["content"][0]["text"]
    assert kind_of(ask(tag="a4")) == "approval_required"
    assert approve(newest(), people["cleo"])
    first = Tag.objects.get(word="a4")
    Tag.objects.filter(pk=first.pk).update(word="was-a4")
    other = Tag.objects.create(word="a4")
    assert kind_of(ask(tag="a4")) == "approval_required", "it addresses another row now"
    other.delete()
    Tag.objects.filter(pk=first.pk).update(word="a4")
    assert not ask(tag="a4").get("isError")


def test_an_api_may_go_without_output_schemas(server: MCPServer, tags: list[Tag]) -> None:
    drf_tools(Tags, actions=["list"], names={"list": "with"}, mounted=False, server=server)
    drf_tools(Tags, actions=["list"], names={"list": "without"}, mounted=False, output=False, server=server)
    drf_tools(Tags, actions=["list"], names={"list": "typo"}, arguments={"wrod": "x"}, mounted=False, server=server)
    assert "outputSchema" in server.tools["with"].definition
    assert "outputSchema" not in server.tools["without"].definition
    (found,) = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E064"]
    assert "'wrod'" in found
    assert "typo" in found
