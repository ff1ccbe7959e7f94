"""The e-mail, as those who get it see it."""

import datetime
from typing import Any

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

from django_mcp.approvals import notices
from django_mcp.core.server import server
from django_mcp.models import Notice
from tests.approvals.notices.conftest import Configure, asked, person, time_passes
from tests.approvals.notices.mailers import send_mail_by

pytestmark = pytest.mark.django_db


class Away(EmailBackend):
    """A mail server that is down."""

    def send_messages(self, messages: Any) -> int:
        raise ConnectionRefusedError("nobody listens")


class Impatient(EmailBackend):
    """One whose timeout can be set, as that of SMTP."""

    timeout: Any = None
    seen: list[Any] = []

    def send_messages(self, messages: Any) -> int:
        self.seen.append(self.timeout)
        return len(messages)


def sent() -> mail.EmailMessage:
    (message,) = mail.outbox
    return message


def test_it_says_who_asks_for_what_until_when_and_where_to_decide(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    moment = datetime.datetime(2126, 5, 4, 10, tzinfo=datetime.UTC)
    approval = asked(person("annika"), expires=moment, preview="Total: 300 EUR\nBalance: 12 EUR")

    assert notices.deliver_due() == 1

    message = sent()
    assert message.to == ["desk@example.com"]
    assert message.subject == "Approval needed: book_hotel, requested by annika (annika@example.com)"
    text = message.body
    assert "book_hotel (default)" in text
    assert "Client (self-reported): Desk 1.2" in text
    assert '> {\n>   "card": "***",\n>   "hotel": "Seaview",\n>   "nights": 3\n> }' in text
    assert "> Total: 300 EUR\n> Balance: 12 EUR\n" in text
    assert "2126-05-04 10:00 UTC (" in text
    assert approval.public_id in text
    url = f"https://travel.example.com/admin/django_mcp/approval/{approval.pk}/change/"
    assert text.count("http") == text.count(url) == 1
    assert message.message()["Auto-Submitted"] == "auto-generated"
    assert message.content_subtype == "plain"
    assert not message.attachments


def test_nothing_of_the_callers_gets_out_of_its_line(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    evil = "x\r\nBcc: all@example.com\r\n\r\nApproved by the boss \u202e\x1b[2J"
    asked(tool=f"pay {evil}", principal_id=evil, client={"name": evil}, arguments={evil: evil}, preview=evil)

    assert notices.deliver_due() == 1

    message = sent()
    wire = message.message()
    assert message.recipients() == ["desk@example.com"]
    assert wire["Bcc"] is None
    assert "\n" not in message.subject
    assert "pay x Bcc: all@example.com Approved by the boss \\u202e\\u001b[2J" in message.subject
    for character in "\r\u202e\x1b":
        assert character not in message.subject + message.body
    lines = [line for line in message.body.split("\n") if "Approved by the boss" in line]
    assert len(lines) == 5
    assert all(line.startswith(("Tool: ", "Requested by: ", "Client (self-reported): ", "> ")) for line in lines)


def test_markup_is_not_escaped_for_it_is_plain_text(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    asked(arguments={"text": "<b>Tom & 'Ann'</b>"})
    notices.deliver_due()
    assert "\"<b>Tom & 'Ann'</b>\"" in sent().body


def test_a_credential_is_taken_out_and_what_is_long_is_cut(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    asked(arguments={"a": "Bearer abcdefghijklmnopqrstuvwxyz0123456789"}, preview="y" * 10_000, tool="t" * 128)
    asked(arguments=list(range(1000)))
    notices.deliver_due()
    first, second = mail.outbox
    assert "abcdefghijklmnop" not in first.body
    assert len(first.body) < 5000
    assert len(first.subject) <= 200
    assert first.body.count("> …") == second.body.count("> …") == 1
    assert len(second.body.split("\n")) < 100


def test_without_an_address_of_the_site_it_names_no_page(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"], BASE_URL=None)
    asked()
    notices.deliver_due()
    assert "http" not in sent().body
    assert "in the site’s admin" in sent().body


@pytest.mark.postgresql
def test_all_who_may_approve_are_told_each_once_and_not_the_requester(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["approvers", "desk@example.com", "Cleo@example.com"])
    annika = person("annika", may=True)
    person("bengt")
    person("cleo", may=True)
    person("dora", may=True)
    person("emil", may=True, is_active=False)
    person("fred", may=True, email="")
    person("gina", is_superuser=True, is_staff=True)
    person("hugo", may=True, is_staff=False)  # who cannot open the page
    person("annika-again", may=True, email="ANNIKA@example.com")
    asked(annika)

    assert notices.deliver_due() == 4

    told = sorted(address for each in mail.outbox for address in each.recipients())
    assert told == ["Cleo@example.com", "desk@example.com", "dora@example.com", "gina@example.com"]
    assert all(len(each.recipients()) == 1 for each in mail.outbox)


def test_of_those_who_may_approve_only_those_of_the_endpoint_are_told(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(APPROVAL_EMAILS=["approvers"])
    person("cleo", may=True)
    person("dora", may=True)
    monkeypatch.setattr(server, "can_approve", lambda user: user.email.startswith("dora"))
    asked()
    assert notices.deliver_due() == 1
    assert sent().recipients() == ["dora@example.com"]


def test_a_requester_who_may_approve_their_own_calls_is_told(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["approvers"], SELF_APPROVAL=True)
    asked(person("annika", may=True))
    assert notices.deliver_due() == 1
    assert sent().to == ["annika@example.com"]


def test_while_nobody_may_approve_it_somebody_is_looked_for_again(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["approvers"])
    asked(person("annika", may=True))
    assert notices.deliver_due() == 0
    assert Notice.objects.get().error.endswith("No user who may approve this call has an e-mail address.")
    person("cleo", may=True)
    time_passes()
    assert notices.deliver_due() == 1
    assert sent().to == ["cleo@example.com"]


def test_a_mail_server_that_is_away_is_tried_again(configure: Configure, settings: Any) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    send_mail_by(settings, f"{__name__}.Away")
    asked()
    assert notices.deliver_due() == 0
    assert Notice.objects.get().error == "ConnectionRefusedError: nobody listens"
    send_mail_by(settings, "django.core.mail.backends.locmem.EmailBackend")
    time_passes()
    assert notices.deliver_due() == 1
    assert sent().to == ["desk@example.com"]


def test_a_mail_that_comes_twice_has_the_same_number(configure: Configure) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com", "office@example.com"])
    asked()
    notices.deliver_due()
    for notice in Notice.objects.all():  # as if the process had been killed before it could note that
        notice.delivered, notice.next_attempt = None, notice.approval.created
        notice.save()
    notices.deliver_due()
    numbers = [(each.to[0], each.message()["Message-ID"]) for each in mail.outbox]
    assert len(numbers) == 4
    assert len(set(numbers)) == len({number for _, number in numbers}) == 2


def test_a_silent_mail_server_is_not_waited_for_for_ever(
    configure: Configure, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(APPROVAL_EMAILS=["desk@example.com"])
    send_mail_by(settings, f"{__name__}.Impatient")
    monkeypatch.setattr(Impatient, "seen", [])
    for given in (None, 3):
        monkeypatch.setattr(Impatient, "timeout", given)
        asked()
        notices.deliver_due()
    assert Impatient.seen == [10, 3]


def test_a_backend_that_knows_no_permissions_is_passed_over(configure: Configure, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.BaseBackend",
        "django.contrib.auth.backends.ModelBackend",
        "django.contrib.auth.backends.RemoteUserBackend",
    ]
    configure(APPROVAL_EMAILS=["approvers"])
    person("cleo", may=True)
    asked()
    assert notices.deliver_due() == 1
