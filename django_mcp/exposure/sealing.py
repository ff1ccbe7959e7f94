"""Sealing what clients keep for us: encrypted (RFC 7516) with a key made of ``SECRET_KEY``."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.crypto import salted_hmac

if TYPE_CHECKING:
    from jwcrypto.jwk import JWK

_HEADER = '{"alg":"dir","enc":"A128GCM"}'


def seal(payload: bytes) -> str:
    """*payload* as text that only this site can read, and nobody can alter."""
    from jwcrypto.jwe import JWE  # noqa: PLC0415 - jwcrypto takes long to import, and many sites never page

    token = JWE(payload, _HEADER)
    token.add_recipient(_key(str(settings.SECRET_KEY)))
    # The header is always the same; what is left of the five parts are nonce, ciphertext and tag.
    return str(token.serialize(compact=True)).split(".", 2)[2]


def opened(sealed: str) -> Iterator[bytes]:
    """What was sealed, with the present key or one before it; nothing where it was not sealed here."""
    from jwcrypto.common import JWException, base64url_encode  # noqa: PLC0415 - likewise
    from jwcrypto.jwe import JWE  # noqa: PLC0415 - likewise

    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        token = JWE()
        try:
            token.deserialize(f"{base64url_encode(_HEADER)}..{sealed}", _key(str(secret)))
        except (JWException, ValueError):
            continue
        yield token.payload


@lru_cache(maxsize=8)
def _key(secret: str) -> "JWK":
    from jwcrypto.common import base64url_encode  # noqa: PLC0415 - likewise
    from jwcrypto.jwk import JWK  # noqa: PLC0415 - likewise

    made = salted_hmac("django_mcp.exposure.cursors", "", secret, algorithm="sha256").digest()[:16]
    return JWK(kty="oct", k=base64url_encode(made))
