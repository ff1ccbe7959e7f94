"""The form that holds rooms, for the site's page and as a tool."""

import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction

from demo_project.travel import bookings
from demo_project.travel.bookings import NotAvailableError, Offer
from demo_project.travel.models import Booking, Hotel


class HotelField(forms.ModelChoiceField):
    """A hotel, labelled with its city."""

    def label_from_instance(self, obj: Hotel) -> str:
        return f"{obj.city.name}: {obj.name}"


class BookingForm(forms.Form):
    """Hold rooms in a hotel until the agency calls back. No payment is due yet, and the booking can be cancelled."""

    hotel = HotelField(Hotel.objects.select_related("city").order_by("city__name", "name"))
    check_in = forms.DateField(
        label="First night", help_text="Within a year.", widget=forms.DateInput({"type": "date"})
    )
    nights = forms.IntegerField(min_value=1, max_value=30, help_text="A month at most.")
    travellers = forms.IntegerField(min_value=1, max_value=8, initial=2, help_text="Two share a room.")
    room = forms.ChoiceField(label="View", choices=Booking.Room, initial=Booking.Room.CITY)
    insurance = forms.BooleanField(label="Travel insurance", required=False, help_text="€4.50 per person and night.")

    def clean_check_in(self) -> datetime.date:
        check_in: datetime.date = self.cleaned_data["check_in"]
        if hotel := self.cleaned_data.get("hotel"):
            try:
                bookings.check_day(hotel.city, check_in)
            except NotAvailableError as error:
                raise ValidationError(str(error)) from None
        return check_in

    def save(self, user: Any) -> Booking:
        """Book for *user* with the status "held".

        Raises:
            ValidationError: no rooms are left.
        """
        given = self.cleaned_data
        offer = Offer(given["hotel"], given["check_in"], given["nights"], given["travellers"])
        with transaction.atomic():
            try:
                made = bookings.book(offer, user, room=given["room"], seat="", insured=given["insurance"])
            except NotAvailableError as error:
                raise ValidationError(str(error)) from None
            made.status = Booking.Status.HELD
            made.save(update_fields=["status"])
        return made
