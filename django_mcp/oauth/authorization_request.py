"""What a client asks for at the authorization endpoint (RFC 6749, section 4.1.1; RFC 7636; RFC 8707)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core import signing
from django.http import QueryDict

from django_mcp.oauth.rules import S256_CHALLENGE

PARAMETERS = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
)
"""All that is read. ``approval_prompt``, with which a client could skip the consent, is not."""

PAGE_SECONDS = 30 * 60
"""How long somebody may think before they agree."""

SALT = "django_mcp.oauth.consent"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The parameters of one request, as they were sent.

    Attributes:
        values: each parameter's values, in the order they were sent.
    """

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_query(cls, query: QueryDict) -> "AuthorizationRequest":
        """What a query string asks for; an empty value counts as none (RFC 6749, section 3.1)."""
        given = {name: tuple(filter(None, query.getlist(name))) for name in PARAMETERS}
        return cls({name: values for name, values in given.items() if values})

    @classmethod
    def from_signed(cls, text: str, user: Any) -> "AuthorizationRequest":
        """What ``signed`` made for this user.

        Raises:
            signing.BadSignature: it was changed, is somebody else's, or older than ``PAGE_SECONDS``.
        """
        values = signing.loads(text, salt=f"{SALT}:{user.pk}", max_age=PAGE_SECONDS)
        return cls({name: tuple(each) for name, each in values.items()})

    def signed(self, user: Any) -> str:
        """The whole request for a form's field, so that nothing the page showed can be changed under way."""
        return signing.dumps(dict(self.values), salt=f"{SALT}:{user.pk}", compress=True)

    def get(self, name: str) -> str:
        """A parameter's last value; empty for none."""
        return self.values.get(name, ("",))[-1]

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are asked for."""
        return tuple(dict.fromkeys(self.get("scope").split()))

    @property
    def resources(self) -> tuple[str, ...]:
        """What access is asked to, as the client spells it; may be sent more than once (RFC 8707, section 2)."""
        return self.values.get("resource", ())

    def query(self, scopes: Iterable[str] | None = None) -> str:
        """The query string; *scopes* replace what was asked, unless that was sent twice, which is an error."""
        values = dict(self.values)
        if scopes is not None and len(values.get("scope", ())) < 2:  # noqa: PLR2004
            values["scope"] = (" ".join(scopes),)
        return urlencode({name: each for name, each in values.items() if any(each)}, doseq=True)

    def unprintable(self) -> bool:
        """Whether it holds control characters, which no such request needs and some databases refuse."""
        return any(character < " " for each in self.values.values() for value in each for character in value)

    def problem(self) -> str | None:
        """What is wrong with the proof key (PKCE), in words for the client's author; None where it is right.

        Only S256 is taken, and it has to be named: without a method, ``plain`` is meant (RFC 7636, section 4.3).
        """
        twice = [name for name, each in self.values.items() if len(each) > 1 and name != "resource"]
        if twice:
            return f"{twice[0]} is given more than once."
        if not self.get("code_challenge"):
            return "code_challenge is missing: use PKCE with S256."
        if self.get("code_challenge_method") != "S256":
            return "code_challenge_method must be S256."
        if not S256_CHALLENGE.fullmatch(self.get("code_challenge")):
            return "code_challenge must be a SHA-256 in base64url: 43 characters."
        return None
