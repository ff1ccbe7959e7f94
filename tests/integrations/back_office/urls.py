"""Addresses of the shop's admin and of those of the matrix."""

from django.urls import path

from tests.integrations.back_office import matrix, shop

urlpatterns = [
    path("shop/", shop.site.urls),
    *(path(f"{site.name}/", site.urls) for site in matrix.sites),
]
