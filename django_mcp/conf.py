"""The ``DJANGO_MCP`` setting: keys, defaults and validation.

Options of a single endpoint are arguments of ``MCPServer``.
"""

import difflib
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error
from django.core.signals import setting_changed
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.utils.translation.trans_null import gettext_noop  # the usual one reads settings

from django_mcp.secret_names import ARGUMENTS
from django_mcp.version import __version__


class Settings(NamedTuple):
    """Keys of ``DJANGO_MCP`` and their defaults."""

    AUTHENTICATION: tuple[Any, ...] = ()
    """Authentication classes, or dotted paths, of endpoints that name none. Without any, those are not served."""
    BASE_URL: str | None = None
    """Public address of the site, such as ``"https://travel.example.com"``: scheme, host and port, no path or trailing
    slash. OAuth identifiers are made from it, never from a request (RFC 8414, RFC 9728)."""
    SCOPES: Mapping[str, Any] = {"mcp": _("Use this site’s tools and data on your behalf")}
    """OAuth scopes and the text of each for the consent page; or ``{"text": text, "implies": [included scopes]}``."""
    DEFAULT_SCOPES: tuple[str, ...] = ("mcp",)
    """Scopes required by endpoints that name none, and granted to clients that request none."""
    NAME: str | None = None
    """``serverInfo.name`` of the default endpoint."""
    TITLE: str | None = None
    """Display title of the default endpoint."""
    VERSION: str = __version__
    """``serverInfo.version``: the version of the site."""
    INSTRUCTIONS: str | None = None
    """Instructions of the default endpoint, for models."""
    DESCRIPTION: str | None = None
    """One sentence about the default endpoint, of at most 100 characters, for people who choose a server."""
    REGISTRY_NAME: str | None = None
    """Name of the default endpoint in registries, such as ``"com.example.travel/booking"``; None: from ``BASE_URL``."""
    SERVER_CARD: bool = False
    """Publish a server card of each endpoint without ``user_passes_test``, and the catalogs that name them."""
    PRIVACY_POLICY_URL: str | None = None
    """Address of the site's privacy policy, which directories of connectors require."""
    OPENAI_APPS_CHALLENGE: str | None = None
    """Token with which OpenAI verifies the domain, served at ``/.well-known/openai-apps-challenge``."""
    MCP_REGISTRY_AUTH: str | None = None
    """Public key with which the MCP registry verifies the domain, served at ``/.well-known/mcp-registry-auth``."""
    ALLOWED_ORIGINS: tuple[str, ...] = ()
    """Origins of browser clients, such as ``"https://inspector.example.com"``. The site's own is always allowed."""
    MAX_BODY_BYTES: int = 4 * 1024 * 1024
    """Maximum size of a request body."""
    WORKER_THREADS: int = 8
    """Threads for synchronous code per process of the ASGI application. Each may hold a database connection."""
    MAX_QUEUED_CALLS: int | None = 500
    """Jobs that may wait for a thread before requests are rejected with 503; None for no limit."""
    RATE_LIMIT: str | None = None
    """Tool calls per caller and endpoint, such as ``"60/m"``; counted in Django's default cache."""
    THROTTLE_CLASS: str = "django_mcp.core.throttling.RateThrottle"
    """Dotted path of the class that counts for all rate limits: a subclass of the default."""
    CALL_CONTEXT_MANAGERS: tuple[Any, ...] = ()
    """Functions, or dotted paths, that take the Django request of a call (its ``user`` is the caller) and return a
    context manager. Calls run inside all of them, the first outermost."""
    VIEW_MIDDLEWARE: tuple[Any, ...] = ()
    """Middleware, as in ``MIDDLEWARE``, around the requests that tools make to the site's views and APIs. The first is
    outermost."""
    TENANT: str | None = None
    """Dotted path of a function that takes the Django request of a call and returns the name of its tenant, where host
    and path do not tell. Approvals, auto-approval rules, idempotency keys and ``requestState`` hold for one tenant. It
    runs inside ``CALL_CONTEXT_MANAGERS``."""
    EXCEPTION_HANDLER: str | None = None
    """Dotted path of a function that takes an exception of the site's code and the context of the call, and returns the
    ``ToolError`` that the caller reads, or None for the usual one."""
    TOOL_TIMEOUT: float | None = None
    """Default time limit of a tool in seconds; None for none."""
    MAX_OUTPUT_CHARS: int | None = 100_000
    """Default maximum characters of a tool's result; None for no limit."""
    MAX_BINARY_BYTES: int | None = 10 * 1024 * 1024
    """Maximum bytes of images, audio and files in a result, and of a resource or prompt; None for no limit."""
    IGNORED_ARGUMENTS: tuple[str, ...] = ()
    """Arguments that a client adds to every call. They are dropped if the tool does not define them."""
    IDEMPOTENCY_TTL: int = 24 * 60 * 60
    """Seconds for which the result of a call with an idempotency key is kept for repeated calls."""
    TOOL_SEARCH_THRESHOLD: int | None = None
    """Number of tools above which they are searched instead of listed; 0 for never. None: 40 at endpoints with
    ``admin_tools``, else never."""
    APP_CLIENTS: tuple[str, ...] = ()
    """Names (``clientInfo.name``) of clients that show MCP Apps without declaring it."""
    TASK_TTL: int = 24 * 60 * 60
    """Seconds for which a task and its result are kept, from its creation."""
    TASK_BACKEND: str | None = None
    """An alias in Django's ``TASKS``, or ``"process"`` for the serving process. None: ``"default"`` if that has
    workers, else the serving process."""
    TASK_QUEUE: str = "default"
    """Queue of that backend."""
    TASK_THREADS: int = 4
    """Tasks that run concurrently in the serving process."""
    TASK_LEASE_TTL: float = 30.0
    """Seconds without a heartbeat after which a task's worker is considered dead."""
    TASK_WAIT_TIMEOUT: float = 25.0
    """Seconds that a client without task support waits for the result before it gets instructions to fetch it later."""
    TASK_POLL_INTERVAL: float = 2.0
    """Seconds between polls of a task, as suggested to clients."""
    MAX_TASKS_PER_CALLER: int = 20
    """Unfinished tasks per caller and endpoint."""
    REQUIRE_APPROVAL_FOR: Literal["destructive", "writes"] | None = "destructive"
    """Tools that require approval unless a policy says otherwise: ``"destructive"``, ``"writes"`` (all that are not
    read-only), or None."""
    APPROVAL_REQUEST_TTL: int = 24 * 60 * 60
    """Seconds after which a pending approval request expires."""
    APPROVAL_GRANT_TTL: int = 60 * 60
    """Seconds for which an approved call may be made."""
    APPROVAL_WAIT_TIMEOUT: float = 25.0
    """Seconds that a client without task support waits for the decision before it is asked to repeat the call later."""
    MAX_APPROVALS_PER_CALLER: int = 20
    """Pending approval requests per caller and endpoint."""
    SELF_APPROVAL: bool = False
    """Allow approvers to decide calls made in their own name, in the admin. Tools may say otherwise
    (``self_approval``)."""
    NAME_CLIENT_IN_HISTORY: bool = False
    """Add the client to the text of what calls of ``admin_tools`` write into the admin's history."""
    APPROVALS_APP: bool = False
    """Let approvers decide in the conversation as well, in clients that show MCP Apps."""
    APPROVAL_LOG_DAYS: int | None = 365
    """Days for which decisions are kept; None for ever."""
    APPROVAL_EMAILS: tuple[str, ...] = ()
    """Addresses notified of pending approvals; ``"approvers"`` stands for all users who may decide."""
    APPROVAL_WEBHOOK: str | None = None
    """URL notified by POST as well (Standard Webhooks)."""
    APPROVAL_WEBHOOK_SECRET: str | None = None
    """Signing key of the webhook: ``whsec_`` and Base64, or any other text."""
    BLOCK_CHANGED_TOOLS: bool = False
    """Block a tool whose name, description, schema or hints changed until the new definition is approved."""
    POLICY_CACHE_TTL: float = 0.5
    """Seconds within which a changed policy applies in every process."""
    SESSION_TTL: int = 24 * 60 * 60
    """Seconds after its last use for which a session lives."""
    MAX_SESSIONS_PER_CALLER: int = 10_000
    """Sessions per caller and endpoint; a further one ends the least recently used."""
    MAX_STREAMS_PER_CALLER: int = 1000
    """Open streams per caller and process."""
    ELICITATION_TTL: int = 60 * 60
    """Seconds for which a question waits for its answer, and a stream for a client that lost it."""
    POLL_INTERVAL: float = 0.5
    """Seconds between polls of a process with open streams, if no shared channel layer wakes it."""
    KEEP_ALIVE_INTERVAL: float = 15.0
    """Seconds between comments on an idle stream, so that proxies keep it open."""
    HTTP_SSE: bool = False
    """Serve the HTTP+SSE transport as well, which Streamable HTTP replaced."""
    OAUTH_PATH: str | None = "o/"
    """Path of authorize, token, register and revoke below ``django_mcp.urls``; None if the site has its own."""
    EXTRA_REDIRECT_URIS: tuple[str, ...] = ("cursor://anysphere.cursor-mcp/oauth/callback",)
    """Allowed redirect URIs of self-registered clients that are neither https nor loopback."""
    REFRESH_TOKEN_GRACE_TTL: int = 60
    """Seconds for which a replaced refresh token still works; 0 for never."""
    CLIENT_CREDENTIALS: bool = False
    """Allow selected confidential clients to act as the user named in their ``ClientPolicy``."""
    REGISTRATION_RATE: str | None = "20/h"
    """Client registrations per address (RFC 7591), and fetched metadata documents per user, such as ``"20/h"``. IPv6
    networks of /64 count as an address; /56 and /48 may have twice and four times as many."""
    MAX_UNUSED_CLIENTS: int = 1000
    """Self-registered clients that never got a token. A further one replaces the oldest of the network with most."""
    CLIENT_DOCUMENTS: bool = True
    """Accept clients that identify themselves by the URL of a metadata document, which the site fetches."""
    CLIENT_DOCUMENT_PORTS: tuple[int, ...] = (443,)
    """Ports from which client ID metadata documents are fetched."""
    CLIENT_ADDRESS_HEADER: str | None = None
    """Header in which the site's proxy sends the client's address, such as ``"X-Real-IP"``."""
    MAX_API_KEY_DAYS: int = 365
    """Maximum lifetime of an API key."""
    API_KEYS_IN_URL: bool = False
    """Accept API keys as ``?api_key=…``, for clients that support nothing else. Proxies and browsers log URLs."""
    LOG_REQUESTS: bool = True
    """Write a ``RequestLog`` row for each list, read and call, unless the endpoint says otherwise."""
    REQUEST_LOG_DAYS: int | None = 90
    """Days for which these rows are kept; None for ever."""
    LOG_ARGUMENTS: bool = True
    """Log the arguments of calls, shortened and without secrets."""
    REDACTED_ARGUMENTS: tuple[str, ...] = ARGUMENTS
    """Names of arguments that hold secrets: a word of the name or, from five letters on, any part of it."""


