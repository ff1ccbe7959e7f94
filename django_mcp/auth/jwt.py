"""JWT access tokens of another authorization server (RFC 9068), and its public keys (RFC 8414, RFC 7517)."""

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

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.utils.module_loading import import_string
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import AuthorizationServerAway, BaseAuthentication, InvalidToken, RequestHead, bearer
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

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
    from django_mcp.core.http_client import send  # noqa: PLC0415 - brings urllib3

    try:
        with send("GET", url, {"Accept": "application/json"}, timeout=TIMEOUT) as response:
            body = response.read(MAX_BYTES + 1)
        if response.status != HTTPStatus.OK or len(body) > MAX_BYTES:
            raise Unreachable(f"{url} answered {response.status}, with {len(body)} bytes")
        found = json.loads(body)
    except (OSError, ValueError, RecursionError) as error:
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


def _matching(keys: Sequence[Any], kid: str | None, algorithm: str) -> list[Any]:
    return [key for key in keys if kid in {None, key.get("kid")} and key.get("alg") in {None, algorithm}]


def _is_local(scheme: str, host: str | None) -> bool:
    return scheme == "http" and host in _THIS_MACHINE


Claims = Mapping[str, Any]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key pair. With ``none`` or a shared secret, whoever reads the public key could sign."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_TYPES = {"", "jwt", "application/jwt", "at+jwt", "application/at+jwt"}
_SPEAKS_OF_SOMETHING_ELSE = frozenset({"at_hash", "c_hash", "cnf"})
"""Claims of ID tokens, and of tokens that are worthless without a key of the client's (RFC 7800)."""


