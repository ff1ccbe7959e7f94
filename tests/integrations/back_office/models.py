"""Tables of the shop: each kind of field, key, relation and deletion that an admin's pages show."""

import uuid

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone


class Category(models.Model):
    name = models.CharField(max_length=40, unique=True)
    parent = models.ForeignKey("self", models.CASCADE, null=True, blank=True)

    class Meta:
        verbose_name_plural = "categories"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Tag(models.Model):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Supplier(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Label(models.Model):
    """Keys as texts, also with what an address has to quote."""

    code = models.CharField(max_length=20, primary_key=True)
    text = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.text


class AddressField(models.URLField):
    """A URL: Django 5.2 warns where nobody says which scheme is meant."""

    def formfield(self, **kwargs):
        return super().formfield(**{"assume_scheme": "https", **kwargs})

    def deconstruct(self):
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.URLField", arguments, options


def empty() -> dict[str, object]:
    return {"made": "by default"}


class Product(models.Model):
    class Kind(models.TextChoices):
        BOOK = "book", "Book"
        TOY = "toy", "Toy"
        OTHER = "other", "Other thing"

    name = models.CharField(max_length=40)
    sku = models.CharField("article number", max_length=20, unique=True)
    slug = models.SlugField(blank=True)
    description = models.TextField(blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    cost = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    stock = models.IntegerField(default=0)
    weight = models.FloatField(null=True, blank=True)
    is_live = models.BooleanField(default=False)
    is_checked = models.BooleanField(null=True, blank=True)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.BOOK)
    size = models.IntegerField(choices=[(1, "small"), (2, "large")], null=True, blank=True)
    category = models.ForeignKey(Category, models.PROTECT)
    supplier = models.ForeignKey(Supplier, models.SET_NULL, null=True, blank=True)
    tags = models.ManyToManyField(Tag, blank=True)
    data = models.JSONField(default=empty, blank=True)
    released = models.DateField(null=True, blank=True)
    sold_at = models.DateTimeField(null=True, blank=True)
    opens = models.TimeField(null=True, blank=True)
    lasts = models.DurationField(null=True, blank=True)
    homepage = AddressField(blank=True)
    contact = models.EmailField(blank=True)
    manual = models.FileField(upload_to="manuals", blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    added = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)
    notes = GenericRelation("Note")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"/products/{self.pk}/"

    @property
    def shouted(self) -> str:
        return self.name.upper()

    def clean(self) -> None:
        if self.price is not None and self.price < 0:
            raise ValidationError({"price": "Prices are positive."})


class LiveProduct(Product):
    """A proxy."""

    class Meta:
        proxy = True


class Download(Product):
    """A table with a parent's."""

    address = models.CharField(max_length=100, blank=True)


class Variant(models.Model):
    product = models.ForeignKey(Product, models.CASCADE)
    name = models.CharField(max_length=40)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class Note(models.Model):
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.PositiveBigIntegerField()
    about = GenericForeignKey()
    text = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.text


class Customer(models.Model):
    name = models.CharField(max_length=40)
    email = models.EmailField(blank=True)
    api_key = models.CharField(max_length=40, blank=True)
    salary = models.IntegerField(null=True, blank=True)
    is_active = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    customer = models.ForeignKey(Customer, models.PROTECT, limit_choices_to={"is_active": True})
    placed = models.DateTimeField(default=timezone.now)
    status = models.CharField(max_length=10, choices=[("open", "open"), ("paid", "paid")], default="open")

    class Meta:
        ordering = ["-placed", "pk"]

    def __str__(self) -> str:
        return self.number


class OrderLine(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.RESTRICT)
    quantity = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product_id}"


class Person(models.Model):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Badge(models.Model):
    """An inline's row whose key is given by hand."""

    code = models.CharField(max_length=10, primary_key=True)
    person = models.ForeignKey(Person, models.CASCADE)

    def __str__(self) -> str:
        return self.code


class Club(models.Model):
    name = models.CharField(max_length=40)
    members = models.ManyToManyField(Person, through="Membership")
    fans = models.ManyToManyField(Person, blank=True, related_name="favourites")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    club = models.ForeignKey(Club, models.CASCADE)
    person = models.ForeignKey(Person, models.CASCADE)
    since = models.DateField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.person_id} in {self.club_id}"


class Match(models.Model):
    """A row with two parents of one kind."""

    home = models.ForeignKey(Club, models.CASCADE, related_name="home_matches")
    guest = models.ForeignKey(Club, models.CASCADE, related_name="guest_matches")
    result = models.CharField(max_length=10, blank=True)

    class Meta:
        verbose_name_plural = "matches"

    def __str__(self) -> str:
        return self.result


class OldCategory(models.Model):
    """A table that Django does not make."""

    name = models.CharField(max_length=40)

    class Meta:
        managed = False
        db_table = "back_office_category"
        verbose_name_plural = "old categories"

    def __str__(self) -> str:
        return self.name