APPROVALS_SCOPE = "mcp:approvals"
"""Scope of the approvals app. Declared where it is on, and in no default of ours; a user has to agree to it."""

APPROVALS_TEXT = _("Read calls of other people that wait for approval, and approve or deny them in your name")


def with_own_scopes(values: Settings) -> Settings:
    """Return settings that declare the package's own scopes as well, unless the site describes them itself."""
    if not values.APPROVALS_APP:
        return values
    text = values.SCOPES.get(APPROVALS_SCOPE, APPROVALS_TEXT)
    return values._replace(SCOPES={**values.SCOPES, APPROVALS_SCOPE: text})


MAY_BE_ZERO = {"REFRESH_TOKEN_GRACE_TTL", "TOOL_SEARCH_THRESHOLD"}
KEYS = Settings._fields


def given() -> Mapping[str, Any]:
    # What is no dict counts as empty; ``problems`` reports it.
    value = getattr(django_settings, "DJANGO_MCP", {})
    return value if isinstance(value, Mapping) else {}


WRONG = gettext_noop("DJANGO_MCP[%(key)r] must be %(wanted)s, not %(value)r.")
WRONG_WHOLE = gettext_noop("DJANGO_MCP must be %(wanted)s, not %(value)r.")
UNKNOWN = gettext_noop("DJANGO_MCP has no key %(key)r.")
MEANT = gettext_noop("Did you mean %(meant)r?")


