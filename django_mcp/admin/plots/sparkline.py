"""A plot as small as a word."""

from collections.abc import Sequence

from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

STEP, HEIGHT = 4, 20
"""Of a bar, in pixels; a quarter of the step is the gap."""


def sparkline(values: Sequence[float], title: str = "") -> SafeString:
    """Bars in the colour of the text around them, the first value at the left; below them a line.

    Args:
        values: not negative.
        title: what it shows, in words. Without it: how many values, their sum, the greatest and the last.
    """
    words = title or _in_words(values)
    width = STEP * max(len(values), 1)
    return format_html(
        '<svg class="mcp-sparkline" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<title>{}</title><path fill="currentColor" opacity=".35" d="M0 {}h{}v1h-{}z"/>'
        '<path fill="currentColor" d="{}"/></svg>',
        *(words, width, HEIGHT + 1, width, HEIGHT + 1, words, HEIGHT, width, width, _bars(values)),
    )


def _bars(values: Sequence[float]) -> str:
    greatest = max(values, default=0)
    # One pixel at least: a day with one call is no day without.
    heights = [max(1, round(HEIGHT * value / greatest)) if value > 0 else 0 for value in values]
    bar = STEP - 1
    return "".join(f"M{STEP * at} {HEIGHT}v-{height}h{bar}v{height}z" for at, height in enumerate(heights) if height)


def _in_words(values: Sequence[float]) -> str:
    if not any(values):
        return _("Nothing.")
    numbers = {"sum": sum(values), "most": max(values), "last": values[-1]}
    shown = {name: number_format(value, use_l10n=True, force_grouping=True) for name, value in numbers.items()}
    return _("%(sum)s in %(count)d steps; the most in one: %(most)s; in the last: %(last)s.") % {
        **shown,
        "count": len(values),
    }
