"""A library, with something of every kind that can be exposed, and much that must not be."""

import json
import uuid
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models.fields.related_descriptors import ManyToManyDescriptor
from django.db.models.functions import NullIf, Upper
from django.utils.functional import cached_property
from django.utils.text import slugify


class Publisher(models.Model):
    """A house that prints books."""

    name = models.CharField(max_length=100)
    secret_terms = models.CharField(max_length=100, default="12 per cent")

    def __str__(self) -> str:
        return f"{self.name} ({self.secret_terms})"


class Author(models.Model):
    """Somebody who writes."""

    name = models.CharField(max_length=100)
    email = models.EmailField(default="author@example.com")
    password = models.CharField(max_length=100, default="pbkdf2$secret")
    born = models.DateField(null=True, blank=True)
    is_anonymous_writer = models.BooleanField(default=False)
    publisher = models.ForeignKey(Publisher, on_delete=models.CASCADE, null=True, blank=True, related_name="authors")

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


class Tag(models.Model):
    """A word for a shelf."""

    word = models.SlugField(unique=True)

    def __str__(self) -> str:
        return self.word


class Book(models.Model):
    """A book."""

    class Binding(models.TextChoices):
        """How it is bound."""

        PAPER = "paper", "Paperback"
        CLOTH = "cloth", "Cloth"

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    title = models.CharField(max_length=200, help_text="As on the cover.")
    slug = models.SlugField(max_length=200, unique=True)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="library_books",
        db_constraint=False,  # tables of an app without migrations are made before the users', as PostgreSQL notices
    )
    binding = models.CharField(max_length=10, choices=Binding, default=Binding.PAPER)
    published = models.DateField(null=True, blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=10)
    pages = models.PositiveSmallIntegerField(default=100)
    weight = models.FloatField(null=True, blank=True)
    reading_time = models.DurationField(null=True, blank=True)
    added = models.DateTimeField(null=True, blank=True)
    summary = models.TextField(blank=True)
    text = models.TextField(blank=True)
    cover = models.FileField(blank=True, upload_to="covers")
    raw = models.BinaryField(null=True, blank=True)
    extra = models.JSONField(null=True, blank=True)
    shelf = models.CharField(max_length=20, default="A")
    internal = models.CharField(max_length=100, default="not to be seen")
    tags = models.ManyToManyField(Tag, blank=True, related_name="books")

    def __str__(self) -> str:
        return f"{self.title} ({self.internal})"

    @property
    def pages_in_words(self) -> str:
        """How long it is."""
        return f"{self.pages} pages"

    def price_in_cents(self) -> int:
        """The price in cents."""
        return int(self.price * 100)


class Volume(Book):
    """The same rows as books under another class."""

    class Meta:
        """No table of its own."""

        proxy = True


class Review(models.Model):
    """What a reader thinks."""

    book = models.ForeignKey(Book, on_delete=models.CASCADE, related_name="reviews")
    text = models.TextField()
    stars = models.PositiveSmallIntegerField(default=3)
    is_public = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.text[:20]


class HiddenManager(models.Manager["Draft"]):
    """Leaves deleted rows out, as packages for soft deletion do."""

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(deleted=False)


class Draft(models.Model):
    """A text that may be deleted without being gone."""

    title = models.CharField(max_length=100)
    book = models.ForeignKey(Book, on_delete=models.CASCADE, null=True, blank=True, related_name="drafts")
    deleted = models.BooleanField(default=False)

    objects = HiddenManager()
    everything = models.Manager()  # noqa: DJ012 - the first manager is the default one

    def __str__(self) -> str:
        return self.title


