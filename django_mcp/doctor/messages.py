"""Findings of ``mcp_doctor``: their texts and their output."""

import enum
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CLIENTS: Mapping[str, tuple[str, str, str]] = {
    # Credentials
    "credential.none": (
        "hint",
        "The endpoint requires a credential and none was given, so only public parts were checked.",
        "Pass `--as USERNAME` to create a temporary API key, or `--key KEY` to use an existing one.",
    ),
    "credential.refused": (
        "error",
        "The endpoint rejects the credential: {evidence}.",
        "Check `manage.py mcp_key list`: it may be expired, revoked, or for another endpoint.",
    ),
    "credential.scopes": (
        "error",
        "The credential lacks scopes: {evidence}.",
        "Use one that has them: `manage.py mcp_key create --scope …`",
    ),
    "headers.authorization": (
        "error",
        "The Authorization header does not reach the endpoint: it reports a missing credential although one was sent.",
        (
            "nginx: `proxy_set_header Authorization $http_authorization;`; Apache: `CGIPassAuth On`, mod_wsgi: "
            "`WSGIPassAuthorization On`."
        ),
    ),
    "headers.protocol-version": (
        "error",
        "MCP-Protocol-Version does not reach the endpoint.",
        "Let the proxy pass it: nginx `proxy_set_header MCP-Protocol-Version $http_mcp_protocol_version;`",
    ),
    "headers.mcp-method": (
        "error",
        "Mcp-Method does not reach the endpoint.",
        "Let the proxy pass it: nginx `proxy_set_header Mcp-Method $http_mcp_method;`",
    ),
    "headers.session-answer": (
        "error",
        "Mcp-Session-Id does not reach the client: the endpoint opened a session, but the response has no id.",
        "Let the proxy pass it: nginx without `proxy_hide_header Mcp-Session-Id;`",
    ),
    "headers.session-request": (
        "error",
        "Mcp-Session-Id does not reach the endpoint: it accepted the id of a session that does not exist.",
        "Let the proxy pass it: nginx `proxy_set_header Mcp-Session-Id $http_mcp_session_id;`",
    ),
    "headers.last-event-id": (
        "warning",
        "Last-Event-ID does not reach the endpoint: clients that reconnect to a stream miss the events in between.",
        "Let the proxy pass it: nginx `proxy_set_header Last-Event-ID $http_last_event_id;`",
    ),
    # Protocol versions and sessions
    "modern.error": (
        "error",
        "{method} of protocol 2026-07-28 returned {evidence}.",
        "Check the server's log.",
    ),
    "legacy.error": (
        "error",
        "{method} of protocol {version} returned {evidence}.",
        "Check the server's log.",
    ),
    "session.none": (
        "warning",
        "The endpoint opens no session: clients of older protocol versions get no input requests or subscriptions.",
        "Search its log for “no session could be opened”, and run `manage.py migrate`.",
    ),
    "session.lost": (
        "error",
        "The session just opened is unknown in the next request (404).",
        "All workers must share one database: compare their `DATABASES`.",
    ),
    # OAuth metadata
    "challenge.missing": (
        "error",
        "A 401 response has no WWW-Authenticate header: clients cannot find the login.",
        "Let the proxy pass it: nginx without `proxy_hide_header WWW-Authenticate;` and `proxy_intercept_errors`.",
    ),
    "challenge.no-metadata": (
        "error",
        "WWW-Authenticate of the 401 has no resource_metadata: {challenge}.",
        "Restart the server with the settings of this command, or find the proxy that replaces the header.",
    ),
    "challenge.origin": (
        "error",
        "The endpoint's public address is {theirs} in its settings, but clients reach it at {ours}.",
        "`DJANGO_MCP['BASE_URL'] = '{ours}'` if that is its public address; otherwise pass the URL that clients use.",
    ),
    "metadata.not-found": (
        "error",
        "The metadata URL in the 401 response does not work: {url} returns {status}.",
        "`path('', include('django_mcp.urls'))` at the root of the URLconf, and have the proxy pass `/.well-known/`.",
    ),
    "metadata.broken": (
        "error",
        "{url} does not return a JSON object.",
        "Have the proxy pass `/.well-known/oauth-protected-resource` to the server.",
    ),
    "metadata.resource": (
        "error",
        "The metadata is for {theirs}, but clients expect the URL they were given, {ours}.",
        "Give clients {theirs}, or correct `DJANGO_MCP['BASE_URL']`.",
    ),
    "metadata.no-issuer": (
        "error",
        "The metadata names no authorization server.",
        "Restart the server: its settings should have `OAuth2Authentication` or `JWTAuthentication`.",
    ),
    "issuer.not-found": (
        "error",
        "The authorization server {issuer} has no metadata at the URLs that clients try: {evidence}.",
        "Have the proxy pass `/.well-known/oauth-authorization-server`; an external server must follow RFC 8414.",
    ),
    "issuer.mismatch": (
        "error",
        "The metadata of {issuer} has the issuer {theirs}; clients reject the difference (RFC 8414, section 3.3).",
        "Write the issuer exactly as in its metadata, including slashes.",
    ),
    "issuer.no-s256": (
        "error",
        "The authorization server {issuer} does not declare PKCE with S256, which clients require.",
        "Enable PKCE there: `code_challenge_methods_supported` must contain `S256`.",
    ),
    "issuer.http": (
        "error",
        "{name} of {issuer} is {url}, which is not https.",
        "`DJANGO_MCP['BASE_URL'] = 'https://…'`",
    ),
    "documents.unreachable": (
        "warning",
        (
            "This site cannot fetch {url}: {why}. Claude Code, Codex and others that a document describes cannot sign "
            "in."
        ),
        (
            "Allow https to claude.ai, chatgpt.com and vscode.dev, directly or by `HTTPS_PROXY`; or "
            "`DJANGO_MCP['CLIENT_DOCUMENTS'] = False`, so that these clients register themselves."
        ),
    ),
    "login.next": (
        "warning",
        (
            "A user who signs in at {login} is sent to {location} instead of the consent page {next}, as `next` says: "
            "OAuth clients wait in vain."
        ),
        (
            "Let the login view follow `next` to this page: if it has a list of URL names or paths, add "
            "`oauth2_provider:authorize`."
        ),
    ),
    # Policies
    "policies.unmatched": (
        "warning",
        "Policies match nobody, so what they should restrict is allowed: {evidence}.",
        "Correct or remove them in the admin, on the pages *Tools* and *Client policies*.",
    ),
    # Origin and CORS
    "origin.unchecked": (
        "warning",
        "A request from a page of {origin} was accepted: the Origin header does not reach the endpoint.",
        'Let the proxy pass it (nginx: without `proxy_set_header Origin "";`). It protects from DNS rebinding.',
    ),
    "cors.refused": (
        "error",
        "Pages of {origin} are rejected, although this site's settings allow them.",
        "Restart the server with `DJANGO_MCP['ALLOWED_ORIGINS'] = ['{origin}']`.",
    ),
    "cors.preflight": (
        "error",
        "The preflight request of a page of {origin} returned {status} and {evidence}.",
        "Let the proxy, or a CORS middleware (CORS_URLS_REGEX), pass OPTIONS to the endpoint, without an own answer.",
    ),
    "cors.exposed": (
        "error",
        "Pages of {origin} cannot read Mcp-Session-Id: Access-Control-Expose-Headers is {evidence}.",
        "Remove CORS headers from the proxy: the endpoint sends its own.",
    ),
    "cors.twice": (
        "error",
        "Access-Control-Allow-Origin is sent twice, which browsers reject: {evidence}.",
        "Remove `add_header Access-Control-Allow-Origin` from the proxy: the endpoint sends its own.",
    ),
}


