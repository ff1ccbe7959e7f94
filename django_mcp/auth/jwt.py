"""JWT access tokens of other authorization servers (RFC 9068) and their public keys (RFC 8414, RFC 7517)."""

import base64
import datetime
import hashlib
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import (
    ImproperlyConfigured,
    MultipleObjectsReturned,
    ObjectDoesNotExist,
    ValidationError,
)
from django.db import DataError
from django.utils.module_loading import import_string
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import AuthenticationUnavailable, BaseAuthentication, InvalidToken, RequestHead, bearer
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.core.after_fork import FreshLock
from django_mcp.core.database import is_storable_text
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

logger = logging.getLogger("django_mcp")

TIMEOUT = 5.0
"""Seconds per fetch."""
MAX_BYTES = 512 * 1024
"""Maximum size of a document."""
MAX_KEYS = 100
"""Maximum number of keys of an issuer: a token without ``kid`` is compared with each."""
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class Unreachable(Exception):
    """A document cannot be fetched or is invalid."""


class IssuerKeys:
    """The public keys of an issuer, shared by all threads and fetched in a thread of their own.

    An unverified token, which anyone can send, must not hold worker threads: the request that starts a fetch waits for
    it briefly, all others not at all.

    Args:
        jwks_url: the key set, for an issuer without metadata.

    Attributes:
        fresh_seconds: how long keys are cached.
        stale_seconds: how much longer while the issuer is unreachable.
        retry_seconds: pause after a failed fetch.
        pause_seconds: pause between fetches for unknown key ids, which anyone can send.
        patience_seconds: how long the request that starts a fetch waits, so that the first caller of a process, and of
            a new key, needs no retry.
        soon_seconds: when to retry while a fetch is running.
    """

    fresh_seconds: float = 60 * 60
    stale_seconds: float = 24 * 60 * 60
    retry_seconds: float = 10
    pause_seconds: float = 60
    patience_seconds: float = 1
    soon_seconds: float = 1

    def __init__(self, issuer: str, jwks_url: str | None = None) -> None:
        self.issuer = issuer
        self.jwks_url = jwks_url
        # Guards the start of a fetch and its end. Keys are read without it: a fetch replaces them all at once.
        self._lock = FreshLock()
        self._keys: Sequence[Any] = ()
        self._fetched = self._tried = -math.inf
        self._failed = False
        self._fetching: threading.Thread | None = None

    def find(self, kid: str | None, algorithm: str) -> list[Any]:
        """Return the keys, as ``jwcrypto.jwk.JWK``, that may have signed a token; none if no key has its id.

        Raises:
            AuthenticationUnavailable: there are no keys yet, they are too old, or a newer set that may have the key is
                being fetched or cannot be fetched. A 401 would make clients discard tokens of a new key.
        """
        if self._age() >= self.fresh_seconds:
            self._renew(self.retry_seconds, wait=not self._keys)
        if self._age() >= self.fresh_seconds + self.stale_seconds:
            raise self._away(self.retry_seconds)
        found = _matching(self._keys, kid, algorithm)
        if not found:
            self._renew(self.pause_seconds, wait=True)
            is_open = self._failed or self._is_fetching()  # before the keys, which a fetch may replace now
            found = _matching(self._keys, kid, algorithm)
            if not found and is_open:
                raise self._away(self.pause_seconds)
        return found

    def _is_fetching(self) -> bool:
        # A process forked during a fetch has no such thread.
        return self._fetching is not None and self._fetching.is_alive()

    def _age(self) -> float:
        return time.monotonic() - self._fetched

    def _away(self, pause: float) -> AuthenticationUnavailable:
        # A fetch in progress ends soon. Otherwise the next one may begin after the pause.
        if self._is_fetching():
            return AuthenticationUnavailable(self.soon_seconds)
        return AuthenticationUnavailable(max(self.soon_seconds, pause - (time.monotonic() - self._tried)))

    def _renew(self, pause: float, *, wait: bool) -> None:
        # At most one fetch runs, and none within *pause* seconds after the last.
        with self._lock:
            if self._is_fetching() or time.monotonic() - self._tried < pause:
                return
            thread = threading.Thread(target=self._try, name="django-mcp-issuer-keys", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: the next request tries again
                return
            self._fetching = thread
        # Joined outside the lock, because the fetch takes it at its end.
        if wait:
            thread.join(self.patience_seconds)

    def _try(self) -> None:
        keys = None
        try:
            keys = self._fetch()
        except Unreachable as error:
            logger.warning("The keys of %s could not be fetched: %s", self.issuer, error)
        except Exception:
            logger.exception("The keys of %s could not be fetched", self.issuer)
        finally:
            # In one step, so that no request finds an ended fetch with old keys; and not before ``_fetching`` is set.
            with self._lock:
                self._tried, self._failed, self._fetching = time.monotonic(), keys is None, None
                if keys is not None:
                    self._keys, self._fetched = keys, self._tried

    def _fetch(self) -> Sequence[Any]:
        keys = usable_keys(fetch_json(self.jwks_url or discovered_jwks_url(self.issuer)))
        if not keys:
            raise Unreachable("its key set has no usable key")
        return keys


def discovered_jwks_url(issuer: str) -> str:
    """Return ``jwks_uri`` of the issuer's metadata.

    Raises:
        Unreachable: no metadata has exactly this ``issuer`` (RFC 8414, section 3.3).
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
        failures.append(f"{url} has issuer {metadata.get('issuer')!r} or no jwks_uri")
    raise Unreachable("; ".join(failures))


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield URLs of metadata (RFC 8414, sections 3 and 5; OpenID Connect Discovery, section 4)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def is_safe_address(url: str) -> bool:
    """Return True for https, or http on this machine, without user information."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and "@" not in parts.netloc and (parts.scheme == "https" or _is_local(parts.scheme, host))


def fetch_json(url: str) -> dict[str, Any]:
    """Return the JSON object at a URL, without following redirects.

    Raises:
        Unreachable: whatever goes wrong.
    """
    if not is_safe_address(url):
        raise Unreachable(f"{url} is not https")
    from django_mcp.core.http_client import send  # noqa: PLC0415 - brings urllib3

    try:
        with send("GET", url, {"Accept": "application/json"}, timeout=TIMEOUT) as response:
            body = response.read(MAX_BYTES + 1)
        if response.status != HTTPStatus.OK or len(body) > MAX_BYTES:
            raise Unreachable(f"{url} returned status {response.status} and {len(body)} bytes")
        found = json.loads(body)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreachable(f"{url}: {error}") from error
    if not isinstance(found, dict):
        raise Unreachable(f"{url} is not a JSON object")
    return found


def usable_keys(document: dict[str, Any]) -> list[Any]:
    """Return the public keys of a JWK Set (RFC 7517), skipping unknown and malformed ones, and shared secrets."""
    from jwcrypto.common import JWException  # noqa: PLC0415 - brings a large library
    from jwcrypto.jwk import JWK  # noqa: PLC0415

    found: list[Any] = []
    keys = document.get("keys")
    for jwk in keys if isinstance(keys, list) else ():
        if len(found) >= MAX_KEYS:
            break
        key = JWK()
        try:
            key.import_key(**jwk)
        except (JWException, AttributeError, LookupError, TypeError, ValueError):
            continue
        named = (key.get(name) for name in ("kid", "alg"))
        if key.get("kty") != "oct" and all(isinstance(name, str | None) for name in named):
            found.append(key)
    return found


def _matching(keys: Sequence[Any], kid: str | None, algorithm: str) -> list[Any]:
    return [key for key in keys if kid in {None, key.get("kid")} and key.get("alg") in {None, algorithm}]


def _is_local(scheme: str, host: str | None) -> bool:
    return scheme == "http" and host in _THIS_MACHINE


Claims = Mapping[str, Any]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric only: with ``none`` or a shared secret, readers of the public key could sign."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_TYPES = {"", "jwt", "application/jwt", "at+jwt", "application/at+jwt"}
_SPEAKS_OF_SOMETHING_ELSE = frozenset({"at_hash", "c_hash", "cnf"})
"""Claims of ID tokens, and of tokens bound to a client's key (RFC 7800)."""
_EXTENSIONS = frozenset({"crit", "b64", "zip"})
"""Header parameters that change how a token is read: none is supported (RFC 7515, section 4.1.11; RFC 7797)."""
MAX_NAME = 255
"""Maximum length of a claim that names a user or client, in characters. Longer ids of tokens are cut."""
_ODD_CLAIMS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(DataError, MultipleObjectsReturned, ValidationError),
)
"""Exceptions of a site's user lookup for unexpected claims."""


