"""Addresses of the site of pairs: a view that gives a book its title, and one that shows it, beside the demo's."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import include, path

from demo_project.urls import urlpatterns as demo
from tests.together.pair_site import current


def _book(request: HttpRequest, pk: int) -> Any:
    return get_object_or_404(current[0].rows(request.user), pk=pk)


def give_title(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a book a title, as a page of the site would."""
    book = _book(request, pk)
    book.title = request.POST["title"]
    book.save()
    return redirect("pairs:page", pk)


def page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a book."""
    return HttpResponse(f"<h1>A page of {_book(request, pk).title}</h1>")


urls = ([path("books/<int:pk>/", page, name="page"), path("books/<int:pk>/title/", give_title, name="title")], "pairs")
urlpatterns = [path("", include(urls)), *demo]
