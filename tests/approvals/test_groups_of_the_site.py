"""A site's users may have groups of a model of its own, as NetBox's do. A policy finds them by the group's name."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import Group
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import MCPServer, tool
from django_mcp.approvals import unmatched_policies
from django_mcp.models import ToolPolicy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sailor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A user of a model whose groups are crews."""
    with isolate_apps("tests.model_resources.library"):

        class Crew(models.Model):
            name = models.CharField(max_length=20)

            class Meta:
                app_label: ClassVar[str] = "library"

            def __str__(self) -> str:
                return self.name

        class Sailor(models.Model):
            groups = models.ManyToManyField(Crew)

            class Meta:
                app_label: ClassVar[str] = "library"

            def __str__(self) -> str:
                return "a sailor"

        with connection.schema_editor() as editor:
            editor.create_model(Crew)
            editor.create_model(Sailor)
        monkeypatch.setattr(unmatched_policies, "get_user_model", lambda: Sailor)
        try:
            yield Sailor.objects.create()
        finally:
            with connection.schema_editor() as editor:
                editor.delete_model(Sailor)
                editor.delete_model(Crew)


def test_a_policy_of_a_group_matches_the_users_of_the_sites_group_of_that_name(
    sailor: Any, make_server: Callable[..., MCPServer]
) -> None:
    server = make_server("ship")
    tool(server=server, name="sail")(lambda: "")
    empty, deck = Group.objects.create(name="empty"), Group.objects.create(name="deck")
    sailor.groups.create(name="deck")  # with the key of the group that is empty
    for group in (empty, deck):
        ToolPolicy.objects.create(server="ship", tool="sail", decision="block", group=group)
    assert unmatched_policies.find_unmatched(server) == [
        "block of sail for group empty matches nobody: the group has no members"
    ]
