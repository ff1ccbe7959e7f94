"""The ``DJANGO_MCP`` setting, read once into a frozen object.

What belongs to one endpoint is an argument of ``MCPServer``; here is what belongs to the site, and the defaults.
"""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.translation import gettext_lazy as _
from django.utils.translation.trans_null import gettext_noop  # the other one asks settings, which are being read

from django_mcp.version import __version__


class Settings(NamedTuple):
    """Keys of ``DJANGO_MCP`` and what they are when not given."""

    AUTHENTICATION: tuple[Any, ...] = ()
    """Authenticators of the endpoints that name none: objects or dotted paths. Empty: they do not start."""
    BASE_URL: str | None = None
    """The site's public address, like ``"https://travel.example.com"``: scheme, host and port, no path, no slash at
    its end. Identifiers in OAuth are made from it, never from what a request says (RFC 8414, RFC 9728)."""
    SCOPES: Mapping[str, Any] = {"mcp": _("Use this site’s tools and data on your behalf")}
    """OAuth scopes and what each lets a client do, in words for the person who agrees; or ``{"text": words,
    "implies": [scopes that are included]}``."""
    DEFAULT_SCOPES: tuple[str, ...] = ("mcp",)
    """Scopes that calls need at endpoints that name none, and that a client gets who asks for none."""
    NAME: str | None = None
    """``serverInfo.name`` of the default endpoint."""
    TITLE: str | None = None
    """Its title."""
    VERSION: str = __version__
    """``serverInfo.version``: put your site's version here."""
    INSTRUCTIONS: str | None = None
    """For models: what the default endpoint is for."""
    ALLOWED_ORIGINS: tuple[str, ...] = ()
    """Origins of browser clients, like ``"https://inspector.example.com"``. The site's own is always allowed."""
    MAX_BODY_BYTES: int = 4 * 1024 * 1024
    """The largest request body that is read."""
    WORKER_THREADS: int = 8
    """Worker threads for synchronous code at the ASGI edge, per process; each may hold a database connection."""
    MAX_QUEUED_CALLS: int | None = 500
    """How many jobs may wait for one of them before requests are refused with 503; None for no limit."""
    RATE_LIMIT: str | None = None
    """How often a caller may call tools, like ``"60/m"``; counted in Django's default cache."""
    THROTTLE_CLASS: str = "django_mcp.core.throttling.RateThrottle"
    """The dotted path of the class that counts for all rate limits, a subclass of this one."""
    CALL_CONTEXT_MANAGERS: tuple[Any, ...] = ()
    """Functions, or their dotted paths, that take the Django request of a call, whose ``user`` is the caller, and
    return a context manager; each call runs within all of them, the first outermost."""
    TOOL_TIMEOUT: float | None = None
    """Seconds after which a call of a tool is stopped, unless the tool says otherwise; None for never."""
    MAX_OUTPUT_CHARS: int | None = 100_000
    """The most characters of a tool's result, unless the tool says otherwise; None for no limit."""
    MAX_BINARY_BYTES: int | None = 10 * 1024 * 1024
    """The most bytes of images, audio and files in a tool's result; None for no limit."""
    IGNORED_ARGUMENTS: tuple[str, ...] = ()
    """Arguments that a client adds to every call, left out where the tool has no such argument."""
    IDEMPOTENCY_TTL: int = 24 * 60 * 60
    """How long the result of a call with an idempotency key is kept for those who repeat it."""
    TOOL_SEARCH_THRESHOLD: int = 0
    """Above how many tools of a caller they are searched instead of listed; 0 for never."""
    TASK_TTL: int = 24 * 60 * 60
    """How long a task and its result are kept, from its creation."""
    TASK_BACKEND: str | None = None
    """Where tasks run: an alias in Django's ``TASKS``, or ``"process"`` for the serving process. None: ``"default"``
    where that has workers, else the serving process."""
    TASK_QUEUE: str = "default"
    """Into which queue of that backend they go."""
    TASK_THREADS: int = 4
    """How many tasks run at once in the serving process; the others wait for their turn."""
    TASK_LEASE_TTL: float = 30.0
    """After how long without a sign of life whatever ran a task counts as dead."""
    TASK_WAIT_TIMEOUT: float = 25.0
    """How long a client that knows no tasks waits for the result, before it is told how to ask for it later."""
    TASK_POLL_INTERVAL: float = 2.0
    """How often clients are told to ask how far a task is."""
    MAX_TASKS_PER_CALLER: int = 20
    """The most unfinished tasks of one caller."""
    REQUIRE_APPROVAL_FOR: str | None = "destructive"
    """Calls of which tools somebody has to approve where nothing was decided about them: those that are
    ``"destructive"`` as they say themselves, all ``"writes"`` (what is not read-only), or None."""
    APPROVAL_REQUEST_TTL: int = 24 * 60 * 60
    """How long a call waits for somebody to approve it; then it is refused."""
    APPROVAL_GRANT_TTL: int = 60 * 60
    """How long an approved call may be made."""
    APPROVAL_WAIT_TIMEOUT: float = 25.0
    """How long a client that knows no tasks waits for the decision, before it is told to make the call again later."""
    MAX_APPROVALS_PER_CALLER: int = 20
    """The most calls of one caller that wait for approval."""
    SELF_APPROVAL: bool = False
    """Let people approve calls that were made in their own name."""
    APPROVAL_LOG_DAYS: int | None = 365
    """How long it is kept who approved or refused which call; None for ever."""
    APPROVAL_EMAILS: tuple[str, ...] = ()
    """Addresses that are told when a call waits for approval; ``"approvers"`` among them for all who may decide."""
    APPROVAL_WEBHOOK: str | None = None
    """A URL that is told too, by POST (Standard Webhooks)."""
    APPROVAL_WEBHOOK_SECRET: str | None = None
    """With which these are signed: ``whsec_`` and Base64, or any other text."""
    BLOCK_CHANGED_TOOLS: bool = False
    """Let a tool not be used whose name, description, schema or hints changed, until somebody accepts it."""
    POLICY_CACHE_TTL: float = 0.5
    """How long it takes at most until what people decide about tools counts in every process."""
    SESSION_TTL: int = 24 * 60 * 60
    """How long a session lives after it was last used."""
    MAX_SESSIONS_PER_CALLER: int = 10_000
    """The most sessions of one caller at an endpoint; one more ends the one that was used longest ago."""
    MAX_STREAMS_PER_CALLER: int = 1000
    """The most streams of changes that one caller has open in a process."""
    ELICITATION_TTL: int = 60 * 60
    """How long a question waits for its answer, and a stream for a client that lost it."""
    POLL_INTERVAL: float = 0.5
    """How often a process with open streams looks into the log where no shared channel layer rings the bell."""
    KEEP_ALIVE_INTERVAL: float = 15.0
    """How often an idle stream sends a comment, so that proxies keep it open."""
    HTTP_SSE: bool = False
    """Serve clients of the HTTP+SSE transport, which Streamable HTTP replaced, beside each endpoint."""
    OAUTH_PATH: str | None = "o/"
    """Where authorize, token, register and revoke are, below ``django_mcp.urls``; None where the site has them."""
    EXTRA_REDIRECT_URIS: tuple[str, ...] = ("cursor://anysphere.cursor-mcp/oauth/callback",)
    """Redirect URIs of self-registered clients that are allowed although they are neither https nor loopback."""
    REFRESH_TOKEN_GRACE_TTL: int = 60
    """How long a refresh token may be used again after its client has replaced it; 0 for never."""
    CLIENT_CREDENTIALS: bool = False
    """Let chosen confidential clients act without a person, each as the user named in its ``ClientPolicy``."""
    REGISTRATION_RATE: str | None = "20/h"
    """How many clients one address may register (RFC 7591), like ``"20/h"``."""
    MAX_UNUSED_CLIENTS: int = 1000
    """The most self-registered clients that never got a token."""
    CLIENT_DOCUMENT_PORTS: tuple[int, ...] = (443,)
    """Ports from which client ID metadata documents are fetched."""
    CLIENT_ADDRESS_HEADER: str | None = None
    """A header in which the site's own proxy tells the client's address, like ``"X-Real-IP"``."""
    MAX_API_KEY_DAYS: int = 365
    """The longest life of an API key."""
    API_KEYS_IN_URL: bool = False
    """Take API keys as ``?api_key=…`` too, which proxies and browsers log, for clients that take nothing else."""
    LOG_CALLS: bool = True
    """Write a row of ``RequestLog`` for each list, read and call, where the endpoint does not say."""
    CALL_LOG_DAYS: int | None = 90
    """How long such a row is kept; None for ever."""
    LOG_ARGUMENTS: bool = True
    """Keep the arguments of calls in it, without secrets and cut short."""
    REDACTED_ARGUMENTS: tuple[str, ...] = (
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "api_key",
        "private_key",
        "access_key",
        "credential",
        "authorization",
        "cookie",
        "card",
        "cvv",
        "cvc",
        "iban",
        "ssn",
        "otp",
    )
    """What arguments with secrets are called: as a word of the name, or inside of one from five letters on."""


