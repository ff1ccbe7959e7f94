"""The endpoint and the API."""

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from tests.integrations.late_site.mcp import RoomViewSet

router = DefaultRouter()
router.register("rooms", RoomViewSet)
urlpatterns = [path("", include("django_mcp.urls")), path("api/", include(router.urls))]
