"""The public keys of an external authorization server: found, fetched and kept (RFC 8414; RFC 7517)."""

import json
import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from django_mcp.auth.base import AuthorizationServerAway

logger = logging.getLogger("django_mcp")

TIMEOUT = 5.0
"""Seconds a document may take."""
MAX_BYTES = 512 * 1024
"""The longest document that is read."""
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class Unreachable(Exception):
    """A document cannot be had, or is not what it should be."""


class IssuerKeys:
    """The keys of one issuer, shared by all threads.

    Args:
        issuer: its identifier; where its keys are is looked up in its metadata.
        jwks_url: where they are, for an issuer without metadata.

    Attributes:
        fresh_seconds: how long keys are used before they are fetched again.
        stale_seconds: how much longer they are used while the issuer cannot be reached.
        retry_seconds: how long nobody tries again after a failure.
        pause_seconds: how long nobody asks again for keys because of a key ID that is not among them. Anybody can send
            such tokens.
    """

    fresh_seconds: float = 60 * 60
    stale_seconds: float = 24 * 60 * 60
    retry_seconds: float = 10
    pause_seconds: float = 60

    def __init__(self, issuer: str, jwks_url: str | None = None) -> None:
        self.issuer = issuer
        self.jwks_url = jwks_url
        self._lock = threading.Lock()
        self._keys: Sequence[Any] = ()
        self._fetched = self._tried = -math.inf
        self._failed = False

    def find(self, kid: str | None, algorithm: str) -> list[Any]:
        """The keys that a token with this header may be signed with, as ``jwcrypto.jwk.JWK``.

        Raises:
            AuthorizationServerAway: that cannot be told, because the issuer does not answer.
        """
        if self._age() >= self.fresh_seconds:
            self._renew(self.retry_seconds, wait=not self._keys)
        if self._age() >= self.fresh_seconds + self.stale_seconds:
            raise AuthorizationServerAway(self.retry_seconds)
        found = _matching(self._keys, kid, algorithm)
        if not found:
            self._renew(self.pause_seconds, wait=True)
            found = _matching(self._keys, kid, algorithm)
            if not found and self._failed:
                raise AuthorizationServerAway(self.pause_seconds)
        return found

    def _age(self) -> float:
        return time.monotonic() - self._fetched

    def _renew(self, pause: float, *, wait: bool) -> None:
        """Fetch the keys, unless somebody did less than *pause* seconds ago, or does so and need not be waited for."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if time.monotonic() - self._tried >= pause:
                self._try()
        finally:
            self._lock.release()

    def _try(self) -> None:
        try:
            self._keys = self._fetch()
            self._fetched, self._failed = time.monotonic(), False
        except Unreachable as error:
            self._failed = True
            logger.warning("No keys of %s: %s", self.issuer, error)
        self._tried = time.monotonic()

    def _fetch(self) -> Sequence[Any]:
        keys = usable_keys(fetch_json(self.jwks_url or discovered_jwks_url(self.issuer)))
        if not keys:
            raise Unreachable("its key set has no key that can be used")
        return keys


def discovered_jwks_url(issuer: str) -> str:
    """``jwks_uri`` of the issuer's metadata.

    Raises:
        Unreachable: there is no metadata in which the issuer calls itself exactly *issuer* (RFC 8414, section 3.3).
    """
    failures = []
    for url in metadata_urls(issuer):
        try:
            metadata = fetch_json(url)
        except Unreachable as error:
            failures.append(str(error))
            continue
        if metadata.get("issuer") == issuer and isinstance(metadata.get("jwks_uri"), str):
            return str(metadata["jwks_uri"])
        failures.append(f"{url} is of issuer {metadata.get('issuer')!r}, or has no jwks_uri")
    raise Unreachable("; ".join(failures))


def metadata_urls(issuer: str) -> Iterator[str]:
    """Where an issuer's metadata may be (RFC 8414, sections 3 and 5; OpenID Connect Discovery, section 4)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def is_safe_address(url: str) -> bool:
    """Whether *url* is https, or http on this machine; without user information."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and "@" not in parts.netloc and (parts.scheme == "https" or _is_local(parts.scheme, host))


def fetch_json(url: str) -> dict[str, Any]:
    """The JSON object at *url*. Redirects are not followed.

    Raises:
        Unreachable: whatever goes wrong.
    """
    if not is_safe_address(url):
        raise Unreachable(f"{url} is not https")
    request = Request(url, headers={"Accept": "application/json", "User-Agent": "django_mcp"})  # noqa: S310 - seen above
    try:
        with _opener.open(request, timeout=TIMEOUT) as response:
            found = json.loads(_read(response))
    except HTTPError as error:
        error.close()
        raise Unreachable(f"{url} answered {error.code}") from None
    except (OSError, ValueError, HTTPException, RecursionError) as error:
        raise Unreachable(f"{url}: {error}") from error
    if not isinstance(found, dict):
        raise Unreachable(f"{url} is no JSON object")
    return found


def usable_keys(document: dict[str, Any]) -> list[Any]:
    """The public keys in a JWK Set. Those of unknown kinds are passed over (RFC 7517, section 5); no shared secrets."""
    from jwcrypto.common import JWException  # noqa: PLC0415 - brings a large library
    from jwcrypto.jwk import JWK  # noqa: PLC0415

    found = []
    keys = document.get("keys")
    for each in keys if isinstance(keys, list) else ():
        key = JWK()
        try:
            key.import_key(**each)
        except (JWException, ValueError, TypeError):
            continue
        if key.get("kty") != "oct":
            found.append(key)
    return found


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an answer like any other that is not 200."""


_opener = build_opener(_NoRedirects)


def _read(response: HTTPResponse) -> bytes:
    """The body. A timeout of the socket is for one piece of it, so the whole is timed here."""
    deadline = time.monotonic() + TIMEOUT
    body = b""
    while piece := response.read1(65536):
        body += piece
        if len(body) > MAX_BYTES or time.monotonic() > deadline:
            raise Unreachable(f"longer than {MAX_BYTES} bytes, or slower than {TIMEOUT:.0f} seconds")
    return body


def _matching(keys: Sequence[Any], kid: str | None, algorithm: str) -> list[Any]:
    return [key for key in keys if kid in {None, key.get("kid")} and key.get("alg") in {None, algorithm}]


def _is_local(scheme: str, host: str | None) -> bool:
    return scheme == "http" and host in _THIS_MACHINE
