"""``from_admin``: a ``ModelResource`` derived from a ``ModelAdmin``."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, cast

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models import F
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import OrderBy

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.model_resources.options import DEFAULT, ModelResource

SEARCHED = {
    "icontains": "",
    "contains": "",
    "istartswith": "^",
    "startswith": "^",
    "iexact": "=",
    "exact": "=",
    "search": "@",
}
"""Lookups of an admin's search fields, and the equivalent prefixes, all of which ignore case."""


def from_admin(admin: Any, /, **attributes: Any) -> type[ModelResource]:
    """Return a ``ModelResource`` based on *admin*: ``class Books(from_admin(BookAdmin)): fields = ["title"]``.

    It takes over ``search_fields``, ``list_filter`` (without filter classes), ``ordering``, ``date_hierarchy``, a list
    in ``list_select_related``, the permissions and an overridden ``get_queryset``. ``fields`` must be declared; the
    admin's search fields, filters and ordering may use other paths.

    Permissions come from the admin's methods, unless ``view_permission`` or another permission is declared. Overridden
    methods are only called for users whom the admin site admits; others are denied.

    Args:
        admin: a subclass of ``ModelAdmin``, or an instance.
        attributes: further attributes of the ``ModelResource``.

    Raises:
        ImproperlyConfigured: *admin* is not a ``ModelAdmin``, or an attribute is unknown.
    """
    from django.contrib.admin import ModelAdmin  # noqa: PLC0415 - sites may be without

    kind = admin if isinstance(admin, type) else admin.__class__  # also works for lazy proxies
    if not issubclass(kind, ModelAdmin):
        msg = f"from_admin takes a ModelAdmin, not {admin!r}."
        raise ImproperlyConfigured(msg)
    if unknown := [name for name in attributes if not hasattr(ModelResource, name)]:
        msg = f"from_admin({kind.__name__}): ModelResource has no attribute {unknown[0]!r}."
        raise ImproperlyConfigured(msg)
    base = AdminRows if _overrides(admin, "get_queryset") else AdminResource
    declared = {
        "admin": admin,
        "__module__": kind.__module__,
        **_declared(admin),
    }
    filter_only_fields = [*declared["filter_only_fields"], *attributes.get("filter_only_fields", ())]
    made = type(
        f"{kind.__name__}Resource", (base,), {**declared, **attributes, "filter_only_fields": filter_only_fields}
    )
    return cast("type[ModelResource]", made)


def _overrides(admin: Any, name: str) -> bool:
    from django.contrib.admin import ModelAdmin  # noqa: PLC0415 - sites may be without

    method = getattr(admin, name)
    return getattr(method, "__func__", method) is not getattr(ModelAdmin, name)


