"""A site with pages of many kinds, as it might have been before it had an endpoint."""

import json
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required, user_passes_test
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.models import Group
from django.contrib.auth.views import LoginView
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import transaction
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import redirect
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import include, path, re_path, register_converter
from django.utils.translation import gettext
from django.views.decorators.cache import cache_page
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST
from django.views.decorators.vary import vary_on_cookie
from django.views.generic import FormView, TemplateView, View


class YearConverter:
    """Four digits."""

    regex = "[0-9]{4}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return f"{value:04d}"


register_converter(YearConverter, "views_site_year")


def echo(request: HttpRequest, **variables: Any) -> JsonResponse:
    """What arrives.

    Args:
        words: What to look for.
        code: The flight's code.
    """
    seen = {
        "method": request.method,
        "path": request.path,
        "variables": {name: repr(value) for name, value in variables.items()},
        "query": dict(request.GET.lists()),
        "form": dict(request.POST.lists()),
        "files": {name: [file.name, file.read().decode()] for name, file in request.FILES.items()},
        "user": str(request.user),
        "url": request.build_absolute_uri(),
        "address": request.META["REMOTE_ADDR"],
        "meta": {key: value for key, value in request.META.items() if isinstance(value, str)},
        "cookies": request.COOKIES,
        "name": request.resolver_match.view_name,
    }
    if request.content_type == "application/json":
        seen["json"] = json.loads(request.body)
    return JsonResponse(seen)


def departures(request: HttpRequest, airport: str) -> JsonResponse:
    """Flights that leave an airport soon."""
    limit = int(request.GET.get("limit", "2"))
    return JsonResponse([{"from": airport, "number": number} for number in range(limit)], safe=False)


async def gates(request: HttpRequest, airport: str) -> JsonResponse:
    """Gates of an airport."""
    user = await request.auser()
    return JsonResponse({"airport": airport, "user": str(user), "groups": await Group.objects.filter(pk=0).acount()})


class Board(View):
    """The board in the hall."""

    def get(self, request: HttpRequest) -> JsonResponse:
        """Read it."""
        return JsonResponse({"lines": ["LH 1"], "user": str(request.user)})

    def post(self, request: HttpRequest) -> JsonResponse:
        """Write a line."""
        return JsonResponse({"added": request.POST["line"]}, status=201)


class AsyncBoard(View):
    """The board, async."""

    async def get(self, request: HttpRequest) -> JsonResponse:
        return JsonResponse({"lines": [request.GET.get("words", "")]})


class Mine(LoginRequiredMixin, TemplateView):
    """Your own bookings."""

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        return page("<h1>Bookings of {{ request.user.username }}</h1>", self.request)


class BookingForm(forms.Form):
    """A booking."""

    people = forms.IntegerField(max_value=4)
    name = forms.CharField(max_length=20)


class Book(FormView):
    """Book a seat."""

    form_class = BookingForm
    success_url = "/booked/"

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> TemplateResponse:
        template = engines["django"].from_string("<form>{{ form.as_p }}</form>")
        return TemplateResponse(self.request, template, context)

    def form_valid(self, form: BookingForm) -> HttpResponse:
        Group.objects.create(name=form.cleaned_data["name"])
        messages.success(self.request, f"Booked for {form.cleaned_data['people']}.")
        return super().form_valid(form)


def page(template: str, request: HttpRequest, **context: Any) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(template).render(context, request))


def booked(request: HttpRequest) -> HttpResponse:
    """What was booked."""
    return page(
        "<nav>Menu</nav>{% for each in messages %}<b>{{ each }}</b>{% endfor %}<h1>Your seats</h1>"
        "<ul>{% for each in groups %}<li>{{ each.name }}</li>{% endfor %}</ul>",
        request,
        groups=Group.objects.filter(name__startswith="seat"),
    )


def linked(request: HttpRequest) -> HttpResponse:
    return HttpResponse('See <a href="/jobs/15/">Job 15</a>', status=int(request.GET.get("status", "200")))


