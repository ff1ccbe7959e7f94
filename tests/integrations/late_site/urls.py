"""The endpoint, the APIs and a page."""

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from tests.integrations.late_site.mcp import RoomViewSet, api, rooms_page

router = DefaultRouter()
router.register("rooms", RoomViewSet)
urlpatterns = [
    path("", include("django_mcp.urls")),
    path("api/", include(router.urls)),
    path("ninja/", api.urls),
    path("page/", rooms_page, name="rooms-page"),
]