class AdminResource(ModelResource):
    """A ``ModelResource`` with the permissions of a ``ModelAdmin``."""

    admin: ClassVar[Any] = None

    def __init__(self, model: type[models.Model], server: MCPServer) -> None:
        super().__init__(model, server)
        if not isinstance(self.admin, type) and self.admin.model is not model:
            msg = f"{self!r} uses {self.admin!r}, which is for another model."
            raise ImproperlyConfigured(msg)

    def __init_subclass__(cls, **options: Any) -> None:
        # The admin's paths stay, even if a subclass declares its own.
        super().__init_subclass__(**options)
        cls.filter_only_fields = tuple(dict.fromkeys([*super(cls, cls).filter_only_fields, *cls.filter_only_fields]))

    @cached_property
    def model_admin(self) -> Any:
        if not isinstance(self.admin, type):
            return self.admin
        from django.contrib import admin  # noqa: PLC0415 - sites may be without

        site = admin.site if apps.is_installed("django.contrib.admin") else admin.AdminSite()
        if site.is_registered(self.model) and site.get_model_admin(self.model).__class__ is self.admin:
            return site.get_model_admin(self.model)
        return self.admin(self.model, site)

    def has_own_rule(self, action: str) -> bool:
        is_admins = getattr(self, f"{action}_permission") == DEFAULT
        return super().has_own_rule(action) or (is_admins and _overrides(self.admin, f"has_{action}_permission"))

    def _may(self, ctx: Context, action: str, obj: Any = None) -> bool:
        if getattr(self, f"{action}_permission") != DEFAULT:
            return super()._may(ctx, action, obj)
        name = f"has_{action}_permission"
        if ctx.user is None or (
            _overrides(self.model_admin, name) and not self.model_admin.admin_site.has_permission(ctx.request)
        ):
            return False
        return bool(getattr(self.model_admin, name)(ctx.request, *(() if action == "add" else (obj,))))

    def knows_related(self, model: type[models.Model]) -> bool:
        # Unless this declaration replaces the admin's permissions.
        return self.delete_permission == DEFAULT and bool(self.model_admin.admin_site.is_registered(model))

    def may_delete_related(self, ctx: Context, obj: Any) -> bool:
        site = self.model_admin.admin_site
        related = site.get_model_admin(type(obj))
        if ctx.user is None or (_overrides(related, "has_delete_permission") and not site.has_permission(ctx.request)):
            return False
        return bool(related.has_delete_permission(ctx.request, obj))


class AdminRows(AdminResource):
    """The same for a ``ModelAdmin`` that overrides ``get_queryset``."""

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:
        rows = super().get_queryset(ctx)
        if ctx.user is None or not ctx.user.is_authenticated or not self.has_view_permission(ctx):
            # An admin does not expect anonymous callers.
            return rows.none()
        # By key, to drop the joins, annotations and ordering of the admin's pages.
        return rows.filter(pk__in=self.model_admin.get_queryset(ctx.request).values("pk"))


def _declared(admin: Any) -> dict[str, Any]:
    search_fields = [_search_field(search_field) for search_field in admin.search_fields]
    ordering = list(_ordering(admin.ordering or ()))
    filters, dimensions = list(_filters(admin.list_filter)), []
    if date := admin.date_hierarchy:
        filters += [(date, part) for part in ("year", "month", "day")]
        dimensions = [f"{date}{LOOKUP_SEP}year"]
    compared = [search_field.lstrip("^=@") for search_field in search_fields]
    compared += [path.removeprefix("-") for path in ordering]
    compared += [path for path, _ in filters]
    related = admin.list_select_related
    return {
        "search_fields": search_fields,
        "filterset_fields": [LOOKUP_SEP.join(filter(None, parts)) for parts in dict.fromkeys(filters)],
        "ordering": ordering,
        "group_by_fields": dimensions,
        "select_related": [] if isinstance(related, bool) else list(related),
        "filter_only_fields": list(dict.fromkeys(compared)),
    }


def _search_field(declared: str) -> str:
    path, _, lookup = declared.rpartition(LOOKUP_SEP)
    return f"{SEARCHED[lookup]}{path}" if path and lookup in SEARCHED else declared


def _filters(declared: Sequence[Any]) -> Iterator[tuple[str, str]]:
    # A filter class has no path.
    from django.contrib.admin import EmptyFieldListFilter  # noqa: PLC0415 - sites may be without

    for entry in declared:
        path, kind = entry if isinstance(entry, list | tuple) else (entry, None)
        if isinstance(path, str):
            is_empty = isinstance(kind, type) and issubclass(kind, EmptyFieldListFilter)
            yield path, "isnull" if is_empty else ""


def _ordering(declared: Sequence[Any]) -> Iterator[str]:
    # Random and computed orderings cannot be paginated.
    for entry in declared:
        order = entry.asc() if isinstance(entry, F) else entry
        if isinstance(order, str) and order != "?":
            yield order
        elif isinstance(order, OrderBy) and isinstance(order.expression, F):
            path: Any = order.expression
            yield f"{'-' if order.descending else ''}{path.name}"
