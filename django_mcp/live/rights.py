"""Whose rights change: users, groups and permissions as Django's signals tell of them.

Each listener hears of it in the name of its own user. Who is told is found out when something changes, and written into
the log with one statement, once it is committed.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.dispatch import receiver

from django_mcp.core.concurrency import on_event_loop
from django_mcp.core.database import tools_alias
from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import rights_changed
from django_mcp.live import changes
from django_mcp.live.revocation import REVOKED, topic, user_topic

OF_USERS = ("is_active", "is_staff", "is_superuser")
"""Fields of a user that rights depend on."""
MOST_USERS = 1000
"""Users told of one change one by one. Of what concerns more, everybody is told."""

UID = "django_mcp.live.rights"

_waiting: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, set[str] | None]] = WeakKeyDictionary()
"""For each connection the users of its transaction, and whose list of what is to be done on commit they are in: another
list is another transaction."""


# Telling


@receiver(rights_changed, dispatch_uid=UID)
def _on_rights_changed(users: Collection[str], **_: Any) -> None:
    """Tell of all that a transaction changes at once, when it is committed."""
    connection = transaction.get_connection(tools_alias())
    if on_event_loop() or not connection.in_atomic_block:
        _tell(set(users))
        return
    hooks, known = _waiting.get(connection, (None, None))
    if known is None or hooks is not connection.run_on_commit:
        known = set()
        _waiting[connection] = connection.run_on_commit, known
        transaction.on_commit(lambda: _tell(known), using=connection.alias)
    known.update(users)


def _tell(users: set[str]) -> None:
    told = sorted(map(user_topic, users)) if len(users) <= MOST_USERS else None
    changes.publish([entry for server in every_server() for entry in _entries(server, told, _asks_user)])


def renew_streams(kind: str, id: str) -> None:  # noqa: A002 - as ``Principal`` has it
    """Tell a caller's listeners that lists may be others, and end their streams.

    For what a credential allows: a stream knows that as it was when it was opened. The client opens another one.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    caller = topic(kind, id)
    entries = [entry for server in every_server() for entry in _entries(server, [caller], bool)]
    changes.publish([*entries, (caller, REVOKED)])


def _entries(
    server: MCPServer, told: Collection[str] | None, depends: Callable[[Collection[Any]], bool]
) -> Iterable[tuple[str, Any]]:
    """For the log: of each list that depends on what changed."""
    for kind, primitives in server.lists().items():
        if depends(primitives):
            message = {"method": changes.list_changed_method(kind), "params": {}}
            yield changes.topic(server), message if told is None else {**message, "for": list(told)}


def _asks_user(primitives: Iterable[Any]) -> bool:
    return any(each.asks_user for each in primitives)


def _is_of_interest() -> bool:
    """Whether any list depends on users, so that there is reason to ask the database about them."""
    return any(_asks_user(primitives) for server in every_server() for primitives in server.lists().values())


# Hearing


def connect() -> None:
    """Hear of users, and of groups and permissions where the user model has them."""
    user = get_user_model()
    pre_save.connect(_user_is_saved, sender=user, dispatch_uid=UID)
    post_save.connect(_user_was_saved, sender=user, dispatch_uid=UID)
    for name in ("groups", "user_permissions"):
        if through := getattr(getattr(user, name, None), "through", None):
            m2m_changed.connect(_users_changed, sender=through, dispatch_uid=UID)
    if apps.is_installed("django.contrib.auth"):
        from django.contrib.auth.models import Group, Permission  # noqa: PLC0415 - only where they are installed

        m2m_changed.connect(_groups_changed, sender=Group.permissions.through, dispatch_uid=UID)
        post_save.connect(_group_was_saved, sender=Group, dispatch_uid=UID)
        for model in (Group, Permission):
            pre_delete.connect(_is_deleted, sender=model, dispatch_uid=UID)


def differs(instance: models.Model, names: Iterable[str], update_fields: Collection[str] | None) -> bool:
    """Whether fields of a row that is about to be saved are other ones than in the database. At most one query."""
    own = {field.name for field in instance._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
    names = [name for name in names if name in own and (update_fields is None or name in update_fields)]
    if instance._state.adding or not names:  # noqa: SLF001 - likewise
        return False
    rows = type(instance)._base_manager.using(instance._state.db)  # noqa: SLF001 - likewise
    before = rows.filter(pk=instance.pk).values(*names).first()
    return before is not None and any(getattr(instance, name) != value for name, value in before.items())


def _user_is_saved(instance: Any, update_fields: Any, raw: bool, **_: Any) -> None:
    instance._django_mcp_differs = (  # noqa: SLF001 - ours
        not raw and _is_of_interest() and differs(instance, OF_USERS, update_fields)
    )


def _user_was_saved(instance: Any, **_: Any) -> None:
    if vars(instance).pop("_django_mcp_differs", False):
        _changed_of([instance.pk])


def _users_changed(instance: Any, action: str, reverse: bool, pk_set: Collection[Any] | None, **_: Any) -> None:
    """Groups or permissions of users, from either side; what is cleared is asked for while it is there."""
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _changed_of([instance.pk])
    elif pk_set is not None:
        _changed_of(pk_set)
    else:
        _changed_having(instance)


def _groups_changed(instance: Any, action: str, reverse: bool, pk_set: Collection[Any] | None, **_: Any) -> None:
    """Permissions of groups, from either side."""
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _changed_having(instance)
    elif _is_of_interest():
        groups = instance.group_set.values("pk") if pk_set is None else pk_set
        _changed_of(_users(groups__in=groups))


def _group_was_saved(instance: Any, created: bool, **_: Any) -> None:
    if not created:
        _changed_having(instance)


def _is_deleted(instance: Any, **_: Any) -> None:
    _changed_having(instance)


def _changed_having(instance: Any) -> None:
    """The users of a group or permission, by whichever way they have it."""
    if not _is_of_interest():
        return
    if instance._meta.model_name == "group":  # noqa: SLF001 - Django's documented API
        _changed_of(_users(groups=instance))
    else:
        _changed_of(_users(models.Q(user_permissions=instance) | models.Q(groups__permissions=instance)))


def _users(*wanted: models.Q, **more: Any) -> list[Any]:
    """One more than is told one by one, at most."""
    rows = get_user_model()._base_manager.filter(*wanted, **more).order_by()  # noqa: SLF001 - Django's documented API
    return list(rows.values_list("pk", flat=True).distinct()[: MOST_USERS + 1])


def _changed_of(pks: Iterable[Any]) -> None:
    if users := [str(pk) for pk in pks]:
        rights_changed.send(sender=None, users=users)
