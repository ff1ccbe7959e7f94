"""``from_admin``: what a ``ModelAdmin`` says already, as the beginning of a ``ModelResource``."""

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
"""Lookups that an admin's search fields may end in, and the prefixes that mean the same in any case of letters."""


def from_admin(admin: Any, /, **attributes: Any) -> type[ModelResource]:
    """A ``ModelResource`` with what *admin* declares: ``class Books(from_admin(BookAdmin)): fields = ["title"]``.

    Taken over are ``search_fields``, ``list_filter`` (but filters that are classes of their own), ``ordering``,
    ``date_hierarchy``, ``list_select_related`` where it is a list, its permissions, and its ``get_queryset`` where it
    has one of its own. What is shown is not taken over: ``fields`` have to be written. What the admin compares may be
    compared, although it is not in ``fields``.

    Who may do what, the admin is asked, unless ``view_permission`` and its kin say otherwise. Methods that an admin
    overrides expect somebody whom the admin site lets in, so for others their answer is no.

    Args:
        admin: a subclass of ``ModelAdmin``, or an instance.
        attributes: of the ``ModelResource``.

    Raises:
        ImproperlyConfigured: *admin* is no ``ModelAdmin``, or a ``ModelResource`` has no such attribute.
    """
    from django.contrib.admin import ModelAdmin  # noqa: PLC0415 - sites may be without

    kind = admin if isinstance(admin, type) else admin.__class__  # which sees through objects that stand for another
    if not issubclass(kind, ModelAdmin):
        msg = f"from_admin takes a ModelAdmin, not {admin!r}."
        raise ImproperlyConfigured(msg)
    if unknown := [name for name in attributes if not hasattr(ModelResource, name)]:
        msg = f"from_admin({kind.__name__}): a ModelResource has no {unknown[0]!r}."
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
    """Whether an admin, or its class, has a method of its own in place of Django's."""
    from django.contrib.admin import ModelAdmin  # noqa: PLC0415 - sites may be without

    method = getattr(admin, name)
    return getattr(method, "__func__", method) is not getattr(ModelAdmin, name)


class AdminResource(ModelResource):
    """A ``ModelResource`` that asks a ``ModelAdmin`` who may do what."""

    admin: ClassVar[Any] = None

    def __init__(self, model: type[models.Model], server: MCPServer) -> None:
        super().__init__(model, server)
        if not isinstance(self.admin, type) and self.admin.model is not model:
            msg = f"{self!r} is from {self.admin!r}, which is for another model."
            raise ImproperlyConfigured(msg)

    def __init_subclass__(cls, **options: Any) -> None:
        """What the admin compares can still be filtered by where a subclass has more that is."""
        super().__init_subclass__(**options)
        cls.filter_only_fields = tuple(dict.fromkeys([*super(cls, cls).filter_only_fields, *cls.filter_only_fields]))

    @cached_property
    def model_admin(self) -> Any:
        """The instance that is asked: the one that is registered, or one made for it."""
        if not isinstance(self.admin, type):
            return self.admin
        from django.contrib import admin  # noqa: PLC0415 - sites may be without

        site = admin.site if apps.is_installed("django.contrib.admin") else admin.AdminSite()
        if site.is_registered(self.model) and site.get_model_admin(self.model).__class__ is self.admin:
            return site.get_model_admin(self.model)
        return self.admin(self.model, site)

    def has_own_rule(self, action: str) -> bool:
        """Return True if a method of the site's, or its admin's, decides who may do *action*."""
        is_admins = getattr(self, f"{action}_permission") == DEFAULT
        return super().has_own_rule(action) or (is_admins and _overrides(self.admin, f"has_{action}_permission"))

    def _may(self, ctx: Context, action: str, obj: Any = None) -> bool:
        """Return what the admin says, unless the permission is written here."""
        if getattr(self, f"{action}_permission") != DEFAULT:
            return super()._may(ctx, action, obj)
        name = f"has_{action}_permission"
        if ctx.user is None or (
            _overrides(self.model_admin, name) and not self.model_admin.admin_site.has_permission(ctx.request)
        ):
            return False
        return bool(getattr(self.model_admin, name)(ctx.request, *(() if action == "add" else (obj,))))


class AdminRows(AdminResource):
    """The same for a ``ModelAdmin`` that decides which rows there are."""

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:
        """The rows that the admin has for the caller; none for who is not signed in, as the admin knows nobody else."""
        rows = super().get_queryset(ctx)
        if ctx.user is None or not ctx.user.is_authenticated or not self.has_view_permission(ctx):
            return rows.none()
        # By key, so that what the admin joins, adds and sorts by for its own pages stays there.
        return rows.filter(pk__in=self.model_admin.get_queryset(ctx.request).values("pk"))


def _declared(admin: Any) -> dict[str, Any]:
    """Attributes of a ``ModelResource``, as far as an admin has them."""
    search_fields = [_search_field(each) for each in admin.search_fields]
    ordering = list(_ordering(admin.ordering or ()))
    filters, dimensions = list(_filters(admin.list_filter)), []
    if date := admin.date_hierarchy:
        filters += [(date, part) for part in ("year", "month", "day")]
        dimensions = [f"{date}{LOOKUP_SEP}year"]
    compared = [each.lstrip("^=@") for each in search_fields]
    compared += [each.removeprefix("-") for each in ordering]
    compared += [path for path, _ in filters]
    related = admin.list_select_related
    return {
        "search_fields": search_fields,
        "filterset_fields": [LOOKUP_SEP.join(filter(None, each)) for each in dict.fromkeys(filters)],
        "ordering": ordering,
        "group_by_fields": dimensions,
        "select_related": [] if isinstance(related, bool) else list(related),
        "filter_only_fields": list(dict.fromkeys(compared)),
    }


def _search_field(declared: str) -> str:
    path, _, lookup = declared.rpartition(LOOKUP_SEP)
    return f"{SEARCHED[lookup]}{path}" if path and lookup in SEARCHED else declared


def _filters(declared: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Paths and lookups; a filter that is a class of its own has no path."""
    from django.contrib.admin import EmptyFieldListFilter  # noqa: PLC0415 - sites may be without

    for each in declared:
        path, kind = each if isinstance(each, list | tuple) else (each, None)
        if isinstance(path, str):
            is_empty = isinstance(kind, type) and issubclass(kind, EmptyFieldListFilter)
            yield path, "isnull" if is_empty else ""


def _ordering(declared: Sequence[Any]) -> Iterator[str]:
    """Paths, with a minus where the largest come first; chance and what is computed are no order to page through."""
    for each in declared:
        order = each.asc() if isinstance(each, F) else each
        if isinstance(order, str) and order != "?":
            yield order
        elif isinstance(order, OrderBy) and isinstance(order.expression, F):
            path: Any = order.expression
            yield f"{'-' if order.descending else ''}{path.name}"
