"""Addresses of the API."""

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from tests.contrib.drf.snippets import views

router = DefaultRouter()
router.register("snippets", views.SnippetViewSet, basename="snippet")
router.register("users", views.UserViewSet, basename="user")

urlpatterns = [path("", include(router.urls))]
