"""Scalars of front matter: those of which all readers of YAML, old and new, make the same value."""

import json
import re

Scalar = str | int | float | bool | None

KEYWORDS = {"true": True, "false": False, "null": None, "": None, "~": None}
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,14})")
DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}")
AMBIGUOUS = re.compile(
    r"(?i)y|n|yes|no|on|off|true|false|null|=|<<|[-+]?\.(inf|nan)|\.nan"
    r"|[-+]?\.?[0-9][0-9a-fx_,.:+o]*(e[-+]?[0-9]+)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([t ].*)?"
)
"""What is a number, a date, a truth value or text, by the age of the reader (YAML 1.1, 1.2)."""
INDICATORS = "-?:,[]{}#&*!|>'\"%@`"
"""What no plain scalar begins with; the first three may stand there before anything but a space."""
CONTROL = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029\ufeff]")
"""Characters that YAML does not allow, or not everywhere, or that some readers take for the end of a line."""


def read_scalar(text: str) -> Scalar:
    """The value of *text*, which may end in a comment.

    Raises:
        ValueError: it is not of the subset; the words say what to write instead.
    """
    if text.startswith("'"):
        return _quoted(text, r"'((?:[^']|'')*)'").replace("''", "'")
    if text.startswith('"'):
        return _escaped(_quoted(text, r'"((?:[^"\\]|\\.)*)"'))
    return _plain(re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip())


def read_list(text: str) -> list[Scalar]:
    """The values of ``[a, "b, c"]``, which may be followed by a comment.

    Raises:
        ValueError: it is not of the subset.
    """
    found = re.fullmatch(r"\[(.*)\]\s*(?:\s#.*)?", text)
    if found is None:
        raise ValueError("a list in brackets has to end on its line")
    parts = re.findall(r"""\s*('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^,'"]*)\s*(,|$)""", found[1])
    if "".join(part + comma for part, comma in parts).replace(" ", "") != found[1].replace(" ", ""):
        raise ValueError("put each entry of the list that has quotes in it into quotes as a whole")
    entries = [part.strip() for part, _ in parts]
    if entries and not entries[-1]:  # what is behind the last comma, or all of an empty list
        entries.pop()
    if not all(entries) or any(
        each[0] in INDICATORS or set("[]{}#") & set(each) for each in entries if each[0] not in "'\""
    ):
        raise ValueError("a list in brackets holds plain and quoted values, and no lists")
    return [read_scalar(each) for each in entries]


def _quoted(text: str, pattern: str) -> str:
    found = re.fullmatch(pattern + r"\s*(?:\s#.*)?", text)
    if found is None:
        raise ValueError("quotes have to end on their line, with nothing behind them")
    return found[1]


def _escaped(inner: str) -> str:
    """What is between double quotes, with the escapes of JSON, which are YAML's too."""
    if re.search(r"\\u[dD][89a-fA-F]", inner):
        raise ValueError("write the character itself instead of its \\u escapes")
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        raise ValueError(
            'between double quotes a backslash begins \\n, \\t, \\", \\\\ or \\u and four digits'
        ) from None


def _plain(text: str) -> Scalar:
    if text in KEYWORDS:
        return KEYWORDS[text]
    if INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if DECIMAL.fullmatch(text):
        return float(text)
    if AMBIGUOUS.fullmatch(text):
        raise ValueError(f"readers of YAML do not agree on what {text!r} is; put it into quotes")
    begins = text[0] in INDICATORS and not (text[0] in "-?:" and len(text) > 1 and not text[1].isspace())
    if begins or re.search(r":(\s|$)", text):
        raise ValueError("put it into quotes: it begins with a sign of YAML's, or has a colon before a space")
    return text
