"""Pages of the shop."""

from concurrent.futures import ThreadPoolExecutor

from django.db import connections
from django.http import HttpRequest, HttpResponse

from tests.sites.shop.models import Item, Order


def hours(request: HttpRequest) -> HttpResponse:
    return HttpResponse("Open from nine to five.", content_type="text/plain")


def queue_order(request: HttpRequest) -> HttpResponse:
    """Order, and have a worker look for the order at once, as a job without ``on_commit`` does."""
    item, _ = Item.objects.get_or_create(name=request.POST["name"])
    order = Order.objects.create(item=item, buyer=request.user)
    with ThreadPoolExecutor(1) as worker:
        is_found = worker.submit(_find, order.pk).result()
    return HttpResponse("found" if is_found else "missing", content_type="text/plain")


def _find(pk: int) -> bool:
    try:
        return Order.objects.filter(pk=pk).exists()
    finally:
        connections.close_all()
