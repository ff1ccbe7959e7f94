"""Receivers that publish changes: of lists, resources and permissions, and after an autoreload.

Sessions survive an autoreload, and clients are notified that lists may have changed.
"""

import json
import logging
from collections.abc import Collection, Iterable
from functools import partial, reduce
from operator import or_
from typing import Any
from weakref import WeakKeyDictionary

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist
from django.db import DatabaseError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.dispatch import receiver
from django.utils.autoreload import autoreload_started

from django_mcp.core import database
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.concurrency import on_event_loop
from django_mcp.core.database import tools_alias
from django_mcp.core.server import MCPServer, every_server, servers
from django_mcp.core.signals import (
    Change,
    classes_of,
    differs,
    list_changed,
    resource_updated,
    rights_changed,
    rows_changed,
)
from django_mcp.pubsub.publish import (
    KINDS,
    UPDATED,
    append_if_migrated,
    in_background,
    list_changed_method,
    list_events,
    publish,
    server_topic,
    user_topic,
)

logger = logging.getLogger("django_mcp")


@receiver(list_changed, dispatch_uid="django_mcp.pubsub.changes")
def _on_list_changed(sender: MCPServer, kind: str, **_: Any) -> None:
    publish([(server_topic(sender), {"method": list_changed_method(kind), "params": {}})])


@receiver(resource_updated, dispatch_uid="django_mcp.pubsub.changes")
def _on_resource_updated(sender: MCPServer, uri: str, **_: Any) -> None:
    publish([(server_topic(sender), {"method": UPDATED, "params": {"uri": uri}})])


@receiver(rows_changed, dispatch_uid="django_mcp.pubsub.changes")
def _on_rows_changed(changes: Iterable[Change], **_: Any) -> None:
    write = partial(
        append_if_migrated, [(server_topic(change.server), json.dumps(_message(change))) for change in changes]
    )
    if on_event_loop():
        in_background(write)
    else:
        write()


def _message(change: Change) -> dict[str, Any]:
    if change.uri is None:
        message: dict[str, Any] = {"method": list_changed_method("resources"), "params": {}}
    else:
        message = {"method": UPDATED, "params": {"uri": change.uri}}
    return {**message, "about": list(change.about)} if change.about else message


def connect_reloading() -> None:
    autoreload_started.connect(_notify_reloaded, dispatch_uid="django_mcp.pubsub.reloading")


def _notify_reloaded(**_: Any) -> None:
    if not apps.is_installed("django_mcp"):
        return  # runserver empties the registry of apps if one fails to start, and waits for a correction
    try:
        for server in servers():
            for kind in KINDS:
                server.notify_list_changed(kind)
    except DatabaseError as error:  # for example before the first migrate; the server must start anyway
        logger.warning("listening clients could not be notified of the reload: %s", error)
    finally:
        connections.close_all()  # not used again in the reloader's thread


OF_USERS = ("is_active", "is_staff", "is_superuser")
"""User fields that affect permissions."""


MAX_USERS = 1000
"""Maximum number of users one event addresses. A change of more users goes to everyone."""


# Weak, because connections are replaced.
_waiting: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, set[str] | None]] = clear_after_fork(WeakKeyDictionary())
"""Per connection, the users of a transaction, identified by its ``run_on_commit`` list."""


@receiver(rights_changed, dispatch_uid="django_mcp.pubsub.rights")
def _on_rights_changed(users: Collection[str], **_: Any) -> None:
    """Publish all changes of a transaction after commit."""
    connection = transaction.get_connection(tools_alias())
    if on_event_loop() or not connection.in_atomic_block:
        _publish_rights(set(users))
        return
    hooks, known = _waiting.get(connection, (None, None))
    # Django makes a new list for each transaction, and when a savepoint is rolled back, which may drop our function.
    if known is None or hooks is not connection.run_on_commit:
        known = set()
        _waiting[connection] = connection.run_on_commit, known
        transaction.on_commit(lambda: _publish_rights(known), using=connection.alias)
    known.update(users)


