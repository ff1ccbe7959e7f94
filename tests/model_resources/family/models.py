"""Rows in several tables and under several classes: a person, what is more than a person, and who refers to them."""

from typing import Any

from django.db import models


class Person(models.Model):
    """Somebody."""

    name = models.CharField(max_length=50)
    hidden = models.BooleanField(default=False)
    friends = models.ManyToManyField("self", blank=True)

    def __str__(self) -> str:
        return f"secret {self.name}"


class Alias(Person):
    """The same rows under another class."""

    class Meta:
        """No table of its own."""

        proxy = True


class Other(Person):
    """The same rows under yet another class."""

    class Meta:
        """No table of its own."""

        proxy = True


class Critic(Person):
    """A person who also has a row in another table."""

    paper = models.CharField(max_length=50, default="Gazette")


class Chief(Critic):
    """A critic with a row in a third table."""

    desk = models.CharField(max_length=50, default="Arts")


class Column(models.Model):
    """A text that refers to people of each class."""

    title = models.CharField(max_length=50)
    person = models.ForeignKey(Person, models.CASCADE, null=True, blank=True, related_name="columns")
    alias = models.ForeignKey(Alias, models.CASCADE, null=True, blank=True, related_name="+")
    critic = models.ForeignKey(Critic, models.CASCADE, null=True, blank=True, related_name="+")
    chief = models.ForeignKey(Chief, models.CASCADE, null=True, blank=True, related_name="+")
    readers: Any = models.ManyToManyField(Critic, blank=True, related_name="+")

    def __str__(self) -> str:
        return self.title


class KeptInMemory:
    """A set that is stored when its row is saved, as those of django-modelcluster. Also gives itself to classes."""

    def __init__(self, field: "KeptField", plain: Any, obj: Any = None) -> None:
        self.field, self.plain, self.obj = field, plain, obj

    def __get__(self, obj: Any, kind: Any = None) -> Any:
        return self.plain.__get__(obj, kind) if obj is None else KeptInMemory(self.field, self.plain, obj)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain.__get__(self.obj), name)

    def set(self, rows: Any) -> None:
        vars(self.obj)["_kept"] = list(rows)

    def commit(self) -> None:
        if "_kept" in vars(self.obj):
            self.plain.__get__(self.obj).set(vars(self.obj).pop("_kept"))


class KeptField(models.ManyToManyField):  # type: ignore[type-arg]
    """A relation with such a set, marked as modelcluster marks it."""

    _need_commit_after_assignment = True

    def contribute_to_class(self, cls: Any, name: str, **options: Any) -> None:
        super().contribute_to_class(cls, name, **options)
        setattr(cls, name, KeptInMemory(self, getattr(cls, name)))


class Markup:
    """A text with its HTML, which ``str`` returns."""

    def __init__(self, raw: str) -> None:
        self.raw = raw

    def __str__(self) -> str:
        return f"<p>{self.raw}</p>"


class MarkupDescriptor:
    """Gives a ``Markup``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, kind: Any = None) -> Any:
        return self if obj is None else Markup(vars(obj)[self.name])

    def __set__(self, obj: Any, value: Any) -> None:
        vars(obj)[self.name] = getattr(value, "raw", value)


class MarkupField(models.TextField):  # type: ignore[type-arg]
    """A column whose fixtures hold what was written, as that of django-markupfield."""

    def contribute_to_class(self, cls: Any, name: str, **options: Any) -> None:
        super().contribute_to_class(cls, name, **options)
        setattr(cls, name, MarkupDescriptor(name))

    def get_prep_value(self, value: Any) -> Any:
        return getattr(value, "raw", value)

    def to_python(self, value: Any) -> Any:
        return value if isinstance(value, Markup) else super().to_python(value)

    def value_to_string(self, obj: Any) -> Any:
        return self.value_from_object(obj).raw


class Car(models.Model):
    """Its columns have names that our classes use, and its code is unique by a constraint."""

    model = models.CharField(max_length=20)
    admin = models.CharField(max_length=20, default="somebody")
    count = models.PositiveSmallIntegerField(default=4)
    code = models.CharField(max_length=20)
    notes = MarkupField(default="plain")
    drivers: Any = KeptField(Person, blank=True, related_name="+")

    class Meta:
        """A car has a code of its own."""

        constraints = (models.UniqueConstraint(fields=["code"], name="one_car_of_a_code"),)

    def __str__(self) -> str:
        return self.model


COUNTRIES = [(f"C{at:03}", "Norway" if at == 47 else f"Land {at}") for at in range(60)]


class Truck(models.Model):
    """Its values are codes."""

    state = models.CharField(
        max_length=1,
        choices=[("w", "waiting"), ("o", "open")],
        default="w",
        help_text='As <abbr title="to all">shown</abbr>.',
    )
    country = models.CharField(max_length=4, choices=COUNTRIES, default="C000")
    car = models.ForeignKey(Car, models.CASCADE, null=True, blank=True, related_name="trucks")

    def __str__(self) -> str:
        return self.state
