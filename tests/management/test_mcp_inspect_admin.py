"""``mcp_inspect --admin``: what the tools of an admin give one user, and why not more."""

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command

from demo_project.travel.models import Booking, City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.models import ToolPolicy
from tests.integrations.admin_site.office import own_site
from tests.integrations.back_office import models
from tests.integrations.back_office.rows import make_people, make_rows
from tests.integrations.back_office.shop import site

pytestmark = pytest.mark.django_db

Make = Callable[..., MCPServer]


@pytest.fixture
def people(settings: Any) -> SimpleNamespace:
    settings.ROOT_URLCONF = "tests.integrations.back_office.urls"
    people = make_people()
    make_rows(people.superuser)
    return people


@pytest.fixture
def office(policies: None, make_server: Make, people: SimpleNamespace) -> MCPServer:
    server = make_server("office")
    admin_tools(site, server=server)
    return server


def inspect(*arguments: str, who: str = "boss") -> str:
    output = io.StringIO()
    call_command("mcp_inspect", "--admin", "--server", "office", "--as", who, *arguments, stdout=output)
    return output.getvalue()


def described(*arguments: str, who: str = "boss") -> dict[str, Any]:
    (endpoint,) = json.loads(inspect("--json", *arguments, who=who))["endpoints"]
    (admin,) = endpoint["admins"]
    return dict(admin)


def model(admin: dict[str, Any], label: str) -> dict[str, Any]:
    return next(dict(entry) for entry in admin["models"] if entry["model"] == label)


def test_it_shows_what_a_user_gets_of_a_model_and_who_decides(office: MCPServer) -> None:
    said = inspect("back_office.customer")
    assert "Admin back_office at /back_office/" in said
    assert "allowed: search_customers, get_customer, customer_history\n" in said
    assert "approval by boss: add_customer, change_customer, delete_customer, delete_customers\n" in said
    assert "columns: name, email, api_key\n" in said
    assert "search in: name\n" in said
    assert "order by: name, email\n" in said
    assert "fields: name, email, api_key, salary" in said
    opener = "its name says that it is a secret; show=['back_office.customer.api_key'] opens it\n"
    assert f"kept back: api_key (column): {opener}" in said
    assert f"kept back: api_key (form): {opener}" in said


def test_another_person_decides_about_users_and_hashes_stay(office: MCPServer) -> None:
    said = inspect("auth.user")
    assert "approval by another person: add_user, change_user" in said
    assert "kept back: password (form): its widget shows or takes a password\n" in said


def test_a_clerk_reads_why_there_is_not_more(office: MCPServer) -> None:
    admin = described(who="clerk")
    customer = model(admin, "back_office.Customer")
    tools = {tool["name"]: tool for tool in customer["tools"]}
    assert tools["search_customers"]["decision"] == "allow"
    assert tools["delete_customer"]["decided_by"] == "requester"
    assert tools["change_customer"]["hidden_because"] == ["the admin gives no permission to change"]
    assert customer["fields"] == []
    fields = model(admin, "back_office.Product")["fields"]
    assert "price" in fields
    assert "cost" not in fields
    assert "variant_set.name" in fields
    said = inspect(who="clerk")
    assert "- change_customer  hidden: the admin gives no permission to change" in said
    assert "nothing of: auth.User, auth.Group, " in said
    assert "add_supplier  hidden: the admin gives no permission to add" in inspect("back_office.supplier", who="clerk")


def test_a_policy_is_a_reason_too(office: MCPServer) -> None:
    ToolPolicy.objects.create(server="office", tool="delete_customer", decision="block")
    ToolPolicy.objects.create(server="office", tool="search_customers", decision="ask")
    tools = {tool["name"]: tool for tool in described("back_office.customer")["models"][0]["tools"]}
    assert "blocked by a policy" in tools["delete_customer"]["hidden_because"][0]
    assert tools["search_customers"]["decision"] == "ask"


def test_it_shows_what_the_declaration_leaves_out(make_server: Make, people: SimpleNamespace) -> None:
    class Reading(ModelAdmin):
        mcp = ("search", "get")

    class Closed(ModelAdmin):
        mcp = False

    User.objects.create_superuser("ada")
    with own_site({City: Reading, Hotel: ModelAdmin, Booking: Closed}) as own:
        admin_tools(own, server=make_server("office"), exclude=["travel.hotel"])
        admin = described(who="ada")
        assert [entry["verb"] for entry in admin["models"][0]["absent"]] == ["history", "add", "change", "delete"]
        said = inspect(who="ada")
    assert "- no tool to history: not in mcp of its ModelAdmin" in said
    assert "not offered: travel.Hotel (excluded by admin_tools(exclude=…))" in said
    assert "not offered: travel.Booking (its ModelAdmin says mcp = False)" in said


def test_a_list_that_fails_is_said_and_the_rest_is_shown(office: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: Any) -> Any:
        raise RuntimeError("no such index")

    monkeypatch.setattr(site.get_model_admin(models.Tag), "get_queryset", fail)
    said = inspect()
    assert "its list fails: " in said
    assert "search_orders" in said


def test_what_pages_write_while_they_are_inspected_is_rolled_back(
    office: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin: Any = site.get_model_admin(models.Customer)

    def counted(request: Any) -> Any:
        models.Tag.objects.create(name="visit")
        return type(admin).get_queryset(admin, request)

    monkeypatch.setattr(admin, "get_queryset", counted)
    assert "columns: name" in inspect("back_office.customer")
    assert not models.Tag.objects.filter(name="visit").exists()


def test_who_is_not_staff_is_told_so(office: MCPServer) -> None:
    assert "DENIED: this user is not staff; no tool of it exists for this caller" in inspect(who="outsider")
    assert described(who="outsider")["models"] == []


def test_an_endpoint_that_does_not_admit_the_user_is_said(make_server: Make, people: SimpleNamespace) -> None:
    admin_tools(site, server=make_server("office", user_passes_test=lambda user: False))
    assert "DENIED: the endpoint does not admit this user" in inspect()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--as", "nobody"], "There is no user 'nobody'"),
        (
            ["--as", "boss", "shop.order"],
            "There are no tools of an admin for 'shop.order'. There are some for: auth",
        ),
        ([], "--admin shows the admin of one person: add --as USERNAME"),
    ],
)
def test_what_does_not_fit_is_refused(office: MCPServer, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("mcp_inspect", "--admin", *arguments)


def test_an_endpoint_without_an_admin_is_said(make_server: Make) -> None:
    User.objects.create_superuser("boss")
    make_server("office")
    with pytest.raises(CommandError, match="No admin is offered at office: add admin_tools"):
        inspect()


def test_permissions_of_now_count(office: MCPServer, people: SimpleNamespace) -> None:
    assert not model(described("back_office.supplier", who="clerk"), "back_office.Supplier")["columns"]
    people.clerk.user_permissions.add(Permission.objects.get(codename="view_supplier"))
    assert model(described("back_office.supplier", who="clerk"), "back_office.Supplier")["columns"]


def test_without_the_option_a_hidden_tool_leads_to_it(office: MCPServer) -> None:
    output = io.StringIO()
    call_command("mcp_inspect", "--server", "office", "--as", "clerk", stdout=output)
    assert (
        "- delete_club  [destructive, requires approval]  hidden: decided by the admin; see mcp_inspect --admin"
        in output.getvalue()
    )
