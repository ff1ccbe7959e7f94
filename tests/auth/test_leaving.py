"""Open streams of people and clients who are shut out end at once."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_out

from django_mcp import (
    APIKeyAuthentication,
    BaseAuthentication,
    MCPServer,
    OAuth2Authentication,
    Principal,
    RequestHead,
    tool,
)
from django_mcp.auth.api_keys import create_key, revoke_key
from django_mcp.models import ClientPolicy
from tests.clients import MODERN
from tests.conversation import Call, Conversation
from tests.exchange import Room

pytestmark = pytest.mark.postgresql

Make = Callable[..., Any]
LISTEN = {"notifications": {"toolsListChanged": True}}


@pytest.fixture
def server(make_server: Make, site: None) -> MCPServer:
    server = make_server(authentication=[OAuth2Authentication(), APIKeyAuthentication()])
    tool(server=server, name="look")(lambda: "seen")
    return server


@pytest.fixture
def listen(server: MCPServer, open_database: None) -> Any:
    with Room(server, "asgi") as room:

        def begin(credential: str) -> Call:
            talk = Conversation(room, MODERN, headers={"authorization": f"Bearer {credential}"})
            call = talk.begin("subscriptions/listen", LISTEN)
            assert call.next()["method"] == "notifications/subscriptions/acknowledged"
            return call

        yield begin


def is_over(call: Call) -> bool:
    return call.next()["result"]["resultType"] == "complete"


def goes_on(server: MCPServer, call: Call) -> bool:
    server.notify_list_changed("tools")
    return call.next()["method"] == "notifications/tools/list_changed"


def test_of_a_client_that_is_blocked(
    server: MCPServer, listen: Make, make_token: Make, application: Any, make_application: Make
) -> None:
    policy = ClientPolicy.objects.create(client_id=application.client_id, scopes=["travel:read"])
    call, other = listen(make_token()), listen(make_token(application=make_application()))
    assert goes_on(server, call)
    policy.blocked = True
    policy.save()
    assert is_over(call)
    assert goes_on(server, other)


def test_of_a_client_whose_limits_change_after_it_was_told(
    server: MCPServer, listen: Make, make_token: Make, application: Any, make_application: Make
) -> None:
    """Its streams know what it was allowed when they were opened; with the next one it hears by its new limits."""
    other = listen(make_token(application=make_application()))
    changes: list[Callable[[], Any]] = [
        lambda: ClientPolicy.objects.create(client_id=application.client_id, scopes=["travel:read"]),
        lambda: ClientPolicy.objects.get().save(),
        lambda: ClientPolicy.objects.get().delete(),
    ]
    for change in changes:
        call = listen(make_token())
        change()
        assert call.next()["method"] == "notifications/tools/list_changed"
        assert is_over(call)
    assert goes_on(server, other)


def test_of_a_user_who_is_deactivated(
    server: MCPServer, listen: Make, make_token: Make, user: Any, make_user: Make
) -> None:
    key = create_key(user, "script", endpoints=["test"], scopes=["travel:read"], days=1)[1]
    calls, other = [listen(make_token()), listen(key)], listen(make_token(user=make_user()))
    user.is_active = False
    user.save()
    assert all(is_over(call) for call in calls)
    assert goes_on(server, other)


class OfTheSite(BaseAuthentication):
    """Recognises users of another system by their name, as ``JWTAuthentication`` and authenticators of a site do."""

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        found = get_user_model().objects.get(username=head.headers["authorization"].removeprefix("Bearer "))
        return Principal("external", f"{found.pk}:elsewhere", found)


def test_of_a_user_who_is_deactivated_whatever_their_credential_is(
    make_server: Callable[..., MCPServer], open_database: None, user: Any, make_user: Make
) -> None:
    server, other = make_server("elsewhere", authentication=[OfTheSite()]), make_user()
    tool(server=server, name="look")(lambda: "seen")
    with Room(server, "asgi") as room:
        mine, theirs = (
            Conversation(room, MODERN, headers={"authorization": f"Bearer {each.username}"}).begin(
                "subscriptions/listen", LISTEN
            )
            for each in (user, other)
        )
        for call in (mine, theirs):
            assert call.next()["method"] == "notifications/subscriptions/acknowledged"
        user.is_active = False
        user.save()
        assert is_over(mine)
        assert goes_on(server, theirs)


def test_of_a_key_that_is_revoked(server: MCPServer, listen: Make, user: Any) -> None:
    kept, revoked = (create_key(user, "script", endpoints=["test"], scopes=["travel:read"], days=1) for _ in "ab")
    calls = [listen(kept[1]), listen(revoked[1])]
    revoke_key(revoked[0])
    assert is_over(calls[1])
    assert goes_on(server, calls[0])


def test_a_logout_of_nobody_is_none(site: None) -> None:
    user_logged_out.send(sender=object, request=None, user=None)
