"""Names that clients give themselves, made fit to be shown to people."""

import re
import unicodedata

LONGEST = 60
"""Characters of a name that are kept."""

_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of control, format (bidirectional and zero-width characters among them), surrogate, private and
unassigned characters, and of line and paragraph separators."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters of other categories that show nothing: fillers and variation selectors."""


def clean_name(name: str) -> str:
    """*name* as one short line without characters that hide, reorder or break what is around it.

    It is not escaped: templates do that. Empty if nothing of it can be shown.
    """
    spaced = " ".join(_INVISIBLE.sub("", name).split())
    shown = "".join(character for character in spaced if unicodedata.category(character) not in _NEVER_SHOWN)
    return " ".join(shown.split())[:LONGEST].rstrip()
