"""All that the tests here ask."""

from django.urls import include, path
from django.views.decorators.cache import never_cache
from rest_framework.routers import DefaultRouter

from tests.contrib.drf import shop

router = DefaultRouter()
router.register("books", shop.BookViewSet, basename="book")

namespaced = [path("by-namespace/", shop.ByNamespace.as_view(), name="by-namespace")]
nameless = [path("nameless/", shop.Nameless.as_view())]

urlpatterns = [
    path("", include("tests.contrib.drf.snippets.urls")),
    path("shop/", include(router.urls)),
    path("shop/by-cursor/", shop.CursorBooks.as_view()),
    path("shop/by-offset/", shop.OffsetBooks.as_view()),
    path("shop/authors/<int:author_pk>/books/", shop.AuthorBooks.as_view(), name="author-books"),
    path("shop/nested/<int:author_pk>/", shop.NestedBooks.as_view({"get": "list"}), name="nested"),
    path("shop/pages/<slug:book>/", never_cache(shop.BookPage.as_view()), name="book-page"),
    path("shop/orders/", shop.Orders.as_view(), name="orders"),
    path("shop/lines/", shop.ManyLines.as_view(), name="lines"),
    path("shop/covers/", shop.Covers.as_view(), name="covers"),
    path("shop/rates/<str:currency>/", shop.Rates.as_view(), name="rates"),
    path("shop/rates/<str:currency>/<str:day>/", shop.Rates.as_view(), name="rates-of-day"),
    path("shop/echo/", shop.echo, name="echo"),
    path("shop/forms/", shop.forms_only, name="forms"),
    path("shop/rarely/", shop.rarely, name="rarely"),
    path("shop/<str:version>/versioned/", shop.Versioned.as_view(), name="versioned"),
    path("shop/v1/", include((namespaced, "by"), namespace="v1")),
    path("shop/v2/", include((namespaced, "by"), namespace="v2")),
    path("shop/v3/", include((nameless, "nameless"))),
    path("shop/by-header/", shop.ByHeader.as_view(), name="by-header"),
    path("shop/by-parameter/", shop.ByParameter.as_view(), name="by-parameter"),
    path("shop/staff/", shop.Staff.as_view(), name="staff-only"),
    path("shop/badge/", shop.Badge.as_view(), name="badge"),
    path("shop/broken/", shop.Broken.as_view(), name="broken"),
    path("shop/unusual/<slug:pk>/", shop.Unusual.as_view(), name="unusual"),
    path("shop/plain/", shop.Plain.as_view(), name="plain"),
]