SITE: Mapping[str, tuple[str, str, str]] = {
    # Streams
    "streams.wsgi": (
        "hint",
        "The server runs WSGI: it offers no streams, so clients are not notified of changes.",
        "Serve the site by ASGI to offer streams: `uvicorn mysite.asgi:application`.",
    ),
    "streams.error": (
        "error",
        "Opening a stream returned {evidence}.",
        "Check the server's log.",
    ),
    "streams.buffered": (
        "error",
        "A stream was opened but no event arrived within {seconds} s: a proxy buffers events.",
        "nginx: `proxy_buffering off;` and `proxy_http_version 1.1;`, and no `proxy_ignore_headers X-Accel-Buffering;`",
    ),
    "streams.compressed": (
        "warning",
        "A proxy compresses event streams ({encoding}), which delays events.",
        "nginx: remove `text/event-stream` from `gzip_types`; others: do not compress `text/event-stream`.",
    ),
    "streams.cacheable": (
        "warning",
        "Event streams have Cache-Control {value}: caches may store them.",
        "Let the proxy pass `Cache-Control: no-store` of the endpoint (nginx: no `expires`, no `add_header`).",
    ),
    "streams.cut": (
        "error",
        "An idle stream was closed after {seconds} s.",
        "nginx: `proxy_read_timeout 300s;`; or `DJANGO_MCP['KEEP_ALIVE_INTERVAL']` below the proxy's limit.",
    ),
    "streams.silent": (
        "warning",
        "No keep-alive arrived on a stream within {seconds} s, although the endpoint sends one every {every} s.",
        "A proxy buffers small chunks. nginx: `proxy_buffering off;`, and `gzip off;` for the endpoint.",
    ),
    # Clock, sizes, connections
    "clock.off": (
        "warning",
        "The clock of {whose} is {seconds} s {way} of this machine's: tokens and questions expire {when}.",
        "Synchronize the clocks with NTP: `timedatectl set-ntp true`.",
    ),
    "size.proxy": (
        "error",
        "A body of {sent} bytes is rejected ({status}) before it reaches the endpoint, whose limit is {limit}.",
        "nginx: `client_max_body_size {megabytes}m;`, or lower `DJANGO_MCP['MAX_BODY_BYTES']` to the proxy's limit.",
    ),
    "size.endpoint": (
        "warning",
        "The running endpoint rejects a body of {sent} bytes, although the limit in these settings is {limit}.",
        "Restart the server to apply the settings of this command.",
    ),
    "size.broken": (
        "error",
        "The connection broke while a body of {sent} bytes was sent; the endpoint's limit is {limit}.",
        "Find the proxy with a lower limit: nginx `client_max_body_size`, Apache `LimitRequestBody`, a firewall.",
    ),
    "connection.closed": (
        "hint",
        "The connection is closed after each response, so each call needs a new connection.",
        "nginx: `keepalive_timeout 75s;`; gunicorn: a worker class with keep-alive (`--threads 8`).",
    ),
    # The site's settings and services
    "migrations.pending": (
        "error",
        "Migrations are not applied to the database {alias}: {names}.",
        "`python manage.py migrate`",
    ),
    "check.error": ("error", "{id}: {message}", "{hint}"),
    "check.warning": ("warning", "{id}: {message}", "{hint}"),
    "settings.debug": (
        "warning",
        "DEBUG is on at a public address: error pages expose settings and code to anyone.",
        "`DEBUG = False`",
    ),
    "database.unreachable": (
        "error",
        "The database {alias} does not answer: {why}.",
        "Start it, or correct `DATABASES`.",
    ),
    "database.sqlite": (
        "hint",
        "The database is SQLite: one writer at a time, and one machine.",
        "Use PostgreSQL for several workers. For one, enable WAL: `'init_command': 'PRAGMA journal_mode=WAL'`.",
    ),
    "cache.unreachable": (
        "warning",
        "The default cache does not store values: {why}.",
        "Correct `CACHES['default']`: rate limits are counted there and are not enforced while it fails.",
    ),
    "cache.local": (
        "hint",
        "Each process counts RATE_LIMIT separately: the default cache is in memory.",
        "`CACHES = {{'default': {{'BACKEND': 'django.core.cache.backends.redis.RedisCache', 'LOCATION': 'redis://…'}}}}`",
    ),
    "layer.none": (
        "hint",
        (
            "No channel layer is shared by processes: with several workers, events of other workers arrive up to "
            "{seconds} s later, and each worker with streams polls the database at that interval. No event is lost."
        ),
        (
            "`CHANNEL_LAYERS = {{'default': {{'BACKEND': 'channels_redis.core.RedisChannelLayer', 'CONFIG': {{'hosts': "
            "['redis://…']}}}}}}`"
        ),
    ),
    "layer.unreachable": (
        "warning",
        "The channel layer does not respond: {why}. Streams receive events up to {seconds} s later.",
        "Start Redis, or correct `CHANNEL_LAYERS['default']['CONFIG']['hosts']`.",
    ),
    # Shared database and notifications
    "deployment.other": (
        "error",
        "The running server does not use this process's database: {evidence}.",
        "Run this with the environment of that deployment, or correct the URL or `DJANGO_MCP['BASE_URL']`.",
    ),
    "notifications.slow": (
        "warning",
        "A stream received an event of this process after {seconds} s, by polling: the channel layer is not shared.",
        (
            "Give the server and this process the same `CHANNEL_LAYERS` (host, database number and `prefix`). Look for "
            "warnings about the channel layer in the server's log."
        ),
    ),
    "notifications.unheard": (
        "error",
        "A stream did not receive an event of this process within {seconds} s.",
        "Check the server's log for errors while reading the event log, and restart it.",
    ),
}


