"""Attack row 28: no key or token in logs, exceptions and reports of errors."""

import io
import json
import logging
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import RequestFactory, override_settings
from django.views.debug import ExceptionReporter

from django_mcp import APIKeyAuthentication, Context, MCPServer, RequestHead, tool
from django_mcp.auth.api_keys import create_key, make_key
from django_mcp.auth.log_filter import RedactSecrets, install, install_where_wanted
from django_mcp.core.redaction import redact
from tests.clients import MODERN, Answer, Client

KEY = make_key()
SECRET = KEY[14:]
TOKEN = secrets.token_urlsafe(30)
SITE = {"AUTHENTICATION": ["django_mcp.AllowAny"]}


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What the root logger is handed, as handlers see it."""
    kept: list[logging.LogRecord] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = kept.append  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def installed() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    install()
    yield
    logging.setLogRecordFactory(before)


def text_of(record: logging.LogRecord) -> str:
    return logging.Formatter("%(message)s").format(record)


# Words


def without_secrets(text: str) -> str:
    """A test's name: the same in each of the processes that share the tests."""
    for secret in (KEY, KEY.replace("_", "%5F"), KEY[:14], TOKEN):
        text = text.replace(secret, "SECRET")
    return text


def test_credentials_are_taken_out_of_words_and_the_rest_stays(subtests: pytest.Subtests) -> None:
    cases = [
        (f"POST /mcp?api_key={KEY} HTTP/1.1", "POST /mcp?api_key=*** HTTP/1.1"),
        (f"/mcp?a=1&api_key={KEY}&b=2", "/mcp?a=1&api_key=***&b=2"),
        ("/mcp?api_key=mistyped&b=2", "/mcp?api_key=***&b=2"),
        (f"/mcp?api%5Fkey={KEY}", "/mcp?api%5Fkey=***"),
        (f"/mcp?%61pi_key={KEY}", "/mcp?%61pi_key=***"),
        (f"/mcp?api_key={KEY.replace('_', '%5F')}", "/mcp?api_key=***"),
        (f"/mcp?API_KEY={KEY}", "/mcp?API_KEY=***"),
        (f"/mcp?%61ccess_toke%6e={TOKEN}", "/mcp?%61ccess_toke%6e=***"),
        (f"/mcp?key={KEY.replace('_', '%5F')}", f"/mcp?key={KEY[:14].replace('_', '%5F')}***"),
        (f"next=%2Fmcp%3Fapi_key%3D{KEY}", "next=%2Fmcp%3Fapi_key%3D***"),
        (f"/mcp?access_token={TOKEN}", "/mcp?access_token=***"),
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer ***"),
        (f"{{'authorization': 'bearer {TOKEN}'}}", "{'authorization': 'bearer ***'}"),
        (f"(b'authorization', b'Bearer {KEY}')", "(b'authorization', b'Bearer ***')"),
        (f"X-API-Key: {KEY}", f"X-API-Key: {KEY[:14]}***"),
        (f"of the key {KEY[:14]} only the beginning", f"of the key {KEY[:14]} only the beginning"),
        ('Bearer resource_metadata="https://h/x", scope="a"', 'Bearer resource_metadata="https://h/x", scope="a"'),
        ("the bearer of bad news", "the bearer of bad news"),
    ]
    for text, left in cases:
        with subtests.test(text=text, left=left):
            assert redact(text) == left


# Logs of Django and of the servers


URL = f"/mcp?api_key={KEY}"
LINES: dict[str, tuple[str, str, Any]] = {
    "runserver": ("django.server", '"%s" %s %s', (f"POST {URL} HTTP/1.1", "401", "90")),
    "runserver of daphne": (
        "django.channels.server",
        "HTTP %(method)s %(path)s %(status)s [%(client)s]",
        ({"method": "POST", "path": URL, "status": 401, "client": "127.0.0.1:1"},),
    ),
    "django": ("django.request", "%s: %s", ("Unauthorized", URL)),
    "uvicorn": ("uvicorn.access", '%s - "%s %s HTTP/%s" %d', ("127.0.0.1:1", "POST", URL, "1.1", 401)),
    "granian": ("granian.access", '"%(method)s %(path)s" %(status)d', ({"method": "POST", "path": URL, "status": 1},)),
    "a list": ("asgi", "scope %s", ([b"query_string", f"api_key={KEY}".encode()],)),
    "an error": ("x.y", "%s", (ValueError(f"bad {KEY}"),)),
    "its words": ("x.y", f"bad {KEY}", ()),
}


