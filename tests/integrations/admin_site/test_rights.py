"""Rights are given by another person, who reads what would be gained."""

from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ImproperlyConfigured

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


class Members(admin.TabularInline):
    model = User.groups.through
    extra = 0


class CityAdmin(admin.ModelAdmin):
    inlines = (Members,)


@pytest.fixture
def office(make_server: Make, policies: None) -> MCPServer:
    server: MCPServer = make_server("office", search_tools=0)
    admin_tools(server=server)
    return server


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", "boss@example.com", "x")


@pytest.fixture
def ben() -> User:
    return User.objects.create_user("ben", password="x")


def preview() -> Any:
    return Approval.objects.latest("pk").preview


def gained() -> Any:
    return next(change["after"] for change in preview()["changes"] if change["field"] == "gained")


@pytest.mark.parametrize("approval", ["self", "other"])
def test_rights_are_never_given_by_who_asks_for_them(make_server: Make, approval: Any) -> None:
    site = AdminSite("rights")
    for model, page in ((User, UserAdmin), (Group, GroupAdmin), (City, CityAdmin), (Hotel, admin.ModelAdmin)):
        site.register(model, page)
    site.register(Permission)
    server = make_server("office", search_tools=0)
    admin_tools(site, only=["auth", "travel", "auth.permission"], approval=approval, server=server)
    own = {name for name, tool in server.tools.items() if name.startswith("change") and tool.self_approval}
    assert own == ({"change_hotel"} if approval == "self" else set())
    assert all(tool.self_approval is not None for name, tool in server.tools.items() if not name.startswith("admin_"))


def test_a_superuser_does_not_decide_their_own_change_of_a_user(office: MCPServer, boss: User, ben: User) -> None:
    client = MCPClient(boss, server=office)
    client.call("change_user", pk=ben.pk, is_superuser=True).assert_needs_approval()
    assert not approve(Approval.objects.get(), boss, in_admin=True)
    assert not User.objects.get(pk=ben.pk).is_superuser
    assert gained() == ["all permissions, as a superuser"]


def test_an_approver_reads_what_a_user_would_gain_also_through_groups(office: MCPServer, boss: User, ben: User) -> None:
    change, view, delete = (Permission.objects.get(codename=f"{verb}_hotel") for verb in ("change", "view", "delete"))
    desk = Group.objects.create(name="desk")
    desk.permissions.set([change, view])
    ben.user_permissions.set([view])
    client = MCPClient(boss, server=office)
    given = {"groups": [desk.pk], "user_permissions": [view.pk, delete.pk]}
    client.call("change_user", pk=ben.pk, **given).assert_needs_approval()
    assert gained() == sorted([str(change), str(delete)])
    client.call("change_group", pk=desk.pk, permissions=[view.pk]).assert_needs_approval()
    assert not any(change["field"] == "gained" for change in preview()["changes"])
    client.call("add_group", name="cleaners", permissions=[view.pk]).assert_needs_approval()
    assert gained() == [str(view)]


class Staffing(forms.ModelForm):
    """Gives the groups of a hotel's staff rights, as nothing but the form says."""

    teams = forms.ModelMultipleChoiceField(Group.objects.all(), required=False)

    class Meta:
        model = Hotel
        fields = ("price",)


class StaffedHotels(admin.ModelAdmin):
    form = Staffing


def test_a_page_that_turns_out_to_give_rights_is_not_its_requesters_to_approve(
    make_server: Make, policies: None, boss: User
) -> None:
    hotel = make_hotel(make_city())
    desk = Group.objects.create(name="desk")
    desk.permissions.set([Permission.objects.get(codename="change_hotel")])
    with own_site({Hotel: StaffedHotels}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server)
        client = MCPClient(boss, server=server, protocol_version="modern")
        client.call("change_hotel", pk=hotel.pk, teams=[desk.pk]).assert_needs_approval()
        assert not approve(Approval.objects.latest("pk"), boss, in_admin=True)
        client.call("change_hotel", pk=hotel.pk, price="5").assert_needs_approval()
        assert approve(Approval.objects.latest("pk"), boss, in_admin=True), "the page's other calls are theirs"


@pytest.mark.parametrize("options", [{"approval": "nobody"}, {"self_approval": True}])
def test_whose_approval_is_said_in_one_way(make_server: Make, options: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="approval must be one of 'self', 'other'"):
        admin_tools(server=make_server("office"), **options)
