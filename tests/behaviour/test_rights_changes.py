"""A user's clients hear that their lists may be others when the user's rights change, and nobody else's do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, notify_permissions_changed, prompt, resource, tool
from django_mcp.models import APIKey, Event
from django_mcp.pubsub import publish, receivers
from tests.behaviour.users import OTHER_PERMISSION, PERMISSION, ByName, as_user, group, permission
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import Room

pytestmark = pytest.mark.postgresql

Make = Callable[..., Any]
LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """Tools and resources depend on users here, prompts do not."""
    server = make_server(authentication=[ByName()])
    tool(server=server, name="refund", permission=PERMISSION)(lambda: "x")
    tool(server=server, name="of_the_desk", groups=["Desk"])(lambda: "x")
    prompt(server=server, name="plan")(lambda: "x")
    resource("test://{name}", server=server, visible=lambda ctx: ctx.user.is_staff)(lambda name: name)
    return server


@pytest.fixture
def edge() -> str:
    """Streams are the same wherever they can be held."""
    return "asgi"


class Listener:
    """A client that listens in the name of a user; it hears the lists that changed, up to a mark."""

    def __init__(self, room: Room, version: str, user: Any) -> None:
        self.server = room.server
        self.talk = Conversation(room, version, headers=as_user(user))
        if version == MODERN:
            call = self.talk.begin("subscriptions/listen", {"notifications": LISTS})
            assert call.next() is not None
            self.leave = call.exchange.leave
            self._messages: Iterator[Any] = iter(call)
        else:
            stream = self.talk.open().get().begun()
            assert stream.next() is not None
            self.leave = stream.leave
            self._messages = (event.message for event in stream if event.message)

    def heard(self) -> list[str]:
        """What came until now; a change of prompts, which depend on nobody, is the mark."""
        self.server.notify_list_changed("prompts")
        kinds = []
        for message in self._messages:
            kind = message["method"].split("/")[1]
            if kind == "prompts":
                return kinds
            kinds.append(kind)
        raise AssertionError("the stream ended")


Act = Callable[[User], Any]


def nothing(user: User) -> None:
    pass


def join(user: User) -> None:
    user.groups.add(group("Desk"))


def join_and_permit(user: User) -> None:
    join(user)
    group("Desk").permissions.add(permission())


def permit(user: User) -> None:
    user.user_permissions.add(permission())


def rename(user: User) -> None:
    desk = group("Desk")
    desk.name = "Office"
    desk.save()


def save(user: User, **fields: Any) -> None:
    vars(user).update(fields)
    user.save()


WAYS: dict[str, tuple[Act, Act]] = {
    "the user joins a group": (nothing, join),
    "the user leaves a group": (join, lambda user: user.groups.remove(group("Desk"))),
    "the group takes the user in": (nothing, lambda user: group("Desk").user_set.add(user)),  # noqa: PLW0108 - it is there only then
    "the group sends the user away": (join, lambda user: group("Desk").user_set.remove(user)),  # noqa: PLW0108 - it is there only then
    "the user leaves all groups": (join, lambda user: user.groups.clear()),
    "the group sends all away": (join, lambda user: group("Desk").user_set.clear()),
    "the user's groups are set": (nothing, lambda user: user.groups.set([group("Desk")])),
    "the user gets a permission": (nothing, permit),
    "the permission gets the user": (nothing, lambda user: permission().user_set.add(user)),  # noqa: PLW0108 - it is there only then
    "the permission loses all users": (permit, lambda user: permission().user_set.clear()),
    "the group gets a permission": (join, lambda user: group("Desk").permissions.add(permission())),
    "the permission gets the group": (join, lambda user: permission().group_set.add(group("Desk"))),
    "the group loses all permissions": (join_and_permit, lambda user: group("Desk").permissions.clear()),
    "the permission loses all groups": (join_and_permit, lambda user: permission().group_set.clear()),
    "the group is called otherwise": (join, rename),
    "the group is deleted": (join, lambda user: group("Desk").delete()),
    "the user's permission is deleted": (permit, lambda user: permission().delete()),
    "the group's permission is deleted": (join_and_permit, lambda user: permission().delete()),
    "the user becomes staff": (nothing, lambda user: save(user, is_staff=True)),
    "the user becomes a superuser": (nothing, lambda user: save(user, is_superuser=True)),
    "the site says so": (nothing, notify_permissions_changed),
}


def test_the_users_clients_hear_of_lists_that_depend_on_users_and_others_do_not(
    room: Room, make_user: Make, subtests: pytest.Subtests
) -> None:
    for way, (prepare, change) in WAYS.items():
        with subtests.test(way=way):
            user, other = make_user(), make_user()
            prepare(user)
            mine, theirs = Listener(room, MODERN, user), Listener(room, MODERN, other)
            change(user)
            assert sorted(mine.heard()) == ["resources", "tools"]
            assert theirs.heard() == []
        mine.leave()
        theirs.leave()
        Group.objects.all().delete()
        # Only those that the ways above made: tests of the demo need its own.
        Permission.objects.filter(codename__in=["refund_booking", "void_booking"]).delete()


def test_so_do_those_of_clients_with_a_handshake(room: Room, make_user: Make) -> None:
    user = make_user()
    mine, theirs = Listener(room, LEGACY, user), Listener(room, LEGACY, make_user())
    join(user)
    assert sorted(mine.heard()) == ["resources", "tools"]
    assert theirs.heard() == []


def test_what_a_transaction_changes_is_told_once_and_when_it_is_committed(room: Room, make_user: Make) -> None:
    user = make_user()
    listener = Listener(room, MODERN, user)
    with transaction.atomic():
        user.groups.add(group("Desk"))
        user.user_permissions.add(permission(), permission(OTHER_PERMISSION))
        save(user, is_staff=True)
        assert not Event.objects.filter(topic="server:test").exists()
    assert sorted(listener.heard()) == ["resources", "tools"]


def test_what_is_rolled_back_is_not_told(room: Room, make_user: Make) -> None:
    user = make_user()
    listener = Listener(room, MODERN, user)
    with transaction.atomic():
        user.groups.add(group("Desk"))
        transaction.set_rollback(True)
    assert listener.heard() == []
    with transaction.atomic():
        user.user_permissions.add(permission())
    assert sorted(listener.heard()) == ["resources", "tools"]


def test_a_user_who_is_saved_with_the_same_rights_is_not_told_of(
    room: Room, make_user: Make, subtests: pytest.Subtests
) -> None:
    for fields in [{"last_name": "Berg"}, {"is_staff": False}]:
        with subtests.test(fields=fields):
            user = make_user()
            listener = Listener(room, MODERN, user)
            save(user, **fields)
            user.save(update_fields=["last_login"])
            assert listener.heard() == []


def test_a_login_takes_no_query_more(server: MCPServer, make_user: Make) -> None:
    """It saves ``last_login`` alone, which no right depends on."""
    user = make_user()
    with CaptureQueriesContext(connection) as found:
        user.save(update_fields=["last_login"])
    assert len(found) == 1


def test_where_nothing_depends_on_users_nobody_is_asked_and_nothing_written(
    make_server: Make, make_user: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = make_server("plain")
    tool(server=plain, name="open", scopes=["a"])(lambda: "x")
    monkeypatch.setattr(receivers, "every_server", lambda: [plain])
    user = make_user()
    with CaptureQueriesContext(connection) as found:
        save(user, is_staff=True)
    assert len(found) == 1
    user.groups.add(group("Desk"))
    assert not Event.objects.exists()


def test_a_change_of_very_many_users_is_told_to_everybody(
    room: Room, make_user: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "MAX_USERS", 2)
    users = [make_user(groups=("Desk",)) for _ in range(3)]
    other = Listener(room, MODERN, make_user())
    notify_permissions_changed(*users[:2])
    assert other.heard() == []
    group("Desk").permissions.add(permission())
    assert sorted(other.heard()) == ["resources", "tools"]


def test_the_list_is_then_another(room: Room, make_user: Make) -> None:
    user = make_user()
    listener = Listener(room, LEGACY, user)

    def tools() -> list[str]:
        return [each["name"] for each in listener.talk.request("tools/list").result["tools"]]

    assert tools() == []
    user.groups.add(group("Desk"))
    assert listener.heard()
    assert tools() == ["of_the_desk"]


def test_a_stream_tells_of_what_the_user_may_read_now(server: MCPServer, room: Room, make_user: Make) -> None:
    user = make_user(groups=("Desk",))
    resource("test:desk", server=server, groups=["Desk"])(lambda: "x")
    resource("test:all", server=server)(lambda: "x")
    wanted = {"resourceSubscriptions": ["test:desk", "test:all"]}
    call = Conversation(room, MODERN, headers=as_user(user)).begin("subscriptions/listen", {"notifications": wanted})
    assert call.next()["params"]["notifications"] == wanted
    user.groups.clear()
    told = []
    for _ in range(2):
        server.notify_resource_updated("test:desk")
        server.notify_resource_updated("test:all")
        told.append(call.next()["params"]["uri"])
    # Of what is gone there is a last word, as of what was deleted; and then none.
    assert told == ["test:desk", "test:all"]
    assert call.next()["params"]["uri"] == "test:all"


# What a credential allows


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_who_may_do_otherwise_by_their_credential_is_told_and_then_opens_another_stream(
    room: Room, make_user: Make, version: str
) -> None:
    user = make_user()
    mine, theirs = Listener(room, version, user), Listener(room, version, make_user())
    publish.renew_streams("test", user.username)
    kinds = [each["method"].split("/")[1] for each in mine._messages if "method" in each]
    assert kinds == ["tools", "prompts", "resources"]
    assert theirs.heard() == []
    assert Listener(room, version, user).heard() == []


@pytest.mark.parametrize(
    ("fields", "is_told"), [({"scopes": ["b"]}, True), ({"endpoints": ["x"]}, True), ({"name": "other"}, False)]
)
def test_a_key_that_opens_something_else_is_renewed(make_user: Make, fields: Any, is_told: bool) -> None:
    import datetime

    from django.utils import timezone

    expires = timezone.now() + datetime.timedelta(days=1)
    key = APIKey.objects.create(key_hash="h", prefix="p", name="n", user=make_user(), scopes=["a"], expires=expires)
    vars(key).update(fields)
    key.save()
    assert Event.objects.filter(topic=f"caller:api_key:{key.pk}").exists() is is_told
