"""Views of every kind as tools."""

import base64
import io
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from drf_spectacular.utils import extend_schema
from PIL import Image
from rest_framework import generics, mixins, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.test import APIClient

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf import shop
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Book

Books = list[Book]


def arguments(client: Reader, name: str) -> dict[str, Any]:
    (tool,) = [tool for tool in client.list("tools/list") if tool["name"] == name]
    return tool["inputSchema"]


def described(client: Reader, name: str) -> str:
    (tool,) = [tool for tool in client.list("tools/list") if tool["name"] == name]
    return tool["description"]


class Prefetching:
    """Avoid N+1 queries in lists; internal helper."""

    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Prefetch before a row is created."""
        return super().create(request, *args, **kwargs)  # type: ignore[misc, no-any-return]

    @action(detail=True, methods=["post"])
    def reprint(self, request: Any, pk: Any = None) -> Response:
        """Have it printed again."""
        return Response()


class Helped(Prefetching, viewsets.ModelViewSet):
    queryset = Book.objects.all()
    serializer_class = shop.BookSerializer


class Undescribed(Helped):
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)


class Trash(mixins.ListModelMixin, generics.GenericAPIView):
    queryset = Book.objects.all()
    serializer_class = shop.BookSerializer

    def get(self, request: Any) -> Response:
        return self.list(request)

    def post(self, request: Any) -> Response:
        return Response()


class TestDescriptions:
    """Tools are described by those who wrote the view, not by those of its base classes and mixins."""

    @pytest.mark.parametrize("view", [Helped, Undescribed])
    def test_docstrings_of_base_classes_describe_these(self, view: Any, server: MCPServer, ann: Reader) -> None:
        drf_tools(view, server=server, mounted=False)
        words = {each["name"]: each["description"] for each in ann.list("tools/list")}
        assert words["list_books"] == "List books."
        assert words["create_book"] == "Create a book."
        assert words["reprint_book"] == "Have it printed again.", "an action that the site wrote in a mixin"

    def test_an_action_of_an_installed_package_has_no_words_of_its_own(
        self, server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = ModuleType("package")
        package.__file__ = "/env/lib/site-packages/package/mixins.py"
        monkeypatch.setitem(sys.modules, "package", package)
        monkeypatch.setattr(Prefetching, "__module__", "package")
        drf_tools(Helped, actions=["reprint"], server=server, mounted=False)
        assert described(ann, "reprint_book") == "Reprint"

    def test_a_second_view_of_a_model_is_not_taken_for_the_first(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(Helped, actions=["list"], server=server, mounted=False)
        drf_tools(Trash, server=server, mounted=False)
        words = {each["name"]: each["description"] for each in ann.list("tools/list")}
        assert words["list_books"] == "List books."
        assert words["list_trash"] == "List books (trash)."
        assert words["post_trash"] == "Send a POST request to trash.", "not the docstring of a mixin"


class Bodies(viewsets.GenericViewSet):
    """Actions that say what they read, and that do not."""

    queryset = Book.objects.all()
    serializer_class = shop.BookSerializer

    @action(detail=True, methods=["post"])
    def silent(self, request: Any, pk: str) -> Response:
        return Response(request.data)

    @action(detail=True, methods=["post"], serializer_class=shop.AddressSerializer)
    def own(self, request: Any, pk: str) -> Response:
        return Response(request.data)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def nothing(self, request: Any, pk: str) -> Response:
        return Response(request.data)

    @action(detail=True, methods=["post"])
    def told(self, request: Any, pk: str) -> Response:
        return Response(request.data)

    @action(detail=False, methods=["delete"])
    def clear(self, request: Any) -> Response:
        return Response(request.data)


class TestViewSets:
    def test_a_row_is_found_by_its_lookup_field(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.BookViewSet, server=server)
        assert ann.data("get_book", slug="tides")["title"] == "Tides"
        assert arguments(ann, "get_book")["properties"] == {
            "slug": {"type": "string", "description": "Slug of the book."}
        }

    def test_a_key_in_the_url_and_its_new_value_are_two_arguments(
        self, server: MCPServer, ann: Reader, books: Books
    ) -> None:
        drf_tools(shop.BookViewSet, server=server)
        assert ann.data("update_book", slug="tides", new_slug="tide")["slug"] == "tide"
        assert "Argument 'new_slug'" in ann.problem("update_book", slug="tide", new_slug="no slug")
        assert arguments(ann, "update_book")["properties"]["new_slug"]["description"] == "The new slug."

    def test_actions_have_tools_of_their_own(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.BookViewSet, server=server)
        assert ann.data("cheapest_books")["slug"] == "lanterns"
        assert ann.data("reprint_book", slug="salt") == {"reprinted": "salt"}
        assert arguments(ann, "reprint_book")["required"] == ["slug"]
        assert described(ann, "reprint_book") == "Have it printed again."

    def test_an_action_may_have_several_methods_and_variables_in_its_url(
        self, server: MCPServer, ann: Reader, books: Books
    ) -> None:
        drf_tools(shop.BookViewSet, actions=["note"], request={"note": shop.AddressSerializer}, server=server)
        assert set(arguments(ann, "note_book")["properties"]) == {"slug", "number", "street", "zip"}
        assert ann.data("note_book", slug="salt", number=3)["method"] == "GET"
        assert ann.data("post_note_book", slug="salt", number=3, street="x")["method"] == "POST"

    def test_a_value_that_makes_the_url_of_another_view_finds_nothing(
        self, server: MCPServer, ann: Reader, books: Books
    ) -> None:
        """DELETE /books/sold_out/ is not the deletion of a book."""
        drf_tools(shop.BookViewSet, actions=["destroy"], server=server)
        assert ann.problem("delete_book", slug="sold_out") == "No object found with slug 'sold_out'."
        assert ann.problem("delete_book", slug="../echo") == "No object found with slug '../echo'."
        assert Book.objects.count() == len(books)

    def test_a_part_of_the_actions_is_offered(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.BookViewSet, actions=["list", "retrieve"], server=server)
        assert ann.tool_names() == {"list_books", "get_book"}

    def test_all_actions_but_some_are_offered(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.BookViewSet, exclude=["sold_out", "note", "update", "destroy"], server=server)
        assert ann.tool_names() == {
            *("list_books", "get_book", "create_book", "update_book", "cheapest_books", "reprint_book"),
        }

    def test_tools_are_called_as_they_are_told_to_be(self, server: MCPServer, ann: Reader) -> None:
        only = ["list", "retrieve"]
        drf_tools(shop.BookViewSet, actions=only, name="title", names={"list": "browse"}, server=server)
        drf_tools(shop.BookViewSet, actions=only, name="tome", plural="tomes", namespace="shop", server=server)
        assert ann.tool_names() == {"browse", "get_title", "shop_list_tomes", "shop_get_tome"}

    def test_a_section_of_the_docstring_describes_its_action(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.BookViewSet, actions=["list", "retrieve"], server=server)
        assert described(ann, "list_books") == "Books on sale, the cheapest first."
        assert described(ann, "get_book") == "Get one book.\n\nBooks on sale."

    def test_an_action_that_is_not_there_stops_the_start(self, server: MCPServer, subtests: pytest.Subtests) -> None:
        options: list[dict[str, Any]] = [
            {"actions": ["lend"]},
            {"exclude": ["lend"]},
            {"names": {"lend": "lend_book"}},
            {"request": {"lend": None}},
            {"responses": {"lend": None}},
        ]
        for option in options:
            with (
                subtests.test(option=option),
                pytest.raises(ImproperlyConfigured, match="unknown actions: lend; known: list, create, cheapest"),
            ):
                drf_tools(shop.BookViewSet, **option, server=server)

    def test_an_action_takes_what_is_said_of_it_and_any_json_where_nothing_is(
        self, server: MCPServer, ann: Reader, subtests: pytest.Subtests
    ) -> None:
        names = {name: name for name in ("silent", "own", "nothing", "told", "clear")}
        request = {"told": shop.AddressSerializer(many=True)}
        drf_tools(Bodies, actions=list(names), names=names, request=request, mounted=False, server=server)
        for name, takes in {
            "silent": {"pk", "body"},
            "own": {"pk", "street", "zip"},
            "nothing": {"pk"},
            "told": {"pk", "items"},
            "clear": {"body"},
        }.items():
            with subtests.test(name):
                assert set(arguments(ann, name)["properties"]) == takes
        for body in ({"keys": [1]}, [1, 2], "words"):
            assert ann.data("silent", pk=1, body=body) == ann.as_sent(body)
        assert ann.data("silent", pk=1) == ann.data("clear") == {}
        with registering(server):
            drf_tools(Bodies, actions=["silent"], request={"silent": None}, mounted=False, server=server)
            assert set(arguments(ann, "silent_book")["properties"]) == {"pk"}

    def test_a_router_nested_in_another_has_variables_in_its_prefix(self, server: MCPServer, ann: Reader) -> None:
        from rest_framework.routers import SimpleRouter

        router = SimpleRouter()
        router.register(r"authors/(?P<author_pk>[^/.]+)/books", shop.BookViewSet, basename="nested")
        drf_tools(router, actions=["list", "retrieve"], mounted=False, server=server)
        assert set(arguments(ann, "get_book")["required"]) == {"author_pk", "slug"}

    def test_what_as_view_made_is_taken_too(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.BookViewSet.as_view({"get": "list", "post": "create"}), server=server)
        assert ann.tool_names() == {"list_books", "create_book"}

    def test_a_variable_with_a_default_is_asked_for_where_every_url_has_it(
        self, server: MCPServer, ann: Reader, books: Books
    ) -> None:
        drf_tools(shop.NestedBooks, actions=["list"], server=server)
        assert ann.problem("list_books") == "Missing argument 'author_pk'."
        assert len(ann.data("list_books", author_pk=books[0].author.pk)["result"]) == 2


class TestGenericViews:
    def test_methods_are_what_they_do(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.BookPage, server=server)
        assert ann.tool_names() == {"get_book", "replace_book", "update_book", "delete_book"}
        assert ann.data("get_book", book="salt")["title"] == "Salt"
        assert ann.data("update_book", book="salt", title="Pepper")["title"] == "Pepper"
        assert ann.call("delete_book", book="salt").text == "Deleted."

    def test_variables_of_the_url_can_be_named(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.AuthorBooks, path_arguments={"author_pk": int}, server=server)
        author = books[0].author
        shown = ann.data("list_books", author_pk=author.pk)["result"]
        assert [row["slug"] for row in shown] == ["salt", "tides"]
        assert arguments(ann, "list_books")["properties"]["author_pk"] == {"type": "integer"}

    def test_a_view_that_no_url_leads_to_is_called_without_one_if_one_says_so(
        self, server: MCPServer, ann: Reader, books: Books
    ) -> None:
        class Unmounted(shop.BookPage):
            """Nowhere."""

        drf_tools(Unmounted, actions=["retrieve"], mounted=False, server=server)
        assert ann.data("get_book", book="salt")["title"] == "Salt"
        assert ann.problem("get_book", book="none") == "No Book matches the given query."


class TestOtherViews:
    def test_the_signature_of_a_method_names_variables(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Rates, server=server)
        assert ann.tool_names() == {"rates"}
        schema = arguments(ann, "rates")
        assert schema["required"] == ["currency"]
        assert schema["properties"]["day"]["anyOf"][0] == {"type": "string", "format": "date"}
        assert ann.data("rates", currency="usd")["day"] is None
        assert ann.data("rates", currency="usd", day="2030-05-01")["day"] == "2030-05-01"

    def test_the_caller_is_the_user_and_there_is_no_token(self, server: MCPServer, ann: Reader, nobody: Reader) -> None:
        drf_tools(shop.Rates, server=server)
        answer = ann.data("rates", currency="usd")
        assert (answer["user"], answer["auth"]) == ("ann", None)
        assert nobody.data("rates", currency="usd")["user"] == "AnonymousUser"

    def test_authenticators_are_asked_over_http_alone(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.Badge, request={"get": shop.LineSerializer}, server=server)
        assert APIClient().get("/shop/badge/").json()["errors"] == {"detail": "Show your badge."}
        assert ann.data("badge", book="salt", quantity=2) == {"user": "ann", "book": "salt"}

    def test_a_query_is_described_by_a_serializer(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Badge, request={"get": shop.LineSerializer}, server=server)
        schema = arguments(ann, "badge")
        assert schema["properties"]["quantity"] == {"type": "integer", "minimum": 1, "maximum": 9}
        assert schema["required"] == ["book", "quantity"]

    def test_the_sites_own_way_to_tell_of_mistakes_is_read(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.Badge, request={"get": shop.LineSerializer}, server=server)
        assert ann.problem("badge", book="salt", quantity=0).splitlines() == [
            "code: refused",
            "Argument 'quantity': Ensure this value is greater than or equal to 1. (It was 0.)",
        ]

    def test_a_function_is_a_view_too(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.echo, server=server)
        assert ann.tool_names() == {"get_echo", "post_echo"}
        assert ann.data("post_echo", body={"a": [1]}) == {"heard": {"a": [1]}, "method": "POST"}
        assert described(ann, "post_echo") == "Says what it hears."

    def test_what_takes_forms_alone_gets_a_form(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.forms_only, server=server)
        answer = ann.data("forms_only", body={"a": "1", "b": True})
        assert answer["heard"] == {"a": "1", "b": "true"}
        assert answer["type"].startswith("application/x-www-form-urlencoded")

    def test_what_is_no_json_is_told_as_it_is(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Plain, server=server)
        assert ann.call("plain").text == "Plain words."

    def test_what_is_no_view_stops_the_start(self, server: MCPServer) -> None:
        with pytest.raises(ImproperlyConfigured, match="expected a router, a viewset or a view"):
            drf_tools(lambda request: None, server=server)

    def test_who_may_not_is_told_so_and_the_tool_stays(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Staff, server=server)
        assert ann.problem("staff") == "You do not have permission to perform this action."
        assert ann.tool_names() == {"staff"}

    def test_a_failure_is_not_told(self, server: MCPServer, ann: Reader, caplog: Any) -> None:
        drf_tools(shop.Broken, server=server)
        told = ann.problem("broken")
        assert "1234" not in told
        assert told.startswith("Internal server error.")
        assert "the key is 1234" in caplog.text

    def test_a_throttle_says_when_to_come_back(self, server: MCPServer, ann: Reader) -> None:
        cache.clear()
        drf_tools(shop.rarely, server=server)
        assert ann.data("rarely") == {"answer": 42}
        assert "Expected available in 86400 seconds." in ann.problem("rarely")
        cache.clear()

    def test_an_answer_that_breaks_its_promise_is_told_all_the_same(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Unusual, server=server)
        answer = ann.call("get_book", pk="x")
        assert answer.result["structuredContent"] == {"pages": 5}
        assert '"not"' in answer.text


class TestVersions:
    def test_the_version_is_asked_for(self, server: MCPServer, ann: Reader, subtests: pytest.Subtests) -> None:
        views = {"versioned": shop.Versioned, "by_header": shop.ByHeader, "by_parameter": shop.ByParameter}
        for name, view in views.items():
            with subtests.test(name):
                drf_tools(view, version="v2", server=server)
                assert ann.data(name) == {"version": "v2"}
                assert arguments(ann, name)["properties"] == {}

    def test_a_namespace_is_a_version(self, server: MCPServer, ann: Reader) -> None:
        for version in ("v1", "v2"):
            drf_tools(shop.ByNamespace, version=version, names={"get": version}, server=server)
            assert ann.data(version) == {"version": version, "namespace": version}


def png() -> str:
    made = io.BytesIO()
    Image.new("RGB", (2, 2)).save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()


def test_a_version_that_no_url_has_is_not_replaced_by_another(server: MCPServer, ann: Reader, caplog: Any) -> None:
    drf_tools(shop.ByNamespace, version="v3", server=server)
    assert ann.problem("by_namespace").startswith("Internal server error.")
    assert "No URL leads to GET of tests.contrib.drf.shop.ByNamespace" in caplog.text


class TestFiles:
    def test_a_file_is_sent_as_a_form_sends_it(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.Covers, server=server)
        answer = ann.data(
            "covers",
            title="Salt",
            cover={"filename": "salt.png", "content": png()},
            public=False,
            address={"street": "Quay", "zip": "12345"},
            lines=[{"book": "salt", "quantity": 2}, {"book": "tides", "quantity": 1}],
        )
        assert answer["title"] == "Salt"
        assert (answer["cover"][0], answer["cover"][2]) == ("salt.png", "PNG")
        assert answer["public"] is False
        assert answer["address"] == {"street": "Quay", "zip": "12345"}
        assert answer["lines"] == [{"book": "salt", "quantity": 2}, {"book": "tides", "quantity": 1}]

    def test_mistakes_in_files_are_told(self, server: MCPServer, ann: Reader) -> None:
        drf_tools(shop.Covers, server=server)
        cover = {"filename": "salt.png", "content": base64.b64encode(b"no image").decode()}
        assert "Argument 'cover': Upload a valid image." in ann.problem("covers", title="Salt", cover=cover)
        assert "Argument 'cover' must be" in ann.problem("covers", title="Salt", cover="salt.png")
        told = ann.problem("covers", title="Salt", cover={"filename": "a.png", "content": "?"})
        assert "base64" in told.lower()
        assert "Argument 'cover': No file was submitted." in ann.problem("covers", title="Salt")


class TestBodies:
    def test_mistakes_deep_inside_are_told_where_they_are(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.Orders, server=server)
        told = ann.problem(
            "create_orders",
            lines=[{"book": "salt", "quantity": 1}, {"book": "none", "quantity": 0}],
            address={"street": "Quay", "zip": "1"},
            codes={"a": "many"},
        )
        assert set(told.splitlines()) == {
            "Argument 'lines[1].book': Object with slug=none does not exist. (It was \"none\".)",
            "Argument 'lines[1].quantity': Ensure this value is greater than or equal to 1. (It was 0.)",
            "Argument 'address.zip': This value does not match the required pattern. (It was \"1\".)",
            "Argument 'codes.a': A valid integer is required. (It was \"many\".)",
        }

    def test_a_mistake_of_the_whole_is_told_without_a_place(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.Orders, server=server)
        lines = [{"book": "salt", "quantity": 1}]
        address = {"street": "Quay", "zip": "12345"}
        told = ann.problem("create_orders", lines=lines, address=address, day="2030-01-01")
        assert told == "Nothing is delivered on that day."

    def test_a_field_called_detail_is_a_field(self, server: MCPServer, ann: Reader) -> None:
        from rest_framework import generics, serializers

        class Note(serializers.Serializer):
            detail = serializers.CharField()

        class Notes(generics.CreateAPIView):
            serializer_class = Note

        drf_tools(Notes, mounted=False, server=server)
        assert ann.problem("create_notes") == "Argument 'detail': This field is required."

    def test_a_body_that_is_a_list_is_one_argument(self, server: MCPServer, ann: Reader, books: Books) -> None:
        drf_tools(shop.ManyLines, names={"create": "order_lines"}, server=server)
        schema = arguments(ann, "order_lines")
        assert (schema["properties"]["items"]["type"], schema["required"]) == ("array", ["items"])
        lines = [{"book": "salt", "quantity": 1}]
        assert ann.data("order_lines", items=lines) == {"result": lines}
        told = ann.problem("order_lines", items=[*lines, {"book": "salt", "quantity": 0}])
        assert told.startswith("Argument 'items[1].quantity': ")
        told = ann.problem("order_lines", items=[{"book": "salt", "quantity": 0}] * 30)
        assert told.count("Argument") == 19
        assert told.endswith("And 11 more errors.")


def asked(rest: APIClient, path: str) -> list[Any]:
    """What each method answers."""
    responses = [
        rest.get(path),
        rest.options(path),
        rest.head(path),
        rest.post(path, {"lines": []}, format="json"),
        rest.put(path, {"title": ""}, format="json"),
    ]
    # A view that is never cached tells the second in which it expires.
    told = [{name: value for name, value in each.items() if name != "Expires"} for each in responses]
    return [(each.status_code, headers, each.content) for each, headers in zip(responses, told, strict=True)]


def test_every_method_of_an_api_answers_as_before(
    server: MCPServer, rest: APIClient, books: Books, subtests: pytest.Subtests
) -> None:
    views: dict[str, Any] = {
        "/shop/books/": shop.BookViewSet,
        "/shop/pages/salt/": shop.BookPage,
        "/shop/orders/": shop.Orders,
        "/shop/echo/": shop.echo,
        "/shop/rates/usd/": shop.Rates,
    }
    for path, view in views.items():
        with subtests.test(path), registering(server):
            before = asked(rest, path)
            drf_tools(view, server=server)
            assert asked(rest, path) == before


def test_write_scopes_are_asked_of_writing_tools_alone(
    server: MCPServer, reader: Callable[..., Reader], users: dict[str, User], books: Books
) -> None:
    only = ["list", "destroy"]
    drf_tools(shop.BookViewSet, actions=only, scopes=["travel:read"], write_scopes=["travel:write"], server=server)
    assert reader("ann", scopes="travel:read").tool_names() == {"list_books"}
    assert reader("ann", scopes="travel:read travel:write").tool_names() == {"list_books", "delete_book"}
