"""Dates to choose from, above a list of calls: worked out, and not looked for in every row."""

import calendar
import datetime
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.utils import formats, timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_mcp.models import ToolCall

FIELD = "called"
_LEVELS = ("year", "month", "day")


class CallList(ChangeList):
    """What a page of the log shows.

    Django's own choices are the dates that some row has: a page of a million rows would read them all.
    """

    @cached_property
    def dates(self) -> dict[str, Any]:
        """For the template of Django's date hierarchy."""
        chosen = self._chosen()
        first, last = _bounds()
        if first is None or last is None:
            return {"show": False}
        if not chosen and first.year == last.year:
            chosen = [first.year, first.month] if first.month == last.month else [first.year]
        shown = [self._choice(chosen, each) for each in _below(chosen, first, last)]
        return {"show": True, "back": self._back(chosen), "choices": shown}

    def _chosen(self) -> list[int]:
        """Year, month and day, as far as they are chosen and numbers."""
        found: list[int] = []
        for level in _LEVELS:
            value = self.params.get(f"{FIELD}__{level}")
            text = str(value[0] if isinstance(value, list) else value)
            if not text.isdecimal() or len(text) > 4:  # noqa: PLR2004 - a year
                break
            found.append(int(text))
        return found

    def _choice(self, chosen: list[int], each: datetime.date) -> dict[str, str]:
        given = [each.year, each.month, each.day][: len(chosen) + 1]
        if len(chosen) == len(_LEVELS):
            return {"title": _title(each, len(chosen))}
        return {"title": _title(each, len(given)), "link": self._link(given)}

    def _back(self, chosen: list[int]) -> dict[str, str] | None:
        if not chosen:
            return None
        if len(chosen) == 1:
            return {"title": _("All dates"), "link": self._link([])}
        return {
            "title": _title(datetime.date(chosen[0], chosen[1], 1), len(chosen) - 1),
            "link": self._link(chosen[:-1]),
        }

    def _link(self, given: list[int]) -> str:
        new = {f"{FIELD}__{level}": value for level, value in zip(_LEVELS, given, strict=False)}
        return str(self.get_query_string(new, [f"{FIELD}__"]))


def _bounds() -> tuple[datetime.date | None, datetime.date | None]:
    """The days of the first call and of the last one."""
    times = [ToolCall.objects.order_by(order).values_list(FIELD, flat=True).first() for order in (FIELD, f"-{FIELD}")]
    first, last = (None if each is None else _local(each).date() for each in times)
    return first, last


def _local(moment: datetime.datetime) -> datetime.datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def _below(chosen: list[int], first: datetime.date, last: datetime.date) -> Iterator[datetime.date]:
    """The next level of what is chosen, as far as there are calls."""
    match chosen:
        case []:
            yield from (datetime.date(year, 1, 1) for year in range(first.year, last.year + 1))
        case [year]:
            months = (datetime.date(year, month, 1) for month in range(1, 13))
            yield from (each for each in months if first.replace(day=1) <= each <= last)
        case [year, month]:
            days = (datetime.date(year, month, day) for day in range(1, calendar.monthrange(year, month)[1] + 1))
            yield from (each for each in days if first <= each <= last)
        case [year, month, day]:
            yield datetime.date(year, month, day)


def _title(day: datetime.date, level: int) -> str:
    if level == 1:
        return str(day.year)
    return capfirst(formats.date_format(day, "YEAR_MONTH_FORMAT" if level == 2 else "MONTH_DAY_FORMAT"))  # noqa: PLR2004
