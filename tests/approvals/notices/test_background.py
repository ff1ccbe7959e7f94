"""The thread that delivers while the site goes on."""

import asyncio
import threading
from typing import Any

import pytest
from django.core.signals import request_started
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from django_mcp.approvals import notices, receivers
from django_mcp.approvals import notices as background
from django_mcp.approvals import notices as sending
from django_mcp.approvals.notices import sender
from django_mcp.models import Notice
from tests.approvals.notices.conftest import Configure, asked, ticket
from tests.approvals.notices.receiver import Receiver
from tests.faults.conftest import until


@pytest.fixture
def site(committed: None, receiver: Receiver, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """A site with a webhook, that does not wait long before it tries again."""
    configure(APPROVAL_WEBHOOK=receiver.url)
    monkeypatch.setattr(sending, "DELAYS", (0.05,))
    return receiver


def idle() -> bool:
    return sender._thread is None


def left_by_a_process_that_is_gone() -> Notice:
    return Notice.objects.create(
        approval=ticket(), kind="webhook", target="http://127.0.0.1", next_attempt=timezone.now()
    )


@pytest.mark.postgresql
def test_a_ticket_is_told_of_without_anybody_waiting_for_that(site: Receiver) -> None:
    site.silent = threading.Event()
    approval = asked()
    until(lambda: site.received, "the receiver is asked")
    assert Notice.objects.get().delivered is None, "asked() came back before there was an answer"
    site.silent.set()
    until(lambda: Notice.objects.get().delivered, "it is delivered")
    until(idle, "the thread ends when nothing is left to do")
    assert site.received[0].checked()["data"]["approval_id"] == approval.public_id


def test_a_receiver_that_fails_twice_is_tried_until_it_accepts(site: Receiver) -> None:
    site.answers += [500, 503]
    asked()
    until(lambda: Notice.objects.get().delivered, "it is delivered")
    until(idle, "the thread ends")
    assert len(site.received) == 3


def test_a_ticket_made_while_the_thread_waits_for_another_is_told_of_at_once(
    site: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "DELAYS", (50,))
    site.answers.append(500)
    asked()
    until(lambda: Notice.objects.exclude(error="").exists(), "the first try failed")
    second = asked()
    until(lambda: second.notices.get().delivered, "the second is delivered")


def test_on_an_event_loop_nothing_is_waited_for(site: Receiver) -> None:
    left_by_a_process_that_is_gone()

    async def look() -> None:
        notices.wake()

    asyncio.run(look())
    until(lambda: Notice.objects.get().delivered, "it is delivered")


def test_a_process_that_looks_at_tickets_delivers_what_was_left_and_looks_again_only_later(site: Receiver) -> None:
    left_by_a_process_that_is_gone()
    notices.wake()
    until(idle, "the thread is done")
    assert Notice.objects.get().delivered

    left_by_a_process_that_is_gone()
    notices.wake()
    assert idle(), "it looked a moment ago"
    sender._looked -= background.LOOK_SECONDS
    notices.wake()
    until(lambda: not Notice.objects.filter(delivered=None).exists(), "the second is delivered")


def test_the_first_request_that_a_process_serves_has_it_deliver_what_was_left(site: Receiver) -> None:
    left_by_a_process_that_is_gone()
    request_started.connect(receivers._serves, dispatch_uid="django_mcp.approvals")
    Client().get("/")
    until(lambda: Notice.objects.get().delivered, "it is delivered")
    assert not request_started.disconnect(dispatch_uid="django_mcp.approvals"), "other requests do not look"


def test_where_nobody_is_to_be_told_no_thread_is_started(committed: None, configure: Configure) -> None:
    configure()
    notices.wake()
    assert idle()


@pytest.mark.parametrize(
    ("error", "words"), [(DatabaseError, "could not be read from the database"), (KeyError, "Traceback")]
)
def test_after_an_error_it_goes_on(
    site: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: Any, error: type[Exception], words: str
) -> None:
    real, errors = sending.deliver_due, [error("away")]

    def away() -> int:
        if errors:
            raise errors.pop()
        return real()

    monkeypatch.setattr(sending, "deliver_due", away)
    monkeypatch.setattr(background, "RETRY_SECONDS", 0.05)
    asked()
    until(lambda: Notice.objects.get().delivered, "it is delivered")
    assert words in caplog.text


def test_a_ticket_is_made_even_where_no_thread_can_be(site: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    assert asked().notices.get().delivered is None
    monkeypatch.undo()
    assert notices.deliver_due() == 1
