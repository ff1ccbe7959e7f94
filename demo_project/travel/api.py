"""The agency's REST API for its own pages and apps: the user's calendar."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import filters, pagination, permissions, routers, serializers, viewsets

from demo_project.travel.models import CalendarEvent


class EventSerializer(serializers.ModelSerializer):
    """An event in a traveller's calendar."""

    class Meta:
        model = CalendarEvent
        fields = ["id", "title", "starts", "ends", "location", "notes"]
        extra_kwargs = {
            "title": {"help_text": "Short title of the event."},
            "location": {"help_text": "Place of the event."},
            "notes": {"help_text": "Further notes."},
            "starts": {"help_text": "ISO 8601, such as 2030-05-01T15:00+02:00. Without an offset, UTC."},
            "ends": {"help_text": "ISO 8601. Not before starts."},
        }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        starts, ends = (attrs.get(name) or getattr(self.instance, name) for name in ("starts", "ends"))
        if ends < starts:
            raise serializers.ValidationError({"ends": "The event must not end before it starts."})
        return attrs


class TwentyEach(pagination.PageNumberPagination):
    """Pages of twenty."""

    page_size = 20


class EventViewSet(viewsets.ModelViewSet):
    """Your own calendar events, which only you can see. The agency's events are not included."""

    queryset = CalendarEvent.objects.order_by("starts", "pk")
    serializer_class = EventSerializer
    permission_classes = [permissions.IsAuthenticated]
    pagination_class = TwentyEach
    filter_backends = [filters.SearchFilter, filters.OrderingFilter]
    search_fields = ["title", "location", "notes"]
    ordering_fields = ["starts", "title"]

    def get_queryset(self) -> QuerySet[CalendarEvent]:
        return super().get_queryset().filter(owner=self.request.user)

    def perform_create(self, serializer: EventSerializer) -> None:
        serializer.save(owner=self.request.user)


router = routers.SimpleRouter()
router.register("events", EventViewSet, basename="event")