class Ticket(models.Model):
    """What lets somebody in; its key tells nothing of when it was made."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    holder = models.CharField(max_length=100)
    about = models.ForeignKey(Tag, on_delete=models.CASCADE, null=True, blank=True, to_field="word")

    def __str__(self) -> str:
        return self.holder


class Copy(models.Model):
    """One copy of a book, which may be lent."""

    book = models.ForeignKey(Book, on_delete=models.PROTECT, related_name="copies")
    number = models.PositiveSmallIntegerField()
    place = models.ForeignKey(Publisher, on_delete=models.RESTRICT, null=True, blank=True)
    note = models.CharField(max_length=20)
    lent = models.DateField(null=True, blank=True)
    due = models.DateField(null=True, blank=True)
    opened = models.TimeField(null=True, blank=True)
    keeper = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, db_constraint=False
    )

    class Meta:
        """A number stands for one copy of a book, and none is due before it is lent."""

        constraints = (
            models.UniqueConstraint(fields=["book", "number"], name="one_copy_of_a_number"),
            models.CheckConstraint(
                condition=models.Q(due__isnull=True) | models.Q(due__gte=models.F("lent")), name="hidden_name_of_due"
            ),
            models.CheckConstraint(
                condition=models.Q(number__gte=1), name="counted", violation_error_message="Copies are counted from 1."
            ),
        )

    def __str__(self) -> str:
        return f"{self.book_id} / {self.number}"

    def clean(self) -> None:
        """What is lost is not lent."""
        if self.note == "lost" and self.lent:
            raise ValidationError({"note": "What is lost cannot be lent.", "keeper": "Somebody has to find it."})


class RareCopy(Copy):
    """A copy that is worth more than others; its columns are in two tables."""

    worth = models.DecimalField(max_digits=8, decimal_places=2)


class Note(models.Model):
    """A note about a row of any model."""

    content_type = models.ForeignKey(ContentType, on_delete=models.CASCADE, db_constraint=False)
    object_id = models.CharField(max_length=40)
    about = GenericForeignKey()
    text = models.CharField(max_length=100)
    writer = models.ForeignKey(Author, on_delete=models.CASCADE, null=True, blank=True)

    def __str__(self) -> str:
        return self.text


class Labels(ManyToManyDescriptor):
    """Gives a manager that prefetches no queryset but its own, as that of django-taggit does."""

    @cached_property
    def related_manager_cls(self) -> Any:
        kind: Any = super().related_manager_cls

        class Manager(kind):  # type: ignore[misc]
            def get_prefetch_querysets(self, instances: Any, querysets: Any = None) -> Any:
                if querysets is not None:
                    raise ValueError("Custom querysets can't be used for this lookup.")
                return super().get_prefetch_querysets(instances, querysets)

        return Manager


class LabelsField(models.ManyToManyField):  # type: ignore[type-arg]
    """A relation whose manager is not Django's own."""

    def contribute_to_class(self, cls: Any, name: str, **options: Any) -> None:
        super().contribute_to_class(cls, name, **options)
        setattr(cls, name, Labels(self.remote_field, reverse=False))


class Plant(models.Model):
    """A plant in the reading room, with relations that are not plain."""

    name = models.CharField(max_length=100)
    code = models.SlugField(unique=True, null=True, blank=True)
    notes = GenericRelation(Note, related_query_name="plant")
    labels = LabelsField(Tag, blank=True, related_name="plants")

    def __str__(self) -> str:
        return self.name


class Watering(models.Model):
    """When a plant was watered; its key has two columns."""

    pk = models.CompositePrimaryKey("plant_id", "day")
    plant = models.ForeignKey(Plant, on_delete=models.CASCADE, related_name="waterings")
    day = models.DateField()
    litres = models.PositiveSmallIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.day)


class Money:
    """An amount with its currency, as packages for money give it."""

    def __init__(self, amount: Any) -> None:
        self.amount = Decimal(amount)

    def __str__(self) -> str:
        return f"${self.amount:,.2f}"


class MoneyField(models.DecimalField):
    """A column of decimals that is no decimal in Python."""

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return None if value is None else Money(value)

    def to_python(self, value: Any) -> Any:
        return super().to_python(value.amount if isinstance(value, Money) else value)

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        return super().get_db_prep_save(self.to_python(value), connection)


class Stall(models.Model):
    """Where books are sold; its columns are of the kinds that are easily shown wrong."""

    name = models.CharField(max_length=50)
    opens = models.TimeField()
    rest = models.DurationField()
    width = models.IntegerField(default=2)
    length = models.IntegerField(default=3)
    rent = MoneyField(max_digits=8, decimal_places=2, default=1000)
    colour = models.CharField(max_length=20, db_default="red")
    area = models.GeneratedField(
        expression=models.F("width") * models.F("length"), output_field=models.IntegerField(), db_persist=True
    )
    sign = models.GeneratedField(
        expression=Upper(NullIf("name", models.Value(""))),
        output_field=models.CharField(max_length=50),
        db_persist=True,
    )

    def __str__(self) -> str:
        return self.name


class Block:
    """A part of a text, which a page shows as HTML."""

    def __init__(self, kind: str, value: str) -> None:
        self.kind, self.value = kind, value

    def __str__(self) -> str:
        return f"<{self.kind}>{self.value}</{self.kind}>"