WAYS: Mapping[str, tuple[str, str, str]] = {
    # Network and TLS
    "reach.dns": (
        "error",
        "The host name {host} does not resolve: {why}.",
        "Correct the host in the URL or in `DJANGO_MCP['BASE_URL']`, or add a DNS record for it.",
    ),
    "reach.refused": (
        "error",
        "Nothing listens at {host}:{port}: the connection was refused.",
        "Start the server or the proxy before it, or correct the port.",
    ),
    "reach.timeout": (
        "error",
        "{host}:{port} did not answer within {seconds} s.",
        "Check whether a firewall drops connections or the server hangs, or set a longer `--timeout`.",
    ),
    "reach.broken": (
        "error",
        "The connection to {host}:{port} broke before the response was complete: {why}.",
        "Check the logs of the proxy and the server: one of them closes connections.",
    ),
    "tls.name": (
        "error",
        "The TLS certificate is for {names}, not for {host}.",
        "Install a certificate for {host} on the proxy: `certbot --nginx -d {host}`.",
    ),
    "tls.expired": (
        "error",
        "The TLS certificate of {host} is not valid at this time: {why}.",
        "Renew it: `certbot renew`, and reload the proxy.",
    ),
    "tls.expiring": (
        "warning",
        "The TLS certificate of {host} expires in {left}.",
        "Renew it: `certbot renew`, and check why automatic renewal failed.",
    ),
    "tls.untrusted": (
        "error",
        "This machine does not trust the issuer of the TLS certificate of {host}: {why}.",
        "Send the full chain (nginx: `ssl_certificate fullchain.pem`), or use `--insecure` for a private authority.",
    ),
    "tls.failed": (
        "error",
        "The TLS handshake with {host}:{port} failed: {why}.",
        "Correct scheme and port of the URL, or enable TLS (nginx: `listen 443 ssl`).",
    ),
    "tls.unverified": ("hint", "The TLS certificate was not verified.", "Leave out `--insecure`: clients verify it."),
    # Responses of something other than the endpoint
    "redirect.slash": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        (
            "Serve both forms, as `django_mcp.urls` does, and remove the proxy's redirect; until then clients need "
            "{location}. `APPEND_SLASH` does not redirect URLs of `django_mcp.urls`."
        ),
    ),
    "redirect.https": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        (
            "Give clients the https address: `DJANGO_MCP['BASE_URL'] = '{origin}'`. If TLS ends in a proxy: "
            "`SECURE_PROXY_SSL_HEADER = ('HTTP_X_FORWARDED_PROTO', 'https')` and `proxy_set_header X-Forwarded-Proto "
            "$scheme;`"
        ),
    ),
    "redirect.host": (
        "error",
        "A POST is redirected with {status} to another host, {location}, and clients lose its body and Authorization.",
        "Give clients that address: `DJANGO_MCP['BASE_URL'] = '{origin}'`, or remove the redirect (`PREPEND_WWW`).",
    ),
    "redirect.elsewhere": (
        "error",
        "A POST is redirected with {status} to {location}, and clients lose its body and Authorization.",
        "Give clients that address if it is the endpoint's, or remove the redirect.",
    ),
    "answer.login": (
        "error",
        "A login page blocks the endpoint: {evidence}.",
        (
            "Let the proxy pass {path} without a login (nginx: `auth_request off;`, oauth2-proxy: "
            "`--skip-auth-route`). In Django `django_mcp.urls` is exempt from LoginRequiredMiddleware: exempt it in "
            "your own middleware too."
        ),
    ),
    "answer.proxy-auth": (
        "error",
        "A server in front of the endpoint requires its own login: {status}, WWW-Authenticate {challenge}.",
        "Disable it for {path} (nginx: `auth_basic off;`): the endpoint needs the Authorization header.",
    ),
    "answer.csrf": (
        "error",
        "Django's CSRF protection rejects requests (403).",
        (
            "Serve the endpoint by `django_mcp.urls` or `mcp_application`, which are exempt from it; a view around it "
            "must be `csrf_exempt`."
        ),
    ),
    "answer.not-found": (
        "error",
        "{url} returns 404 Not Found.",
        "The endpoint's path is {path} here: use that, or add `path('', include('django_mcp.urls'))` to the URLconf.",
    ),
    "answer.method": (
        "error",
        "{url} does not allow POST (405): it is not the endpoint, or a proxy blocks POST.",
        "The endpoint's path is {path} here; nginx: `proxy_pass` for it, and no `limit_except GET`.",
    ),
    "answer.bad-gateway": (
        "error",
        "The proxy cannot reach the server (502).",
        "Start the server, and check that `proxy_pass` has its address.",
    ),
    "answer.gateway-timeout": (
        "error",
        "The server did not answer the proxy in time (504).",
        "Check whether the server hangs; nginx: `proxy_read_timeout 300s;`",
    ),
    "answer.unavailable": (
        "error",
        "The URL returns 503: {evidence}.",
        "End the maintenance. If the endpoint itself responded, its database is down or `MAX_QUEUED_CALLS` is reached.",
    ),
    "answer.failed": (
        "error",
        "The URL returns {status}: {evidence}.",
        "Check the server's log: it has the traceback.",
    ),
    "answer.other": (
        "error",
        "The URL is not an MCP endpoint: {status}, {kind}.",
        "The endpoint's path is {path} here: use that in the URL, and let the proxy pass it to the server.",
    ),
    "host.refused": (
        "error",
        "The endpoint rejects the host {host}.",
        "`ALLOWED_HOSTS = [..., '{host}']`",
    ),
    "host.rewritten": (
        "error",
        "A proxy changes the Host header: clients send {host}, but the endpoint received {seen} and rejects it.",
        "nginx: `proxy_set_header Host $http_host;`",
    ),
}


