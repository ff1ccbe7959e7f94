"""Comparing text as people do: without regard to case and accents."""

import unicodedata


def fold(text: str) -> str:
    """*text* in lower case and without accents, so that ``montreal`` is found in ``Montréal``."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
