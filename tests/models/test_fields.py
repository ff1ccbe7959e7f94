"""Identifiers are compared exactly, and constraints exist, in every database."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.core import checks
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from django_mcp import MCPServer, Principal
from django_mcp.models import Approval, Event, Session, Step, ToolPolicy
from django_mcp.models.fields import ExactCollation
from django_mcp.pubsub import once
from django_mcp.tasks import store
from tests.approvals.asking import at_once

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]
MODELS = [model for model in apps.get_app_config("django_mcp").get_models() if not model._meta.proxy]

ALIKE = ["Key", "key", "key ", "kéy"]
"""Equal in the default collation of MariaDB."""

DESCRIPTIONS = {
    "APIKey.name",
    "Notice.target",
    *(f"RequestLog.{name}" for name in ("caller", "client_name", "client_version", "protocol", "result_kind")),
    *("RequestLog.exception_type", "RequestLog.exception_place"),
    *("Session.version", "Session.log_level"),
    "Approval.outcome",
}
"""Texts that identify nothing, and that the admin may search for whatever their case."""


def test_each_text_is_an_identifier_or_a_description() -> None:
    others = {
        f"{model.__name__}.{field.name}"
        for model in MODELS
        for field in model._meta.concrete_fields
        if isinstance(field, models.CharField) and not isinstance(field, ExactCollation) and not field.choices
    }
    assert others == DESCRIPTIONS


def test_no_constraint_or_index_needs_what_some_databases_lack() -> None:
    for model in MODELS:
        for index in model._meta.indexes:
            assert not any([index.condition, index.include, index.expressions]), index.name
        for constraint in model._meta.constraints:
            if isinstance(constraint, models.UniqueConstraint):
                parts = (constraint.condition, constraint.include, constraint.expressions, constraint.deferrable)
                assert not any(parts), constraint.name


@pytest.mark.django_db
def test_the_database_has_all_that_the_models_declare() -> None:
    found = checks.run_checks([apps.get_app_config("django_mcp")], databases=["default"])
    assert [message for message in found if message.id.startswith(("models.", "fields.", "mysql."))] == []


@pytest.mark.django_db
def test_callers_whose_ids_are_alike_are_several(server: MCPServer) -> None:
    later = once.expiry()
    for caller in ALIKE:
        Session.objects.create(
            key=caller, server="s", principal_kind="k", principal_id=caller, version="", expires=later
        )
        store.create(server="test", tool="t", principal_kind="k", principal_id=caller, request={}, backend="b")
    for caller in ALIKE:
        assert Session.objects.get(key=caller).principal_id == caller
        assert Session.objects.filter(principal_id=caller).count() == 1
        (task,) = store.latest(Principal("k", caller, None), server, None, 10)
        assert task.principal_id == caller
        assert store.find(task.task_id.swapcase(), Principal("k", caller, None), server) is None


@pytest.mark.django_db
def test_steps_and_topics_that_are_alike_are_several() -> None:
    later = once.expiry()
    for name in ALIKE:
        assert once.once({"call": later}, name, lambda name=name: name) == name
        assert once.claim_step(name, "round:1")
        Event.objects.create(topic=name, created=timezone.now(), expires=later)
    for name in ALIKE:
        assert once.once({"call": later}, name, lambda: pytest.fail("done again")) == name
        assert Event.objects.filter(topic__in=[name]).count() == 1


@pytest.mark.django_db
def test_policies_of_clients_and_tools_that_are_alike_are_several() -> None:
    for name in ALIKE:
        ToolPolicy.objects.create(server="s", tool=name, client_id=name, decision="block")
    for name in ALIKE:
        assert ToolPolicy.objects.get(tool=name).client_id == name
        assert ToolPolicy.objects.get(client_id=name).tool == name


@pytest.mark.django_db
def test_there_is_one_policy_for_a_tool_and_one_for_each_of_its_groups_and_clients() -> None:
    groups = [None, *(Group.objects.create(name=name) for name in ("a", "b"))]
    targets = [{"group": group, "client_id": client} for group in groups for client in ("", "c")]
    for target in targets:
        ToolPolicy.objects.create(server="s", tool="t", decision="block", **target)
    for target in targets:
        with pytest.raises(IntegrityError), transaction.atomic():
            ToolPolicy.objects.create(server="s", tool="t", decision="allow", **target)
        with pytest.raises(IntegrityError), transaction.atomic():
            ToolPolicy.objects.bulk_create([ToolPolicy(server="s", tool="t", decision="allow", **target)])


@pytest.mark.django_db(transaction=True)
def test_deciding_at_the_same_time_leaves_one_policy() -> None:
    def decide() -> Any:
        which = {"server": "s", "tool": "t", "group": None, "client_id": ""}
        return ToolPolicy.objects.update_or_create(**which, defaults={"decision": "block"})

    at_once(*[decide] * 6)
    assert ToolPolicy.objects.count() == 1


@pytest.mark.django_db
def test_an_identical_call_has_one_live_request() -> None:
    now = timezone.now()
    fields = {"server": "s", "tool": "t", "principal_kind": "k", "principal_id": "i", "arguments": {}, "version": "v"}
    fields |= {"digest": "d", "created": now, "expires": now}
    for number, state in enumerate(["denied", "expired", "consumed"] * 2):
        Approval.objects.create(**fields, public_id=str(number), state=state)
    live = Approval.objects.create(**fields, public_id="live", state="pending")
    for state in ("pending", "approved"):
        with pytest.raises(IntegrityError), transaction.atomic():
            Approval.objects.create(**fields, public_id="another", state=state)
    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.filter(pk=live.pk).update(state="denied")  # which would block the call for ever
    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.filter(public_id="0").update(state="pending")
    Approval.objects.filter(pk=live.pk).update(state="denied", unique_key=None)
    Approval.objects.create(**fields, public_id="another", state="approved")


@pytest.mark.django_db
def test_moments_have_microseconds() -> None:
    moment = timezone.now().replace(microsecond=123457)
    Step.objects.create(call="c", key="k", expires=moment)
    assert Step.objects.get(expires=moment).expires == moment
    assert not Step.objects.filter(expires__lt=moment).exists()
