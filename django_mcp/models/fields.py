"""Model fields of the package."""

import json
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class JSONTextField(_Field):
    """JSON stored as text. Clients may send NUL, which PostgreSQL's jsonb rejects, and nothing queries the values."""

    def get_internal_type(self) -> str:
        """Use the column type of ``TextField``."""
        return "TextField"

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        """Return the decoded value."""
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Return the value as JSON, or None for NULL.

        Raises:
            TypeError: it has no JSON form.
        """
        return None if value is None else json.dumps(value, separators=(",", ":"))
