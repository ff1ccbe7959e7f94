"""What clients sent and got, as pages show it: readable, bounded, and without credentials."""

import json
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_mcp.auth.log_filter import redact
from django_mcp.core.redaction import visible

MOST_CHARACTERS = 20_000
"""Of one value that are shown."""
OPEN_LINES = 12
"""A longer one is folded."""


def as_json(value: Any) -> SafeString:
    """A JSON value, indented; folded where it is long."""
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def as_text(text: str) -> SafeString:
    """A text as it stands, but for what would make a reader see something else than there is."""
    shown = visible(redact(text)[:MOST_CHARACTERS])
    if len(text) > MOST_CHARACTERS:
        shown += "\n" + _("… and %d characters more.") % (len(text) - MOST_CHARACTERS)
    lines = shown.count("\n") + 1
    block = format_html('<pre class="mcp-value" translate="no" dir="ltr">{}</pre>', shown)
    if lines <= OPEN_LINES:
        return block
    return format_html("<details><summary>{}</summary>{}</details>", _("%d lines") % lines, block)
