"""APIs with what APIs have: filters, pages, versions, throttles, files, nested objects."""

import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as django_filters
from rest_framework import (
    authentication,
    exceptions,
    filters,
    generics,
    pagination,
    parsers,
    permissions,
    serializers,
    throttling,
    versioning,
    viewsets,
)
from rest_framework.decorators import action, api_view, parser_classes, throttle_classes
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from tests.model_resources.library.models import Author, Book, Tag


class BookSerializer(serializers.ModelSerializer):
    author_name = serializers.SlugRelatedField("name", source="author", read_only=True)

    class Meta:
        model = Book
        fields = ["slug", "title", "author", "author_name", "price", "pages", "tags"]
        extra_kwargs = {"tags": {"required": False}}


class BookFilter(django_filters.FilterSet):
    cheaper_than = django_filters.NumberFilter(field_name="price", lookup_expr="lt", help_text="In euros.")
    pages = django_filters.RangeFilter()
    slugs = django_filters.BaseInFilter(field_name="slug", lookup_expr="in")
    tagged = django_filters.ModelMultipleChoiceFilter(
        field_name="tags__word", to_field_name="word", queryset=Tag.objects.all()
    )

    class Meta:
        model = Book
        fields = ["binding"]


class OnlyShelf(filters.BaseFilterBackend):
    """A backend of a site's own."""

    def filter_queryset(self, request: Any, queryset: QuerySet[Book], view: Any) -> QuerySet[Book]:
        shelf = request.query_params.get("shelf")
        return queryset.filter(shelf=shelf) if shelf else queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        schema = {"type": "string", "nullable": True, "enum": ["A", "B", "C"]}
        return [
            {"name": "shelf", "in": "query", "required": False, "description": "Where it stands.", "schema": schema}
        ]


class TwoByTwo(pagination.PageNumberPagination):
    page_size = 2
    page_size_query_param = "size"


class Skipping(pagination.LimitOffsetPagination):
    default_limit = 2


class ByPrice(pagination.CursorPagination):
    page_size = 2
    ordering = "price"


class BookViewSet(viewsets.ModelViewSet):
    """Books on sale.

    list:
    Books on sale, the cheapest first.
    """

    queryset = Book.objects.order_by("price")
    serializer_class = BookSerializer
    lookup_field = "slug"
    pagination_class = TwoByTwo
    filter_backends = [filters.SearchFilter, filters.OrderingFilter, django_filters.DjangoFilterBackend, OnlyShelf]
    filterset_class = BookFilter
    search_fields = ["title", "^author__name"]
    ordering_fields = ["price", "title"]

    @action(detail=False)
    def cheapest(self, request: Any) -> Response:
        """The cheapest book of all."""
        return Response(self.get_serializer(self.get_queryset().first()).data)

    @action(detail=False, methods=["delete"])
    def sold_out(self, request: Any) -> Response:
        """Delete all books."""
        Book.objects.all().delete()
        return Response(status=204)

    @action(detail=True, methods=["post"])
    def reprint(self, request: Any, slug: str) -> Response:
        """Have it printed again."""
        return Response({"reprinted": self.get_object().slug})

    @action(detail=True, methods=["get", "post"], url_path="notes/(?P<number>[0-9]+)")
    def note(self, request: Any, slug: str, number: int) -> Response:
        """What somebody wrote on one of its pages."""
        return Response({"slug": slug, "number": number, "method": request.method, "text": request.data.get("text")})


class CursorBooks(generics.ListAPIView):
    queryset = Book.objects.all()
    serializer_class = BookSerializer
    pagination_class = ByPrice


class OffsetBooks(generics.ListAPIView):
    queryset = Book.objects.order_by("price")
    serializer_class = BookSerializer
    pagination_class = Skipping


class AuthorBooks(generics.ListCreateAPIView):
    """Books of one author, whom the URL names."""

    serializer_class = BookSerializer

    def get_queryset(self) -> QuerySet[Book]:
        return Book.objects.filter(author=self.kwargs["author_pk"]).order_by("slug")


class NestedBooks(viewsets.ReadOnlyModelViewSet):
    queryset = Book.objects.order_by("slug")
    serializer_class = BookSerializer

    def list(self, request: Any, author_pk: int | None = None) -> Response:
        rows = self.get_queryset().filter(author=author_pk)
        return Response(self.get_serializer(rows, many=True).data)


class BookPage(generics.RetrieveUpdateDestroyAPIView):
    queryset = Book.objects.all()
    serializer_class = BookSerializer
    lookup_field = "slug"
    lookup_url_kwarg = "book"


class LineSerializer(serializers.Serializer):
    book = serializers.SlugRelatedField("slug", queryset=Book.objects.all())
    quantity = serializers.IntegerField(min_value=1, max_value=9)


class AddressSerializer(serializers.Serializer):
    street = serializers.CharField()
    zip = serializers.RegexField(r"^[0-9]{5}$")


