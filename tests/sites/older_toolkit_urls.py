"""The pages of the provider beside the endpoint."""

from django.urls import include, path

from tests.sites.urls import urlpatterns as others

urlpatterns = [path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")), *others]
