"""Command lines on which options may stand anywhere."""

from django.core.management.base import CommandParser


def intermix(parser: CommandParser) -> None:
    """Take arguments that stand behind an option, too: ``TOOL --as ann name=text``."""
    parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
