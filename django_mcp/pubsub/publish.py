"""Publishing of events: changed lists, resources and permissions, revoked access, autoreload.

Receivers are determined when something changes; one statement stores the events after commit. Each stream reads with
its own user's rights. Sessions survive an autoreload, and clients are notified that lists may have changed.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial, reduce
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
from django_mcp.core.concurrency import free_pool, on_event_loop, retry_database
from django_mcp.core.database import tools_alias
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, every_server, servers
from django_mcp.core.signals import Change, access_ended, list_changed, resource_updated, rights_changed, rows_changed
from django_mcp.pubsub import event_store

REVOKED = "revoked"
ACCOUNT = "account"
"""In place of ``Principal.kind``: all callers of one user."""


def revocation_topic(kind: str, id: str) -> str:  # noqa: A002 - as ``Principal`` has it
    """Return a caller's topic, whose events end its streams."""
    return f"caller:{kind}:{id}"


def user_topic(pk: object) -> str:
    return f"user:{pk}"


def topics_of(principal: Principal) -> tuple[str, ...]:
    """Return the topics whose events end a caller's streams: the caller's and the user's."""
    pk = getattr(principal.user, "pk", None)
    return (topic_of(principal),) if pk is None else (topic_of(principal), revocation_topic(ACCOUNT, str(pk)))


def end_streams_of_user(pk: object) -> None:
    end_streams(ACCOUNT, str(pk))


def end_streams(kind: str, id: str) -> None:  # noqa: A002
    """End a caller's streams in every process, once the transaction is committed.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    event_store.append([(revocation_topic(kind, id), REVOKED)])


def end_access(kind: str, id: str) -> None:  # noqa: A002
    """End streams and tasks after a credential was revoked.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    end_streams(kind, id)
    access_ended.send(sender=None, kind=kind, id=id)


def topic_of(principal: Principal) -> str:
    return revocation_topic(principal.kind, principal.id)


KINDS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
UNKNOWN: Mapping[str, Any] = {"method": "", "params": {}}
_background: set[asyncio.Future[Any]] = set()


def topic(server: MCPServer) -> str:
    return f"server:{server.name}"


def list_changed_method(kind: str) -> str:
    return f"notifications/{kind}/list_changed"


@lru_cache(maxsize=128)
def read(data: str) -> Mapping[str, Any]:
    """Decode an event, cached for all streams; do not modify it.

    Besides ``method`` and ``params`` it may have: ``about``, URIs of which a receiver must see one; ``for``, the only
    receivers (``names_of``); ``after``, seconds until every process knows the change, before which clients could read
    the old state.

    Data of another version that cannot be read becomes ``UNKNOWN``, to which no stream subscribes.
    """
    try:
        change = json.loads(data)
    except ValueError:
        return UNKNOWN
    if isinstance(change, dict):
        change = {**UNKNOWN, **change}
        if isinstance(change["method"], str) and isinstance(change["params"], dict):
            return change
    return UNKNOWN


def names_of(principal: Principal) -> frozenset[str]:
    """Return the names that address a caller."""
    pk = getattr(principal.user, "pk", None)
    return frozenset({topic_of(principal)} if pk is None else {topic_of(principal), user_topic(pk)})


@receiver(list_changed, dispatch_uid="django_mcp.live.changes")
def _on_list_changed(sender: MCPServer, kind: str, **_: Any) -> None:
    publish([(topic(sender), {"method": list_changed_method(kind), "params": {}})])


@receiver(resource_updated, dispatch_uid="django_mcp.live.changes")
def _on_resource_updated(sender: MCPServer, uri: str, **_: Any) -> None:
    publish([(topic(sender), {"method": UPDATED, "params": {"uri": uri}})])


@receiver(rows_changed, dispatch_uid="django_mcp.live.changes")
def _on_rows_changed(changes: Iterable[Change], **_: Any) -> None:
    write = partial(event_store.append, [(topic(change.server), json.dumps(_message(change))) for change in changes])
    if on_event_loop():
        _in_background(write)
    else:
        write()


def _message(change: Change) -> dict[str, Any]:
    if change.uri is None:
        message: dict[str, Any] = {"method": list_changed_method("resources"), "params": {}}
    else:
        message = {"method": UPDATED, "params": {"uri": change.uri}}
    return {**message, "about": list(change.about)} if change.about else message


def publish(messages: Sequence[tuple[str, Any]]) -> None:
    """Store messages after commit, on an event loop in a worker thread."""
    if not database.has_database() or not messages:
        return
    write = partial(event_store.append, [(under, json.dumps(message)) for under, message in messages])
    if on_event_loop():
        _in_background(lambda: database.on_commit(write, database.tools_alias()))
    else:
        database.on_commit(write, database.tools_alias())


def _in_background(write: Callable[[], Any]) -> None:
    future = asyncio.ensure_future(retry_database(free_pool(), write))
    _background.add(future)
    future.add_done_callback(_background.discard)


logger = logging.getLogger("django_mcp")


def connect_reloading() -> None:
    """Notify clients after an autoreload."""
    autoreload_started.connect(_notify_reloaded, dispatch_uid="django_mcp.live.reloading")


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

UID = "django_mcp.live.rights"

_waiting: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, set[str] | None]] = WeakKeyDictionary()
"""Per connection, the users of a transaction, identified by its ``run_on_commit`` list."""


