"""``ModelResource``: its options, hooks and permissions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from django.db import models
from django.db.models.manager import BaseManager
from django.utils.functional import cached_property

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.protocol.content import Icon

DEFAULT: Final = "default"
"""Of a permission: Django's own for the model, like ``"library.view_book"``."""

READ_TOOLS = ("search", "get", "aggregate")
ACTIONS = {"create": "add", "update": "change", "delete": "delete"}
"""What callers may do besides reading, each with the word that Django's permission for it begins with."""


class ModelResource:
    """What clients may see of a model, who may, which rows, and what they may do.

    Only what is named here is ever shown, compared, searched or sorted by; nothing is exposed by default but what
    ``fields`` names, and nothing can be written. A path like ``"author__name"`` leads through relations.

    Attributes:
        fields: what is shown of a row: fields, paths, sets of related rows, and names of methods of this class or
            attributes of the model. Required.
        annotations: values that the database works out for each row, as for ``QuerySet.annotate``:
            ``{"loans": Count("loan")}``. They are shown, searched, filtered and sorted by like columns, where they are
            declared. A model field in place of an expression is the type of one that ``get_queryset`` annotates.
        list_fields: what is shown of each row where there are many; by default all of ``fields`` but sets of rows.
        lookup_field: a unique field by which a row is addressed: ``{pk}`` in its URI, or ``{slug}``.
        title_field: the one of ``fields`` that names a row where it is linked or listed.
        modified_field: a date or moment: when the row last changed.
        search_fields: paths that words are looked for in, as the admin's: ``"^path"`` from the beginning,
            ``"=path"`` the whole, ``"@path"`` with PostgreSQL's full-text search where that is the database. On
            PostgreSQL a ``SearchVectorField`` too.
        search_config: the text search configuration of ``"@path"``, like ``"english"``.
        filterset_fields: paths that may be filtered by, like ``"stars"``, or with a lookup like ``"price__lte"``;
            or a dict from path to lookups.
        ordering: how rows are sorted, like ``["-starts"]``, and what callers may sort by. By default they are sorted by
            the model's ``Meta.ordering`` where all of it is columns among ``fields``, else by primary key.
        ordering_fields: further paths that callers may sort by.
        aggregates: paths and what may be worked out of them: ``{"price": ["min", "max", "avg", "sum"]}``; may be
            empty, for counts alone. None: nothing is added up.
        group_by_fields: paths that rows may be grouped by; of a date also ``"starts__year"``.
        filter_only_fields: paths that may be searched, filtered, sorted or grouped by although they are not among
            ``fields``.
        secret_fields: those of the declared paths that look like secrets and are meant all the same.
        content_fields: media types of long fields: ``{"text": "text/markdown"}``. Every text, file and binary field is
            a resource of its own below the row's, so that the row may show just the beginning of a text.
        actions: what callers may do besides reading: ``"create"``, ``"update"``, ``"delete"``.
        writable_fields: the fields that may be written.
        form: a ``ModelForm`` that rows are written through, instead of ``writable_fields``.
        view_permission, add_permission, change_permission, delete_permission: by default Django's own for the model;
            None lets everybody who may call the endpoint.
        object_permissions: ask for the permission to view each row, too, as django-guardian and rules do it. A
            ``has_view_permission`` of your own is asked about each row in any case, as in ``ModelAdmin``.
        scopes: OAuth scopes for reading.
        write_scopes: OAuth scopes for the actions.
        tools: which read tools there are, of ``"search"``, ``"get"`` and ``"aggregate"``.
        tags: words by which endpoints choose it (``MCPServer(include_tags=…)``), and callers find its tools.
        uri: of the resource that lists rows, like ``"travel://cities"``; a row is below it.
        name, plural: of what generated tools are called after: ``search_cities``, ``get_city``.
        title: for display; by default the model's verbose name.
        description: for the model that reads it; by default the docstring of the class.
        icons: images for display.
        max_page_size: the most rows of one answer.
        max_output_chars: the most characters of one answer.
        max_related: the most links of a set of related rows.
        max_list_size: the most rows that ``resources/list`` shows; None for all of them.
        notify_changes: tell subscribers of changes.
        select_related, prefetch_related: for methods among ``fields``; what paths need is added by itself.

    Args:
        model: the model.
        server: the endpoint.
    """

    fields: ClassVar[Sequence[str | Callable[..., Any]]] = ()
    annotations: ClassVar[Mapping[str, Any]] = {}
    list_fields: ClassVar[Sequence[str] | None] = None
    lookup_field: ClassVar[str] = "pk"
    title_field: ClassVar[str | None] = None
    modified_field: ClassVar[str | None] = None
    search_fields: ClassVar[Sequence[str]] = ()
    search_config: ClassVar[str | None] = None
    filterset_fields: ClassVar[Sequence[str] | Mapping[str, Sequence[str]]] = ()
    ordering: ClassVar[Sequence[str]] = ()
    ordering_fields: ClassVar[Sequence[str]] = ()
    aggregates: ClassVar[Mapping[str, Sequence[str]] | None] = None
    group_by_fields: ClassVar[Sequence[str]] = ()
    filter_only_fields: ClassVar[Sequence[str]] = ()
    secret_fields: ClassVar[Sequence[str]] = ()
    content_fields: ClassVar[Mapping[str, str]] = {}
    actions: ClassVar[Sequence[str]] = ()
    writable_fields: ClassVar[Sequence[str]] = ()
    form: ClassVar[Any] = None
    view_permission: ClassVar[str | None] = DEFAULT
    add_permission: ClassVar[str | None] = DEFAULT
    change_permission: ClassVar[str | None] = DEFAULT
    delete_permission: ClassVar[str | None] = DEFAULT
    object_permissions: ClassVar[bool] = False
    scopes: ClassVar[Sequence[str]] = ()
    write_scopes: ClassVar[Sequence[str]] = ()
    tools: ClassVar[Sequence[str]] = READ_TOOLS
    tags: ClassVar[Collection[str]] = ()
    uri: ClassVar[str | None] = None
    name: ClassVar[str | None] = None
    plural: ClassVar[str | None] = None
    title: ClassVar[str | None] = None
    description: ClassVar[str | None] = None
    icons: ClassVar[Sequence[Icon]] = ()
    max_page_size: ClassVar[int] = 100
    max_output_chars: ClassVar[int] = 40_000
    max_related: ClassVar[int] = 20
    max_list_size: ClassVar[int | None] = 1000
    notify_changes: ClassVar[bool] = True
    select_related: ClassVar[Sequence[str]] = ()
    prefetch_related: ClassVar[Sequence[str]] = ()

    def __init__(self, model: type[models.Model], server: MCPServer) -> None:
        self.model = model
        self.server = server
        self.options = model._meta  # noqa: SLF001 - Django's documented API

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.options.label} on {self.server.name!r}>"

    # Hooks, which a site may override: all of them take the call, as those of ModelAdmin take the request

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:  # noqa: ARG002 - for those who override it
        """Return the rows that exist for the caller: the only door to them, for reading and writing alike."""
        return self.model._default_manager.all()  # noqa: SLF001 - Django's documented API

    def has_view_permission(self, ctx: Context, obj: Any = None) -> bool:
        """Return True if the caller may see rows at all, or the row *obj*. An override is asked about each row."""
        return self._may(ctx, "view", obj)

    def has_add_permission(self, ctx: Context) -> bool:
        """Return True if the caller may add rows."""
        return self._may(ctx, "add")

    def has_change_permission(self, ctx: Context, obj: Any = None) -> bool:
        """Return True if the caller may change rows, or the row *obj*."""
        return self._may(ctx, "change", obj)

    def has_delete_permission(self, ctx: Context, obj: Any = None) -> bool:
        """Return True if the caller may delete rows, or the row *obj*."""
        return self._may(ctx, "delete", obj)

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:  # noqa: ARG002 - as ModelAdmin's
        """Save a row that was created or, if *change*, changed. Set here what callers may not, such as its owner."""
        obj.save()

    def delete_model(self, ctx: Context, obj: Any) -> None:  # noqa: ARG002 - as ModelAdmin's
        """Delete a row."""
        obj.delete()

    def allows(self, ctx: Context, action: str) -> bool:
        """Return True if the caller may use one of ``actions`` at all. Rows that cannot be viewed cannot be written."""
        may: Callable[[Context], bool] = getattr(self, f"has_{ACTIONS[action]}_permission")
        return self.has_view_permission(ctx) and may(ctx)

    def _may(self, ctx: Context, action: str, obj: Any = None) -> bool:
        permission, user = self.permission_for(action), ctx.user
        if permission is None or user is None:
            return permission is None
        if not self.object_permissions or action == "add":
            return bool(user.has_perm(permission))
        # Who may see single rows has no permission for the model: as long as it is about none, they may ask.
        return obj is None or bool(user.has_perm(permission)) or bool(user.has_perm(permission, obj))

    def permission_for(self, action: str) -> str | None:
        """Return the permission that ``view``, ``add``, ``change`` or ``delete`` needs; None if it needs none."""
        permission: str | None = getattr(self, f"{action}_permission")
        return f"{self.options.app_label}.{action}_{self.options.model_name}" if permission == DEFAULT else permission

    def has_own_rule(self, action: str) -> bool:
        """Return True if a method of the site decides who may ``view``, ``add``, ``change`` or ``delete``."""
        name = f"has_{action}_permission"
        return getattr(type(self), name) is not getattr(ModelResource, name)

    @cached_property
    def checks_each_row(self) -> bool:
        """Whether ``has_view_permission`` is asked about each row."""
        return self.object_permissions or self.has_own_rule("view")

    @property
    def has_plain_rows(self) -> bool:
        """Whether all rows of the model exist for whoever may view it."""
        return (
            type(self).get_queryset is ModelResource.get_queryset
            and is_plain(self.model._default_manager)  # noqa: SLF001 - Django's documented API
            and not self.checks_each_row
        )


