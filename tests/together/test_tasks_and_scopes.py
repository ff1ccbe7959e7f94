"""A task waits for an approval, and meanwhile the rights of its caller change: it runs with those of now, or not."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone

from django_mcp import APIKeyAuthentication, MCPServer, OAuth2Authentication, Principal, tool
from django_mcp.approvals.decisions import approve
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.base import RequestHead
from django_mcp.auth.toolkit import get_access_token_model
from django_mcp.core.context import Context
from django_mcp.models import APIKey, ClientPolicy, Task, ToolPolicy
from django_mcp.tasks.backends import recover
from tests.approvals.asking import WantsTask, finished, serve, the_ticket
from tests.conftest import end_tasks
from tests.oauth.site import Site, forget_urlconfs, make_site

pytestmark = pytest.mark.postgresql

Calls = list[frozenset[str]]


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], transactional_db: None, policies: None
) -> Iterator[Site]:
    """A site whose endpoint takes tokens and keys, with calls that somebody has to approve."""
    site = make_site(settings, make_server)
    site.configure(
        AUTHENTICATION=["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
        APPROVAL_WAIT_TIMEOUT=0.001,
    )
    yield site
    end_tasks()
    forget_urlconfs()


@pytest.fixture
def paid(site: Site) -> Calls:
    """The scopes with which each call of ``pay`` ran; ``transfer`` needs a scope of its own."""
    ran: Calls = []

    def run(ctx: Context) -> str:
        ran.append(ctx.principal.scopes or frozenset())
        return "Paid."

    tool(server=site.alpha, name="pay", policy="ask", groups=["payers"])(run)
    tool(server=site.alpha, name="transfer", policy="ask", scopes=["travel:write"])(run)
    site.user.groups.add(Group.objects.get_or_create(name="payers")[0])
    return ran


def caller(server: MCPServer, credential: str) -> Principal:
    """Who a request with a credential is from."""
    head = RequestHead("POST", {"authorization": f"Bearer {credential}"}, "testserver", False, lambda: None, "")
    kind = APIKeyAuthentication() if credential.startswith("mcp_key") else OAuth2Authentication()
    found = kind.authenticate(head, server)
    assert found is not None
    return found


def credential_of(site: Site, kind: str) -> str:
    if kind == "api_key":
        scopes = ["travel:read", "travel:write"]
        return create_key(site.user, "nightly", endpoints=["alpha"], scopes=scopes)[1]
    return str(site.tokens_for(scope="travel:write")["access_token"])


def park(site: Site, kind: str, name: str, credential: str = "") -> Task:
    """A call that waits as a task, made with a credential."""
    principal = caller(site.alpha, credential or credential_of(site, kind))
    names = ("kind", "id", "scopes", "client_id", "credential", "expires")
    serve(site.alpha, principal.user, name, {}, channel=WantsTask(), **{key: getattr(principal, key) for key in names})
    task = Task.objects.get()
    assert task.status == Task.Status.WORKING
    return task


def limit(site: Site, **fields: Any) -> None:
    ClientPolicy.objects.update_or_create(client_id=site.application.client_id, defaults=fields)


def need(site: Site, *scopes: str) -> None:
    site.alpha._scopes = list(scopes)


def block(**fields: Any) -> None:
    ToolPolicy.objects.create(server="alpha", tool="pay", decision="block", **fields)


HOUR = datetime.timedelta(hours=1)
Change = Callable[[Site], object]
OF_TOKENS: dict[str, Change] = {
    "the client is limited to no scopes": lambda site: limit(site, scopes=[]),
    "the client is limited to a scope that the endpoint does not take": lambda site: limit(site, scopes=["other"]),
    "the client was blocked without a signal": lambda site: ClientPolicy.objects.bulk_create(
        [ClientPolicy(client_id=site.application.client_id, blocked=True)]
    ),
    "the token is good elsewhere only": lambda site: get_access_token_model().objects.update(
        resource=[site.resource(site.beta)]
    ),
    "the tool is blocked for the client": lambda site: block(client_id=site.application.client_id),
}
OF_KEYS: dict[str, Change] = {
    "the key has no scopes": lambda site: APIKey.objects.update(scopes=[]),
    "the key opens another endpoint": lambda site: APIKey.objects.update(endpoints=["beta"]),
    "the key expired": lambda site: APIKey.objects.update(expires=timezone.now()),
}
OF_ALL: dict[str, Change] = {
    "the endpoint needs another scope": lambda site: need(site, "travel:else"),
    "the user is inactive": lambda site: get_user_model().objects.update(is_active=False),
    "the user is in no group": lambda site: site.user.groups.clear(),
    "the endpoint admits others": lambda site: setattr(site.alpha, "user_passes_test", lambda user: False),
    "the tool is blocked": lambda site: block(),
}
LOST = [
    *[("oauth", what, change) for what, change in {**OF_TOKENS, **OF_ALL}.items()],
    *[("api_key", what, change) for what, change in {**OF_KEYS, **OF_ALL}.items()],
]
lost = pytest.mark.parametrize(
    ("kind", "change"), [pytest.param(kind, change, id=f"{kind}: {what}") for kind, what, change in LOST]
)


def approver(site: Site) -> Any:
    return site.make_user("approver", is_superuser=True, is_staff=True)


@lost
def test_an_approved_task_of_a_caller_who_may_not_call_any_more_does_not_run(
    site: Site, paid: Calls, kind: str, change: Change
) -> None:
    task = park(site, kind, "pay")
    change(site)
    if not approve(the_ticket(), approver(site)):  # withdrawn; whoever next looks after tasks ends this one
        task.refresh_from_db()
        recover(task)
    assert finished(task).status in {Task.Status.FAILED, Task.Status.COMPLETED}
    assert task.error or task.result["isError"]
    assert paid == []


@lost
def test_nor_does_one_that_another_worker_takes_over(
    site: Site, paid: Calls, kind: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_options = {"policy": "allow", "idempotent": True, "task": "optional"}
    pay = site.alpha.tools["pay"]
    site.alpha.tools.pop("pay")
    tool(server=site.alpha, name="pay", groups=["payers"], **tool_options)(pay.function.call)
    with monkeypatch.context() as crashing:
        crashing.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)
        task = park(site, kind, "pay")
    change(site)
    Task.objects.update(lease=timezone.now() - HOUR, worker="dead", attempts=1)
    task.refresh_from_db()
    recover(task)
    finished(task)
    assert task.error or task.result["isError"]
    assert paid == []


@pytest.mark.parametrize("kind", ["oauth", "api_key"])
def test_an_approved_task_of_a_caller_with_fewer_scopes_runs_with_those(site: Site, paid: Calls, kind: str) -> None:
    task = park(site, kind, "pay")
    limit(site, scopes=["travel:read"])
    APIKey.objects.update(scopes=["travel:read"])
    approve(the_ticket(), approver(site))
    assert finished(task).result["content"][0]["text"] == "Paid."
    assert paid == [{"travel:read"}]


@pytest.mark.parametrize("kind", ["oauth", "api_key"])
def test_but_not_what_needs_one_of_the_others(site: Site, paid: Calls, kind: str) -> None:
    task = park(site, kind, "transfer")
    limit(site, scopes=["travel:read"])
    APIKey.objects.update(scopes=["travel:read"])
    approve(the_ticket(), approver(site))
    finished(task)
    assert task.error or task.result["isError"]
    assert paid == []


def test_a_task_whose_client_renewed_its_token_with_fewer_scopes_runs_with_those(site: Site, paid: Calls) -> None:
    tokens = site.tokens_for(scope="travel:write")
    task = park(site, "oauth", "pay", tokens["access_token"])
    assert site.refresh(tokens["refresh_token"], scope="travel:read").status_code == 200
    approve(the_ticket(), approver(site))
    finished(task)
    assert paid == [{"travel:read"}]
