"""When notices are made, tried, tried again and given up."""

import datetime
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.mail.backends.locmem import EmailBackend
from django.core.management import call_command
from django.db import connections, transaction
from django.test import RequestFactory
from django.urls import get_script_prefix
from django.utils import timezone

from django_mcp.approvals import notices
from django_mcp.approvals import notices as sending
from django_mcp.approvals.messages import page_url
from django_mcp.approvals.notices import sender
from django_mcp.models import Approval, Notice
from tests.approvals.notices.conftest import Configure, asked, ticket, time_passes
from tests.approvals.notices.mailers import send_mail_by
from tests.approvals.notices.receiver import Receiver


@pytest.mark.django_db
def test_a_site_that_wants_nobody_told_has_no_notices(configure: Configure, django_assert_num_queries: Any) -> None:
    configure()
    made = ticket()
    with django_assert_num_queries(0):
        notices.make(made)
    assert not Notice.objects.exists()


@pytest.mark.postgresql
@pytest.mark.django_db
def test_to_make_notices_of_a_ticket_costs_one_query(configure: Configure, django_assert_num_queries: Any) -> None:
    configure(
        APPROVAL_EMAILS=["a@example.com", "A@example.com", "b@example.com", "approvers"],
        APPROVAL_WEBHOOK="https://hooks.example.com/x",
    )
    made = ticket()
    with django_assert_num_queries(1):
        notices.make(made)
    assert [(each.kind, each.target) for each in made.notices.order_by("pk")] == [
        ("email", "A@example.com"),
        ("email", "b@example.com"),
        ("email", "approvers"),
        ("webhook", "https://hooks.example.com"),
    ]


