"""``docs/cookbook/tenants.md``: its code keeps the rows of one company from another, over every way to them."""

from pathlib import Path

import pytest

from tests.docs.test_blocks import Site, code_of

HERE = """

@register(Company)
class CompanyHere(HostTenantResource):
    company = "pk"
    fields = ["name"]
"""
TESTS = """
from decimal import Decimal

from django.contrib.auth.models import User
from django.test import TestCase
from django_mcp.test import MCPClient
from library.models import Company, Invoice, Project


class TenantTests(TestCase):
    @classmethod
    def setUpTestData(cls):
        for name, person in {"acme": "ann", "bolt": "ben"}.items():
            company = Company.objects.create(name=name, host=f"{name}.example.com")
            company.members.add(User.objects.create_user(person))
            project = Project.objects.create(company=company, title=f"Bridge of {name}")
            Invoice.objects.create(project=project, total=Decimal("10.00"))
        cls.both = User.objects.create_user("both")
        cls.both.companies.add(*Company.objects.all())
        cls.theirs = Project.objects.get(company__name="bolt")

    def setUp(self):
        self.ann = MCPClient(User.objects.get(username="ann"))

    def test_only_rows_of_ones_own_company_are_there(self):
        found = self.ann.call("search_projects", query="bridge").assert_ok().structured
        self.assertEqual([row["title"] for row in found["rows"]], ["Bridge of acme"])
        for never in (self.theirs.pk, 999):
            self.ann.read(f"library://project/{never}").assert_error_mentions("not found")
            self.ann.call("billed_amount", project=never).assert_error_mentions("No project with")
        self.assertEqual(len([each for each in self.ann.resources() if "project/" in each["uri"]]), 1)

    def test_sums_are_of_what_the_caller_may_see(self):
        rows = self.ann.call("aggregate_invoices", measures=["sum_total"]).assert_ok().text
        self.assertIn("10.00", rows)
        self.assertNotIn("20.00", rows)

    def test_nothing_is_written_for_another_company(self):
        self.ann.call("create_invoice", project=self.theirs.pk, total="5.00").assert_error_mentions("project")
        own = Invoice.objects.get(project__company__name="acme")
        self.ann.call("update_invoice", pk=own.pk, project=self.theirs.pk).assert_error_mentions("project")
        self.assertEqual(Invoice.objects.filter(project=self.theirs).count(), 1)

    def test_nobody_who_is_nobody_sees_anything(self):
        found = MCPClient().call("search_projects").assert_ok().structured
        self.assertEqual(found["rows"], [])

    def test_a_host_shows_its_own_company_to_those_who_work_for_two(self):
        for name in ("acme", "bolt"):
            client = MCPClient(self.both, headers={"host": f"{name}.example.com"})
            found = client.call("search_companies").assert_ok().structured
            self.assertEqual([row["name"] for row in found["rows"]], [name])
        client = MCPClient(User.objects.get(username="ann"), headers={"host": "bolt.example.com"})
        self.assertEqual(client.call("search_companies").structured["rows"], [])

    def test_a_subscriber_hears_of_the_company_whose_address_was_called(self):
        acme, bolt = Company.objects.order_by("name")
        client = MCPClient(self.both, headers={"host": "acme.example.com"})
        with client.subscribe(f"library://company/{acme.pk}") as heard:
            for company in (acme, bolt):
                company.save()
        self.assertEqual(heard.updated, [f"library://company/{acme.pk}"])
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A project with the page's code in it, and a resource of the last kind."""
    site = Site(tmp_path)
    models, *rest = code_of("tenants.md")
    site.append("library/models.py", models)
    site.append("library/mcp.py", "\n\n".join(rest) + HERE)
    own = '{"AUTHENTICATION": ["django_mcp.AllowAny"], "REQUIRE_APPROVAL_FOR": None}'
    site.append(
        "mysite/settings.py",
        f'INSTALLED_APPS += ["django_mcp"]\nDJANGO_MCP = {own}\nALLOWED_HOSTS += [".example.com"]\n',
    )
    site.append(
        "mysite/urls.py", 'from django.urls import include\nurlpatterns += [path("", include("django_mcp.urls"))]'
    )
    Path(site.path / "library/tests.py").write_text(TESTS)
    return site


def test_no_company_learns_of_another_and_the_checks_know_of_no_fault(site: Site) -> None:
    _, found, _ = site.commands("makemigrations library", "check", "test library")
    assert "no issues" in found