MAY_BE_ZERO = {"REFRESH_TOKEN_GRACE_TTL", "TOOL_SEARCH_THRESHOLD"}
MAY_BE_NONE = {
    "OAUTH_PATH",
    "REGISTRATION_RATE",
    "REQUIRE_APPROVAL_FOR",
    "MAX_QUEUED_CALLS",
    "MAX_OUTPUT_CHARS",
    "MAX_BINARY_BYTES",
    "CALL_LOG_DAYS",
    "APPROVAL_LOG_DAYS",
}
NUMBERS = {"TOOL_TIMEOUT"}
"""What is a number although its default is none."""

KEYS = Settings._fields


def given() -> Mapping[str, Any]:
    """The dict as the site wrote it."""
    value = getattr(django_settings, "DJANGO_MCP", {})
    if not isinstance(value, Mapping):
        msg = f"DJANGO_MCP must be a dict, not {type(value).__name__}."
        raise ImproperlyConfigured(msg)
    return value


WRONG = gettext_noop("DJANGO_MCP[%(key)r] must be %(wanted)s, not %(value)r.")


class Wrong(NamedTuple):
    """A value of the wrong kind. As text it is in English, for settings are read before there are translations.

    Attributes:
        key: of ``DJANGO_MCP``.
        wanted: what it must be, a message for ``gettext``.
        value: what it is.
    """

    key: str
    wanted: str
    value: Any

    def __str__(self) -> str:
        return WRONG % self._asdict()