def streamed(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[str]:
        for number in range(int(request.GET.get("many", "3"))):
            yield f"line {number}\n"

    return StreamingHttpResponse(parts(), content_type="text/plain")


async def streamed_async(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[str]:
        for number in range(int(request.GET.get("many", "3"))):
            yield f"line {number}\n"

    return StreamingHttpResponse(parts(), content_type="text/plain")


PDF = b"%PDF-1.4 seats"


def ticket(request: HttpRequest) -> FileResponse:
    return FileResponse(BytesIO(PDF), as_attachment=True, filename="your ticket.pdf")


@login_required
def secret(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"secret": str(request.user)})


@permission_required("auth.add_group")
def staff_only(request: HttpRequest) -> HttpResponse:
    return HttpResponse("in")


@permission_required("auth.add_group", raise_exception=True)
def staff_or_403(request: HttpRequest) -> HttpResponse:
    return HttpResponse("in")


@user_passes_test(lambda user: user.username == "ann")
def ann_only(request: HttpRequest) -> HttpResponse:
    return HttpResponse("in")


@require_POST
@csrf_protect
def write(request: HttpRequest) -> HttpResponse:
    """Write, and answer with a status."""
    Group.objects.create(name=request.POST["name"])
    if (status := int(request.POST.get("status", "200"))) == 200:
        return JsonResponse({"in_transaction": transaction.get_connection().in_atomic_block})
    return JsonResponse({"name": ["It is taken."]}, status=status)


@transaction.non_atomic_requests
def write_always(request: HttpRequest) -> HttpResponse:
    """Write, whatever the answer is."""
    return write(request)


def write_and_go(request: HttpRequest) -> HttpResponse:
    Group.objects.create(name=request.POST["name"])
    messages.info(request, "Written.")
    return redirect(request.POST["next"])


@cache_page(60)
@vary_on_cookie
def cached(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"of {request.user}", content_type="text/plain")


def hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{request.LANGUAGE_CODE}: {gettext('Yes')}", content_type="text/plain")


ERRORS = {
    "404": Http404("flight 7 of Bob"),
    "403": PermissionDenied("because of Bob"),
    "400": BadRequest("Bob"),
    "suspicious": SuspiciousOperation("Bob"),
    "multipart": MultiPartParserError("Bob"),
    "bug": RuntimeError("password of Bob"),
}


def fail(request: HttpRequest, how: str) -> HttpResponse:
    raise ERRORS[how]


def to(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(request.GET["target"])


def circle(request: HttpRequest) -> HttpResponse:
    return redirect("circle")


def session(request: HttpRequest) -> JsonResponse:
    request.session["seen"] = request.session.get("seen", 0) + 1
    request.session.cycle_key()
    return JsonResponse({"seen": request.session["seen"], "has_key": bool(request.session.session_key)})


def new_flight(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"this": "is another view"})


def page_at(request: HttpRequest, place: str) -> JsonResponse:
    """The page at a place."""
    return JsonResponse({"place": place, "path": request.path, "url": request.build_absolute_uri()})


class Month(View):
    """What a month has."""

    def get(self, request: HttpRequest, year: str, month: str) -> JsonResponse:
        return JsonResponse({"year": year, "month": month})


NUMBERED = [path("<int:number>/", echo, name="numbered"), path("of/<str:code>/", echo, name="coded")]
HERE = [
    path("board/", Board.as_view(), name="board"),
    path("board-async/", AsyncBoard.as_view(), name="board-async"),
    path("booked/", booked, name="booked"),
    path("book/", Book.as_view(), name="book"),
    path("cached/", cached, name="cached"),
    path("circle/", circle, name="circle"),
    path("departures/<slug:airport>/", departures, name="departures"),
    path("echo/", echo, name="echo"),
    path("enter/", LoginView.as_view(), name="enter"),
    path("fail/<str:how>/", fail, name="fail"),
    path("flights/", include((NUMBERED, "flights"))),
    path("flight/new/", new_flight, name="new-flight"),
    path("flight/<str:code>/", echo, name="flight"),
    path("gates/<str:airport>/", gates, name="gates"),
    path("hello/", hello, name="hello"),
    path("mine/", Mine.as_view(), name="mine"),
    path("pages/", echo, {"page": 1}, name="pages"),
    path("pages/<int:page>/", echo, name="pages"),
    path("secret/", secret, name="secret"),
    path("session/", session, name="session"),
    path("staff/", staff_only, name="staff"),
    path("staff-403/", staff_or_403, name="staff-403"),
    path("ann/", ann_only, name="ann"),
    path("linked/", linked, name="linked"),
    path("streamed/", streamed, name="streamed"),
    path("streamed-async/", streamed_async, name="streamed-async"),
    path("ticket/", ticket, name="ticket"),
    path("to/", to, name="to"),
    path("write/", write, name="write"),
    path("write-always/", write_always, name="write-always"),
    path("write-and-go/", write_and_go, name="write-and-go"),
    path("years/<views_site_year:year>/<uuid:key>/<path:rest>", echo, name="years"),
    re_path(r"^old/(?P<month>[a-z]{3})/(?:(?P<day>\d+)/)?$", echo, name="old"),
    re_path(r"^unnamed/(\d+)/(\w+)/$", echo, name="unnamed"),
    re_path(r"^mixed/(\d+)/(?P<word>\w+)/$", page_at, name="mixed"),
    re_path(r"^site/((?:[\w\-]+/)*)$", page_at, name="page-at"),
    re_path(r"^anything/(.*)$", page_at, name="anything"),
    re_path(r"^(\d{4})/", include([re_path(r"^(\d\d)/$", Month.as_view(), name="month")])),
    path("accounts/login/", lambda request: HttpResponse("<h1>Sign in</h1>"), name="login"),
]
urlpatterns = HERE
