"""Rights of a caller whose request was let in a while ago: a parked task, a call that waited, a stream."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from django_mcp import APIKeyAuthentication, MCPServer, OAuth2Authentication, Principal
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.base import RequestHead
from django_mcp.auth.protected_resource import resource_of
from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.core.resources import refresh_principal
from django_mcp.models import APIKey, ClientPolicy

pytestmark = pytest.mark.usefixtures("site")
Make = Callable[..., Any]


def caller(server: MCPServer, credential: str) -> Principal:
    """Who a request with a credential is from."""
    head = RequestHead("POST", {"authorization": f"Bearer {credential}"}, "testserver", False, lambda: None, "")
    kind = APIKeyAuthentication() if credential.startswith("mcp_key") else OAuth2Authentication()
    found = kind.authenticate(head, server)
    assert found is not None
    return found


def decide(application: Any, **fields: Any) -> None:
    ClientPolicy.objects.update_or_create(client_id=application.client_id, defaults=fields)


def update(user: Any, **fields: Any) -> None:
    get_user_model().objects.filter(pk=user.pk).update(**fields)


ENDINGS: dict[str, Callable[[Any, Any], object]] = {
    "the client is blocked": lambda user, application: decide(application, blocked=True),
    "the user is deactivated": lambda user, application: update(user, is_active=False),
    "the client is limited to no scopes": lambda user, application: decide(application, scopes=[]),
    "the client is limited to another scope": lambda user, application: decide(application, scopes=["travel:else"]),
    "the token is revoked": lambda user, application: get_access_token_model().objects.all().delete(),
    "the endpoint is not for them any more": lambda user, application: update(user, is_staff=False),
}


@pytest.mark.parametrize("what", ENDINGS)
def test_a_token_gives_nothing_any_more(
    make_server: Make, make_user: Make, make_application: Make, make_token: Make, server: MCPServer, what: str
) -> None:
    server.user_passes_test = lambda user: user.is_staff
    user, application = make_user(is_staff=True), make_application()
    principal = caller(server, make_token(user=user, application=application))
    assert refresh_principal(principal, server) == principal
    ENDINGS[what](user, application)
    assert refresh_principal(principal, server) is None


def test_a_token_that_expired_or_was_replaced_is_as_good_as_before(
    server: MCPServer, user: Any, application: Any, make_token: Make
) -> None:
    principal = caller(server, make_token())
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(hours=1))
    assert refresh_principal(principal, server) is not None
    get_access_token_model().objects.all().delete()
    make_token(expires=timezone.now() - timedelta(seconds=1))
    assert refresh_principal(principal, server) is None
    refresh = get_refresh_token_model().objects
    refresh.create(
        user=user, application=application, token="next", access_token=get_access_token_model().objects.get()
    )
    assert refresh_principal(principal, server) is not None
    refresh.update(revoked=timezone.now())
    assert refresh_principal(principal, server) is None
    refresh.all().delete()


def test_a_replaced_token_gives_what_its_successor_gives(server: MCPServer, make_token: Make) -> None:
    principal = caller(server, make_token(scope="travel:read travel:write"))
    get_access_token_model().objects.all().delete()
    make_token(scope="travel:read")
    now = refresh_principal(principal, server)
    assert now is not None
    assert now.scopes == {"travel:read"}
    make_token(scope="travel:admin")
    now = refresh_principal(principal, server)
    assert now is not None
    assert now.scopes == {"travel:read", "travel:write"}


def test_a_replaced_token_is_not_succeeded_by_one_of_another_endpoint_user_or_client(
    server: MCPServer,
    make_server: Make,
    make_user: Make,
    make_application: Make,
    make_token: Make,
    subtests: pytest.Subtests,
) -> None:
    principal = caller(server, make_token())
    get_access_token_model().objects.all().delete()
    others = {
        "endpoint": {"resource": [resource_of(make_server("other", authentication=[OAuth2Authentication()]))]},
        "no endpoint": {"resource": []},
        "user": {"user": make_user()},
        "client": {"application": make_application()},
    }
    for what, fields in others.items():
        with subtests.test(what=what):
            make_token(**fields)
            assert refresh_principal(principal, server) is None


def test_what_an_owner_takes_from_a_client_is_gone_for_calls_that_wait(
    server: MCPServer, application: Any, make_token: Make
) -> None:
    principal = caller(server, make_token(scope="travel:read travel:write"))
    decide(application, scopes=["travel:read"])
    now = refresh_principal(principal, server)
    assert now is not None
    assert now.scopes == {"travel:read"}


def test_an_endpoint_that_needs_more_scopes_by_now_is_closed_to_calls_that_wait(
    server: MCPServer, make_token: Make
) -> None:
    principal = caller(server, make_token())
    server._scopes = ["travel:write"]
    assert refresh_principal(principal, server) is None
    server._scopes = []
    assert refresh_principal(principal, server) == principal


def test_a_caller_whose_credential_has_no_scopes_needs_none(server: MCPServer, user: Any) -> None:
    for kind in ("session", "user", "external"):
        principal = Principal(kind, "1", user)
        assert refresh_principal(principal, server) == principal


def test_a_caller_that_the_test_client_makes_up_needs_no_credential(server: MCPServer, user: Any) -> None:
    """``MCPClient(user, scopes=...)`` calls as a client would, without a token; tasks of such a call run too."""
    made_up = Principal("oauth", "1:client", user, scopes=frozenset({"travel:read"}), client_id="client")
    assert refresh_principal(made_up, server) == made_up


def test_a_key_gives_what_its_row_says_by_now(make_server: Make, user: Any) -> None:
    server = make_server("keys", authentication=[APIKeyAuthentication()])
    row, key = create_key(user, "test", endpoints=["keys"], scopes=["travel:read"])
    principal = caller(server, key)
    assert refresh_principal(principal, server) == principal
    rows = APIKey.objects.filter(pk=row.pk)
    rows.update(scopes=["travel:read", "travel:write"])
    now = refresh_principal(principal, server)
    assert now is not None
    assert now.scopes == {"travel:read", "travel:write"}
    gone = {
        "scopes": [],
        "revoked": timezone.now(),
        "expires": timezone.now() - timedelta(seconds=1),
        "endpoints": ["others"],
    }
    for field, value in gone.items():
        before = rows.values(field).get()
        rows.update(**{field: value})
        assert refresh_principal(principal, server) is None, field
        rows.update(**before)
    rows.delete()
    assert refresh_principal(principal, server) is None