class JWTAuthentication(BaseAuthentication):
    """Access tokens of one external authorization server.

    Several can stand in the list, one for each issuer. They come before ``OAuth2Authentication``, which takes every
    token it does not know for a bad one.

    Args:
        issuer: its identifier, exactly as its tokens have it in ``iss``.
        user: takes a token's verified claims, gives a Django user or None; or the dotted path of such a function.
            ``JWTAuthentication.by_username()`` and ``JWTAuthentication.by_verified_email`` are two.
        audience: what must be in ``aud``, for a server that cannot be told an endpoint's URL. By default the URL of the
            endpoint. Endpoints with the same audience take each other's tokens.
        algorithms: signatures that are taken, out of ``ALGORITHMS``.
        jwks_url: where the keys are, for an issuer without metadata.
        leeway: seconds by which the clocks may differ.
        scope_claim: where the scopes are, a string with spaces or a list; by default ``scope``, or else ``scp``. A
            token without has no scopes: the endpoint is then one with ``MCPServer(scopes=[])``.

    Raises:
        ImproperlyConfigured: the issuer is no https URL, or an algorithm is none of those.
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
                    f"JWTAuthentication: {url!r} is no address of an issuer; write an https URL."
                )
        if isinstance(algorithms, str) or not algorithms or not set(algorithms) <= set(ALGORITHMS):
            known = ", ".join(ALGORITHMS)
            raise ImproperlyConfigured(f"JWTAuthentication: algorithms {algorithms!r}; give a list out of {known}.")
        self.issuer = issuer
        self.audience = audience
        self.algorithms = tuple(algorithms)
        self.leeway = leeway
        self.scope_claims = ("scope", "scp") if scope_claim is None else (scope_claim,)
        self.keys = IssuerKeys(issuer, jwks_url)
        self._user = user

    @sensitive_variables()
    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """The user of a token of this issuer; None for a token of anybody else's.

        Raises:
            InvalidToken: it says that it is of this issuer, and is bad.
            AuthorizationServerAway: there are no keys to tell.
        """
        token = bearer(head.headers)
        header, claims = (None, None) if token is None else _unverified(token)
        if token is None or header is None or claims is None or claims.get("iss") != self.issuer:
            return None
        claims = self._verified(token, header)
        if not self._is_for(claims.get("aud"), server):
            raise InvalidToken
        user = self._user_of(claims)
        client = next((claims[name] for name in ("client_id", "azp") if _is_text(claims.get(name))), None)
        return Principal(
            kind="external",
            id=f"{user.pk}:{_digest(self.issuer, claims['sub'], client)}",
            user=user,
            scopes=self._scopes(claims),
            client_id=client,
            credential=str(claims.get("jti") or "")[:255],
            expires=_moment(claims["exp"]),
            steps_up=True,
        )

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        """The issuer."""
        return (self.issuer,)

    @staticmethod
    def by_username(claim: str = "sub") -> Callable[[Claims], Any]:
        """Finds the user whose name is in *claim*, exactly. Only for a claim that people cannot choose themselves."""

        def user(claims: Claims) -> Any:
            from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs the app registry

            name = claims.get(claim)
            found = get_user_model()._default_manager.get_by_natural_key(name) if _is_text(name) else None  # noqa: SLF001
            return found if found is not None and found.get_username() == name else None

        return user

    @staticmethod
    def by_verified_email(claims: Claims) -> Any:
        """Finds the only user with the token's ``email``, which ``email_verified`` must vouch for."""
        from django.contrib.auth import get_user_model  # noqa: PLC0415

        email = claims.get("email")
        if claims.get("email_verified") is not True or not _is_text(email):
            return None
        field = get_user_model().get_email_field_name()
        found = list(get_user_model()._default_manager.filter(**{f"{field}__iexact": email})[:2])  # noqa: SLF001
        # A database may hold letters equal that are not.
        return found[0] if len(found) == 1 and getattr(found[0], field).lower() == str(email).lower() else None

    @cached_property
    def _find_user(self) -> Callable[[Claims], Any]:
        return import_string(self._user) if isinstance(self._user, str) else self._user

    def _user_of(self, claims: Claims) -> Any:
        try:
            user = self._find_user(claims)
        except ObjectDoesNotExist:
            user = None
        if user is None or not user.is_active:
            raise InvalidToken
        return user

    @sensitive_variables()
    def _verified(self, token: str, header: Claims) -> Claims:
        """The claims, after the signature, the times and the type were looked at."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self.algorithms or str(header.get("typ") or "").lower() not in _TYPES:
            raise InvalidToken
        if kid is not None and not isinstance(kid, str):
            raise InvalidToken
        for key in self.keys.find(kid, algorithm):
            claims = _claims_if_signed(token, key, algorithm, self.leeway)
            if claims is not None:
                break
        else:
            raise InvalidToken
        if claims.get("iss") != self.issuer or not _is_text(claims.get("sub")):
            raise InvalidToken
        if _SPEAKS_OF_SOMETHING_ELSE & claims.keys():
            raise InvalidToken
        return claims

    def _is_for(self, given: Any, server: MCPServer) -> bool:
        audiences = [each for each in (given if isinstance(given, list) else [given]) if _is_text(each)]
        if self.audience is not None:
            return self.audience in audiences
        return resource_of(server) in {_canonical_or_none(each) for each in audiences}

    def _scopes(self, claims: Claims) -> frozenset[str]:
        given = next((claims[name] for name in self.scope_claims if name in claims), ())
        return frozenset(given.split() if isinstance(given, str) else map(str, given or ()))


@sensitive_variables()
def _unverified(token: str) -> tuple[Claims | None, Claims | None]:
    """Header and claims as the token has them, which prove nothing; None for what is no signed JWT."""
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


@sensitive_variables()
def _claims_if_signed(token: str, key: Any, algorithm: str, leeway: int) -> Claims | None:
    """The claims of a token that *key* has signed, which begins and ends to be valid; None for any other."""
    from jwcrypto.common import JWException  # noqa: PLC0415 - brings a large library
    from jwcrypto.jwt import JWT  # noqa: PLC0415

    jwt = JWT(algs=[algorithm], expected_type="JWS")
    jwt.leeway = leeway
    try:
        jwt.deserialize(token, key)  # looks at exp and nbf where they are there
        claims: Claims = json.loads(jwt.claims)
        _moment(claims["exp"])
    except (JWException, ValueError, TypeError, KeyError, OverflowError, OSError):
        return None
    return claims


def _moment(seconds: Any) -> datetime.datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError("no time")
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _canonical_or_none(uri: str) -> str | None:
    try:
        return canonical(uri)
    except ValueError:
        return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
