"""The webhook, as its receiver sees it."""

import datetime
import json
import threading
from typing import Any

import pytest
from django.utils import timezone

from django_mcp.approvals import notices
from django_mcp.approvals import notices as posting
from django_mcp.approvals.notices import MAX_BYTES
from django_mcp.models import Notice
from tests.approvals.notices.conftest import Configure, asked, person, time_passes
from tests.approvals.notices.receiver import SECRET, Receiver
from tests.ports import free_port

pytestmark = pytest.mark.django_db


def error() -> str:
    return Notice.objects.get().error


def test_it_says_who_asks_for_what_and_where_to_decide(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    moment = datetime.datetime(2026, 5, 4, 10, tzinfo=datetime.UTC)
    approval = asked(
        person("annika"),
        created=moment,
        expires=moment.replace(year=2126),
        preview={"total": "300 EUR"},
        client_id="c1",
    )

    assert notices.deliver_due() == 1

    (received,) = receiver.received
    assert received.path == "/hooks?from=mcp"
    assert received.headers["content-type"] == "application/json"
    assert received.checked() == {
        "type": "approval.requested",
        "timestamp": "2026-05-04T10:00:00Z",
        "data": {
            "approval_id": approval.public_id,
            "endpoint": "default",
            "tool": "book_hotel",
            "requester": "annika (annika@example.com)",
            "client": {"name": "Desk", "version": "1.2"},
            "client_id": "c1",
            "arguments": {"hotel": "Seaview", "nights": 3, "card": "***"},
            "preview": {"total": "300 EUR"},
            "url": f"https://travel.example.com/admin/django_mcp/approval/{approval.pk}/change/",
            "expires": "2126-05-04T10:00:00Z",
        },
    }
    notice = Notice.objects.get()
    assert notice.delivered is not None
    assert notice.next_attempt is None


def test_a_secret_is_base64_behind_its_prefix_or_any_text(receiver: Receiver, configure: Configure) -> None:
    for secret in (SECRET, "correct horse battery staple", "grün"):
        configure(APPROVAL_WEBHOOK=receiver.url, APPROVAL_WEBHOOK_SECRET=secret)
        asked()
        notices.deliver_due()
        assert receiver.received[-1].checked(secret)["data"]["requester"] == "oauth 7"
        with pytest.raises(AssertionError):
            receiver.received[-1].checked("another one")


def test_a_receiver_that_fails_twice_gets_the_same_message_until_it_accepts(
    receiver: Receiver, configure: Configure, caplog: Any
) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    receiver.answers += [500, 429]
    approval = asked()

    assert notices.deliver_due() == 0
    assert error() == "Unanswered: The receiver responded with status 500: Internal Server Error"
    assert notices.deliver_due() == 0, "nobody is asked again at once"
    time_passes()
    assert notices.deliver_due() == 0
    time_passes()
    assert notices.deliver_due() == 1
    time_passes()
    assert notices.deliver_due() == 0

    assert receiver.ids == [f"msg_{approval.public_id}"] * 3
    assert [each.checked()["data"]["approval_id"] for each in receiver.received] == [approval.public_id] * 3
    assert len({each.body for each in receiver.received}) == 1
    assert Notice.objects.get().attempts == 3
    assert error() == ""
    assert caplog.text.count("could not be delivered (webhook to http://127.0.0.1:") == 2
    assert "from=mcp" not in caplog.text


def test_a_redirect_is_not_followed(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    receiver.location = f"http://127.0.0.1:{receiver.port}/elsewhere"
    for number, status in enumerate((301, 302, 303, 307, 308), 1):
        receiver.answers.append(status)
        made = asked()
        assert notices.deliver_due() == 0, status
        assert len(receiver.received) == number, status
        words = f"Unanswered: The receiver responded with status {status}: a redirect, which is not followed"
        assert made.notices.get().error == words


@pytest.mark.parametrize("how", ["silent", "dripping"])
def test_an_answer_that_does_not_come_is_not_waited_for(
    receiver: Receiver, configure: Configure, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(posting, "POST_TIMEOUT", 0.1)
    configure(APPROVAL_WEBHOOK=receiver.url)
    receiver.silent = threading.Event() if how == "silent" else None
    receiver.drips = how == "dripping"
    asked()
    assert notices.deliver_due() == 0
    assert error().startswith("TimeoutError: ")
    assert Notice.objects.get().next_attempt > timezone.now()


def test_what_is_no_http_and_a_closed_port_are_failures_too(configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=f"http://127.0.0.1:{free_port()}/")
    asked()
    assert notices.deliver_due() == 0
    assert "refused" in error()
    configure(APPROVAL_WEBHOOK="file:///etc/passwd")
    time_passes()
    assert notices.deliver_due() == 0
    assert error().startswith("OSError: ")
    assert "passwd" not in error()


def test_very_long_arguments_are_left_for_the_page(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    asked(arguments={"text": "x" * MAX_BYTES})
    notices.deliver_due()
    data = receiver.received[0].checked()["data"]
    assert data["arguments"] is None
    assert data["tool"] == "book_hotel"


@pytest.mark.postgresql
def test_text_of_any_kind_arrives_as_it_is(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    given = {"text": "übermorgen \u202e \x00 \ud800 🛎"}
    asked(arguments=given)
    assert notices.deliver_due() == 1
    assert json.loads(receiver.received[0].body)["data"]["arguments"] == given


def test_the_address_of_a_webhook_is_a_secret_and_stays_in_the_settings(
    receiver: Receiver, configure: Configure
) -> None:
    configure(APPROVAL_WEBHOOK=f"http://127.0.0.1:{receiver.port}/T00/a-secret-path")
    asked()
    assert Notice.objects.get().target == f"http://127.0.0.1:{receiver.port}"


def test_after_the_webhook_was_taken_out_of_the_settings_none_is_sent(receiver: Receiver, configure: Configure) -> None:
    configure(APPROVAL_WEBHOOK=receiver.url)
    asked()
    configure(APPROVAL_WEBHOOK=None)
    assert notices.deliver_due() == 0
    assert receiver.received == []
