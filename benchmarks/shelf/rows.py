"""The rows of both tables: the same on every database, and as much alike as tables of different lengths can be."""

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

VOCABULARY = 2_000
RARE, OF_RARE = "quokka", 50
"""A word, and in how many rows of a table it is, however long that is."""
FIRST_DAY, DAYS = dt.date(1970, 1, 1), 20_000
PUBLISHERS = 1_000
NOT_LENT = 20
"""Of so many books one was never lent."""
_TURNS, _PRIME = 7919, 1_000_003


def slug_of(number: int) -> str:
    """The slug of the row of a number: neighbours begin differently."""
    return f"{number * _TURNS % _PRIME:06x}-book"


def fill(model: Any, count: int, say: Callable[[str], None]) -> None:
    """Give *model* so many rows, the same on every database."""
    if model.objects.count() == count:
        return
    from benchmarks.shelf.models import Publisher  # noqa: PLC0415 - Django is set up

    say(f"writing {count:,} rows")
    if not Publisher.objects.exists():
        Publisher.objects.bulk_create(Publisher(name=f"House {number}") for number in range(PUBLISHERS))
    chance = random.Random(count)
    for start in range(0, count, 10_000):
        numbers = range(start, min(count, start + 10_000))
        model.objects.bulk_create([model(**_row(number, count, chance)) for number in numbers], batch_size=500)


def _row(number: int, count: int, chance: random.Random) -> dict[str, Any]:
    words = [f"w{chance.randrange(VOCABULARY)}" for _ in range(12)]
    if number % (count // OF_RARE) == 0:
        words[5] = RARE
    lent = None if chance.randrange(NOT_LENT) == 0 else FIRST_DAY + dt.timedelta(days=chance.randrange(DAYS))
    return {
        "slug": slug_of(number),
        "title": f"{words[0]} and {words[1]}".title(),
        "published": FIRST_DAY + dt.timedelta(days=chance.randrange(DAYS)),
        "lent": lent,
        "stars": chance.randrange(5) + 1,
        "publisher_id": chance.randrange(PUBLISHERS) + 1,
        "text": " ".join(words),
    }