def test_whoever_logs_a_url_logs_no_key(
    installed: None, records: list[logging.LogRecord], subtests: pytest.Subtests
) -> None:
    for who, (name, words, arguments) in LINES.items():
        with subtests.test(who=who):
            records.clear()
            logger = logging.getLogger(name)
            handler = logging.Handler()
            handler.emit = records.append  # type: ignore[method-assign]
            logger.addHandler(handler)  # some of them do not propagate
            logger.warning(words, *arguments)
            logger.removeHandler(handler)
            assert records
            assert all(
                "***" in text_of(record) and SECRET not in text_of(record) + str(vars(record)) for record in records
            )


def test_what_formatters_take_apart_stays_in_its_parts(installed: None, records: list[logging.LogRecord]) -> None:
    from uvicorn.logging import AccessFormatter

    _, words, arguments = LINES["uvicorn"]
    logger = logging.getLogger("like.uvicorn")
    logger.info(words, *arguments)
    line = AccessFormatter('%(client_addr)s "%(request_line)s" %(status_code)s', use_colors=False).format(records[-1])
    assert line == '127.0.0.1:1 "POST /mcp?api_key=*** HTTP/1.1" 401 Unauthorized'


def test_the_access_log_of_gunicorn_has_no_key(installed: None, records: list[logging.LogRecord]) -> None:
    from gunicorn.glogging import SafeAtoms

    atoms = SafeAtoms({"r": f"POST {URL} HTTP/1.1", "s": "401", "{authorization}i": f"Bearer {TOKEN}"})
    logging.getLogger("like.gunicorn").info("%(r)s %(s)s %({authorization}i)s %({x-none}i)s", atoms)
    assert text_of(records[-1]) == "POST /mcp?api_key=*** HTTP/1.1 401 Bearer *** -"


def test_the_access_log_of_daphne_has_no_key(monkeypatch: pytest.MonkeyPatch, installed: None) -> None:
    from daphne.access import AccessLogGenerator

    monkeypatch.setattr(AccessLogGenerator, "write_entry", AccessLogGenerator.write_entry)
    assert "daphne.access" in sys.modules
    install()
    written = io.StringIO()
    details = {"client": "127.0.0.1:1", "method": "POST", "path": URL, "status": 401, "size": 1}
    AccessLogGenerator(written)("http", "complete", details)
    assert '"POST /mcp?api_key=***" 401 1' in written.getvalue()


def test_a_request_as_an_argument_is_logged_without_its_key(installed: None, records: list[logging.LogRecord]) -> None:
    request = RequestFactory().post(URL)
    logging.getLogger("x.y").error("failed: %s %r", request, request)
    assert text_of(records[-1]).count("api_key=***") == 2


def test_tracebacks_are_logged_without_the_key(installed: None, records: list[logging.LogRecord]) -> None:
    try:
        raise ValueError(f"no way to open https://other.example.com{URL}")
    except ValueError:
        logging.getLogger("x.y").exception("failed")
    text = text_of(records[-1])
    assert "Traceback" in text
    assert "api_key=***" in text
    assert SECRET not in text


def test_what_is_not_text_stays_what_it_is(installed: None, records: list[logging.LogRecord]) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("looked at")

    thing = Costly()
    logging.getLogger("x.y").info("%d %.1f %s", 7, 0.5, None, extra={"thing": thing})
    assert records[-1].args == (7, 0.5, None)
    logging.getLogger("x.y").info("no words for %.0s", "it")
    assert text_of(records[-1]) == "no words for "


def test_the_filter_does_the_same_for_one_handler() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RedactSecrets())
    logger = logging.getLogger("one.handler")
    logger.addHandler(handler)
    logger.warning("GET %s", URL)
    logger.removeHandler(handler)
    assert out.getvalue() == "GET /mcp?api_key=***\n"


def test_logs_are_left_alone_unless_keys_may_be_in_urls() -> None:
    before = logging.getLogRecordFactory()
    try:
        for setting in ({**SITE, "API_KEYS_IN_URL": False}, {**SITE, "API_KEYS_IN_URL": "wrong"}):
            with override_settings(DJANGO_MCP=setting):
                install_where_wanted()
            assert logging.getLogRecordFactory() is before
        with override_settings(DJANGO_MCP={**SITE, "API_KEYS_IN_URL": True}):
            install_where_wanted()
            made = logging.getLogRecordFactory()
            assert made is not before
            install_where_wanted()
            assert logging.getLogRecordFactory() is made
    finally:
        logging.setLogRecordFactory(before)


# What a tool that fails leaves behind


