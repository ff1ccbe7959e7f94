"""Changes of rights at a site whose users have groups and permissions of its own models, as NetBox's have."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import MCPServer, tool
from django_mcp.core.signals import rights_changed
from django_mcp.pubsub import receivers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sailors(monkeypatch: pytest.MonkeyPatch, make_server: Callable[..., MCPServer]) -> Iterator[tuple[Any, Any, Any]]:
    """The models of users, of their groups and of permissions."""
    tool(server=make_server(), name="steer", visible=lambda ctx: ctx.user.is_authenticated)(lambda: "x")
    with isolate_apps("tests.model_resources.library"):

        class Duty(models.Model):
            class Meta:
                app_label: ClassVar[str] = "library"

            def __str__(self) -> str:
                return "a duty"

        class Crew(models.Model):
            name = models.CharField(max_length=20)
            permissions = models.ManyToManyField(Duty)

            class Meta:
                app_label: ClassVar[str] = "library"

            def __str__(self) -> str:
                return self.name

        class Sailor(models.Model):
            groups = models.ManyToManyField(Crew)
            user_permissions = models.ManyToManyField(Duty)

            class Meta:
                app_label: ClassVar[str] = "library"

            def __str__(self) -> str:
                return "a sailor"

        made = (Duty, Crew, Sailor)
        with connection.schema_editor() as editor:
            for model in made:
                editor.create_model(model)
        monkeypatch.setattr(receivers, "get_user_model", lambda: Sailor)
        monkeypatch.setattr(receivers, "classes_of", lambda model: [model])  # the registry of apps is not the real one
        receivers.connect_permissions()
        try:
            yield Sailor, Crew, Duty
        finally:
            with connection.schema_editor() as editor:
                for model in reversed(made):
                    editor.delete_model(model)


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "joins a group": lambda sailor, crew, duty: sailor.groups.add(type(crew).objects.create(name="Deck")),
    "leaves its group": lambda sailor, crew, duty: sailor.groups.clear(),
    "gets a permission": lambda sailor, crew, duty: sailor.user_permissions.add(type(duty).objects.create()),
    "the group gets a permission": lambda sailor, crew, duty: crew.permissions.add(type(duty).objects.create()),
    "the group loses its permissions": lambda sailor, crew, duty: crew.permissions.clear(),
    "a permission leaves its groups": lambda sailor, crew, duty: duty.crew_set.clear(),
    "the group is renamed": lambda sailor, crew, duty: crew.save(),
    "the group is deleted": lambda sailor, crew, duty: crew.delete(),
    "the permission is deleted": lambda sailor, crew, duty: duty.delete(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_change_of_groups_and_permissions_of_the_sites_own_models_is_told(
    sailors: tuple[Any, Any, Any], way: str
) -> None:
    model, group, permission = sailors
    sailor, crew, duty = model.objects.create(), group.objects.create(name="Watch"), permission.objects.create()
    model.objects.create()  # whom it does not concern
    crew.permissions.add(duty)
    sailor.groups.add(crew)
    told: list[set[str]] = []

    def receive(users: Any, **_: Any) -> None:
        told.append({*users})

    rights_changed.connect(receive)
    try:
        WAYS[way](sailor, crew, duty)
    finally:
        rights_changed.disconnect(receive)
    assert {*map(frozenset, told)} == {frozenset({str(sailor.pk)})}
