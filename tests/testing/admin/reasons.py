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


ONLY_PAGE = {("changelist", what) for what in ("rows", "number of rows", "column 1 of 1")}

OF_PACKAGES: dict[str, set[tuple[str, str]]] = {
    # A form takes the place of the list. The tool finds the only row, which the page is of.
    "solo": ONLY_PAGE,
}
"""By package: page and what differs."""


def is_known(package: str, difference: Difference) -> bool:
    """Return True if a difference on the site of third-party packages has a reason."""
    after = difference.page.partition(" with ")[2]
    known = OF_PACKAGES.get(package, set())
    return (difference.page, difference.what) in known or difference.what in REASONS.get(after, set())


def unexplained(found: Iterable[Difference]) -> str:
    """Return the differences without a reason, one a line."""
    return "\n".join(
        str(difference)
        for difference in found
        if difference.what not in REASONS.get(difference.page.partition(" with ")[2], set())
    )