@pytest.fixture
def broken(make_server: Callable[..., MCPServer]) -> Iterator[MCPServer]:
    with override_settings(DJANGO_MCP={**SITE, "API_KEYS_IN_URL": True}):
        server = make_server("guarded", authentication=[APIKeyAuthentication()])

        @tool(server=server, read_only=True)
        def fail(ctx: Context) -> str:
            request = ctx.request
            raise RuntimeError(f"{ctx!r} {ctx.principal!r} {request!r} {request.headers} {request.GET} {request.META}")

        yield server


@pytest.fixture
def key(open_database: None, broken: MCPServer) -> Iterator[str]:
    user = User.objects.create_user("ada")
    yield create_key(user, "job", endpoints=["guarded"])[1]
    User.objects.filter(pk=user.pk).delete()


def call(client: Client, key: str, place: str) -> Answer:
    headers = {"authorization": {"authorization": f"Bearer {key}"}, "x-api-key": {"x-api-key": key}}.get(place, {})
    path = f"/{client.server.path}?api_key={key}" if place == "url" else f"/{client.server.path}"
    content, own = client.compose("tools/call", {"name": "fail", "arguments": {}})
    return client.post(json.dumps(content).encode(), {**own, **headers}, path)


def test_row_28_a_tool_that_fails_leaves_no_key_in_log_answer_or_report(
    broken: MCPServer, key: str, edge: str, records: list[logging.LogRecord], subtests: pytest.Subtests
) -> None:
    for place in ["authorization", "x-api-key", "url"]:
        with subtests.test(place=place):
            records.clear()
            answer = call(Client(broken, MODERN, edge), key, place)
            assert answer.result["isError"]
            assert key[14:] not in f"{answer.body!r} {answer.headers}"
            failed = [record for record in records if record.exc_info]
            assert len(failed) == 1
            assert "RuntimeError" in text_of(failed[0])
            assert all(key[14:] not in text_of(record) for record in records)
            reporter = ExceptionReporter(None, *failed[0].exc_info)  # type: ignore[misc] # as mails to ADMINS are made
            assert key[14:] not in reporter.get_traceback_html()
            assert key[14:] not in reporter.get_traceback_text()


def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    from django.db import OperationalError

    raise OperationalError("the database is away")


def test_row_28_a_database_that_fails_while_a_key_is_looked_up_leaves_none_in_a_report(
    broken: MCPServer, key: str
) -> None:
    from django.db import OperationalError, connection

    head = RequestHead(
        "POST", {"authorization": f"Bearer {key}"}, "testserver", lambda: True, lambda: None, f"api_key={key}"
    )
    for place in (head, head._replace(headers={"x-api-key": key}, query="")):
        with connection.execute_wrapper(refuse), pytest.raises(OperationalError) as failed:
            APIKeyAuthentication().authenticate(place._replace(query=""), broken)
        error = failed.value
        # Of the frames, those of the package: the first is this test's own.
        reporter = ExceptionReporter(None, type(error), error, error.__traceback__.tb_next)  # type: ignore[union-attr]
        assert "authenticate" in reporter.get_traceback_html()
        assert key[14:] not in reporter.get_traceback_html()


@pytest.mark.every_way_in
def test_row_28_a_request_that_crashes_before_its_method_leaves_no_key_in_a_report(
    broken: MCPServer,
    key: str,
    edge: str,
    records: list[logging.LogRecord],
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("x")

    for crashing in ["django_mcp.auth.api_keys.note_use", "django_mcp.transports.http.choose"]:
        for place in ["authorization", "x-api-key", "url"]:
            with subtests.test(crashing=crashing, place=place), monkeypatch.context() as patched:
                patched.setattr(crashing, crash)
                records.clear()
                assert call(Client(broken, MODERN, edge), key, place).status == 500
                (failed,) = [record for record in records if record.exc_info]
                reporter = ExceptionReporter(None, *failed.exc_info)  # type: ignore[misc] # as above
                assert "crash" in reporter.get_traceback_html()
                assert key[14:] not in reporter.get_traceback_html()


def test_django_hides_the_headers_of_keys_in_its_reports() -> None:
    request = RequestFactory().post("/mcp", headers={"authorization": f"Bearer {KEY}", "x-api-key": KEY})
    try:
        raise RuntimeError("x")
    except RuntimeError:
        reporter = ExceptionReporter(request, *sys.exc_info())
    shown = reporter.filter.get_safe_request_meta(request)
    assert {"HTTP_AUTHORIZATION", "HTTP_X_API_KEY"} <= shown.keys()
    assert SECRET not in str(shown)