class BlocksFormField(forms.Field):
    """Looks at each block by itself."""

    def clean(self, value: Any) -> Any:
        wrong = {str(at): "Write something." for at, each in enumerate(value) if not each.value.strip()}
        if wrong:
            raise BlocksError(wrong)
        return super().clean(value)


class BlocksError(ValidationError):
    """Says which blocks are wrong, as Wagtail's does."""

    def __init__(self, wrong: dict[str, str]) -> None:
        super().__init__("Some blocks are wrong.")
        self.wrong = wrong

    def as_json_data(self) -> dict[str, Any]:
        return {"blockErrors": self.wrong}


class BlocksField(models.Field):  # type: ignore[type-arg]
    """A column of JSON of a class of its own, as Wagtail's ``StreamField``: it leaves out what it does not know."""

    kinds = ("p", "h2")

    def get_internal_type(self) -> str:
        return "JSONField"

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            return [Block(each["type"], each["value"]) for each in json.loads(value) if each["type"] in self.kinds]
        return value

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else [{"type": each.kind, "value": each.value} for each in value]

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        stored = value if prepared else self.get_prep_value(value)
        return models.JSONField().get_db_prep_value(stored, connection, prepared=True)

    def formfield(self, **kwargs: Any) -> Any:
        return super().formfield(**{"form_class": BlocksFormField, **kwargs})


class Place:
    """Where something lies."""

    def __init__(self, shelf: str, number: int) -> None:
        self.shelf, self.number = shelf, number

    def __str__(self) -> str:
        return f"{self.shelf}/{self.number}"


class PlaceField(models.Field):  # type: ignore[type-arg]
    """A column of text of a class of its own."""

    def get_internal_type(self) -> str:
        return "TextField"

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            shelf, number = value.split("/")
            return Place(shelf, int(number))
        return value

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else str(value)


class Leaf(models.Model):
    """A page of a tree, which is validated as a whole whenever it is saved, as those of Wagtail."""

    path = models.CharField(max_length=255, unique=True)
    depth = models.PositiveIntegerField()
    children = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=10)
    title = models.CharField(max_length=100)
    slug = models.SlugField()
    body = BlocksField(help_text="What is on it.")
    place = PlaceField(null=True, blank=True)
    made = models.DateTimeField(auto_now_add=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = self.kind or "leaf"

    def __str__(self) -> str:
        return self.title

    @transaction.atomic
    def save(self, *args: Any, **kwargs: Any) -> None:
        self.complete()
        self.full_clean()
        super().save(*args, **kwargs)

    def complete(self) -> None:
        """Set what follows from the rest."""
        self.slug = self.slug or slugify(self.title)


class Words:
    """A text in several languages, as that of django-i18nfield."""

    def __init__(self, value: Any) -> None:
        try:
            self.data = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            self.data = value

    def __str__(self) -> str:
        return str(self.data["en"]) if isinstance(self.data, dict) else str(self.data)


class WordsFormField(forms.MultiValueField):
    """An input for each language."""

    def __init__(self, **options: Any) -> None:
        options.pop("max_length", None)
        options["widget"] = forms.MultiWidget([forms.TextInput, forms.TextInput])
        super().__init__(fields=[forms.CharField(required=False), forms.CharField(required=False)], **options)

    def compress(self, data_list: Any) -> Words:
        """The text of both inputs."""
        return Words(dict(zip(("en", "de"), data_list, strict=True)))

    def clean(self, value: Any) -> Any:
        """Accept a text as it is, too."""
        return value if isinstance(value, Words) else super().clean(value)


class WordsField(models.TextField):  # type: ignore[type-arg]
    """A column that stores its languages as text."""

    def to_python(self, value: Any) -> Any:
        """The text with its languages."""
        return value if value is None or isinstance(value, Words) else Words(value)

    def from_db_value(self, value: Any, *args: Any) -> Any:
        """What was stored, with its languages."""
        return self.to_python(value)

    def get_prep_value(self, value: Any) -> Any:
        """What is stored."""
        data = value.data if isinstance(value, Words) else value
        return json.dumps(data, sort_keys=True) if isinstance(data, dict) else data

    def value_to_string(self, obj: Any) -> Any:
        """What a fixture has."""
        return self.get_prep_value(self.value_from_object(obj))

    def formfield(self, **options: Any) -> Any:
        """An input for each language."""
        return super().formfield(**{"form_class": WordsFormField, **options})


class Sign(models.Model):
    """A sign in several languages."""

    name = WordsField()

    def __str__(self) -> str:
        return str(self.name)
