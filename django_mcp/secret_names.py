"""Names that secrets have: one list for fields, arguments, questions and generated code."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

EVERYWHERE = (
    *("password", "passwd", "pwd", "passphrase", "passcode", "passkey", "secret", "token", "jwt", "credential"),
    *("api_key", "private_key", "access_key", "secret_key", "ssh_key", "encryption_key", "signing_key"),
    *("authorization", "otp", "totp", "sms_code", "pin", "cvv", "cvc", "iban", "ssn"),
    *("credit_card", "card_number", "cc_number", "mnemonic", "seed_phrase", "recovery_phrase"),
    *("passwort", "kennwort", "geheimnis", "geheimzahl", "kreditkarte", "kartennummer"),
    *("mot_de_passe", "mdp", "code_secret", "jeton", "cle_privee", "cle_secrete", "cle_api"),
    *("carte_bancaire", "carte_de_credit", "numero_de_carte", "numero_carte"),
    *("contrasena", "contrasenia", "clave_de_acceso", "clave_acceso", "clave_privada", "clave_secreta", "clave_api"),
    *("tarjeta_de_credito", "tarjeta_credito", "numero_de_tarjeta", "numero_tarjeta"),
)
"""Names that are secrets wherever they occur, in English, German, French and Spanish, without accents.

``clave``, ``clé`` and ``Schlüssel`` alone are mostly keys of records, and keywords (``palabra_clave``). ``cc`` is the
copy of an e-mail.
"""
_SHORT = (*EVERYWHERE, "key", "hash", "salt", "digest")
FIELDS = (*_SHORT, *(f"{name}s" for name in _SHORT), "hashes")
"""Names of model fields. As arguments, keys, hashes and digests are mostly those of files, commits and settings, and
several of a kind are rows.
"""
ARGUMENTS = (*EVERYWHERE, "salt", "card", "cookie")
"""Names of arguments to redact. A field called ``card`` or ``cookie`` is mostly a relation or a consent."""
QUESTIONS = EVERYWHERE
"""Names that a form must not ask a person for (2026-07-28, Elicitation: passwords, keys, payment credentials)."""
LINKS = tuple(
    f"{kind}{link}_{what}"
    for kinds, whats in (
        (("recovery", "backup", "access", "verification", "confirmation", "invite", "invitation"), ()),
        (("activation", "security", "reset", "login"), ()),
        (("share", "sharing", "shared", "magic", "unsubscribe"), ("slug", "uuid", "uid", "id", "path")),
        (("webhook", "hook", "payload", "callback"), ()),
    )
    for kind in kinds
    for link in ("", "_link")
    for what in ("code", "answer", "question", "link", "url", "hint", *whats)
)
"""Names of values that grant access to whoever knows them, such as ``share_link_slug``: ``slug`` in a ``ShareLink``."""
GENERATED = (
    *FIELDS,
    *("passw", "cookie", "nonce", "webhook", "encrypted", "pw", "signature", "auth", "session", "hotp", "mfa", "csrf"),
    *("seed", "clave"),
    *LINKS,
)
"""Names of model fields that ``startmcp`` leaves out, which asks nobody."""

_INSIDE_WORDS = 5
"""Minimum length of a name that is also found inside words: "token" in "accesstoken", but not "card" in "discard"."""
_SAME_VALUE = re.compile(r"code|number|value|again|repeat|confirm|confirmation|\d+")
"""Words after a name that name the same value."""
WHOLE, PART, NONE = 2, 1, 0


@lru_cache(maxsize=4000)
def match(name: str, names: tuple[str, ...]) -> int:
    """Return ``WHOLE`` if words of *name* are one of *names*, ``PART`` if it contains one.

    Names may be written in any case, with any separators and with a number at the end.
    """
    words = _words(name)
    joined, found = words.replace("_", ""), NONE
    numbered = _spaced(name)  # a site may add "line2"
    for part, plain in _parts(names):
        if f"_{part}_" in words or f"_{part}_" in numbered:
            return WHOLE
        if f"_{plain}_" in words or (len(plain) >= _INSIDE_WORDS and plain in joined):
            found = PART
    return found


def ends_in(name: str, names: tuple[str, ...]) -> bool:
    """Return True if the last words of *name* are one of *names*: ``new_password``, but not ``password_hint``.

    Words such as in ``pin_code`` and ``password_again`` may follow.
    """
    words = _words(name)
    return any(
        name.endswith((f"_{part}_", f"_{plain}_"))
        or (len(plain) >= _INSIDE_WORDS and name.replace("_", "").endswith(plain))
        for name in (words, _without_same_value(words))
        for part, plain in _parts(names)
    )


def _without_same_value(words: str) -> str:
    # ``_pin_`` for ``_pin_code_``; what stays ends in a letter. A pattern would start anew at each of these words.
    parts = words[:-1].split("_")
    same = sum(1 for _ in takewhile(_SAME_VALUE.fullmatch, reversed(parts)))
    first = max(len(parts) - same, 1)
    end = next((place for place in range(first, len(parts)) if parts[place - 1][-1:].isalpha()), len(parts))
    return f"{'_'.join(parts[:end])}_"


def _words(name: str) -> str:
    # ``_api_key_`` for ``apiKey2`` and ``APIKey``.
    return re.sub(r"(?<=[a-z])\d+_", "_", _spaced(name))


def _spaced(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", _without_accents(name)).lower()
    return f"_{re.sub(r'[^a-z0-9]+', '_', spaced)}_"


def _without_accents(name: str) -> str:
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", name))


@lru_cache(maxsize=20)
def _parts(names: Iterable[str]) -> list[tuple[str, str]]:
    parts = [re.sub(r"[^a-z0-9]+", "_", _without_accents(name).lower()).strip("_") for name in names]
    return [(part, part.replace("_", "")) for part in parts]
