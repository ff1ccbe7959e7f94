"""Values as a database writes them, for cursors: what comes back has to be *the* value, not one that looks like it.

Values as Python has them will not do. On SQLite a decimal is a float that is rounded when it is read; without
``USE_TZ`` two moments an hour apart look the same where clocks were turned back; JSON has no infinity. A row whose
value comes back a little smaller would be given a second time, for ever.
"""

from typing import Any

from django.db import connections, models
from django.db.models import Func, QuerySet, Value
from django.db.models.functions import Cast


def vendor_of(rows: QuerySet[Any]) -> str:
    """Which database *rows* are read from, like ``"sqlite"``."""
    return connections[rows.db].vendor


def written(expression: Any, vendor: str) -> Any:
    """An expression for *expression* as text; on SQLite for the text or number that is stored, whatever its column."""
    if vendor == "sqlite":
        # The plus does nothing, but for keeping the driver from reading the value as what its column was declared.
        return Func(expression, template="+%(expressions)s", output_field=models.Field())
    return Cast(expression, models.TextField())


def as_value(value: Any, field: Any, vendor: str) -> Any:
    """What ``written`` gave, as an expression to compare with the column *field*."""
    if vendor == "postgresql":
        return Cast(Value(value), field)
    return Value(value, output_field=models.Field())