class Wrong(NamedTuple):
    """A value of the wrong type. ``str()`` is in English, because settings are read before translations are available.

    Attributes:
        key: key of ``DJANGO_MCP``; "" for the whole setting.
        wanted: what the value must be, as a message for ``gettext``.
        value: the value.
    """

    key: str
    wanted: str
    value: Any

    @property
    def words(self) -> str:
        return WRONG if self.key else WRONG_WHOLE

    def __str__(self) -> str:
        return self.words % self._asdict()


def problems() -> list[Wrong]:
    whole = getattr(django_settings, "DJANGO_MCP", {})
    if not isinstance(whole, Mapping):
        return [Wrong("", gettext_noop("a dict"), whole)]
    found = []
    for name, annotation in Settings.__annotations__.items():
        value = given().get(name, Settings._field_defaults[name])
        if wanted := _wanted(name, annotation, value):
            found.append(Wrong(name, wanted, value))
    return found


def _wanted(name: str, annotation: Any, value: Any) -> str | None:  # noqa: PLR0911 - one for each kind
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
        if value is None:
            return None
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        return None if value in get_args(annotation) else gettext_noop('"destructive", "writes" or None')
    if kind is bool:
        return None if isinstance(value, bool) else gettext_noop("True or False")
    if kind is int:
        if name in MAY_BE_ZERO:
            return None if type(value) is int and value >= 0 else gettext_noop("0 or a positive integer")
        return None if type(value) is int and value > 0 else gettext_noop("a positive integer")
    if kind is float:
        return None if type(value) in {int, float} and value > 0 else gettext_noop("a positive number")
    if kind is tuple:
        return None if isinstance(value, list | tuple) else gettext_noop("a list")
    if kind is Mapping:
        return None if isinstance(value, Mapping) else gettext_noop("a dict")
    return None if isinstance(value, str) else gettext_noop("a string")


