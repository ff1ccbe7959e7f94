"""Notifications of changed rows to subscribers.

The changes of a transaction are sent together, after its commit. Subscribers' permissions are checked on delivery.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from django.apps import apps
from django.db import models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import m2m_changed, post_delete, post_save

from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.concurrency import on_event_loop
from django_mcp.core.database import on_commit
from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import Change, rows_changed
from django_mcp.model_resources.bound_resource import BoundResource, parent_links

MAX_ROWS = 1000
"""Maximum number of rows of a model to report individually per transaction; beyond it only their list is."""

UID = "django_mcp.model_resources.notifications"


def notify_changed(what: Any, *, deleted: bool = False, server: MCPServer | None = None) -> None:
    """Notify subscribers of rows that changed without a signal, after the transaction commits.

    Use it after ``bulk_create()``, ``bulk_update()``, ``update()`` and raw SQL; ``save()`` and ``delete()`` notify
    automatically. For more than 1000 rows only the change of their list is reported. A queryset is evaluated here, so
    after ``update()`` it may no longer match the changed rows.

    Args:
        what: a row, an iterable of rows such as a queryset, or a model. For a model, everyone who may view it is
            notified that its list changed, whichever rows they may see.
        deleted: True if the rows were deleted.
        server: limit the notification to this endpoint.

    Raises:
        TypeError: *what* is none of these.
    """
    model = what if isinstance(what, type) else None
    if model is not None and not issubclass(model, models.Model):
        msg = f"notify_changed takes a model, a row or rows, not {what!r}"
        raise TypeError(msg)
    rows = [] if model is not None else _rows(what)
    using = rows[0]._state.db if rows else None  # noqa: SLF001 - Django's documented API
    if using is None and (model or rows):
        using = router.db_for_write(model or type(rows[0]))
    with _batch(using) as batch:
        if model is not None:
            batch.add_model(model, server)
        for row in rows:
            batch.add(row, is_listed=True, is_deleted=deleted, server=server)


def _rows(what: Any) -> list[models.Model]:
    # One more than MAX_ROWS, to notice that there are too many.
    if isinstance(what, models.QuerySet) and not what.query.is_sliced:
        what = what[: MAX_ROWS + 1]
    rows = [what] if isinstance(what, models.Model) else list(islice(what, MAX_ROWS + 1))
    for row in rows:
        if not isinstance(row, models.Model):
            msg = f"notify_changed takes a model, a row or rows, not {row!r}"
            raise TypeError(msg)
    return rows


def bound_resources_of(model: type[models.Model]) -> list[BoundResource]:
    """Return the bound resources of *model* and its parent models."""
    return [
        bound
        for server in every_server()
        for bound in server.model_resources.values()
        if bound.is_sound and _is_kind_of(model, bound)
    ]


def _is_kind_of(model: Any, bound: BoundResource) -> bool:
    kinds: Any = bound.options.concrete_model
    return issubclass(model._meta.concrete_model, kinds)  # noqa: SLF001 - Django's documented API


def _as_parents(row: models.Model) -> Iterator[tuple[BoundResource, models.Model]]:
    yield from ((bound, row) for bound in bound_resources_of(type(row)))


def _as_children(row: models.Model) -> Iterator[tuple[BoundResource, models.Model]]:
    # The values of its parent are its own.
    own: Any = row._meta.concrete_model  # noqa: SLF001 - Django's documented API
    for server in every_server():
        for bound in server.model_resources.values():
            links = parent_links(bound.options.concrete_model)
            if own in links and bound.is_sound and bound.resource.notify_changes and not on_event_loop():
                rows = bound.model._base_manager.using(row._state.db)  # noqa: SLF001 - Django's documented API
                yield from ((bound, child) for child in rows.filter(**{links[own]: row.pk}))


# Changes of a transaction


class _ResourceChanges:
    """The changes to rows of one bound resource.

    Attributes:
        updated: URIs with new content, each with rows of which a subscriber must be able to view one; empty for all
            subscribers.
        touched: URIs of rows that change the list resource, and whether the row still exists.
        listed: those that were created or deleted.
        is_whole: True if the model was reported as a whole.
    """

    def __init__(self, bound: BoundResource) -> None:
        self.bound = bound
        self.updated: dict[str, dict[str, None]] = {}
        self.touched: dict[str, bool] = {}
        self.listed: dict[str, bool] = {}
        self.is_whole = False

    def add(self, uri: str, fields: Collection[str] | None, *, is_listed: bool, is_deleted: bool) -> None:
        if is_listed and len(self.listed) < MAX_ROWS:
            self.listed[uri] = not is_deleted
        if len(self.touched) <= MAX_ROWS:
            self.touched[uri] = not is_deleted
            names = [name for name in self.bound.contents if fields is None or name in fields]
            self.updated.update({address: {} for address in (uri, *(f"{uri}/{name}" for name in names))})

    def add_related(self, uri: str, about: Collection[str]) -> None:
        """Report *uri* to subscribers who may view one of *about*, the rows that were linked or unlinked."""
        known = self.updated.get(uri)
        if not about:
            self.updated[uri] = {}
        elif known is None or known:
            self.updated[uri] = {**(known or {}), **dict.fromkeys(about)}

    def changes(self) -> Iterator[Change]:
        bound = self.bound
        if len(self.touched) <= MAX_ROWS:
            for uri, about in self.updated.items():
                yield Change(bound.server, uri, tuple(about))
        if rows := self._about(self.touched):
            yield Change(bound.server, bound.base, rows)
        if bound.resource.max_list_size != 0 and (rows := self._about(self.listed)):
            yield Change(bound.server, None, rows)

    def _about(self, rows: Mapping[str, bool]) -> Sequence[str]:
        """Return the URIs of which a subscriber to the list must be able to view one; empty to notify none.

        If rows are restricted, deleted ones are left out: it is no longer known who could see them.
        """
        if self.is_whole or (rows and self.bound.has_plain_rows):
            return [self.bound.base]
        return [] if self.bound.has_plain_rows else [uri for uri, exists in rows.items() if exists]


class _Batch:
    def __init__(self) -> None:
        self.is_sent = False
        self._changed: dict[BoundResource, _ResourceChanges] = {}

    def changes_of(self, bound: BoundResource) -> _ResourceChanges:
        return self._changed.setdefault(bound, _ResourceChanges(bound))

    def add(
        self,
        row: models.Model,
        fields: Collection[str] | None = None,
        *,
        is_listed: bool = False,
        is_deleted: bool = False,
        server: MCPServer | None = None,
    ) -> None:
        """Add a saved or deleted row. *fields* are the saved fields, None for all."""
        is_stored = not (is_listed or is_deleted)  # the row of a child is created later, and deleted by itself
        for bound, relative in (*_as_parents(row), *(_as_children(row) if is_stored else ())):
            if bound.resource.notify_changes and server in {None, bound.server}:
                uri = bound.uri_of(relative)
                self.changes_of(bound).add(uri, fields, is_listed=is_listed, is_deleted=is_deleted)

    def add_model(self, model: type[models.Model], server: MCPServer | None) -> None:
        for bound in bound_resources_of(model):
            if bound.resource.notify_changes and server in {None, bound.server}:
                self.changes_of(bound).is_whole = True

    def add_related(self, row: models.Model, others: Iterable[models.Model]) -> None:
        """Add that *others* were linked to *row* or unlinked, for subscribers who may view one of *others*."""
        for bound in bound_resources_of(type(row)):
            if bound.resource.notify_changes:
                about = [
                    other_bound.uri_of(other)
                    for other in others
                    for other_bound in bound_resources_of(type(other))
                    if other_bound.server is bound.server
                ]
                self.changes_of(bound).add_related(bound.uri_of(row), about)

    def send(self) -> None:
        self.is_sent = True
        changes = [change for changed in self._changed.values() for change in changed.changes()]
        self._changed.clear()
        if changes:
            rows_changed.send(sender=None, changes=changes)


# Weak, because connections end with their threads.
_open: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, dict[frozenset[Any], _Batch]]] = clear_after_fork(
    WeakKeyDictionary()
)
"""The open batches of each connection, by savepoints. A new list of commit hooks means a new transaction."""


@contextmanager
def _batch(using: str | None) -> Iterator[_Batch]:
    """Yield the batch to send at commit, or on exit if there is no transaction."""
    if on_event_loop():  # no transaction is possible here
        batch = _Batch()
        yield batch
        batch.send()
        return
    connection = transaction.get_connection(using)
    batches: dict[frozenset[Any], _Batch] = {}
    if connection.in_atomic_block:
        hooks, batches = _open.get(connection, (None, batches))
        if hooks is not connection.run_on_commit:
            batches = {}
            _open[connection] = connection.run_on_commit, batches
    # The rollback of a savepoint discards the commit hooks registered in it.
    savepoints = frozenset(connection.savepoint_ids)
    known = batches.get(savepoints)
    batch = _Batch() if known is None or known.is_sent else known
    yield batch
    if batch is not known:
        batches[savepoints] = batch
        # Robust: a failure to notify must not affect the save.
        on_commit(batch.send, using, robust=True)


def start_new_batch(connection: BaseDatabaseWrapper) -> None:
    """Start a new batch, as if a transaction began. Tests that never commit need it."""
    _open.pop(connection, None)


# Signals


def connect_signals(bound: BoundResource) -> None:
    """Connect signals for the rows of a model, and of its proxies and subclasses.

    Other models are left alone, since Django loads rows before deletion if a signal is connected.
    """
    if not bound.resource.notify_changes:
        return
    for model in apps.get_models(include_auto_created=True):
        if _is_kind_of(model, bound):
            post_save.connect(_saved, sender=model, weak=False, dispatch_uid=UID)
            post_delete.connect(_deleted, sender=model, weak=False, dispatch_uid=UID)
        elif issubclass(bound.model, model._meta.concrete_model or model):  # noqa: SLF001 - Django's documented API
            post_save.connect(_saved, sender=model, weak=False, dispatch_uid=UID)
    for field in bound.options.get_fields(include_hidden=True):
        if field.many_to_many and (through := getattr(field, "through", None) or _through(field)) is not None:
            m2m_changed.connect(_linked, sender=through, weak=False, dispatch_uid=UID)


def _through(field: Any) -> Any:
    return getattr(getattr(field, "remote_field", None), "through", None)


def _saved(
    instance: models.Model, created: bool, raw: bool, using: str, update_fields: Collection[str] | None, **_: Any
) -> None:
    if not raw:  # loading a fixture
        with _batch(using) as batch:
            batch.add(instance, update_fields, is_listed=created)


def _deleted(instance: models.Model, using: str, **_: Any) -> None:
    with _batch(using) as batch:
        batch.add(instance, is_listed=True, is_deleted=True)


def _linked(
    instance: models.Model,
    action: str,
    reverse: bool,
    model: Any,
    pk_set: Collection[Any] | None,
    using: str,
    **_: Any,
) -> None:
    if action not in {"post_add", "post_remove", "post_clear"}:
        return
    others: list[Any] = []
    if pk_set and any(
        other_bound.resource.notify_changes
        for other_bound in (*bound_resources_of(model), *bound_resources_of(type(instance)))
    ):
        others = list(model._base_manager.using(using).filter(pk__in=list(pk_set)[:MAX_ROWS]))  # noqa: SLF001
    with _batch(using) as batch:
        linking, linked = (others, [instance]) if reverse else ([instance], others)
        if linking and pk_set != set():
            for row in linking:
                batch.add(row, ())
            for row in linked:
                batch.add_related(row, linking)
