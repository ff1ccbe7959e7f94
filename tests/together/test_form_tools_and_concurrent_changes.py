"""A form changes a row while somebody else changes other fields of it."""

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import OperationalError, transaction

from django_mcp import MCPServer, form_tool
from django_mcp.test import MCPClient
from tests.together.conftest import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


def change_last_name() -> None:
    with transaction.atomic():
        row = User.objects.select_for_update(nowait=True).get(username="ann")
        row.last_name = "changed by another"
        row.save()


class NameForm(forms.ModelForm):
    class Meta:
        model = User
        fields = ("first_name", "last_name")

    def clean(self) -> Any:
        with pytest.raises(OperationalError):  # another caller waits until this one has saved
            elsewhere(change_last_name)
        return super().clean()


@pytest.mark.usefixtures("others_write")
@pytest.mark.parametrize(
    "options",
    [
        {"instance": lambda ctx: User.objects.get(username="ann")},
        {"form_kwargs": lambda ctx: {"instance": User.objects.get(username="ann")}},
        {"lookup": "username", "queryset": lambda ctx: User.objects.all()},
    ],
    ids=["instance", "form_kwargs", "lookup"],
)
def test_the_row_is_locked_until_it_is_saved(server: MCPServer, options: dict[str, Any]) -> None:
    User.objects.create(username="ann")
    form_tool(NameForm, name="edit", permission=None, policy="allow", server=server, **options)
    which = {"username": "ann"} if "lookup" in options else {}
    MCPClient(AnonymousUser(), server=server, protocol_version="modern").call(
        "edit", first_name="Ann", **which
    ).assert_ok()


@pytest.mark.parametrize("by", ["instance", "lookup"])
def test_without_a_transaction_nothing_is_locked(server: MCPServer, by: str) -> None:
    group = Group.objects.create(name="readers")
    form = forms.modelform_factory(Group, fields=("name",))
    instance: dict[str, Any] = {"instance": lambda ctx: Group.objects.get(pk=group.pk)}
    lookup: dict[str, Any] = {"lookup": "pk", "queryset": lambda ctx: Group.objects.all()}
    options = instance if by == "instance" else lookup
    form_tool(form, name="edit", permission=None, policy="allow", atomic=False, server=server, **options)
    which = {"pk": group.pk} if by == "lookup" else {}
    client = MCPClient(AnonymousUser(), server=server, protocol_version="modern")
    client.call("edit", name="writers", **which).assert_ok()
    group.refresh_from_db()
    assert group.name == "writers"
