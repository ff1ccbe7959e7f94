"""Differences of saves that are known, with their reasons."""

from collections.abc import Iterable

from django_mcp.test.admin import Difference

REASONS = {
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