ADMIN: Mapping[str, tuple[str, str, str]] = {
    "admin.none": (
        "error",
        "The endpoint {server} offers no admin: no `admin_tools` is registered there.",
        "Name the endpoint that does with `--server`, or add `admin_tools(server=…)` to an `mcp.py`.",
    ),
    "admin.no-urls": (
        "error",
        "No URL leads to the admin {site}.",
        "Add it to the URLconf: `path('{site}/', site.urls)`.",
    ),
    "admin.sessions": (
        "error",
        "The pages cannot be visited as a browser does, as the site has no sessions.",
        "Add `django.contrib.sessions` to `INSTALLED_APPS`, with its middleware.",
    ),
    "admin.not-admitted": (
        "hint",
        "The admin {site} does not admit {user}. Compared is only that its tools refuse what its pages refuse.",
        "Pass `--as` with a member of staff.",
    ),
    "admin.closed": (
        "error",
        "The admin cannot be visited: {url} answers {evidence}.",
        (
            "A browser needs more than a session there, such as a second factor or an address; compare in a test: "
            "`django_mcp.test.admin.walk`."
        ),
    ),
    "admin.differs": (
        "error",
        "{url} and `{call}` differ: {evidence}.",
        "Visit the page and call the tool with `manage.py mcp_call`. Please report it, with the `ModelAdmin`.",
    ),
    "admin.unread": (
        "warning",
        "The pages of {model} cannot be compared: {why}.",
        "If they are the usual pages of an admin, please report it; otherwise leave the model out with `exclude`.",
    ),
    "admin.failed": (
        "warning",
        "The admin itself fails at {pages} (server error), which were not compared.",
        "See the site's log.",
    ),
}


