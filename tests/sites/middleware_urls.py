"""Pages that read what the middleware has set."""

from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from tests.sites import urls
from tests.sites.shop import views


def needing_shop(view: Any) -> Any:
    @wraps(view)
    def page(request: HttpRequest) -> HttpResponse:
        assert request.shop.startswith("shop of ")
        return view(request)

    return page


urlpatterns = [
    path("hours/", needing_shop(views.hours), name="hours"),
    path("orders/", needing_shop(views.queue_order), name="queue-order"),
    path("", include(urls)),
]
