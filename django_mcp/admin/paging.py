"""Pages of tables that are too long to be counted for each page."""

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts so far and no further. What lies behind is found by filters.

    Attributes:
        most: rows that are counted, and paged through.
    """

    most = 10_000

    @cached_property
    def count(self) -> int:
        """How many there are, up to ``most``."""
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[: self.most].count()
        return found
