"""Compares the admin of a site with two databases with its tools, and prints what differs."""

import json
import sys

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402 - needs the apps
from django.core.management import call_command  # noqa: E402 - likewise
from django.test.utils import setup_test_environment  # noqa: E402 - likewise

from django_mcp.test.admin import effects, walk  # noqa: E402 - likewise
from django_mcp.test.admin.database import trial  # noqa: E402 - likewise
from tests.integrations.back_office import models  # noqa: E402 - likewise
from tests.integrations.back_office.shop import site  # noqa: E402 - likewise

setup_test_environment()
for alias in ("default", "second"):
    call_command("migrate", run_syncdb=True, verbosity=0, database=alias)
boss = User.objects.create_superuser("boss")
anna = models.Customer.objects.create(name="Anna")
models.Order.objects.create(number="O-1", customer=anna)
for name in ("new", "old"):
    models.Tag.objects.create(name=name)
ada, ben = (models.Person.objects.create(name=name) for name in ("Ada", "Ben"))
reds = models.Club.objects.create(name="Reds")
models.Membership.objects.create(club=reds, person=ada)

walked = walk(site, boss, only=[models.Tag, models.Order, models.Club, models.Person], links=2)
saved = effects(site, boss, only=[models.Tag, models.Person])
with trial(lambda: None) as changes:
    models.Tag.objects.filter(name="new").update(name="other")
told = {
    "differences": [str(difference) for difference in (*walked, *saved)],
    "walked": walked.compared,
    "saved": saved.compared,
    "is_rolled_back": sorted(models.Tag.objects.values_list("name", flat=True)) == ["new", "old"],
    "found_in_second": [f"table {table}" for table in changes.tables],
}
sys.stdout.write(json.dumps(told))
