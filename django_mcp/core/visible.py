"""Text of strangers, for people to read."""

import unicodedata


def visible(text: str) -> str:
    """*text* with control characters, those that turn the direction of writing, and what is no text spelled out."""
    return "".join(each if _is_harmless(each) else f"\\u{ord(each):04x}" for each in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
