"""Differences of saves that are known, with their reasons."""

from collections.abc import Iterable

from django_mcp.test.admin import Difference

# A text that is no date-time is refused before the form is sent: in other words, and without the form's other errors.
MOMENTS = ("placed", "sold_at", "last_login", "date_joined")

REASONS = {
    **{f"a nonsense {name}": {"errors"} for name in MOMENTS},
    # A browser offers no such choice; the admin takes it as unknown, and the tool refuses it.
    "a nonsense is_checked": {"errors", "page"},
    # Text for a JSON field is a value.
    "a nonsense data": {"errors", "page"},
}
"""By what was saved: what differs."""


def unexplained(found: Iterable[Difference]) -> str:
    """Return the differences without a reason, one a line."""
    return "\n".join(
        str(difference)
        for difference in found
        if difference.what not in REASONS.get(difference.page.partition(" with ")[2], set())
    )
