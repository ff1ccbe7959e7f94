"""``mcp_doctor --admin``: the tools of an admin compared with its pages, on the site's own database."""

import io
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.http import HttpResponse

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.integrations.admin_site import changelist
from django_mcp.models import RequestLog
from django_mcp.test.admin.database import dump
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
def office(make_server: Make, people: SimpleNamespace) -> MCPServer:
    server = make_server("office")
    admin_tools(site, server=server, only=["back_office.order", "back_office.customer"])
    return server


def doctor(*arguments: str) -> tuple[int, str]:
    """Return the exit code, and what was printed, on one line."""
    output = io.StringIO()
    try:
        call_command("mcp_doctor", "--admin", "--server", "office", *arguments, stdout=output)
    except SystemExit as end:
        return int(str(end.code)), " ".join(output.getvalue().split())
    return 0, " ".join(output.getvalue().split())


def test_an_admin_whose_tools_show_what_its_pages_show_is_fine(office: MCPServer) -> None:
    code, said = doctor("--as", "boss")
    assert (code, said.endswith("No problems found.")) == (0, True), said
    assert "compared as boss (2 lists, " in said
    assert "2 add pages" in said
    document = json.loads(doctor("--json", "--as", "clerk")[1])
    seen, differing = document["checks"]
    assert (document["severity"], seen["name"], differing["name"]) == ("ok", "admin", "differences")
    assert "compared as clerk" in seen["findings"][0]["message"]


def test_a_difference_names_the_page_and_the_call(office: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = changelist.row_of
    monkeypatch.setattr(changelist, "row_of", lambda *given: {**honest(*given), "number": "O-9"})
    code, said = doctor()  # as the first superuser that there is
    assert code == 1
    assert re.search(r"compared as \w+ \(2 lists, ", said)
    assert "/back_office/back_office/order/?status__exact=open and `search_orders" in said
    assert '{"filters": {"status": "open"}}` differ: column 1 of' in said
    assert "'O-1' in a browser, 'O-9' from the tool" in said


def test_a_value_that_is_a_secret_is_not_printed(office: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_mcp.integrations.admin_site.changeform import FormPage

    honest = FormPage.page_form

    def dishonest(self: Any) -> Any:
        form = honest(self)
        form.pairs = [(name, f"{value}x" if name == "api_key" else value) for name, value in form.pairs]
        return form

    monkeypatch.setattr(FormPage, "page_form", dishonest)
    code, said = doctor()
    assert code == 1
    assert "control api_key: *** in a browser, *** from the tool" in said
    assert "secret-1" not in said


def test_it_leaves_nothing_in_the_database_not_even_what_a_page_writes(
    office: MCPServer, people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin: Any = site.get_model_admin(models.Order)
    visits: list[str] = []

    def counted(request: Any) -> Any:
        visits.append(request.path)
        models.Tag.objects.create(name=f"visit {len(visits)}")
        return type(admin).get_queryset(admin, request)

    monkeypatch.setattr(admin, "get_queryset", counted)
    before, logins = dump(), [*User.objects.values_list("last_login")]
    counts = [model.objects.count() for model in (Session, RequestLog, LogEntry)]
    assert doctor()[0] == 0
    assert visits
    assert dump() == before
    assert [*User.objects.values_list("last_login")] == logins
    assert [model.objects.count() for model in (Session, RequestLog, LogEntry)] == counts


def test_it_works_where_only_the_sites_own_host_is_allowed_and_calls_are_limited(
    office: MCPServer, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["shop.example.com"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "RATE_LIMIT": "1/d"}
    code, said = doctor()
    assert (code, said.endswith("No problems found.")) == (0, True), said


def test_what_a_declaration_leaves_out_is_no_difference(make_server: Make, people: SimpleNamespace) -> None:
    server = make_server("office")
    admin_tools(site, server=server, only=["back_office.tag"], write=False)
    code, said = doctor()
    assert (code, said.endswith("No problems found.")) == (0, True), said
    assert "add page" not in said


class Folder(ModelAdmin):
    """Shows something else than a list."""

    def changelist_view(self, request: Any, extra_context: Any = None) -> HttpResponse:
        return HttpResponse('<table id="result_list"><tbody><tr><td>A folder</td></tr></tbody></table>')


def test_a_page_that_is_no_list_is_named_and_the_others_are_compared(make_server: Make) -> None:
    User.objects.create_superuser("boss")
    with own_site({City: Folder, Hotel: ModelAdmin}) as own:
        admin_tools(own, server=make_server("office"))
        code, said = doctor("--as", "boss")
    assert code == 0
    assert "warning admin.unread: The pages of travel.City cannot be compared" in said
    assert "Differences warning: admin.unread" in said
    assert "compared as boss (1 list, " in said


def test_who_is_not_staff_is_told_so(office: MCPServer) -> None:
    code, said = doctor("--as", "outsider")
    assert code == 0
    assert "The admin back_office does not admit outsider." in said
    assert "refused in both" in said


def test_an_admin_that_wants_more_than_a_session_is_told(
    office: MCPServer, people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "has_permission", lambda request: not request.COOKIES)
    code, said = doctor()
    assert code == 1
    assert "admin.closed: The admin cannot be visited: /back_office/ answers HTTP 302" in said


def test_an_endpoint_without_an_admin_is_told(make_server: Make, people: SimpleNamespace) -> None:
    make_server("office")
    code, said = doctor()
    assert code == 1
    assert "The endpoint office offers no admin" in said


def test_an_admin_without_urls_is_told(office: MCPServer, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.management.admin_alone"
    code, said = doctor()
    assert code == 1
    assert "No URL leads to the admin back_office." in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--as", "nobody"], "There is no user 'nobody'"),
        (["--key", "x"], "no URL and no --key"),
        (["https://example.com/mcp"], "no URL and no --key"),
    ],
)
def test_what_does_not_fit_is_refused(office: MCPServer, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        doctor(*arguments)


def test_without_a_superuser_somebody_has_to_be_named(office: MCPServer) -> None:
    User.objects.filter(is_superuser=True).update(is_active=False)
    with pytest.raises(CommandError, match="There is no active superuser: say with --as USERNAME"):
        doctor()
