"""Model fields of the package."""

import json
import re
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
    _IdentifierField = models.CharField[Any, str]
    _UniqueKeyField = models.CharField[Any, str | None]
else:
    _Field = models.Field
    _IdentifierField = _UniqueKeyField = models.CharField


class ExactCollation:
    """Mixin of text fields that every database compares exactly.

    MariaDB and MySQL ignore case, accents and spaces at the end otherwise: two callers, keys or clients would be one.
    """

    def db_parameters(self, connection: Any) -> Any:
        parameters = super().db_parameters(connection)  # type: ignore[misc] # of the field
        if connection.vendor == "mysql":
            parameters["collation"] = "utf8mb4_nopad_bin" if connection.mysql_is_mariadb else "utf8mb4_0900_bin"
        return parameters


class IdentifierField(ExactCollation, _IdentifierField):
    """A text that identifies something."""


class UniqueKeyField(ExactCollation, _UniqueKeyField):
    """A unique text that the row's ``compute_unique_key()`` returns, or NULL if there may be several such rows.

    MariaDB and MySQL have no unique constraints with a condition, and NULLs are distinct in all databases. It is set
    when the row is saved or created in bulk. A queryset's ``update()`` must set it, which a check constraint ensures.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"max_length": 64, "null": True, "unique": True, "editable": False, **options})

    def pre_save(self, model_instance: Any, add: bool) -> Any:  # noqa: ARG002 - Django's
        value = model_instance.compute_unique_key()
        setattr(model_instance, self.attname, value)
        return value


_SURROGATE = re.compile("[\ud800-\udfff]")


class JSONTextField(_Field):
    """JSON stored as text, as people read it: the searches of the admin look for words in it.

    Clients may send NUL, which PostgreSQL's jsonb rejects. NUL and lone surrogates, which no database takes as they
    are, are stored escaped.
    """

    def get_internal_type(self) -> str:
        return "TextField"

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Return the value as JSON, or None for NULL.

        Raises:
            TypeError: it has no JSON form.
        """
        if value is None:
            return None
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
