"""A middleware that every page needs: it says on the request whose shop it is."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from tests.sites.base import *  # noqa: F403
from tests.sites.base import DJANGO_MCP, MIDDLEWARE


class ShopMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.shop = f"shop of {request.user}"
        return self.get_response(request)


MIDDLEWARE = [*MIDDLEWARE, "tests.sites.middleware.ShopMiddleware"]
ROOT_URLCONF = "tests.sites.middleware_urls"
DJANGO_MCP["VIEW_MIDDLEWARE"] = ["tests.sites.middleware.ShopMiddleware"]