def problems() -> list[Wrong]:
    """What is wrong with the values."""
    found = []
    for name, default in Settings._field_defaults.items():
        value = given().get(name, default)
        if value is None and (default is None or name in MAY_BE_NONE):
            continue
        right, wanted = _is_right(value, default, name)
        if not right:
            found.append(Wrong(name, wanted, value))
    return found


def _is_right(value: Any, default: Any, name: str) -> tuple[bool, str]:  # noqa: PLR0911 - one for each kind
    if name == "REQUIRE_APPROVAL_FOR":
        return value in ("destructive", "writes"), gettext_noop('"destructive", "writes" or None')
    if isinstance(default, Mapping):
        return isinstance(value, Mapping), gettext_noop("a dict")
    if isinstance(default, tuple):
        return isinstance(value, list | tuple), gettext_noop("a list")
    if isinstance(default, bool):
        return isinstance(value, bool), gettext_noop("True or False")
    if isinstance(default, int):
        least = 0 if name in MAY_BE_ZERO else 1
        wanted = gettext_noop("a positive integer") if least else gettext_noop("0 or a positive integer")
        return type(value) is int and value >= least, wanted
    if isinstance(default, float) or name in NUMBERS:
        return type(value) in {int, float} and value > 0, gettext_noop("a positive number")
    return isinstance(value, str), gettext_noop("a string")


def misspelt() -> dict[str, str | None]:
    """Keys nobody reads, each with the key that was probably meant."""
    return {
        key: next(iter(difflib.get_close_matches(str(key).upper(), KEYS, n=1)), None)
        for key in given()
        if key not in KEYS
    }


def _read() -> Settings:
    if wrong := problems():
        raise ImproperlyConfigured(" ".join(map(str, wrong)))
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given().items() if key in KEYS
    }
    return Settings(**values)


class _LazySettings:
    """Reads the setting when a key is first asked for; from then on keys are attributes like any other.

    Several are looked at in every request, where a ``LazyObject`` would cost more than the rest of the check.
    """

    def __getattr__(self, key: str) -> Any:
        if key not in KEYS:
            raise AttributeError(key)
        vars(self).update(_read()._asdict())
        return vars(self)[key]


class _SiteSettings:
    """Django's own settings, likewise: they are a ``LazyObject`` for good."""

    def __getattr__(self, key: str) -> Any:
        value = vars(self)[key] = getattr(django_settings, key)
        return value


settings = cast("Settings", _LazySettings())
site_settings = _SiteSettings()
"""For what is looked at in every request."""


def _forget(*, setting: str, **_: Any) -> None:
    vars(site_settings).pop(setting, None)
    if setting == "DJANGO_MCP":
        vars(settings).clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
