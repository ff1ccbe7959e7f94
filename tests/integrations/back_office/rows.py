"""Rows of the shop, and the users who look at them."""

import datetime
import uuid
from decimal import Decimal
from types import SimpleNamespace

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from tests.integrations.back_office import models

CLERK = (
    "view_product change_product add_product delete_product view_category view_variant change_variant add_variant "
    "view_order change_order add_order delete_order view_orderline view_customer view_tag add_tag view_note "
    "change_membership view_club delete_customer view_liveproduct change_person"
)


def make_people() -> SimpleNamespace:
    """Return users by role."""
    people = {
        "superuser": User.objects.create_superuser("boss", "boss@example.com", "x"),
        "clerk": User.objects.create_user("clerk", is_staff=True, first_name="Cleo", last_name="Clerk"),
        "viewer": User.objects.create_user("viewer", is_staff=True),
        "outsider": User.objects.create_user("outsider"),
    }
    grant(people["clerk"], CLERK)
    grant(people["viewer"], "view_product view_order view_label")
    grant(people["outsider"], CLERK)
    return SimpleNamespace(**{role: User.objects.get(pk=user.pk) for role, user in people.items()})


def grant(user: User, names: str) -> None:
    own = Permission.objects.filter(content_type__app_label="back_office", codename__in=names.split())
    user.user_permissions.set(own)


def make_rows(user: User) -> None:
    """Fill the tables: few rows, but of each kind."""
    books, toys = (models.Category.objects.create(name=name) for name in ("Books", "Toys"))
    models.Category.objects.create(name="Poetry", parent=books)
    new, old = (models.Tag.objects.create(name=name) for name in ("new", "old"))
    supplier = models.Supplier.objects.create(id=uuid.UUID(int=1), name="Acme")
    for code in ("plain", "a/b_c", "ä ö"):
        models.Label.objects.create(code=code, text=f"Label {code}")
    noon = datetime.datetime(2026, 2, 3, 12, 30, 15, 123456, tzinfo=datetime.UTC)
    products = [
        models.Product.objects.create(
            name=f"Product {number}",
            sku=f"P-{number}",
            price=Decimal(number),
            cost=Decimal("0.50") if number % 2 else None,
            stock=number,
            is_live=number % 2 == 0,
            is_checked=[None, True, False][number % 3],
            kind=["book", "toy"][number % 2],
            size=[None, 1, 2][number % 3],
            category=toys if number % 2 else books,
            supplier=supplier if number == 1 else None,
            description="First line\nsecond & <b>line</b>" if number == 1 else "",
            data={"made": "by hand", "list": [1, None]},
            released=noon.date() if number < 3 else None,
            sold_at=noon if number == 1 else None,
            opens=noon.time().replace(microsecond=0) if number == 1 else None,
            lasts=datetime.timedelta(hours=3) if number == 1 else None,
        )
        for number in range(1, 6)
    ]
    products[0].tags.set([new, old])
    models.Variant.objects.create(product=products[0], name="red", price=Decimal(3))
    models.Variant.objects.create(product=products[0], name="blue")
    models.Note.objects.create(about=products[0], text="Look at this")
    models.Download.objects.create(name="Song", sku="D-1", price=1, category=books, address="x.mp3")
    anna = models.Customer.objects.create(name="Anna", api_key="secret-1", salary=100)
    models.Customer.objects.create(name="Bert", is_active=False)
    orders = [
        models.Order.objects.create(number=f"O-{number}", customer=anna, placed=noon, status=status)
        for number, status in enumerate(("open", "paid"), 1)
    ]
    models.OrderLine.objects.create(order=orders[0], product=products[0], quantity=2)
    ada, ben = (models.Person.objects.create(name=name) for name in ("Ada", "Ben"))
    models.Badge.objects.create(code="B1", person=ada)
    clubs = [models.Club.objects.create(name=name) for name in ("Reds", "Blues")]
    models.Membership.objects.create(club=clubs[0], person=ada, since=noon.date())
    models.Membership.objects.create(club=clubs[0], person=ben)
    clubs[0].fans.add(ben)
    models.Match.objects.create(home=clubs[0], guest=clubs[1], result="1:0")
    LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(models.Product),
        object_id=str(products[0].pk),
        object_repr="Product 1",
        action_flag=CHANGE,
        change_message='[{"changed": {"fields": ["Price"]}}]',
        action_time=timezone.now(),
    )
