"""A model for each package."""

from colorfield.fields import ColorField
from django.db import models
from django_ckeditor_5.fields import CKEditor5Field
from django_countries.fields import CountryField
from django_fsm import FSMField, transition
from djmoney.models.fields import MoneyField
from mptt.models import MPTTModel, TreeForeignKey
from ordered_model.models import OrderedModel
from parler.models import TranslatableModel, TranslatedFields
from phonenumber_field.modelfields import PhoneNumberField
from polymorphic.models import PolymorphicModel
from safedelete.models import SafeDeleteModel
from simple_history.models import HistoricalRecords
from solo.models import SingletonModel
from taggit.managers import TaggableManager
from timezone_field import TimeZoneField
from tinymce.models import HTMLField
from treebeard.al_tree import AL_Node
from treebeard.mp_tree import MP_Node
from treebeard.ns_tree import NS_Node


class Named(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Imported(Named):
    """import-export."""

    price = models.DecimalField(max_digits=6, decimal_places=2, default=1)


class Versioned(Named):
    """reversion."""


class VersionedPart(Named):
    versioned = models.ForeignKey(Versioned, models.CASCADE)


class Recorded(Named):
    """simple-history."""

    history = HistoricalRecords()


class RecordedPart(Named):
    recorded = models.ForeignKey(Recorded, models.CASCADE)
    history = HistoricalRecords()


class Guarded(Named):
    """guardian."""


class Branch(MPTTModel):
    """mptt."""

    name = models.CharField(max_length=40)
    parent = TreeForeignKey("self", models.CASCADE, null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class DraggedBranch(Branch):
    class Meta:
        proxy = True


class PathNode(MP_Node):
    """treebeard."""

    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class SetNode(NS_Node):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class ListNode(AL_Node):
    name = models.CharField(max_length=40)
    parent = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="children_set", db_index=True
    )
    sib_order = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.name


class Shape(PolymorphicModel):
    """polymorphic."""

    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Circle(Shape):
    radius = models.IntegerField(default=1)


class Square(Shape):
    side = models.IntegerField(default=1)


class Drawing(Named):
    pass


class Stroke(PolymorphicModel):
    drawing = models.ForeignKey(Drawing, models.CASCADE)
    width = models.IntegerField(default=1)

    def __str__(self) -> str:
        return str(self.width)


class Pen(Stroke):
    ink = models.CharField(max_length=20)


class Brush(Stroke):
    hair = models.CharField(max_length=20)


class Translated(TranslatableModel):
    """parler."""

    code = models.CharField(max_length=10)
    translations = TranslatedFields(title=models.CharField(max_length=40))

    def __str__(self) -> str:
        return self.code


class Suffixed(Named):
    """modeltranslation."""


class Outer(Named):
    """nested-admin."""


class Middle(Named):
    outer = models.ForeignKey(Outer, models.CASCADE)


class Inner(Named):
    middle = models.ForeignKey(Middle, models.CASCADE)


class Sorted(Named):
    """adminsortable2."""

    place = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["place"]


class SortedPart(Named):
    owner = models.ForeignKey(Sorted, models.CASCADE)
    place = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["place"]


class Acted(Named):
    """object-actions."""

    is_done = models.BooleanField(default=False)


class Confirmed(Named):
    """admin-confirm."""

    price = models.IntegerField(default=1)


class Pressed(Named):
    """inline-actions."""


class PressedPart(Named):
    owner = models.ForeignKey(Pressed, models.CASCADE)


class Queried(Named):
    """djangoql."""

    size = models.IntegerField(default=1)


class Kept(SafeDeleteModel):
    """safedelete."""

    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Single(SingletonModel):
    """solo."""

    name = models.CharField(max_length=40, default="x")


class Ordered(OrderedModel):
    """ordered-model."""

    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Stated(Named):
    """fsm-2-admin."""

    state = FSMField(default="new", protected=True)

    @transition(field=state, source="new", target="done")
    def finish(self) -> None:
        """Finish it."""


class Ranged(Named):
    """rangefilter, autocomplete-filter."""

    day = models.DateField(null=True, blank=True)
    moment = models.DateTimeField(null=True, blank=True)
    size = models.IntegerField(default=1)
    outer = models.ForeignKey(Outer, models.SET_NULL, null=True, blank=True)


class Themed(Named):
    """unfold."""

    size = models.IntegerField(default=1)
    is_live = models.BooleanField(default=False)
    day = models.DateTimeField(null=True, blank=True)
    outer = models.ForeignKey(Outer, models.SET_NULL, null=True, blank=True)


class ThemedPart(Named):
    themed = models.ForeignKey(Themed, models.CASCADE)


class Tagged(Named):
    tags = TaggableManager(blank=True)


class Paid(Named):
    price = MoneyField(max_digits=10, decimal_places=2, default_currency="EUR")
    maximum = MoneyField(max_digits=10, decimal_places=2, default_currency="EUR", null=True, blank=True)


class Rich(Named):
    tiny = HTMLField(blank=True)
    editor = CKEditor5Field(blank=True)
    note = models.TextField(blank=True)


class Special(Named):
    color = ColorField(default="#FF0000")
    country = CountryField(blank=True)
    countries = CountryField(multiple=True, blank=True)
    phone = PhoneNumberField(blank=True)
    zone = TimeZoneField(default="UTC")
    data = models.JSONField(default=dict, blank=True)
