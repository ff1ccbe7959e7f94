"""Deployments with one fault each: the fault is named, with what helps, and nothing else is complained of."""

import json
import os
import select
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest
import trustme

from benchmarks.process import HOST, run_to_end
from tests.doctor.conftest import USER, Deployment, Report, command, deployed, make_site, manage
from tests.doctor.proxy import Fault, Handler, listening, page, without
from tests.ports import free_port

EVERYBODY = '{"AUTHENTICATION": ["django_mcp.AllowAny"]}'
Look = Callable[..., Report]


def at(path: str, answer: Callable[[Handler], Any]) -> Callable[[Handler], Any]:
    """An answer to requests below a path alone."""
    return lambda request: answer(request) if request.path.startswith(path) else None


def asked_for(method: str, answer: Callable[[Handler], Any]) -> Callable[[Handler], Any]:
    """An answer to requests with a method of the protocol alone, in either era."""
    return lambda request: answer(request) if f'"method": "{method}"'.encode() in request.body else None


def redirect(status: int, to: str) -> Callable[[Handler], Any]:
    return page(status, "moved", location=to)


# Who answers


def test_a_redirect_to_a_slash(look: Look) -> None:
    report = look(fault=Fault(instead=redirect(301, "/mcp/")))
    assert report.bad == {"redirect.slash"}
    assert "/mcp/, and clients lose" in report.message("redirect.slash")
    assert report.code == 1


def test_a_redirect_to_https(look: Look) -> None:
    report = look(fault=Fault(instead=redirect(308, "https://127.0.0.1/mcp")))
    assert report.bad == {"redirect.https"}
    assert "DJANGO_MCP['BASE_URL'] = 'https://127.0.0.1'" in report.remedy("redirect.https")


def test_a_redirect_to_another_host(look: Look) -> None:
    report = look(fault=Fault(instead=redirect(302, "http://www.example.com/mcp")))
    assert report.bad == {"redirect.host"}


def test_a_redirect_to_another_page(look: Look) -> None:
    assert look(fault=Fault(instead=redirect(307, "/welcome"))).bad == {"redirect.elsewhere"}


def test_a_login_page_to_which_callers_are_sent(look: Look) -> None:
    report = look(fault=Fault(instead=redirect(302, "/accounts/login/?next=/mcp")))
    assert report.bad == {"answer.login"}
    assert "auth_request off;" in report.remedy("answer.login")


def test_a_login_page_in_place_of_the_endpoint(look: Look) -> None:
    assert look(fault=Fault(instead=page(200, '<form><input name="p" type="password">'))).bad == {"answer.login"}


def test_a_proxy_with_a_login_of_its_own(look: Look) -> None:
    asked = page(401, "who?", **{"www-authenticate": 'Basic realm="staging"'})
    assert look(fault=Fault(instead=asked)).bad == {"answer.proxy-auth"}


@pytest.mark.parametrize(
    ("status", "words", "finding"),
    [
        (502, "Bad Gateway", "answer.bad-gateway"),
        (503, "Down for maintenance", "answer.unavailable"),
        (504, "Gateway Time-out", "answer.gateway-timeout"),
        (500, "Server Error", "answer.failed"),
        (403, "CSRF verification failed.", "answer.csrf"),
        (404, "Not Found", "answer.not-found"),
        (405, "Not Allowed", "answer.method"),
        (200, "Welcome!", "answer.other"),
        (400, "<h1>Bad Request (400)</h1>", "host.refused"),
    ],
)
def test_a_page_in_place_of_an_answer(look: Look, status: int, words: str, finding: str) -> None:
    report = look(fault=Fault(instead=page(status, words)))
    assert report.bad == {finding}
    assert report.code == 1


def test_a_connection_that_breaks(look: Look) -> None:
    def hang_up(request: Handler) -> None:
        request.close_connection = True
        request.server.shutdown_request(request.connection)
        raise ConnectionError

    assert look(fault=Fault(instead=hang_up)).bad == {"reach.broken"}


