"""Fields of these models."""

import json
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class JSONTextField(_Field):
    """JSON as text. What clients send may hold NUL, which PostgreSQL's own type refuses; and nobody queries it."""

    def get_internal_type(self) -> str:
        """Its column is that of a ``TextField``."""
        return "TextField"

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        """The value."""
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Its text; None is NULL.

        Raises:
            TypeError: it has no JSON form.
        """
        return None if value is None else json.dumps(value, separators=(",", ":"))