class JWTAuthentication(BaseAuthentication):
    """Access tokens (JWT, RFC 9068) of another authorization server.

    Use one instance per issuer, before ``OAuth2Authentication``, which rejects unknown tokens.

    Args:
        issuer: the exact value of ``iss``.
        user: returns the Django user, or None, for verified claims; a function or its dotted path. See
            ``JWTAuthentication.by_username()`` and ``JWTAuthentication.by_verified_email``.
        audience: the required ``aud``; by default the endpoint's URL. Endpoints with the same audience accept each
            other's tokens.
        algorithms: accepted signatures, of ``ALGORITHMS``.
        jwks_url: the key set, for an issuer without metadata.
        leeway: tolerated clock difference in seconds.
        scope_claim: claim with the scopes, as a string with spaces or a list; by default ``scope`` or ``scp``. Tokens
            without it have no scopes and require ``MCPServer(scopes=[])``.

    Raises:
        ImproperlyConfigured: a URL is not https, or an algorithm is not supported.
    """

    def __init__(
        self,
        issuer: str,
        *,
        user: Callable[[Claims], Any] | str,
        audience: str | None = None,
        algorithms: Sequence[str] = ALGORITHMS,
        jwks_url: str | None = None,
        leeway: int = 30,
        scope_claim: str | None = None,
    ) -> None:
        for url in filter(None, [issuer, jwks_url]):
            if not is_safe_address(url):
                raise ImproperlyConfigured(
                    f"JWTAuthentication: {url!r} is not a safe URL of an issuer. Use an https URL."
                )
        if isinstance(algorithms, str) or not algorithms or not set(algorithms) <= set(ALGORITHMS):
            known = ", ".join(ALGORITHMS)
            raise ImproperlyConfigured(f"JWTAuthentication: algorithms is {algorithms!r}. Use a list of: {known}.")
        self.issuer = issuer
        self.audience = audience
        self.algorithms = tuple(algorithms)
        self.leeway = leeway
        self.scope_claims = ("scope", "scp") if scope_claim is None else (scope_claim,)
        self.keys = IssuerKeys(issuer, jwks_url)
        self._user = user

    @sensitive_variables()
    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return the user of a token, or None for another issuer's.

        Raises:
            InvalidToken: a token of this issuer is invalid.
            AuthenticationUnavailable: no keys are available.
        """
        token = bearer(head.headers)
        header, claims = (None, None) if token is None else _unverified(token)
        if token is None or header is None or claims is None or claims.get("iss") != self.issuer:
            return None
        claims = self._verified(token, header)
        if not self._is_for(claims.get("aud"), server):
            raise InvalidToken
        scopes = self._scopes(claims)
        user = self._user_of(claims)
        client = claims.get("client_id") or claims.get("azp")
        return Principal(
            kind="external",
            id=f"{user.pk}:{_digest(self.issuer, claims['sub'], client)}",
            user=user,
            scopes=scopes,
            client_id=client,
            credential=claims.get("jti", "")[:MAX_NAME],
            expires=_moment(claims["exp"]),
            steps_up=True,
        )

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        return (self.issuer,)

    @staticmethod
    def by_username(claim: str = "sub") -> Callable[[Claims], Any]:
        """Find users whose username is *claim*, which users must not be able to choose themselves."""

        def user(claims: Claims) -> Any:
            from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs the app registry

            name = claims.get(claim)
            found = get_user_model()._default_manager.get_by_natural_key(name) if _is_text(name) else None  # noqa: SLF001
            return found if found is not None and found.get_username() == name else None

        return user

    @staticmethod
    def by_verified_email(claims: Claims) -> Any:
        """Find the only user with the token's ``email``, if ``email_verified``."""
        from django.contrib.auth import get_user_model  # noqa: PLC0415

        email = claims.get("email")
        if claims.get("email_verified") is not True or not _is_text(email):
            return None
        field = get_user_model().get_email_field_name()
        found = list(get_user_model()._default_manager.filter(**{f"{field}__iexact": email})[:2])  # noqa: SLF001
        # The database's collation may treat different letters as equal.
        return found[0] if len(found) == 1 and getattr(found[0], field).lower() == str(email).lower() else None

    @cached_property
    def _find_user(self) -> Callable[[Claims], Any]:
        return import_string(self._user) if isinstance(self._user, str) else self._user

    def _user_of(self, claims: Claims) -> Any:
        try:
            user = self._find_user(claims)
        except ObjectDoesNotExist:
            user = None
        except _ODD_CLAIMS:
            # A site's function need not expect every claim to be missing, of another type, or of two users.
            logger.warning("%s found no user for a token of %s", self._user, self.issuer, exc_info=True)
            user = None
        if user is None or not user.is_active:
            raise InvalidToken
        return user

    @sensitive_variables()
    def _verified(self, token: str, header: Claims) -> Claims:
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
        if algorithm not in self.algorithms or not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise InvalidToken
        if not isinstance(kid, str | None) or _EXTENSIONS & header.keys():
            raise InvalidToken
        for key in self.keys.find(kid, algorithm):
            claims = _claims_if_signed(token, key, algorithm, self.leeway)
            if claims is not None:
                break
        else:
            raise InvalidToken
        if claims.get("iss") != self.issuer or not _is_text(claims.get("sub")) or not _is_well_formed(claims):
            raise InvalidToken
        if _SPEAKS_OF_SOMETHING_ELSE & claims.keys():
            raise InvalidToken
        return claims

    def _is_for(self, given: Any, server: MCPServer) -> bool:
        audiences = _texts(given)
        if self.audience is not None:
            return self.audience in audiences
        return resource_of(server) in {_canonical_or_none(audience) for audience in audiences}

    def _scopes(self, claims: Claims) -> frozenset[str]:
        given: Any = next((claims[name] for name in self.scope_claims if name in claims), [])
        return frozenset(given.split() if isinstance(given, str) and is_storable_text(given) else _texts(given))


