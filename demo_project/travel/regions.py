"""Regions of the world."""

from django.db import models


class Region(models.TextChoices):
    """Regions with customer preferences."""

    AFRICA = "africa", "Africa"
    ASIA = "asia", "Asia"
    EUROPE = "europe", "Europe"
    LATIN_AMERICA = "latin-america", "Latin America"
    MIDDLE_EAST = "middle-east", "Middle East"
    NORTH_AMERICA = "north-america", "North America"
    OCEANIA = "oceania", "Oceania"