def misspelt() -> dict[str, str | None]:
    return {
        key: next(iter(difflib.get_close_matches(str(key).upper(), KEYS, n=1)), None)
        for key in given()
        if key not in KEYS
    }


REQUIRED_APPS = ("django.contrib.contenttypes", "django.contrib.auth")
"""Apps whose models the package refers to, or imports: users, groups and permissions."""
MISSING = gettext_noop("%(name)r is not in INSTALLED_APPS, but django_mcp needs it.")


def missing_apps() -> list[str]:
    return [name for name in REQUIRED_APPS if apps.apps_ready and not apps.is_installed(name)]


def check_required(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Report missing apps. No other check is run without them, as most modules cannot be imported."""
    return [
        Error(
            gettext(MISSING) % {"name": name},
            hint=gettext("Add %(name)r to INSTALLED_APPS, then run manage.py migrate.") % {"name": name},
            id=f"{__package__}.E013",
        )
        for name in missing_apps()
    ]


def faults() -> list[str]:
    """Return what is wrong with the site's settings, with the ids of the checks.

    These are missing apps, and unknown keys and values of the wrong type in ``DJANGO_MCP``. While there is any, no
    endpoint is served: what the key was meant to limit would not be limited.
    """
    unknown = [
        UNKNOWN % {"key": key} + (f" {MEANT % {'meant': meant}}" if meant else "") for key, meant in misspelt().items()
    ]
    return [
        *(f"django_mcp.E013: {MISSING % {'name': name}}" for name in missing_apps()),
        *(f"django_mcp.E001: {text}" for text in unknown),
        *(f"django_mcp.E003: {text}" for text in problems()),
    ]


def _read() -> Settings:
    # A wrong value becomes the default: the site must start for its checks to run.
    wrong = {problem.key for problem in problems()}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given().items()
        if key in KEYS and key not in wrong
    }
    return with_own_scopes(Settings(**values))


class _LazySettings:
    """The setting, read on first access and then kept as plain attributes.

    Several keys are read in every request, where a ``LazyObject`` would cost more than the rest of the check.
    """

    def __getattr__(self, key: str) -> Any:
        if key not in KEYS:
            raise AttributeError(key)
        vars(self).update(_read()._asdict())
        return vars(self)[key]


class _SiteSettings:
    """Django's own settings, cached in the same way: these stay a ``LazyObject``."""

    def __getattr__(self, key: str) -> Any:
        value = vars(self)[key] = getattr(django_settings, key)
        return value


settings = cast("Settings", _LazySettings())
site_settings = _SiteSettings()
"""For settings that are read in every request."""


def _forget(*, setting: str, **_: Any) -> None:
    vars(site_settings).pop(setting, None)
    if setting == "DJANGO_MCP":
        vars(settings).clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