def is_plain(manager: "BaseManager[Any]") -> bool:
    """Whether a manager gives all rows there are."""
    made: Any = type(manager)
    return made.get_queryset is BaseManager.get_queryset


class Permitted:
    """A ``visible`` predicate that asks a declaration.

    Args:
        resource: the declaration.
        action: what is to be done with rows, of ``actions``; None to view them.
    """

    __slots__ = ("_action", "_resource")

    def __init__(self, resource: ModelResource, action: str | None = None) -> None:
        self._resource, self._action = resource, action

    def __call__(self, ctx: Context) -> bool:
        """Ask it."""
        if self._action is None:
            return self._resource.has_view_permission(ctx)
        return self._resource.allows(ctx, self._action)

    @property
    def words(self) -> str:
        """What it takes, for the site's operator; empty where it takes nothing."""
        actions = ["view"] if self._action is None else ["view", ACTIONS[self._action]]
        own = [f"has_{action}_permission" for action in actions if self._resource.has_own_rule(action)]
        needed = [self._resource.permission_for(each) for each in actions if not self._resource.has_own_rule(each)]
        wants = " and ".join(each for each in needed if each is not None)
        parts = [f"wants the permission {wants}" if wants else "", f"asks its {' and '.join(own)}" if own else ""]
        said = " and ".join(filter(None, parts))
        return f"{type(self._resource).__name__} {said}" if said else ""