# Sending


@receiver(rights_changed, dispatch_uid=UID)
def _on_rights_changed(users: Collection[str], **_: Any) -> None:
    """Publish all changes of a transaction after commit."""
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
    told = sorted(map(user_topic, users)) if len(users) <= MAX_USERS else None
    publish([entry for server in every_server() for entry in _entries(server, told, _asks_user)])


def renew_streams(kind: str, id: str) -> None:  # noqa: A002 - as ``Principal`` has it
    """Notify a caller's streams of changed lists, and end them.

    They keep the rights they were opened with; clients open new ones.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    caller = revocation_topic(kind, id)
    entries = [entry for server in every_server() for entry in _entries(server, [caller], bool)]
    publish([*entries, (caller, REVOKED)])


def _entries(
    server: MCPServer, told: Collection[str] | None, depends: Callable[[Collection[Any]], bool]
) -> Iterable[tuple[str, Any]]:
    """Yield an event per list that depends on the change."""
    for kind, primitives in server.lists().items():
        if depends(primitives):
            message = {"method": list_changed_method(kind), "params": {}}
            yield topic(server), message if told is None else {**message, "for": list(told)}


def _asks_user(primitives: Iterable[Any]) -> bool:
    return any(primitive.asks_user for primitive in primitives)


def _is_of_interest() -> bool:
    """Return True if lists depend on users, so that queries about them are needed."""
    return any(_asks_user(primitives) for server in every_server() for primitives in server.lists().values())


# Signal receivers


def connect_permissions() -> None:
    """Connect to users, groups and permissions, as far as the user model has them. They may be a site's own models."""
    user = get_user_model()
    for model in classes_of(user):
        pre_save.connect(_user_is_saved, sender=model, dispatch_uid=UID)
        post_save.connect(_user_was_saved, sender=model, dispatch_uid=UID)
    for name in ("groups", "user_permissions"):
        if through := getattr(getattr(user, name, None), "through", None):
            m2m_changed.connect(_users_changed, sender=through, dispatch_uid=UID)
    group, permission = _related(user, "groups"), _related(user, "user_permissions")
    if through := getattr(getattr(group, "permissions", None), "through", None):
        m2m_changed.connect(_groups_changed, sender=through, dispatch_uid=UID)
    for model in classes_of(group):
        post_save.connect(_group_was_saved, sender=model, dispatch_uid=UID)
    for model in (*classes_of(group), *classes_of(permission)):
        pre_delete.connect(_is_deleted, sender=model, dispatch_uid=UID)


def _related(user: Any, name: str) -> Any:
    try:
        return user._meta.get_field(name).related_model  # noqa: SLF001 - Django's documented API
    except FieldDoesNotExist:
        return None


def _permissions(group: Any) -> Any:
    return None if group is None else _related(group, "permissions")


def classes_of(model: Any) -> list[Any]:
    """Return a model, its proxies and its children. Signals are sent by the class that is saved or deleted."""
    return [] if model is None else [kind for kind in apps.get_models() if issubclass(kind, model)]


def differs(instance: models.Model, names: Iterable[str], update_fields: Collection[str] | None) -> bool:
    """Return True if fields of a row to be saved differ from the database. At most one query."""
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
    """Handle groups or permissions of users, from either side. A clear is handled before the rows are gone."""
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _changed_of([instance.pk])
    elif pk_set is not None:
        _changed_of(pk_set)
    else:
        _changed_having(instance)


def _groups_changed(instance: Any, action: str, reverse: bool, pk_set: Collection[Any] | None, **_: Any) -> None:
    if action not in {"post_add", "post_remove", "pre_clear"} or pk_set == set():
        return
    if not reverse:
        _changed_having(instance)
    elif _is_of_interest():
        group = _related(get_user_model(), "groups")
        groups = group._base_manager.filter(permissions=instance.pk).values("pk") if pk_set is None else pk_set  # noqa: SLF001
        _changed_of(_users(groups__in=groups))


def _group_was_saved(instance: Any, created: bool, **_: Any) -> None:
    if not created:
        _changed_having(instance)


def _is_deleted(instance: Any, **_: Any) -> None:
    _changed_having(instance)


def _changed_having(instance: Any) -> None:
    """Publish for users with a group or permission, direct or by group."""
    if not _is_of_interest():
        return
    group = _related(get_user_model(), "groups")
    if group is not None and isinstance(instance, group):
        _changed_of(_users(groups=instance.pk))
        return
    own = _related(get_user_model(), "user_permissions")
    ways = {"user_permissions": own, "groups__permissions": _permissions(group)}
    wanted = [models.Q(**{way: instance.pk}) for way, model in ways.items() if model and isinstance(instance, model)]
    if wanted:
        _changed_of(_users(reduce(or_, wanted)))


def _users(*wanted: models.Q, **more: Any) -> list[Any]:
    """Return primary keys, at most ``MAX_USERS + 1``."""
    rows = get_user_model()._base_manager.filter(*wanted, **more).order_by()  # noqa: SLF001 - Django's documented API
    return list(rows.values_list("pk", flat=True).distinct()[: MAX_USERS + 1])


def _changed_of(pks: Iterable[Any]) -> None:
    if users := [str(pk) for pk in pks]:
        rights_changed.send(sender=None, users=users)
