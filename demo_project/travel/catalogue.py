"""The agency's models as MCP resources and tools: their fields, rows and queries. Nothing else is visible.

``view_permission = None`` admits all callers of the endpoint; the default is Django's view permission.
"""

from typing import Any

from demo_project.travel import models
from demo_project.travel.endpoints import SIGNED_IN, staff
from demo_project.travel.icons import BED, PLANE
from django_mcp import Context, ModelResource, register, server


class Catalogue(ModelResource):
    """Data that every signed-in user may view."""

    view_permission = None


@register(models.City, server=SIGNED_IN)
class Cities(Catalogue):
    """A city with an airport, climate data and activities."""

    uri, lookup_field, title_field = "travel://cities", "slug", "name"
    fields = ["name", "country", "region", "airport", "airport_name", "timezone", "airports", "trips"]
    search_fields, filterset_fields = ["name", "slug", "country", "=airport"], ["region", "country"]
    filter_only_fields, ordering, app = ["slug"], ["name"], True
    aggregates, group_by_fields = {}, ["region", "country"]


@register(models.Airport, server=SIGNED_IN)
class Airports(Catalogue):
    """An airport, identified by its IATA code."""

    uri, lookup_field, title_field = "travel://airports", "code", "name"
    fields = ["code", "name", "city", "city__name"]
    search_fields, filterset_fields, ordering = ["=code", "name", "city__name"], ["city"], ["code"]


@register(models.Flight, server=SIGNED_IN)
class Flights(Catalogue):
    """One departure in one cabin, with today's fare. To find flights on a day, use search_flights."""

    fields = ["number", "airline", "origin", "destination", "departs", "arrives", "cabin", "price", "seats_left"]
    title_field, icons, max_list_size = "number", [PLANE], 0
    tools = ["get", "aggregate"]
    filterset_fields = ["origin", "destination", "airline", "cabin", "departs__date", "departs__year", "departs__month"]
    aggregates, group_by_fields = {"price": ["min", "max", "avg"]}, ["airline", "cabin", "departs__month"]


@register(models.Hotel, server=SIGNED_IN)
class Hotels(Catalogue):
    """A hotel that the agency books. Prices are in euros per room and night."""

    fields = ["name", "city", "city__name", "district", "stars", "rating", "price", "breakfast"]
    uri, title_field, icons = "travel://hotels", "name", [BED]
    search_fields = ["name", "district", "city__name"]
    filterset_fields, app = ["city", "stars__gte", "rating__gte", "price__lte", "breakfast"], True
    ordering, ordering_fields = ["city__name", "name"], ["price", "rating", "stars"]
    aggregates, group_by_fields = {"price": ["min", "max", "avg"]}, ["city__name", "stars"]


@register(models.Activity, server=SIGNED_IN)
class Activities(Catalogue):
    """An activity in a city. Prices are in euros per person."""

    fields = ["name", "city", "city__name", "category", "description", "price", "duration"]
    title_field, max_list_size = "name", 0
    search_fields, filterset_fields = ["name", "description", "city__name"], ["city", "category", "price__lte"]
    ordering_fields = ["price", "name"]
    aggregates, group_by_fields = {"price": ["min", "avg"]}, ["category", "city__name"]


@register(models.Trip, server=SIGNED_IN)
class Trips(Catalogue):
    """A past trip planned by the agency."""

    uri, lookup_field, title_field = "trips://history", "slug", "title"
    fields = ["title", "city", "city__name", "starts", "ends", "travellers", "cost", "rating", "itinerary"]
    search_fields, filterset_fields = ["title", "itinerary", "city__name"], ["city", "rating__gte", "starts__year"]
    ordering, ordering_fields, app = ["-starts"], ["cost", "rating"], {"search": True, "get": "travel/trip.html"}


@register(models.RegionPreference, server=SIGNED_IN)
class Preferences(Catalogue):
    """Preferences of the agency's customers in a region: pace, lodging, interests, months to avoid."""

    uri, lookup_field, name, plural, tools = "travel://preferences", "region", "preferences", "preferences", ["get"]
    fields = ["region", "summary", "preferences"]


@register(models.Document, server=SIGNED_IN)
class Documents(Catalogue):
    """A guide, policy or list in Markdown. Use search_documents to find one."""

    uri, lookup_field, title_field, modified_field = "travel://documents", "slug", "title", "updated"
    fields, content_fields, tools = ["title", "category", "text", "updated"], {"text": "text/markdown"}, ["get"]


@register(models.CalendarEvent, server=SIGNED_IN)
class CalendarEvents(Catalogue):
    """An event in the agency's calendar or in your own."""

    fields = ["title", "starts", "ends", "location", "notes"]
    title_field, max_list_size = "title", 0
    search_fields, filterset_fields = ["title", "location", "notes"], ["starts__gte", "starts__lt", "starts__year"]
    ordering = ["starts"]

    def get_queryset(self, ctx: Context) -> Any:
        return models.CalendarEvent.objects.visible_to(ctx.user)


@register(models.Booking, server=server)
class OwnBookings(Catalogue):
    """Your own flight and hotel bookings, newest first."""

    fields = [
        *("reference", "status", "flight", "flight__number", "flight__departs", "hotel", "hotel__name"),
        *("hotel__city__name", "check_in", "nights", "travellers", "room", "seat", "insurance", "total", "created"),
    ]
    lookup_field, title_field, icons, max_list_size = "reference", "reference", [BED], 50
    search_fields, ordering = ["=reference", "hotel__name", "hotel__city__name", "=flight__number"], ["-created"]
    filterset_fields = ["status", "check_in__gte", "check_in__lte", "flight__departs__gte"]
    aggregates, group_by_fields = {"total": ["sum"]}, ["status"]

    def get_queryset(self, ctx: Context) -> Any:
        return models.Booking.objects.made_by(ctx.user)


@register(models.Booking, server=staff)
class AllBookings(OwnBookings):
    """The bookings of all customers, newest first."""

    view_permission = "travel.view_booking"
    fields = [*OwnBookings.fields, "user__username"]
    filterset_fields = [*OwnBookings.filterset_fields, "user__username", "hotel__city__name"]

    def get_queryset(self, ctx: Context) -> Any:  # noqa: ARG002 - all rows, given the permission to view bookings
        return models.Booking.objects.all()
