"""The two tables, with the indexes that ``docs/large-tables.md`` recommends."""

from django.db import connection, models
from django.db.models import Index

ON_POSTGRESQL = connection.vendor == "postgresql"


class Publisher(models.Model):
    """A house that prints books."""

    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Book(models.Model):
    """A book: on PostgreSQL with both ways to have an index for full-text search."""

    slug = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=100)
    published = models.DateField()
    lent = models.DateField(null=True)
    stars = models.PositiveSmallIntegerField()
    publisher = models.ForeignKey(Publisher, on_delete=models.CASCADE, null=True, db_index=False)
    text = models.TextField()

    class Meta:
        abstract = True
        indexes = (
            Index("published", "id", name="%(class)s_published"),
            Index("lent", "id", name="%(class)s_lent"),
            Index("stars", "id", name="%(class)s_stars"),
            Index("publisher", "id", name="%(class)s_publisher"),
        )

    def __str__(self) -> str:
        return self.title


if ON_POSTGRESQL:
    from django.contrib.postgres.indexes import GinIndex
    from django.contrib.postgres.search import SearchVector, SearchVectorField

    WORDS = SearchVector("text", config="english")

    class SearchableBook(Book):
        """A book whose words PostgreSQL finds."""

        words = models.GeneratedField(expression=WORDS, output_field=SearchVectorField(), db_persist=True)

        class Meta(Book.Meta):
            abstract = True
            indexes = (
                *Book.Meta.indexes,
                GinIndex(fields=["words"], name="%(class)s_words"),
                GinIndex(WORDS, name="%(class)s_text"),
            )
else:

    class SearchableBook(Book):
        """A book as it is."""

        class Meta(Book.Meta):
            abstract = True


class Thousand(SearchableBook):
    """The short table."""


class Million(SearchableBook):
    """The long table."""