FINDINGS: Mapping[str, tuple[str, str, str]] = {**WAYS, **CLIENTS, **SITE, **ADMIN}


class Severity(enum.IntEnum):
    """Severity of a finding, in ascending order."""

    OK = 0
    HINT = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """A problem or a hint."""

    id: str
    severity: Severity
    message: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        return {"id": self.id, "severity": self.severity.word, "message": self.message, "remedy": self.remedy}


@dataclass
class CheckResult:
    """The result of one check. ``success`` is a sentence for success."""

    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)
    success: str = ""
    skipped: str = ""

    @property
    def severity(self) -> Severity:
        return max((finding.severity for finding in self.findings), default=Severity.OK)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value. Without findings it has one finding for success."""
        fine = [] if self.skipped else [Finding(f"{self.name}.ok", Severity.OK, self.success, "").to_json()]
        findings = [finding.to_json() for finding in self.findings] or fine
        return {"name": self.name, "severity": self.severity.word, "skipped": self.skipped, "findings": findings}


class CheckFailed(Exception):
    """Raised by a check that cannot continue."""

    def __init__(self, finding_id: str, **values: Any) -> None:
        super().__init__(finding_id)
        self.finding_id = finding_id
        self.values = values


def make_finding(finding_id: str, **values: Any) -> Finding:
    severity, message, remedy = FINDINGS[finding_id]
    return Finding(finding_id, Severity[severity.upper()], message.format(**values), remedy.format(**values))


WIDTH = 100
_MARKS = {Severity.OK: "✓", Severity.HINT: "✓", Severity.WARNING: "!", Severity.ERROR: "✗"}
_PLAIN = {Severity.OK: "ok", Severity.HINT: "ok", Severity.WARNING: "!!", Severity.ERROR: "XX"}
_LETTERS = str.maketrans({"“": '"', "”": '"', "’": "'", "…": "..."})
_TITLE_WIDTH = 17


def marks_for(encoding: str | None) -> dict[Severity, str]:
    """Return the marks that a terminal with this encoding can print."""
    try:
        "".join(_MARKS.values()).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _MARKS


def format_result(result: CheckResult, marks: dict[Severity, str]) -> str:
    mark = "-" if result.skipped else marks[result.severity]
    worst = max(result.findings, key=lambda finding: finding.severity, default=None)
    words = result.skipped or result.success if worst is None else f"{worst.severity.word}: {worst.id}"
    if worst is not None and worst.severity is Severity.HINT and result.success:
        words = result.success
    line = f"{mark:<2} {result.title:<{_TITLE_WIDTH}}{words}".rstrip()
    text = "\n".join([line, *(format_finding(finding) for finding in result.findings)])
    # Text from servers may contain terminal control characters.
    text = "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
    return text.translate(_LETTERS).encode("ascii", "replace").decode() if marks is _PLAIN else text


def format_finding(finding: Finding) -> str:
    indent = " " * (_TITLE_WIDTH + 3)
    options = {"width": WIDTH, "break_long_words": False, "break_on_hyphens": False}
    message = f"{finding.severity.word} {finding.id}: {finding.message}"
    lines = textwrap.wrap(message, initial_indent=indent, subsequent_indent=indent, **options)  # type: ignore[arg-type]
    remedy = textwrap.wrap(
        finding.remedy,
        initial_indent=f"{indent}-> ",
        subsequent_indent=f"{indent}   ",
        **options,  # type: ignore[arg-type]
    )
    return "\n".join([*lines, *remedy])


def summary(results: Iterable[CheckResult]) -> str:
    found = [finding.severity for result in results for finding in result.findings]
    count = {kind: found.count(kind) for kind in (Severity.ERROR, Severity.WARNING, Severity.HINT)}
    counts = [f"{number} {kind.word}{'' if number == 1 else 's'}" for kind, number in count.items() if number]
    return ", ".join(counts) + "." if counts else "No problems found."
