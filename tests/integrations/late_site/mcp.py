"""Forms, sets of forms and an API whose choices are rows."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy
from rest_framework import serializers, viewsets

from django_mcp import form_tool
from django_mcp.contrib.drf import drf_tools
from tests.integrations.late_site.models import Room


def rooms() -> list[tuple[str, str]]:
    """Ask the database."""
    return [(room.name, room.name) for room in Room.objects.order_by("name")]


class BookingForm(forms.Form):
    """Book a room."""

    room = forms.ChoiceField(label=gettext_lazy("Yes"))
    host = forms.ChoiceField(choices=rooms)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["room"].choices = rooms()  # type: ignore[attr-defined]

    def save(self) -> str:
        """Say which."""
        return f"Booked {self.cleaned_data['room']}."


class RoomForm(forms.ModelForm):
    """Add a room like another one."""

    class Meta:
        """Two fields."""

        model = Room
        fields = ("name", "seats")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["seats"].initial = max(seats for (seats,) in Room.objects.values_list("seats"))


class RoomSerializer(serializers.ModelSerializer[Room]):
    """A room, and one that is like it."""

    class Meta:
        """All of it."""

        model = Room
        fields = ("id", "name", "seats")

    def get_fields(self) -> dict[str, Any]:
        """Offer the rooms there are."""
        fields = super().get_fields()
        fields["like"] = serializers.ChoiceField(choices=rooms(), help_text=gettext_lazy("Yes"), write_only=True)
        return fields


class RoomViewSet(viewsets.ModelViewSet[Room]):
    """The rooms."""

    queryset = Room.objects.order_by("name")
    serializer_class = RoomSerializer


form_tool(BookingForm)
form_tool(RoomForm, name="new_room")
form_tool(forms.formset_factory(BookingForm, max_num=3, validate_max=True), name="book_rooms", handle=lambda *_: "")
drf_tools(RoomViewSet)
