"""The ``DJANGO_MCP`` setting, and the system checks of what stands in it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks
from django.test import override_settings

from django_mcp import MCPServer, __version__, checks, conf
from django_mcp.conf import settings
from django_mcp.core import server as registry


@pytest.fixture(autouse=True)
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found depends on settings alone, whether the demo's tools were discovered before or not."""
    monkeypatch.setattr(registry, "_servers", {})
    MCPServer("default", path="mcp")


def found(**options: Any) -> dict[str, Any]:
    """The package's own findings by id."""
    return {each.id: each for each in run_checks(tags=["django_mcp"], **options)}


@override_settings(DJANGO_MCP={})
def test_what_is_not_given_has_a_default() -> None:
    assert settings.AUTHENTICATION == ()
    assert settings.NAME is None
    assert settings.TITLE is None
    assert __version__ == settings.VERSION
    assert settings.INSTRUCTIONS is None
    assert settings.ALLOWED_ORIGINS == ()
    assert settings.MAX_BODY_BYTES == 4 * 1024 * 1024
    assert settings.WORKER_THREADS == 8


def test_a_changed_setting_is_read_again_and_so_is_the_old_one() -> None:
    before = settings.MAX_BODY_BYTES
    with override_settings(DJANGO_MCP={"MAX_BODY_BYTES": 17}):
        assert settings.MAX_BODY_BYTES == 17
        with override_settings(DJANGO_MCP={"WORKER_THREADS": 3}):
            assert settings.WORKER_THREADS == 3
            assert settings.MAX_BODY_BYTES == 4 * 1024 * 1024
        assert settings.MAX_BODY_BYTES == 17
    assert before == settings.MAX_BODY_BYTES


def test_another_setting_that_changes_leaves_ours_alone() -> None:
    with override_settings(DJANGO_MCP={"MAX_BODY_BYTES": 17}):
        assert settings.MAX_BODY_BYTES == 17
        with override_settings(DEBUG=True):
            assert settings.MAX_BODY_BYTES == 17


def test_the_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        conf.Settings().WORKER_THREADS = 99  # type: ignore[misc]


def test_a_list_is_kept_as_a_tuple_so_that_nobody_adds_to_it() -> None:
    with override_settings(DJANGO_MCP={"ALLOWED_ORIGINS": ["https://a.example"]}):
        assert settings.ALLOWED_ORIGINS == ("https://a.example",)


def test_a_key_nobody_knows_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="THREAD"):
        settings.THREAD  # noqa: B018 - reading it is the test


def test_a_setting_that_is_no_dict_is_found_by_check_and_gives_the_defaults() -> None:
    for value in (["AUTHENTICATION"], "public", 5, None):
        with override_settings(DJANGO_MCP=value):
            assert settings.WORKER_THREADS == conf.Settings().WORKER_THREADS
            assert found()["django_mcp.E003"].msg == f"DJANGO_MCP must be a dict, not {value!r}."


WRONG = [
    ("WORKER_THREADS", 0),
    ("WORKER_THREADS", -1),
    ("WORKER_THREADS", "8"),
    ("WORKER_THREADS", True),
    ("WORKER_THREADS", 2.0),
    ("MAX_QUEUED_CALLS", 0),
    ("MAX_BODY_BYTES", 0),
    ("MAX_BODY_BYTES", "4 MB"),
    ("ALLOWED_ORIGINS", "https://a.example"),
    ("AUTHENTICATION", "django_mcp.AllowAny"),
    ("AUTHENTICATION", None),
    ("NAME", 5),
    ("VERSION", 1.0),
    ("VERSION", None),
    ("INSTRUCTIONS", ["Ask."]),
    ("TOOL_TIMEOUT", 0),
    ("TOOL_TIMEOUT", "30"),
    ("TOOL_TIMEOUT", True),
    ("MAX_OUTPUT_CHARS", 0),
    ("MAX_OUTPUT_CHARS", 1e5),
    ("MAX_BINARY_BYTES", "10 MB"),
    ("IDEMPOTENCY_TTL", None),
    ("REQUIRE_APPROVAL_FOR", "write"),
    ("REQUIRE_APPROVAL_FOR", ["writes"]),
]


