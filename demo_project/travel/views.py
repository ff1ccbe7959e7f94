"""The site's pages."""

import re
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from demo_project.travel import flights
from demo_project.travel.endpoints import office, open_, staff
from demo_project.travel.forms import BookingForm
from demo_project.travel.models import City, SentEmail
from demo_project.travel.sample_users import SAMPLE_USERS
from django_mcp import MCPServer, server


class Endpoint(NamedTuple):
    """An endpoint as shown on the front page."""

    url: str
    who: str
    what: str

    @classmethod
    def of(cls, endpoint: MCPServer, who: str, what: str) -> "Endpoint":
        """Use the address that tokens are issued for, rather than the request's."""
        return cls(settings.BASE_URL + reverse(f"django_mcp:{endpoint.name}"), who, what)


def endpoints() -> list[Endpoint]:
    return [
        Endpoint.of(server, "All users", "flights, hotels, weather, your own bookings and calendar"),
        Endpoint.of(staff, "Staff: anna, tim and admin", "bookings of all customers, and the occupancy of hotels"),
        Endpoint.of(office, "The back office: anna, tim and admin", "the admin as tools; changes wait for approval"),
        Endpoint.of(open_, "Public, without signing in", "flights, weather, activities and documents, read-only"),
    ]


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The front page: the endpoints, sample users, and amount of data."""
    models = apps.get_app_config("travel").get_models()
    counts = [(model._meta.verbose_name_plural, f"{model._default_manager.count():,}") for model in models]  # noqa: SLF001
    host = urlsplit(settings.BASE_URL).netloc
    context = {
        "site": settings.BASE_URL,
        "endpoints": endpoints(),
        "counts": counts,
        "came_by": None if request.get_host() == host else request.get_host(),
        "people": SAMPLE_USERS,
    }
    return render(request, "travel/index.html", context)


class SignIn(LoginView):
    """Django's login, with the names and passwords of the sample users on the page."""

    template_name = "travel/login.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(people=SAMPLE_USERS, **kwargs)


@require_safe
@login_required
def outbox(request: HttpRequest) -> HttpResponse:
    """The agency's latest sent mail, for its staff."""
    if not request.user.is_staff:
        raise PermissionDenied
    return render(request, "travel/outbox.html", {"mails": SentEmail.objects.all()[:50]})


@require_safe
def privacy(request: HttpRequest) -> HttpResponse:
    """The privacy policy, which directories of connectors ask for."""
    return render(request, "travel/privacy.html")


@require_safe
def departures(request: HttpRequest, airport: str) -> JsonResponse:
    """List the next departures of an airport.

    Args:
        airport: IATA code of a city's airport, such as BCN.
        hours: Number of hours ahead.
    """
    hours = request.GET.get("hours", "24")
    if not re.fullmatch("[0-9]{1,3}", hours) or not 1 <= int(hours) <= flights.MAX_HOURS:
        return JsonResponse({"hours": [f"Enter a number from 1 to {flights.MAX_HOURS}."]}, status=400)
    city = get_object_or_404(City, airport=airport.upper())
    leaving = flights.next_departures(city, timezone.now(), timedelta(hours=int(hours)))
    rows = [
        {
            "number": flight.number,
            "departs": flight.departs.astimezone(city.zone).isoformat(),
            "destination": flight.destination.airport,
            "cabin": flight.cabin,
            "price": str(flight.price),
            "seats_left": flight.seats_left,
        }
        for flight in leaving
    ]
    return JsonResponse({"airport": city.airport, "city": city.name, "departures": rows})


@login_required
def book(request: HttpRequest) -> HttpResponse:
    """The form to hold rooms."""
    form, held = BookingForm(request.POST or None), None
    if form.is_valid():
        try:
            held = form.save(request.user)
        except ValidationError as error:
            form.add_error(None, error)
    return render(request, "travel/book.html", {"form": form, "held": held})