@pytest.mark.django_db
def test_a_ticket_that_was_decided_meanwhile_is_not_told_of(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    for became in ("denied", "approved", "expired", "consumed"):
        receiver.answers.append(503)
        approval = asked()
        notices.deliver_due()
        Approval.objects.filter(pk=approval.pk).update(
            state=became, unique_key=None if became != "approved" else approval.digest
        )
        receiver.received.clear()
        time_passes()
        assert notices.deliver_due() == 0, became
        assert receiver.received == [], became
        assert Notice.objects.get(approval=approval).next_attempt is None, became
        assert sending.seconds_left() is None, became


@pytest.mark.django_db
def test_a_ticket_whose_time_is_up_is_not_told_of(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    asked(expires=timezone.now() - datetime.timedelta(seconds=1))
    assert notices.deliver_due() == 0
    assert receiver.received == []
    assert sending.seconds_left() is None


class Fast(EmailBackend):
    """Mail that is read, and acted on, before the next one is sent."""

    became: dict[str, Any] = {}

    def send_messages(self, messages: Any) -> int:
        Approval.objects.update(**self.became)
        return super().send_messages(messages)


@pytest.mark.django_db
@pytest.mark.parametrize("became", [{"state": "denied", "unique_key": None}, {"expires": timezone.now()}])
def test_when_the_first_of_those_who_are_told_decides_the_others_are_told_no_more(
    configure: Configure, settings: Any, monkeypatch: pytest.MonkeyPatch, mailoutbox: Any, became: dict[str, Any]
) -> None:
    configure(APPROVAL_EMAILS=["a@example.com", "b@example.com"])
    send_mail_by(settings, f"{__name__}.Fast")
    monkeypatch.setattr(Fast, "became", became)
    asked()
    assert notices.deliver_due() == 1
    assert [each.to for each in mailoutbox] == [["a@example.com"]]


@pytest.mark.postgresql
@pytest.mark.django_db
def test_pauses_get_longer_and_end_with_the_ticket(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    receiver.answers += [500] * 10
    approval = asked(expires=timezone.now() + datetime.timedelta(days=1))
    pauses = []
    for _ in range(6):
        notices.deliver_due()
        left = sending.seconds_left()
        assert left is not None
        pauses.append(left)
        time_passes()
    for pause, planned in zip(pauses, (5, 30, 120, 600, 3600, 3600), strict=True):
        assert planned * 0.8 - 1 <= pause <= planned * 1.2
    Approval.objects.filter(pk=approval.pk).update(expires=timezone.now() + datetime.timedelta(minutes=40))
    notices.deliver_due()
    assert sending.seconds_left() is None
    assert Notice.objects.get().attempts == 7


@pytest.mark.django_db
def test_pauses_are_not_the_same_for_all(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    receiver.answers += [500] * 10
    for _ in range(10):
        asked()
    notices.deliver_due()
    moments = sorted(Notice.objects.values_list("next_attempt", flat=True))
    assert (moments[-1] - moments[0]).total_seconds() > 0.1


@pytest.mark.postgresql
@pytest.mark.django_db
def test_new_notices_come_before_those_that_failed_and_webhooks_before_mails(
    receiver: Receiver, configure: Configure, mailoutbox: Any
) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url, APPROVAL_EMAILS=["desk@example.com"])
    receiver.answers.append(500)
    first = asked()
    assert notices.deliver_due() == 1
    second = asked()
    time_passes()
    assert notices.deliver_due() == 3
    assert receiver.ids == [f"msg_{each.public_id}" for each in (first, second, first)]


@pytest.mark.postgresql
@pytest.mark.django_db
def test_one_that_a_process_took_and_did_not_finish_is_taken_by_another_later(
    receiver: Receiver, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    asked()
    monkeypatch.setattr(sending, "_try", lambda notice: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        notices.deliver_due()
    monkeypatch.undo()
    assert notices.deliver_due() == 0
    left = sending.seconds_left()
    assert left is not None
    assert 60 < left <= 120
    time_passes()
    assert notices.deliver_due() == 1


@pytest.mark.postgresql
def test_of_several_who_deliver_at_once_one_sends_each(
    committed: None, receiver: Receiver, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "begin", lambda: None)
    configure(APPROVAL_WEBHOOK=receiver.url)
    tickets = [asked().public_id for _ in range(12)]
    together, delivered = threading.Barrier(4), []

    def deliver() -> None:
        together.wait()
        delivered.append(notices.deliver_due())
        connections.close_all()

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(delivered) == 12
    assert sorted(receiver.ids) == sorted(f"msg_{each}" for each in tickets)


@pytest.mark.django_db
def test_the_command_delivers_what_is_due_and_says_how_many(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    asked()
    said = io.StringIO()
    call_command("mcp_notify", stdout=said)
    call_command("mcp_notify", stdout=said)
    assert said.getvalue() == "1 notice delivered.\n0 notices delivered.\n"


# The page


@pytest.mark.django_db
def test_the_page_of_a_ticket_is_below_the_address_of_the_site(configure: Configure) -> None:
    configure()
    made, request = ticket(), RequestFactory().get("/", headers={"Host": "localhost"})
    path = f"/admin/django_mcp/approval/{made.pk}/change/"
    assert page_url(made) == page_url(made, request) == f"https://travel.example.com{path}"
    configure(BASE_URL=None)
    assert page_url(made) == ""
    assert page_url(made, request) == f"http://localhost{path}"
    foreign = RequestFactory().get("/", headers={"Host": "evil.example"})
    assert page_url(made, foreign) == ""


@pytest.mark.django_db
def test_the_page_of_a_site_below_a_path_is_below_it_in_every_thread(configure: Configure, settings: Any) -> None:
    configure()
    made = ticket()
    path = f"/shop/admin/django_mcp/approval/{made.pk}/change/"
    below = RequestFactory().get("/", headers={"Host": "localhost"}, SCRIPT_NAME="/shop")
    assert page_url(made, below) == f"https://travel.example.com{path}"
    settings.FORCE_SCRIPT_NAME = "/shop/"
    with ThreadPoolExecutor(1) as pool:  # as the one that sends e-mails, which has served no request
        assert pool.submit(page_url, made).result() == f"https://travel.example.com{path}"
    assert get_script_prefix() == "/"


@pytest.mark.django_db
def test_a_site_without_admin_or_urls_has_no_page(configure: Configure, settings: Any) -> None:
    configure()
    made = ticket()
    settings.ROOT_URLCONF = "django_mcp.urls"
    assert page_url(made) == ""
    del settings.ROOT_URLCONF
    assert page_url(made) == ""


@pytest.mark.postgresql
def test_nobody_is_told_of_a_ticket_that_was_rolled_back(
    committed: None, receiver: Receiver, configure: Configure
) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    with transaction.atomic():
        notices.make(ticket())
        transaction.set_rollback(True)
    assert sender._thread is None
    assert not Notice.objects.exists()


@pytest.mark.django_db
def test_without_a_thread_the_approval_request_is_made_and_its_notice_waits(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(APPROVAL_EMAILS=["a@example.com"])
    monkeypatch.setattr(sender, "_thread", None)
    monkeypatch.setattr(sender, "_looked", -sending.LOOK_SECONDS)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        notices.wake()  # which every look at approval requests does
        approval = asked()
        sender.begin()
    assert "notices are delivered later" in caplog.text
    assert notices.deliver_due() == 1
    assert Notice.objects.get(approval=approval).delivered