@pytest.mark.parametrize("key", sorted({key for key, _ in WRONG}))
def test_a_value_of_the_wrong_kind_is_found_by_check_and_the_default_is_read(key: str) -> None:
    wrong = []
    for value in (value for each, value in WRONG if each == key):
        with override_settings(DJANGO_MCP={key: value}):
            is_default = getattr(settings, key) == getattr(conf.Settings(), key)
            (fault,) = conf.faults()
        with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], key: value}):
            findings = {number: each.msg for number, each in found().items()}
        is_found = list(findings) == ["django_mcp.E003"] and key in str(findings)
        if repr(value) not in fault or not is_default or not is_found:
            wrong.append((value, findings))
    assert wrong == []


def test_a_limit_can_be_none() -> None:
    keys = ("TOOL_TIMEOUT", "MAX_OUTPUT_CHARS", "MAX_BINARY_BYTES", "MAX_QUEUED_CALLS")
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], **dict.fromkeys(keys)}):
        assert "django_mcp.E003" not in found()
        assert [getattr(settings, key) for key in keys] == [None] * len(keys)


def test_a_misspelt_key_is_found_and_the_right_one_suggested() -> None:
    meant = {
        "AUTHENTICATON": "AUTHENTICATION",
        "authentication": "AUTHENTICATION",
        "WORKER_THREAD": "WORKER_THREADS",
        "ALLOWED_ORIGIN": "ALLOWED_ORIGINS",
        "MAX_BODY": "MAX_BODY_BYTES",
        "INSTRUCTION": "INSTRUCTIONS",
    }
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], **dict.fromkeys(meant, "x")}):
        assert conf.misspelt() == meant
        findings = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E001"]
    for (key, right), finding in zip(meant.items(), findings, strict=True):
        assert key in finding.msg
        assert right in finding.hint


def test_a_key_like_no_other_is_found_and_all_are_listed() -> None:
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "QQQQ": 1}):
        finding = found()["django_mcp.E001"]
    assert all(key in finding.hint for key in conf.KEYS)


def test_right_settings_find_nothing() -> None:
    values = {"ALLOWED_ORIGINS": ["https://a.example:8443"], "WORKER_THREADS": 2}
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, **values}):
        # Bookings take a permission at the endpoint for staff, which in the tests does not ask who calls.
        assert set(found()) <= {"django_mcp.W001", "django_mcp.W013"}


def test_an_origin_no_browser_sends_is_found() -> None:
    origins = ["a.example", "https://a.example/", "https://a.example/x", "*", "https://*.a.example", ""]
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "ALLOWED_ORIGINS": origins}):
        findings = [each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E004"]
    assert [repr(origin) in msg for origin, msg in zip(origins, findings, strict=True)] == [True] * len(origins)


def test_an_endpoint_nobody_may_call_is_found_by_name(make_server: Callable[..., MCPServer]) -> None:
    make_server("locked", authentication=[])
    finding = found()["django_mcp.E002"]
    assert "'locked'" in finding.msg
    assert "django_mcp.APIKeyAuthentication" in finding.hint
    assert "AllowAny" not in finding.hint


def test_an_endpoint_with_authentication_of_its_own_needs_none_in_the_settings(
    make_server: Callable[..., MCPServer],
) -> None:
    server = make_server("unlocked")
    with override_settings(DJANGO_MCP={}):
        messages = [each for each in checks.check_authentication() if each.obj is server]
    assert messages == []


def install(name: str, folder: Path, files: Mapping[str, str]) -> None:
    """Put what a distribution tells of itself into a folder."""
    own = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    own.mkdir()
    for file, text in {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", **files}.items():
        (own / file).write_text(text)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which distributions are found."""
    monkeypatch.syspath_prepend(tmp_path)
    checks.installing.cache_clear()
    yield tmp_path
    checks.installing.cache_clear()


def test_another_distribution_over_ours_is_found_with_the_way_out(installed: Path) -> None:
    install("django-mcp", installed, {"RECORD": "django_mcp/__init__.py,sha256=x,1\ndjango_mcp/apps.py,,\n"})
    install("django-mcp-framework", installed, {"top_level.txt": "django_mcp\ntests\n"})
    install("django-mcp-server", installed, {"RECORD": "mcp_server/__init__.py,,\ntests/django_mcp/__init__.py,,\n"})
    finding = found()["django_mcp.W001"]
    assert finding.msg.startswith("django-mcp, django-mcp-framework installs")
    assert "pip uninstall django-mcp django-mcp-framework" in finding.hint


def test_our_distribution_alone_is_no_finding(installed: Path) -> None:
    install(checks.OURS, installed, {"RECORD": "django_mcp/__init__.py,,\n"})
    assert "django_mcp.W001" not in found()
