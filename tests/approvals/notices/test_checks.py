"""System checks of who is told of calls that wait."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend

from django_mcp import MCPServer
from tests.approvals.notices.mailers import send_mail_by
from tests.approvals.notices.receiver import SECRET
from tests.auth.checked_site import CheckedSite, findings, make_checked_site, only

URL = "https://hooks.example.com/approvals"


class Knowing(BaseBackend):
    def with_perm(self, *_: Any, **__: Any) -> list[Any]:
        return []


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedSite]:
    send_mail_by(settings, "django.core.mail.backends.smtp.EmailBackend")
    yield from make_checked_site(settings, make_server, monkeypatch)


def test_a_webhook_and_addresses_as_they_should_be_are_not_found(site: CheckedSite) -> None:
    for url, secret in (
        (URL, SECRET),
        (URL, "correct horse battery staple"),
        ("https://hooks.example.com:8443/a?b=c", SECRET),
        ("http://127.0.0.1:9/x", SECRET),
        ("http://[::1]/", SECRET),
        ("http://localhost/", SECRET),
    ):
        site.configure(
            APPROVAL_WEBHOOK=url, APPROVAL_WEBHOOK_SECRET=secret, APPROVAL_EMAILS=["approvers", "desk@example.com"]
        )
        assert findings(deploy=True) == [], (url, secret)


def test_a_webhook_that_cannot_be_sent_is_found(site: CheckedSite) -> None:
    for url in (
        "hooks.example.com/x",
        "ftp://example.com/",
        "https://",
        "https://a:b@example.com/",
        "http://a b/",
        "/x",
        "",
    ):
        site.configure(APPROVAL_WEBHOOK=url, APPROVAL_WEBHOOK_SECRET=SECRET)
        assert repr(url) in only("E031").msg


def test_a_webhook_without_a_secret_is_found(site: CheckedSite) -> None:
    for secret, words in ((..., "missing"), ("", "missing"), ("whsec_", "Base64"), ("whsec_?", "Base64")):
        site.configure(APPROVAL_WEBHOOK=URL, APPROVAL_WEBHOOK_SECRET=secret)
        assert words in only("E032").msg, secret


def test_what_is_no_address_is_found(site: CheckedSite) -> None:
    for address in ("Approvers", "desk", "Desk <desk@example.com>", "a@example.com\nBcc: b@c.de", 5, None):
        site.configure(APPROVAL_EMAILS=["desk@example.com", address])
        assert repr(address) in only("E033").msg


def test_approvers_whom_no_backend_knows_are_found(site: CheckedSite, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.BaseBackend"]
    site.configure(APPROVAL_EMAILS=["approvers"])
    only("E034")
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Knowing"]
    assert findings() == []
    settings.AUTHENTICATION_BACKENDS = ["nowhere.Backend"]
    assert findings() == []


def test_notices_without_an_address_of_the_site_are_found(site: CheckedSite) -> None:
    for wanted in ({"APPROVAL_EMAILS": ["approvers"]}, {"APPROVAL_WEBHOOK": URL}):
        given = {"AUTHENTICATION": ["django_mcp.AllowAny"], "APPROVAL_WEBHOOK_SECRET": SECRET, **wanted}
        site.configure(BASE_URL=..., **given)
        only("W016")
        site.configure(**given)
        assert findings() == []


def test_a_webhook_in_plain_text_to_another_machine_is_found(site: CheckedSite) -> None:
    site.configure(APPROVAL_WEBHOOK="http://hooks.example.com/", APPROVAL_WEBHOOK_SECRET=SECRET)
    assert findings() == []
    only("W017", deploy=True)


def test_mail_that_is_sent_to_nobody_is_found(site: CheckedSite, settings: Any) -> None:
    site.configure(APPROVAL_EMAILS=["approvers"])
    for name in ("console", "dummy", "filebased", "locmem"):
        send_mail_by(settings, f"django.core.mail.backends.{name}.EmailBackend")
        assert findings() == [], name
        assert name in only("W018", deploy=True).msg