def test_workers_that_do_not_know_each_others_sessions(look: Look) -> None:
    def another(headers: dict[str, str]) -> None:
        if "mcp-session-id" in headers:
            headers["mcp-session-id"] = "of-another-worker"

    assert look(fault=Fault(request=another)).bad == {"session.lost"}


# Who is reached


def test_nothing_listens(look: Look) -> None:
    assert look(f"http://{HOST}:{free_port()}/mcp").bad == {"reach.refused"}


def test_a_name_that_nobody_knows(look: Look) -> None:
    assert look("http://no-such-host.invalid/mcp").bad == {"reach.dns"}


def test_a_server_that_never_answers(look: Look) -> None:
    def hang(request: Handler) -> None:
        request.connection.recv(1)  # until the client leaves

    assert look("--timeout", "0.5", fault=Fault(instead=hang)).bad == {"reach.timeout"}


def test_a_host_that_is_not_allowed(look: Look, deployment: Deployment) -> None:
    report = look(f"http://localhost:{deployment.proxy.port}/mcp")
    assert report.bad == {"host.refused"}
    assert report.remedy("host.refused") == "`ALLOWED_HOSTS = [..., 'localhost']`"


def test_a_proxy_that_changes_the_host(look: Look) -> None:
    report = look(fault=Fault(request=lambda headers: headers.update(host="app:8000")))
    assert report.bad == {"host.rewritten"}
    assert "app:8000" in report.message("host.rewritten")


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def https(deployment: Deployment, authority: trustme.CA, tmp_path: Path) -> Callable[..., Report]:
    """Looks through a proxy with a certificate for some names."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")

    def look_at(name: str, *arguments: str, days: int = 90, **trust: str) -> Report:
        until = datetime.now(UTC) + timedelta(days=days, minutes=5)
        authority.issue_cert(name, not_after=until).private_key_and_cert_chain_pem.write_to_path(
            tmp_path / "server.pem"
        )
        with listening(deployment.server.port, tmp_path / "server.pem") as proxy:
            url = f"https://{HOST}:{proxy.port}/mcp"
            trusted = {"SSL_CERT_FILE": str(tmp_path / "authority.pem"), "DOCTOR_BASE_URL": url[:-4], **trust}
            return deployment.look(url, *arguments, **trusted)

    return look_at


def test_a_certificate_for_another_name(https: Callable[..., Report]) -> None:
    report = https("shop.example.com")
    assert report.bad == {"tls.name"}
    assert report.message("tls.name") == "The TLS certificate is for shop.example.com, not for 127.0.0.1."


def test_a_certificate_by_nobody_who_is_trusted(https: Callable[..., Report]) -> None:
    assert https(HOST, SSL_CERT_FILE="").bad == {"tls.untrusted"}


@pytest.mark.parametrize(
    ("days", "finding", "words"),
    [
        (-1, "tls.expired", "is not valid at this time"),
        (1, "tls.expiring", "expires in 1 day."),
    ],
)
def test_a_certificate_that_is_old(https: Callable[..., Report], days: int, finding: str, words: str) -> None:
    report = https(HOST, days=days)
    assert {each for each in report.bad if each.startswith("tls.")} == {finding}
    assert words in report.message(finding)


def test_https_where_http_is_spoken(look: Look, deployment: Deployment) -> None:
    assert look(f"https://{HOST}:{deployment.proxy.port}/mcp").bad == {"tls.failed"}


def test_a_certificate_that_is_right_leads_to_the_endpoint(https: Callable[..., Report]) -> None:
    report = https(HOST)
    assert not {each for each in report.found if each.startswith("tls.")}
    assert "challenge.origin" in report.bad, "the server was told another address"


def test_who_wants_it_is_not_told_of_certificates(https: Callable[..., Report]) -> None:
    found = https("shop.example.com", "--insecure").found
    assert {each for each in found if each.startswith("tls.")} == {"tls.unverified"}


# What is lost


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (Fault(request=without("authorization")), "headers.authorization"),
        (Fault(request=without("mcp-session-id")), "headers.session-request"),
        (Fault(reply=without("mcp-session-id")), "headers.session-answer"),
        (Fault(request=without("mcp-protocol-version")), "headers.protocol-version"),
        (Fault(request=without("mcp-method")), "headers.mcp-method"),
        (Fault(request=without("last-event-id")), "headers.last-event-id"),
        (Fault(request=without("origin")), "origin.unchecked"),
        (Fault(reply=without("www-authenticate")), "challenge.missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_that_a_proxy_takes_out(look: Look, fault: Fault, finding: str) -> None:
    report = look(fault=fault)
    assert finding in report.bad
    also = {"headers.last-event-id"} if finding == "headers.session-request" else set()
    assert report.bad <= {finding, *also}, report.text


@pytest.mark.parametrize(
    ("method", "finding", "says"),
    [
        ("initialize", "legacy.error", "initialize of protocol 2025-11-25 returned 500"),
        ("subscriptions/listen", "streams.error", "Opening a stream returned 500 <html><body>Oops</body></html>"),
    ],
)
def test_a_method_that_fails(look: Look, method: str, finding: str, says: str) -> None:
    report = look(fault=Fault(instead=asked_for(method, page(500, "Oops"))))
    assert report.bad == {finding}
    assert says in report.message(finding)


def test_a_proxy_that_knows_no_method_of_the_newest_version(look: Look) -> None:
    def unknown(request: Handler) -> Any:
        if "origin" in request.headers:
            return None
        error = {"code": -32601, "message": "Method not found"}
        answer = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": error}
        return 404, {"content-type": "application/json"}, json.dumps(answer).encode()

    report = look(fault=Fault(instead=asked_for("server/discover", unknown)))
    assert report.bad == {"modern.error"}
    assert "server/discover of protocol 2026-07-28 returned 404" in report.message("modern.error")


def test_an_endpoint_that_opens_no_session(look: Look) -> None:
    def without_session(request: Handler) -> Any:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        answer = {"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "result": result}
        return 200, {"content-type": "application/json"}, json.dumps(answer).encode()

    assert look(fault=Fault(instead=asked_for("initialize", without_session))).bad == {"session.none"}


def test_a_key_that_allows_something_else(look: Look, deployment: Deployment) -> None:
    scopes = {**deployment.environment, "DOCTOR_MCP": '{"SCOPES": {"mcp": "Use it", "mcp:less": "Use less of it"}}'}
    made = manage(scopes, "mcp_key", "create", "--user", USER, "--name", "narrow", "--scope", "mcp:less")
    report = look(who=("--key", made.split()[0]))
    assert report.bad == {"credential.scopes"}
    assert "--scope" in report.remedy("credential.scopes")


def test_a_key_that_nobody_knows(look: Look) -> None:
    assert look(who=("--key", "mcp_key_nobody")).bad == {"credential.refused"}


# Where tokens come from


def test_a_wrong_public_address(look: Look, deployment: Deployment) -> None:
    report = look(deployment.direct)
    assert report.bad == {"challenge.origin"}
    assert f"DJANGO_MCP['BASE_URL'] = '{deployment.direct[:-4]}'" in report.remedy("challenge.origin")


def test_metadata_that_is_not_there(look: Look) -> None:
    report = look(fault=Fault(instead=at("/.well-known/oauth-protected-resource", page(404, "Not Found"))))
    assert report.bad == {"metadata.not-found"}
    assert "include('django_mcp.urls')" in report.remedy("metadata.not-found")


def test_metadata_that_is_a_page(look: Look) -> None:
    fault = Fault(instead=at("/.well-known/oauth-protected-resource", page(200, "Welcome!")))
    assert look(fault=fault).bad == {"metadata.broken"}


def test_an_authorization_server_without_metadata(look: Look) -> None:
    fault = Fault(instead=at("/.well-known/oauth-authorization-server", page(404, "Not Found")))
    assert look(fault=fault).bad == {"issuer.not-found"}


def test_an_authorization_server_that_is_another_and_without_pkce(look: Look) -> None:
    body = b'{"issuer": "http://elsewhere.example", "token_endpoint": "http://elsewhere.example/token"}'
    document = at("/.well-known/oauth-authorization", lambda _: (200, {"content-type": "application/json"}, body))
    assert look(fault=Fault(instead=document)).bad == {"issuer.mismatch", "issuer.no-s256", "issuer.http"}


def test_metadata_that_leads_nowhere(look: Look) -> None:
    body = b'{"resource": "https://elsewhere.example/mcp", "authorization_servers": []}'
    document = at("/.well-known/oauth-protected", lambda _: (200, {"content-type": "application/json"}, body))
    assert look(fault=Fault(instead=document)).bad == {"metadata.resource", "metadata.no-issuer"}


def test_a_challenge_that_a_proxy_wrote(look: Look) -> None:
    def bare(headers: dict[str, str]) -> None:
        if "www-authenticate" in headers:
            headers["www-authenticate"] = "Bearer"

    assert look(fault=Fault(reply=bare)).bad == {"challenge.no-metadata"}


def test_a_slash_at_the_end_of_the_address_is_no_other_address(look: Look, deployment: Deployment) -> None:
    assert look(f"{deployment.url}/").bad == set()


# Pages


def test_a_proxy_that_answers_preflights_itself(look: Look) -> None:
    refused = page(405, "Not Allowed")
    fault = Fault(instead=lambda request: refused(request) if request.command == "OPTIONS" else None)
    assert look(fault=fault).bad == {"cors.preflight"}


def test_a_proxy_with_cors_headers_of_its_own(look: Look) -> None:
    def both(headers: dict[str, str]) -> None:
        headers["access-control-allow-origin"] = headers.get("access-control-allow-origin", "") + ", *"
        headers["access-control-expose-headers"] = "Date"

    assert look(fault=Fault(reply=both)).bad == {"cors.twice", "cors.exposed"}


def test_a_page_that_only_the_settings_here_allow(look: Look) -> None:
    report = look(DOCTOR_MCP='{"ALLOWED_ORIGINS": ["https://inspector.example.com"]}')
    assert report.bad == {"cors.refused"}


# Streams


@pytest.mark.parametrize("begins", [True, False])
def test_a_proxy_that_buffers(look: Look, begins: bool) -> None:
    report = look(fault=Fault(buffers=True, begins=begins))
    assert report.bad == {"streams.buffered"}
    assert "proxy_buffering off;" in report.remedy("streams.buffered")


def test_a_proxy_that_cuts_idle_streams(look: Look) -> None:
    report = look(fault=Fault(cuts_after=0.3, drops_comments=True))
    assert report.bad == {"streams.cut"}
    assert "proxy_read_timeout" in report.remedy("streams.cut")


def test_a_proxy_that_keeps_comments_back(look: Look) -> None:
    assert look(fault=Fault(drops_comments=True)).bad == {"streams.silent"}


def test_a_proxy_that_compresses_streams(look: Look) -> None:
    def request(headers: dict[str, str]) -> None:
        asked.append("gzip" in headers.get("accept-encoding", ""))

    def reply(headers: dict[str, str]) -> None:
        if asked[-1] and headers.get("content-type") == "text/event-stream":
            headers["content-encoding"] = "gzip"

    asked: list[bool] = []
    assert look(fault=Fault(request=request, reply=reply)).bad == {"streams.compressed"}


def test_a_proxy_that_lets_streams_be_cached(look: Look) -> None:
    assert look(fault=Fault(reply=without("cache-control"))).bad == {"streams.cacheable"}


# Clock and size


@pytest.mark.parametrize(("seconds", "when"), [(-90, "behind"), (90, "ahead")])
def test_a_clock_that_is_off(look: Look, seconds: int, when: str) -> None:
    report = look(fault=Fault(reply=lambda headers: headers.update(date=formatdate(time() + seconds, usegmt=True))))
    assert report.bad == {"clock.off"}
    assert f" s {when} of this machine's" in report.message("clock.off")


def test_a_proxy_with_a_small_limit(look: Look) -> None:
    def limited(request: Handler) -> Any:
        return page(413, "Request Entity Too Large")(request) if len(request.body) > 1024 * 1024 else None

    report = look(fault=Fault(instead=limited))
    assert report.bad == {"size.proxy"}
    assert "client_max_body_size 4m;" in report.remedy("size.proxy")


def test_a_server_with_a_smaller_limit_than_the_settings_here(look: Look) -> None:
    assert look(DOCTOR_MCP='{"MAX_BODY_BYTES": 5000000}').bad == {"size.endpoint"}


def test_a_large_body_at_which_the_connection_breaks(look: Look) -> None:
    def limited(request: Handler) -> None:
        if len(request.body) > 1024 * 1024:
            request.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError

    report = look(fault=Fault(instead=limited))
    assert report.bad == {"size.broken"}
    assert "client_max_body_size" in report.remedy("size.broken")


def test_connections_that_are_closed_are_a_hint(look: Look) -> None:
    report = look(fault=Fault(reply=lambda headers: headers.update(connection="close")))
    assert report.found["connection.closed"] == "hint"


# Inside


def test_no_layer_is_a_hint_and_one_out_of_reach_a_warning(look: Look) -> None:
    assert look().found["layer.none"] == "hint"
    report = look(DOCTOR_REDIS=f"redis://{HOST}:{free_port()}/0")
    assert report.bad == {"layer.unreachable"}


LAYERS = ["channels_redis.core.RedisChannelLayer", "channels_redis.pubsub.RedisPubSubChannelLayer"]


@pytest.mark.needs("REDIS_URL")
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_that_delivers_is_told_from_polling(tmp_path: Path, layer: str) -> None:
    """Also where the server polls so often that an event seems to arrive at once."""
    with deployed("uvicorn", tmp_path, DOCTOR_REDIS=os.environ["REDIS_URL"], DOCTOR_LAYER=layer) as deployment:
        for _ in range(2):  # the server listens each time anew, with the first stream
            assert "notifications.slow" not in deployment.look().found
        assert deployment.look(DOCTOR_PREFIX="another").bad == {"notifications.slow"}


def test_a_stream_that_goes_on_when_its_session_has_ended(look: Look) -> None:
    def endless(request: Handler) -> None:
        if request.command == "GET" and "mcp-session-id" in request.headers and "last-event-id" not in request.headers:
            request.begin(200, {"content-type": "text/event-stream", "cache-control": "no-store"})
            request.wfile.write(b": open\n\n")
            select.select([request.connection], [], [], 60)
            raise ConnectionAbortedError

    report = look(fault=Fault(instead=endless), probes={"FALLBACK_POLL_SECONDS": 1.0})
    assert report.bad == {"notifications.unheard"}
    assert "within 3 s" in report.message("notifications.unheard")


def test_a_rate_that_each_process_counts_for_itself_is_a_hint(look: Look) -> None:
    limited = '{"RATE_LIMIT": "60/m"}'
    assert "cache.local" not in look(DOCTOR_MCP=limited).found
    assert look(DOCTOR_MCP=limited, DOCTOR_CACHE="local").found["cache.local"] == "hint"


def test_a_database_that_is_away(look: Look, tmp_path: Path) -> None:
    report = look(who=(), DOCTOR_DATABASE=str(tmp_path / "no" / "folder" / "site.sqlite3"))
    assert "database.unreachable" in report.bad
    assert report.bad <= {"database.unreachable", "cache.unreachable"}, report.text


def test_debug_is_told_of_at_a_public_address(look: Look) -> None:
    assert "settings.debug" in look("http://no-such-host.invalid/mcp", DOCTOR_DEBUG="1").bad


def test_a_cache_that_keeps_nothing(look: Look, deployment: Deployment) -> None:
    assert look(DOCTOR_CACHE="away").bad == {"cache.unreachable"}


def test_what_a_system_check_says_is_told_with_its_hint(look: Look) -> None:
    report = look(DOCTOR_MCP='{"RATE_LIMITS": "1/s"}')
    assert report.bad == {"check.error"}
    assert report.message("check.error") == "django_mcp.E001: DJANGO_MCP has no key 'RATE_LIMITS'."
    assert report.remedy("check.error") == "Did you mean 'RATE_LIMIT'?"


def test_pending_migrations(look: Look, tmp_path: Path, deployment: Deployment) -> None:
    database = str(tmp_path / "old.sqlite3")
    environment = {**deployment.environment, "DOCTOR_DATABASE": database}
    run_to_end("manage.py", "migrate", "auth", "--verbosity", "0", environment=environment)
    run_to_end("manage.py", "createcachetable", environment=environment)
    report = look(who=(), DOCTOR_DATABASE=database)
    assert report.bad == {"migrations.pending"}
    assert "django_mcp.0001_initial" in report.message("migrations.pending")


def test_a_key_of_another_deployment(look: Look, tmp_path: Path, deployment: Deployment) -> None:
    database = str(tmp_path / "other.sqlite3")
    make_site({**deployment.environment, "DOCTOR_DATABASE": database})
    report = look(DOCTOR_DATABASE=database)
    assert report.bad == {"deployment.other"}
    assert "manage.py" not in report.message("deployment.other")


def test_a_database_that_is_not_the_servers(look: Look, tmp_path: Path, deployment: Deployment) -> None:
    made = manage(deployment.environment, "mcp_key", "create", "--user", "ada", "--name", "there")
    database = str(tmp_path / "other.sqlite3")
    make_site({**deployment.environment, "DOCTOR_DATABASE": database})
    report = look(who=("--key", made.split()[0]), DOCTOR_DATABASE=database)
    assert report.bad == {"deployment.other"}
    assert "session" in report.message("deployment.other")


# What is given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--server", "nobody"], "There is no endpoint 'nobody'"),
        (["ftp://example.com/mcp"], "is not an http or https URL"),
        (["http://example.com:port/mcp"], "is not an http or https URL"),
        (["--as", "nobody"], "There is no user 'nobody'; --as takes a username or an e-mail address"),
        (["--server", "staff", "--as", "ada"], "The endpoint 'staff' does not admit the user 'ada'."),
        (["--timeout", "0"], "--timeout must be a positive number of seconds."),
    ],
)
def test_what_makes_no_sense_is_said_at_once(deployment: Deployment, arguments: list[str], words: str) -> None:
    code, _, said = deployment.commander.look(*arguments)
    assert words in said
    assert "Traceback" not in said
    assert code == 1


def test_without_an_address_it_says_what_to_give(deployment: Deployment) -> None:
    done = command({**deployment.environment, "DOCTOR_BASE_URL": "", "DOCTOR_MCP": EVERYBODY})
    assert "mcp_doctor https://travel.example.com/mcp, or set DJANGO_MCP['BASE_URL']" in done.stderr


# Documents of clients


def test_documents_of_clients_that_cannot_be_fetched(look: Look) -> None:
    report = look(DOCTOR_DOCUMENTS="away")
    assert report.bad == {"documents.unreachable"}
    assert "'claude.ai' has no address" in report.message("documents.unreachable")
    assert "DJANGO_MCP['CLIENT_DOCUMENTS'] = False" in report.remedy("documents.unreachable")
    assert report.code == 0


def test_documents_that_are_disabled_are_not_fetched(look: Look) -> None:
    report = look(DOCTOR_DOCUMENTS="away", DOCTOR_MCP='{"CLIENT_DOCUMENTS": false}')
    assert report.bad == set(), report.text
