"""The sample data, loaded once in a process: other tables keep a copy, for after a test that emptied the database."""

import datetime

from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import Model

from demo_project.travel.management.commands.load_travel import allowed
from demo_project.travel.models import City
from demo_project.travel.sample_users import SAMPLE_USERS

TODAY = datetime.date(2026, 6, 15)
MODELS: list[type[Model]] = [*apps.get_app_config("travel").get_models(include_auto_created=True)]
NAMES = [each.username for each in SAMPLE_USERS]


def is_there() -> bool:
    return City.objects.exists() and User.objects.filter(username__in=NAMES).count() == len(NAMES)


def load() -> None:
    """Load the data, and keep a copy of what was loaded into an empty database."""
    is_whole = not City.objects.exists()
    call_command("load_travel", today=TODAY, verbosity=0)
    if not is_whole:
        return
    marks = ", ".join(["%s"] * len(NAMES))
    with connection.cursor() as cursor:
        for model in [*MODELS, User]:
            cursor.execute(f"DROP TABLE IF EXISTS {copy_of(model)}")
            cursor.execute(f"CREATE TABLE {copy_of(model)} AS SELECT * FROM {model._meta.db_table}")
        cursor.execute(f"DELETE FROM {copy_of(User)} WHERE username NOT IN ({marks})", NAMES)


def put_back() -> bool:
    """Copy the data back into empty tables; False where there is no copy, or rows are in the way."""
    if copy_of(User) not in connection.introspection.table_names():
        return False
    if User.objects.filter(username__in=NAMES).exists() or any(each._base_manager.exists() for each in MODELS):
        return False
    try:
        with transaction.atomic():
            copy_back()
    except IntegrityError:
        return False
    return True


def copy_back() -> None:
    with connection.cursor() as cursor:
        for model in [User, *MODELS]:
            columns = ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields)
            cursor.execute(f"INSERT INTO {model._meta.db_table} ({columns}) SELECT {columns} FROM {copy_of(model)}")
    # Permissions have other keys after the database was emptied.
    for each in SAMPLE_USERS:
        if each.role in {"agent", "trainee"}:
            permissions = Permission.objects.filter(allowed(each.role))
            User.objects.get(username=each.username).user_permissions.set(permissions)


def empty() -> None:
    """Delete the agency's rows, all tables at once, which asks nobody what else hangs on them."""
    for model in MODELS:
        model._base_manager.all()._raw_delete(using="default")


def copy_of(model: type[Model]) -> str:
    return f"kept_{model._meta.db_table}"
