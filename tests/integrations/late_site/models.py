"""What there is to choose, and models that ask the database when they are made or described."""

from typing import Any

from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q


class Room(models.Model):
    """A room that can be booked."""

    name = models.CharField(max_length=50, unique=True)
    seats = models.PositiveSmallIntegerField(default=2)

    def __str__(self) -> str:
        return self.name


def next_number() -> int:
    """Ask the database."""
    return Order.objects.count() + 1


def most_seats() -> int:
    """Ask the database."""
    return max(Room.objects.values_list("seats", flat=True))


def first_room() -> int:
    """Write a row, as a default with ``get_or_create`` does."""
    return Room.objects.get_or_create(name="default")[0].pk


def large_rooms() -> Q:
    """Ask the database."""
    return Q(seats__gte=most_seats())


class Order(models.Model):
    """An order whose columns ask the database in each way that Django allows."""

    number = models.PositiveIntegerField(default=next_number, unique=True)
    note = models.CharField(max_length=100, blank=True, validators=[MaxLengthValidator(most_seats)])
    seats = models.PositiveSmallIntegerField(default=1)
    room = models.ForeignKey(Room, models.CASCADE, default=first_room, limit_choices_to=large_rooms)
    others = models.ManyToManyField(Room, related_name="+", limit_choices_to=large_rooms, blank=True)

    def __str__(self) -> str:
        return f"{self.number}"


class Page(models.Model):
    """A page that asks the database when it is made, as Wagtail's do."""

    title = models.CharField(max_length=50)
    order = models.ForeignKey(Order, models.CASCADE, null=True, blank=True)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rooms = Room.objects.count()

    def __str__(self) -> str:
        return self.title


class Visits(models.Manager["Visit"]):
    """Asks the database for its queryset."""

    def get_queryset(self) -> models.QuerySet["Visit"]:
        """Return the visits of rooms that exist."""
        return super().get_queryset().filter(room__in=[*Room.objects.values_list("pk", flat=True)])


class Visit(models.Model):
    """A visit, whose default manager asks the database."""

    room = models.ForeignKey(Room, models.CASCADE)
    before = models.ForeignKey("self", models.CASCADE, null=True, blank=True)

    objects = Visits()

    def __str__(self) -> str:
        return f"visit {self.pk}"