@sensitive_variables()
def _unverified(token: str) -> tuple[Claims | None, Claims | None]:
    if not _SHAPE.fullmatch(token):
        return None, None
    header, claims, _ = token.split(".")
    return _decoded(header), _decoded(claims)


def _decoded(part: str) -> Claims | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _json_object(text: str | bytes) -> Claims:
    # Python accepts NaN and Infinity, which are not JSON.
    found = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as what json.loads raises
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@sensitive_variables()
def _claims_if_signed(token: str, key: Any, algorithm: str, leeway: int) -> Claims | None:
    from jwcrypto.common import JWException  # noqa: PLC0415 - brings a large library
    from jwcrypto.jwt import JWT  # noqa: PLC0415

    jwt = JWT(algs=[algorithm], expected_type="JWS")
    jwt.leeway = leeway
    try:
        jwt.deserialize(token, key)  # checks exp and nbf if present
        claims = _json_object(jwt.claims)
        latest = time.time() + leeway
        if any(_moment(claims[name]).timestamp() > latest for name in ("iat", "nbf") if name in claims):
            return None
        _moment(claims["exp"])
    except (JWException, ValueError, TypeError, KeyError, ArithmeticError, OSError, RecursionError):
        return None
    return claims


def _moment(seconds: Any) -> datetime.datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError("not a timestamp")
    # NumericDate: RFC 7519, section 2.
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _is_well_formed(claims: Claims) -> bool:
    # The database and the request log must be able to store these claims.
    named = {name: claims[name] for name in ("sub", "client_id", "azp", "jti") if name in claims}
    return all(isinstance(value, str) and is_storable_text(value) for value in named.values()) and all(
        len(value) <= MAX_NAME for name, value in named.items() if name != "jti"
    )


def _canonical_or_none(uri: str) -> str | None:
    try:
        return canonical(uri)
    except ValueError:
        return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and is_storable_text(value)


def _texts(value: Any) -> list[str]:
    # A claim may be one text or a list of texts.
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) and is_storable_text(text) for text in values):
        raise InvalidToken
    return values


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
