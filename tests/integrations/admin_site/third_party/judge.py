"""Compares the admins of packages with their tools, and prints the differences: ``judge.py PACKAGE … [--effects]``."""

import datetime
import json
import sys
import traceback
from typing import Any

import django

django.setup()

from django.contrib.auth.models import Permission, User  # noqa: E402 - needs the apps
from django.core.management import call_command  # noqa: E402 - likewise
from django.test.utils import setup_test_environment  # noqa: E402 - likewise

from django_mcp.test.admin import Endpoint, effects, walk  # noqa: E402 - likewise
from tests.integrations.admin_site.third_party import models, urls  # noqa: E402, F401 - likewise
from tests.integrations.admin_site.third_party.admin import PACKAGES, site  # noqa: E402 - likewise
from tests.testing.admin.reasons import is_known  # noqa: E402 - likewise


def make_rows() -> None:
    """Give each model two rows, and rows that belong to them."""
    for name in ("Ada", "Ben"):
        for model in (
            *(models.Imported, models.Versioned, models.Recorded, models.Guarded, models.Suffixed, models.Outer),
            *(models.Drawing, models.Acted, models.Confirmed, models.Pressed, models.Queried, models.Kept),
            *(models.Ordered, models.Stated, models.Tagged, models.Rich, models.Special, models.Themed),
        ):
            model.objects.create(name=name)
        models.Ranged.objects.create(name=name, day=datetime.date(2026, 2, 3))
        models.Paid.objects.create(name=name, price=3)
    models.VersionedPart.objects.create(name="part", versioned=models.Versioned.objects.first())
    models.RecordedPart.objects.create(name="part", recorded=models.Recorded.objects.first())
    models.PressedPart.objects.create(name="part", owner=models.Pressed.objects.first())
    models.ThemedPart.objects.create(name="part", themed=models.Themed.objects.first())
    models.Kept.objects.get(name="Ben").delete()
    models.Tagged.objects.get(name="Ada").tags.add("old", "new")
    models.Single.get_solo()
    middle = models.Middle.objects.create(name="middle", outer=models.Outer.objects.first())
    models.Inner.objects.create(name="inner", middle=middle)
    trunk = models.Branch.objects.create(name="trunk")
    models.Branch.objects.create(name="twig", parent=trunk)
    for node in (models.PathNode, models.SetNode, models.ListNode):
        node.add_root(name="root").add_child(name="child")
    models.Circle.objects.create(name="circle", radius=2)
    models.Square.objects.create(name="square", side=3)
    drawing = models.Drawing.objects.first()
    models.Pen.objects.create(drawing=drawing, ink="blue")
    models.Brush.objects.create(drawing=drawing, hair="fine")
    for number, name in enumerate(("first", "second"), 1):
        row = models.Sorted.objects.create(name=name, place=number)
        models.SortedPart.objects.create(name=f"part of {name}", owner=row, place=1)
    for code in ("a", "b"):
        models.Translated.objects.language("en").create(code=code, title=f"Title {code}")
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask  # needs the apps

    every = IntervalSchedule.objects.create(every=10, period="seconds")
    CrontabSchedule.objects.create()
    PeriodicTask.objects.create(name="ping", task="ping", interval=every)
    from filer.models import File, Folder  # likewise

    folder = Folder.objects.create(name="folder")
    File.objects.create(name="file", folder=folder)


def people() -> dict[str, Any]:
    """Return a superuser and somebody who may change and view, but not add or delete."""
    boss = User.objects.create_superuser("boss", "boss@example.com", "x")
    clerk = User.objects.create_user("clerk", is_staff=True)
    own = Permission.objects.filter(content_type__app_label="third_party", codename__regex="^(view|change)_")
    clerk.user_permissions.set(own)
    return {"superuser": boss, "clerk": User.objects.get(pk=clerk.pk)}


def judged(package: str, role: str, user: Any, *, saves: bool) -> dict[str, Any]:
    """Return what was compared and what differs for the models of a package."""
    told: dict[str, Any] = {"package": package, "role": role, "compared": {}, "differences": [], "unexplained": []}
    for model in PACKAGES[package]:
        try:
            every = [walk(site, user, Endpoint(site, user), only=[model], links=6)]
            every += [effects(site, user, Endpoint(site, user), only=[model])] if saves else []
        except Exception:  # noqa: BLE001 - it is printed
            told["unexplained"].append(f"{model._meta.label}: {traceback.format_exc()}")
            continue
        for found in every:
            for name, number in found.compared.items():
                told["compared"][name] = told["compared"].get(name, 0) + number
            told["differences"] += [vars(difference) for difference in found]
            told["unexplained"] += [str(difference) for difference in found if not is_known(package, difference)]
    return told


if __name__ == "__main__":
    setup_test_environment()
    call_command("migrate", run_syncdb=True, verbosity=0)
    given = [name for name in sys.argv[1:] if not name.startswith("--")]
    users = people()
    make_rows()
    for package in given or PACKAGES:
        for role, user in users.items():
            found = judged(package, role, user, saves="--effects" in sys.argv and role == "superuser")
            sys.stdout.write(json.dumps(found, default=repr) + "\n")
            sys.stdout.flush()
