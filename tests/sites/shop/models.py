"""What the shop has."""

from django.conf import settings
from django.db import models


class Item(models.Model):
    name = models.CharField(max_length=50, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default="1.00")
    added = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Book(Item):
    """A row in two tables."""

    pages = models.PositiveIntegerField(default=1)


class Order(models.Model):
    item = models.ForeignKey(Item, models.CASCADE)
    buyer = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    placed = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.item} for {self.buyer}"