def _publish_rights(users: set[str]) -> None:
    addresses = sorted(map(user_topic, users)) if len(users) <= MAX_USERS else None
    publish([entry for server in every_server() for entry in list_events(server, addresses, _asks_user)])


def _asks_user(primitives: Iterable[Any]) -> bool:
    return any(primitive.asks_user for primitive in primitives)


def _depends_on_users() -> bool:
    # If no list depends on users, queries about them are skipped.
    return any(_asks_user(primitives) for server in every_server() for primitives in server.lists().values())


def connect_permissions() -> None:
    # Without a dispatch_uid that several receivers share: signals know a sender by its id() only, which may have been
    # that of a class that is gone.
    user = get_user_model()
    for model in classes_of(user):
        pre_save.connect(_before_user_save, sender=model)
        post_save.connect(_after_user_save, sender=model)
    # The user model may lack these fields, or relate to a site's own models.
    for name in ("groups", "user_permissions"):
        if through := getattr(getattr(user, name, None), "through", None):
            m2m_changed.connect(_on_users_changed, sender=through)
    group, permission = _related(user, "groups"), _related(user, "user_permissions")
    if through := getattr(getattr(group, "permissions", None), "through", None):
        m2m_changed.connect(_on_groups_changed, sender=through)
    for model in classes_of(group):
        post_save.connect(_after_group_save, sender=model)
    for model in (*classes_of(group), *classes_of(permission)):
        pre_delete.connect(_before_delete, sender=model)


def _related(user: Any, name: str) -> Any:
    try:
        return user._meta.get_field(name).related_model  # noqa: SLF001 - Django's documented API
    except FieldDoesNotExist:
        return None


def _permissions(group: Any) -> Any:
    return None if group is None else _related(group, "permissions")


def _before_user_save(instance: Any, update_fields: Any, raw: bool, **_: Any) -> None:
    instance._django_mcp_differs = (  # noqa: SLF001 - ours
        not raw and _depends_on_users() and differs(instance, OF_USERS, update_fields)
    )


def _after_user_save(instance: Any, **_: Any) -> None:
    if vars(instance).pop("_django_mcp_differs", False):
        _send_changed([instance.pk])


def _on_users_changed(instance: Any, action: str, reverse: bool, pk_set: Collection[Any] | None, **_: Any) -> None:
    # A clear must be handled before the rows are gone.
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _send_changed([instance.pk])
    elif pk_set is not None:
        _send_changed(pk_set)
    else:
        _send_changed_by(instance)


def _on_groups_changed(instance: Any, action: str, reverse: bool, pk_set: Collection[Any] | None, **_: Any) -> None:
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _send_changed_by(instance)
    elif _depends_on_users():
        group = _related(get_user_model(), "groups")
        groups = group._base_manager.filter(permissions=instance.pk).values("pk") if pk_set is None else pk_set  # noqa: SLF001
        _send_changed(_users(groups__in=groups))


def _after_group_save(instance: Any, created: bool, **_: Any) -> None:
    if not created:
        _send_changed_by(instance)


def _before_delete(instance: Any, **_: Any) -> None:
    _send_changed_by(instance)


def _send_changed_by(instance: Any) -> None:
    if not _depends_on_users():
        return
    group = _related(get_user_model(), "groups")
    if group is not None and isinstance(instance, group):
        _send_changed(_users(groups=instance.pk))
        return
    own = _related(get_user_model(), "user_permissions")
    ways = {"user_permissions": own, "groups__permissions": _permissions(group)}
    wanted = [models.Q(**{way: instance.pk}) for way, model in ways.items() if model and isinstance(instance, model)]
    if wanted:
        _send_changed(_users(reduce(or_, wanted)))


def _users(*wanted: models.Q, **more: Any) -> list[Any]:
    rows = get_user_model()._base_manager.filter(*wanted, **more).order_by()  # noqa: SLF001 - Django's documented API
    with database.unless_unmigrated():
        # One more than the limit, to detect that it is exceeded.
        return list(rows.values_list("pk", flat=True).distinct()[: MAX_USERS + 1])
    return []


def _send_changed(pks: Iterable[Any]) -> None:
    if users := [str(pk) for pk in pks]:
        rights_changed.send(sender=None, users=users)
