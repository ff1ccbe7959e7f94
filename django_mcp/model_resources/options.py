"""``ModelResource``: options, hooks and permissions of a model at an endpoint."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from django.db import models
from django.db.models.manager import BaseManager
from django.utils.functional import cached_property

from django_mcp.core.apps import App
from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.protocol.content import Icon

DEFAULT: Final = "default"
"""Default of a permission: Django's own for the model, such as ``"library.view_book"``."""

READ_TOOLS = ("search", "get", "aggregate")
ACTIONS = {"create": "add", "update": "change", "delete": "delete"}
"""The possible ``actions``, with the prefix of Django's permission for each."""

HOOKS: Final = (
    *("get_queryset", "has_view_permission", "has_add_permission", "has_change_permission", "has_delete_permission"),
    *("save_model", "delete_model"),
)
"""Methods that sites may override. All other names of ``ModelResource`` but its options are its own."""


class ModelResource:
    """How a model is offered to clients: its fields, rows, permissions and actions.

    Only the fields and paths named here are shown, searched, filtered or sorted by. Rows are read-only unless
    ``actions`` are declared. A path such as ``"author__name"`` follows relations.

    Attributes:
        fields: the fields of a row: model fields, paths, sets of related rows, methods of this class, attributes of the
            model, or functions of a row. Required.
        annotations: expressions as for ``QuerySet.annotate``: ``{"loans": Count("loan")}``. They can be shown,
            searched, filtered and sorted by like columns. A model field declares the type of an annotation that
            ``get_queryset`` adds.
        list_fields: the fields of each row in a list; by default all ``fields`` except sets of rows.
        lookup_field: the unique field that identifies a row in its URI and in arguments.
        title_field: the field, one of ``fields``, whose value is a row's title in links and lists: a column, a path, an
            annotation or a method. Default: the first short text in ``fields``, without choices; otherwise the key.
        modified_field: the date or datetime field that holds the time of a row's last change.
        search_fields: paths to search, with the prefixes of the admin: ``"^path"`` matches the beginning, ``"=path"``
            the whole value, ``"@path"`` uses full-text search on PostgreSQL. A ``SearchVectorField`` is supported too.
        search_config: the text search configuration of ``"@path"``, such as ``"english"``.
        filterset_fields: paths to filter by, such as ``"stars"``, or ``"price__lte"`` with a lookup; or a dict that
            maps paths to lists of lookups; also names of methods ``filter_<name>(self, ctx, queryset, value: bool)``.
            Such a method returns the matching rows of the queryset. The annotation of its value is the type of the
            argument, its docstring the description.
        ordering: the default ordering, such as ``["-starts"]`` or ``[F("starts").desc()]``; callers may also sort by
            these paths. Without it, the model's ``Meta.ordering`` applies if it only has columns in ``fields``, else
            the primary key.
        ordering_fields: further paths that callers may sort by.
        aggregates: paths and their aggregates: ``{"price": ["min", "max", "avg", "sum"]}``; an empty dict allows counts
            only, None disables the tool.
        group_by_fields: paths that rows may be grouped by, also with part of a date: ``"starts__year"``.
        filter_only_fields: paths outside ``fields`` that may still be searched, filtered, sorted or grouped by.
        secret_fields: declared paths that look like secrets but are meant to be exposed.
        content_fields: media types of long fields: ``{"text": "text/markdown"}``. Each text, file and binary field in
            ``fields`` has its own resource below the row's, so that rows can show only the beginning of a text. The
            type of a file is guessed from its name unless it is declared here.
        actions: the allowed writes, any of ``"create"``, ``"update"`` and ``"delete"``.
        writable_fields: the fields that callers may set.
        form: a ``ModelForm`` to write rows with, instead of ``writable_fields``.
        view_permission, add_permission, change_permission, delete_permission: the required permission, by default
            Django's for the model; None requires none.
        object_permissions: check the view permission for each row, for backends such as django-guardian and rules. An
            overridden ``has_view_permission`` is always called for each row.
        scopes: OAuth scopes required for reading.
        write_scopes: further OAuth scopes required for the actions.
        app: True shows results in clients with MCP Apps: a search as a table, a row as a card. A dict from
            ``"search"``, ``"get"`` and ``"aggregate"`` to True, the name of a template or what ``ui`` returns chooses
            single ones.
        tools: the read tools, any of ``"search"``, ``"get"`` and ``"aggregate"``.
        connector: include the model in the tools ``search`` and ``fetch`` of the endpoint, for ChatGPT's deep research.
            Needs ``search_fields``. The URL of a row is its ``get_absolute_url()``, otherwise its URI.
        tags: tags by which endpoints select the model (``MCPServer(include_tags=…)``) and callers find its tools.
        uri: the URI of the list resource, such as ``"travel://cities"``. URIs of rows start with it.
        name, plural: the words in names of tools, as in ``get_city`` and ``search_cities``, and in their titles and
            errors unless the model's ``verbose_name`` is translated and ``title`` is not set.
        title: the plural for display; by default the model's ``verbose_name_plural``. Set it together with ``name`` to
            tell models with the same translated name apart.
        description: the description that models read; by default the docstring of the class.
        icons: icons of the tools and of the resource template, for display.
        max_page_size: maximum number of rows in one answer.
        max_output_chars: maximum number of characters in one answer.
        max_related: maximum number of rows shown of a set of related rows.
        max_list_size: maximum number of rows in ``resources/list``; None for all rows.
        notify_changes: notify subscribers of changes.
        select_related, prefetch_related: relations that methods in ``fields`` use; those of paths are loaded
            automatically.

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
    ordering: ClassVar[Sequence[Any]] = ()
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
    app: ClassVar[bool | Mapping[str, App | str | bool]] = False
    tools: ClassVar[Sequence[str]] = READ_TOOLS
    connector: ClassVar[bool] = False
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

    # Hooks for sites. Each takes the Context, as those of ModelAdmin take the request.

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:
        """Return the rows that the caller may read and write.

        By default, those of the default manager. Of a proxy or a multi-table child, rows that the ``ModelResource`` of
        a parent at the same endpoint hides are left out; an override that does not call this method decides alone.
        """
        rows = self.model._default_manager.all()  # noqa: SLF001 - Django's documented API
        bound = self.server.model_resources.get(self.model)
        if bound is None or bound.resource is not self:
            return rows
        for relative in bound.relatives:
            if not relative.is_below:
                # The parent's own permission is not required, as in the admin.
                shown = models.Q()
                for parent in relative.bounds:
                    shown |= models.Q(**{f"{relative.path}__in": parent.declared_rows(ctx).order_by().values("pk")})
                rows = rows.filter(shown)
        return rows

    def has_view_permission(self, ctx: Context, obj: Any = None) -> bool:
        """Return True if the caller may view rows at all, or the row *obj*. An override is called for each row."""
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
        """Save a row that was created or, if *change*, updated. Set fields here that callers may not set."""
        obj.save()

    def delete_model(self, ctx: Context, obj: Any) -> None:  # noqa: ARG002 - as ModelAdmin's
        """Delete a row."""
        obj.delete()

    def allows(self, ctx: Context, action: str) -> bool:
        """Return True if the caller may use *action*, one of ``actions``. It requires the permission to view rows."""
        may: Callable[[Context], bool] = getattr(self, f"has_{ACTIONS[action]}_permission")
        return self.has_view_permission(ctx) and may(ctx)

    def _may(self, ctx: Context, action: str, obj: Any = None) -> bool:
        permission, user = self.permission_for(action), ctx.user
        if permission is None or user is None:
            return permission is None
        if not self.object_permissions or action == "add":
            return bool(user.has_perm(permission))
        # Without an object, the model permission is not required: a caller may have permissions for single rows only.
        return obj is None or bool(user.has_perm(permission)) or bool(user.has_perm(permission, obj))

    def permission_for(self, action: str) -> str | None:
        """Return the permission required to ``view``, ``add``, ``change`` or ``delete`` rows, or None."""
        permission: str | None = getattr(self, f"{action}_permission")
        return f"{self.options.app_label}.{action}_{self.options.model_name}" if permission == DEFAULT else permission

    def has_own_rule(self, action: str) -> bool:
        """Return True if the site overrides the permission check for ``view``, ``add``, ``change`` or ``delete``."""
        name = f"has_{action}_permission"
        return getattr(type(self), name) is not getattr(ModelResource, name)

    @cached_property
    def checks_each_row(self) -> bool:
        """True if ``has_view_permission`` is called for each row."""
        return self.object_permissions or self.has_own_rule("view")

    @property
    def has_own_rows(self) -> bool:
        """True if the site overrides ``get_queryset``."""
        return type(self).get_queryset is not ModelResource.get_queryset

    @property
    def has_plain_rows(self) -> bool:
        """True if this class hides no row from callers who may view the model."""
        return (
            not self.has_own_rows
            and is_plain(self.model._default_manager)  # noqa: SLF001 - Django's documented API
            and not self.checks_each_row
        )


def is_plain(manager: "BaseManager[Any]") -> bool:
    made: Any = type(manager)
    return made.get_queryset is BaseManager.get_queryset


class Permitted:
    """A ``visible`` predicate with a declaration's permissions for *action*, or for viewing if it is None."""

    __slots__ = ("_action", "_resource")

    def __init__(self, resource: ModelResource, action: str | None = None) -> None:
        self._resource, self._action = resource, action

    def __call__(self, ctx: Context) -> bool:
        if self._action is None:
            return self._resource.has_view_permission(ctx)
        return self._resource.allows(ctx, self._action)

    @property
    def words(self) -> str:
        actions = ["view"] if self._action is None else ["view", ACTIONS[self._action]]
        own = [f"has_{action}_permission" for action in actions if self._resource.has_own_rule(action)]
        needed = [self._resource.permission_for(name) for name in actions if not self._resource.has_own_rule(name)]
        wants = " and ".join(permission for permission in needed if permission is not None)
        parts = [f"requires the permission {wants}" if wants else "", f"decides in {' and '.join(own)}" if own else ""]
        text = " and ".join(filter(None, parts))
        return f"{type(self._resource).__name__} {text}" if text else ""
