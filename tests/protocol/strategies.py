"""JSON values and messages for property tests."""

import json
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=12)
"""Text without lone surrogates, which UTF-8 cannot hold."""

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32) | TEXT

VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)

IDS = st.integers() | TEXT

SPACE = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def spellings(draw: st.DrawFn, value: Any, repeat_at: list[str] | None = None) -> str:
    """One of the many JSON texts of *value*: other white space, other escapes, members in any order.

    With *repeat_at*, every object gets one of its keys a second time, spelt its own way; the keys are noted there.
    """
    space = draw(SPACE)
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        members = [(key, value[key]) for key in keys]
        if repeat_at is not None:
            again = draw(st.sampled_from(keys)) if keys else "again"
            members += [(again, None)] * (1 if keys else 2)
            repeat_at.append(again)
        inside = ",".join(
            f"{space}{draw(spelt_text(key))}{space}:{draw(spellings(each, repeat_at))}" for key, each in members
        )
        return f"{{{inside}{space}}}"
    if isinstance(value, list):
        inside = ",".join(draw(spellings(each, repeat_at)) for each in value)
        return f"{space}[{inside}{space}]"
    if isinstance(value, str):
        return f"{space}{draw(spelt_text(value))}{space}"
    return f"{space}{json.dumps(value)}{space}"


@st.composite
def spelt_text(draw: st.DrawFn, text: str) -> str:
    """A JSON string, each character as itself or escaped."""
    if draw(st.booleans()):
        return json.dumps(text, ensure_ascii=draw(st.booleans()))
    units = text.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2)) + '"'
