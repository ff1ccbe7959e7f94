"""A page of the shop."""

from django.http import HttpRequest, HttpResponse


def hours(request: HttpRequest) -> HttpResponse:
    return HttpResponse("Open from nine to five.", content_type="text/plain")