class OrderSerializer(serializers.Serializer):
    lines = LineSerializer(many=True, allow_empty=False)
    address = AddressSerializer()
    day = serializers.DateField(required=False)
    codes = serializers.DictField(child=serializers.IntegerField(), required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("day") == datetime.date(2030, 1, 1):
            raise serializers.ValidationError("Nothing is delivered on that day.")
        return attrs


class Orders(generics.CreateAPIView):
    """Order books."""

    serializer_class = OrderSerializer

    def perform_create(self, serializer: Any) -> None:
        pass


class ManyLines(generics.CreateAPIView):
    serializer_class = LineSerializer

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        return super().get_serializer(*args, **kwargs, many=True)

    def perform_create(self, serializer: Any) -> None:
        pass


class Upload(serializers.Serializer):
    title = serializers.CharField()
    cover = serializers.ImageField()
    excerpt = serializers.FileField(required=False, allow_null=True)
    address = AddressSerializer(required=False)
    lines = LineSerializer(many=True, required=False)
    public = serializers.BooleanField(default=True)


class Covers(APIView):
    """Hand in a cover."""

    parser_classes = [parsers.MultiPartParser, parsers.JSONParser]
    serializer_class = Upload

    def post(self, request: Any) -> Response:
        given = Upload(data=request.data)
        given.is_valid(raise_exception=True)
        data = given.validated_data
        cover = data["cover"]
        lines = [{"book": each["book"].slug, "quantity": each["quantity"]} for each in data.get("lines", [])]
        return Response(
            {
                "title": data["title"],
                "cover": [cover.name, cover.size, cover.image.format],
                "public": data["public"],
                "address": data.get("address"),
                "lines": lines,
            }
        )


class Rates(APIView):
    """What a euro is worth."""

    def get(self, request: Any, currency: str, day: datetime.date | None = None) -> Response:
        return Response({"currency": currency, "day": day, "user": str(request.user), "auth": request.auth})


@api_view(["GET", "POST"])
def echo(request: Any) -> Response:
    """Says what it hears."""
    return Response({"heard": request.data, "method": request.method})


@api_view(["POST"])
@parser_classes([parsers.FormParser])
def forms_only(request: Any) -> Response:
    """Takes forms, and no JSON."""
    return Response({"heard": request.data.dict(), "type": request.content_type})


class OnceADay(throttling.UserRateThrottle):
    rate = "1/day"
    scope = "tests-once-a-day"


@api_view(["GET"])
@throttle_classes([OnceADay])
def rarely(request: Any) -> Response:
    """Answers once a day."""
    return Response({"answer": 42})


class Versioned(APIView):
    versioning_class = versioning.URLPathVersioning

    def get(self, request: Any, version: str) -> Response:
        return Response({"version": request.version})


class ByNamespace(APIView):
    versioning_class = versioning.NamespaceVersioning

    def get(self, request: Any) -> Response:
        return Response({"version": request.version, "namespace": request.resolver_match.namespace})


class Nameless(APIView):
    """Inside a namespace, without a name, so that nothing can make its URL."""

    def get(self, request: Any) -> Response:
        return Response({})


class ByHeader(APIView):
    versioning_class = versioning.AcceptHeaderVersioning

    def get(self, request: Any) -> Response:
        return Response({"version": request.version})


class ByParameter(APIView):
    versioning_class = versioning.QueryParameterVersioning

    def get(self, request: Any) -> Response:
        return Response({"version": request.version})


class Staff(APIView):
    """For staff."""

    permission_classes = [permissions.IsAdminUser]

    def get(self, request: Any) -> Response:
        return Response({})


class Asking(authentication.BaseAuthentication):
    """Never to be asked by a tool."""

    def authenticate(self, request: Any) -> Any:
        raise exceptions.AuthenticationFailed("Show your badge.")


def enveloped(error: Exception, context: Any) -> Response | None:
    """How a site of its own shows what is wrong."""
    response = exception_handler(error, context)
    if response is not None:
        response.data = {"code": "refused", "errors": response.data}
    return response


class Badge(APIView):
    """Wants a badge over HTTP, and a number."""

    authentication_classes = [Asking]

    def get_exception_handler(self) -> Any:
        return enveloped

    def get(self, request: Any) -> Response:
        asked = LineSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        return Response({"user": request.user.username, "book": asked.validated_data["book"].slug})


class Broken(APIView):
    """Fails."""

    def get(self, request: Any) -> Response:
        raise RuntimeError("the key is 1234")


class Unusual(generics.RetrieveAPIView):
    """Shows something else than its serializer says."""

    serializer_class = BookSerializer

    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response({"title": ["not", "text"], "pages": 5})


class Plain(APIView):
    """Answers with no JSON."""

    def get(self, request: Any) -> HttpResponse:
        return HttpResponse("Plain words.", content_type="text/plain")


class AnyAuthor(generics.RetrieveAPIView):
    queryset = Author.objects.all()
    serializer_class = serializers.Serializer
