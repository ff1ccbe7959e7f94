"""``mcp_clear`` deletes what has expired, and nothing else."""

import datetime
import io

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_mcp.models import Call, Event, Session, Step

pytestmark = pytest.mark.django_db


def fill(expires: datetime.datetime, name: str) -> None:
    session = Session.objects.create(key=name, server="s", principal_kind="k", principal_id="i", expires=expires)
    Call.objects.create(key=name, session=session, request={}, expires=expires)
    Event.objects.create(topic=name, created=timezone.now(), expires=expires)
    Step.objects.create(call=name, key="k", expires=expires)


def test_the_command_deletes_what_has_expired_and_says_how_much() -> None:
    now = timezone.now()
    fill(now - datetime.timedelta(seconds=1), "old")
    fill(now + datetime.timedelta(hours=1), "young")
    told = io.StringIO()

    call_command("mcp_clear", stdout=told)

    assert "1 sessions" in told.getvalue()
    assert Session.objects.get().key == "young"
    assert Call.objects.get().key == "young"
    assert Event.objects.get().topic == "young"
    assert Step.objects.get().call == "young"
