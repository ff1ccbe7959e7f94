"""Text comparison without case and accents."""

import unicodedata


def fold(text: str) -> str:
    """Return *text* in lower case without accents, so that ``montreal`` matches ``Montréal``."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
