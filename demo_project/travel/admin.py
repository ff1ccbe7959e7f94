"""The agency's back office."""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest

from demo_project.travel import bookings, models
from demo_project.travel.bookings import NotAvailableError


class AirportInline(admin.TabularInline):
    model = models.Airport
    extra = 0


@admin.register(models.City)
class CityAdmin(admin.ModelAdmin):
    list_display = ["name", "country", "region", "airport", "timezone"]
    list_filter = ["region"]
    search_fields = ["name", "slug", "country", "airport", "metro"]
    prepopulated_fields = {"slug": ["name"]}
    fieldsets = [
        (None, {"fields": ["name", "slug", "country", "region", "timezone", "latitude", "longitude"]}),
        ("Airport", {"fields": ["airport", "metro", "airport_name"]}),
        (
            "Climate",
            {
                "description": "From these numbers the weather of any day is computed.",
                "fields": [
                    *("temp_mean", "temp_swing", "warmest_month", "daily_range", "rain_days", "rain_swing"),
                    *("wettest_month", "humidity", "wind"),
                ],
            },
        ),
    ]
    inlines = [AirportInline]


@admin.register(models.Airport)
class AirportAdmin(admin.ModelAdmin):
    list_display = ["code", "name", "city"]
    list_filter = ["city__region"]
    list_select_related = ["city"]
    search_fields = ["code", "name", "city__name"]
    autocomplete_fields = ["city"]


@admin.register(models.Flight)
class FlightAdmin(admin.ModelAdmin):
    list_display = ["number", "airline", "origin", "destination", "departs", "arrives", "cabin", "price", "seats_left"]
    list_filter = ["cabin", "airline"]
    list_select_related = ["origin", "destination"]
    search_fields = ["number", "origin__name", "origin__airport", "destination__name", "destination__airport"]
    autocomplete_fields = ["origin", "destination"]
    date_hierarchy = "departs"


@admin.register(models.Hotel)
class HotelAdmin(admin.ModelAdmin):
    list_display = ["name", "city", "district", "stars", "rating", "price", "breakfast"]
    list_filter = ["stars", "breakfast", "city__region"]
    list_select_related = ["city"]
    search_fields = ["name", "district", "city__name"]
    autocomplete_fields = ["city"]


@admin.register(models.Activity)
class ActivityAdmin(admin.ModelAdmin):
    list_display = ["name", "city", "category", "price", "duration"]
    list_filter = ["category", "city__region"]
    list_select_related = ["city"]
    search_fields = ["name", "description", "city__name"]
    autocomplete_fields = ["city"]


@admin.register(models.CalendarEvent)
class CalendarEventAdmin(admin.ModelAdmin):
    list_display = ["title", "starts", "ends", "location", "owner"]
    list_filter = ["owner"]
    list_select_related = ["owner"]
    search_fields = ["title", "location", "notes"]
    autocomplete_fields = ["owner"]
    date_hierarchy = "starts"


@admin.register(models.Trip)
class TripAdmin(admin.ModelAdmin):
    list_display = ["title", "city", "starts", "ends", "travellers", "cost", "rating"]
    list_filter = ["rating", "city__region"]
    list_select_related = ["city"]
    search_fields = ["title", "slug", "itinerary"]
    autocomplete_fields = ["city"]
    date_hierarchy = "starts"


@admin.register(models.Booking)
class BookingAdmin(admin.ModelAdmin):
    list_display = ["reference", "user", "flight", "hotel", "check_in", "nights", "total", "status"]
    list_filter = ["status"]
    list_select_related = ["user", "flight", "hotel"]
    search_fields = ["reference", "user__username", "hotel__name", "flight__number"]
    autocomplete_fields = ["user", "flight", "hotel"]
    date_hierarchy = "created"
    actions = ["refund"]

    @admin.action(description="Cancel and refund selected %(verbose_name_plural)s", permissions=["change"])
    def refund(self, request: HttpRequest, selected: Any) -> None:
        """Cancel bookings at the agency's expense, and give back the whole price."""
        for reference in selected.values_list("reference", flat=True):
            try:
                with transaction.atomic():
                    booking = bookings.cancel(models.Booking.objects.in_full(), reference)
                    self.log_change(request, booking, f"Refunded €{booking.total:.2f}.")
            except NotAvailableError as error:
                self.message_user(request, f"Not refunded: {error}", messages.WARNING)
            else:
                self.message_user(request, f"{booking}: cancelled, €{booking.total:.2f} refunded.")


@admin.register(models.Document)
class DocumentAdmin(admin.ModelAdmin):
    list_display = ["title", "category", "updated"]
    list_filter = ["category"]
    search_fields = ["title", "text"]
    prepopulated_fields = {"slug": ["title"]}
    date_hierarchy = "updated"


@admin.register(models.RegionPreference)
class RegionPreferenceAdmin(admin.ModelAdmin):
    list_display = ["region", "summary"]
    search_fields = ["region", "summary"]


@admin.register(models.Report)
class ReportAdmin(admin.ModelAdmin):
    list_display = ["title", "owner", "expires"]
    list_select_related = ["owner"]
    search_fields = ["title", "owner__username"]
    autocomplete_fields = ["owner"]


@admin.register(models.SentEmail)
class SentEmailAdmin(admin.ModelAdmin):
    list_display = ["subject", "recipients", "sent"]
    search_fields = ["subject", "recipients", "body"]
    date_hierarchy = "sent"
