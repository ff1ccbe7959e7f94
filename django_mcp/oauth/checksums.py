"""What is derived from codes and tokens, which are not stored themselves."""

import hashlib
import uuid


def checksum_of(token: str) -> str:
    """The SHA-256 by which django-oauth-toolkit stores and finds a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def family_of(code: str) -> uuid.UUID:
    """The family of all tokens that come from an authorization code.

    It is derived from the code, so that a code which is used twice leads to what was issued from it, although its
    row is gone. It does not lead back to the code.
    """
    return uuid.UUID(bytes=hashlib.sha256(b"family of the code " + code.encode()).digest()[:16])
