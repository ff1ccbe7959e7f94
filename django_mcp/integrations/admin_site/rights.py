"""Models with which rights are given: their calls are decided by another person, who reads what would be gained."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models
from django.utils.translation import gettext as _

from django_mcp.integrations.admin_site.hidden import is_offered_by_default

MAX_NAMED = 50
"""Permissions named in a preview."""


def gives_rights(admin: Any) -> bool:
    """Return True if the pages of a ``ModelAdmin`` give somebody rights.

    These are users, groups, models with a relation to groups or permissions, also as inlines, and those that are
    offered by name only, such as tokens and policies.
    """
    shown = [admin.model, *(inline.model for inline in admin.inlines)]
    return not is_offered_by_default(admin.model._meta) or any(map(_is_of_rights, shown))  # noqa: SLF001 - documented


def _is_of_rights(model: type[models.Model]) -> bool:
    from django.contrib.auth.models import Group, Permission, PermissionsMixin  # noqa: PLC0415 - needs the app

    if issubclass(model, get_user_model() | PermissionsMixin | Group | Permission):
        return True
    related = (field.related_model for field in model._meta.get_fields() if not field.auto_created)  # noqa: SLF001
    return any(isinstance(other, type) and issubclass(other, Group | Permission) for other in related)


def gained_permissions(forms: Iterable[Any]) -> list[str]:
    """Return the permissions that validated forms give and that their rows did not give before, in words."""
    forms = list(forms)
    held = {permission.pk for form in forms for permission in _permissions(form, is_new=False)}
    given = {permission.pk: permission for form in forms for permission in _permissions(form, is_new=True)}
    words = sorted(str(permission) for key, permission in given.items() if key not in held)
    rest = len(words) - MAX_NAMED
    shown = words[:MAX_NAMED] + ([f"… ({rest} more)"] if rest > 0 else [])
    if any("is_superuser" in form.changed_data and form.cleaned_data.get("is_superuser") for form in forms):
        shown.insert(0, _("all permissions, as a superuser"))
    return shown


def _permissions(form: Any, *, is_new: bool) -> Iterator[Any]:
    from django.contrib.auth.models import Group, Permission  # noqa: PLC0415 - needs the app

    for name, field in form.fields.items():
        model = getattr(getattr(field, "queryset", None), "model", None)
        if model is None or not issubclass(model, Group | Permission):
            continue
        value = form.cleaned_data.get(name) if is_new else form.get_initial_for_field(field, name)
        rows = _rows(model, value)
        if issubclass(model, Permission):
            yield from rows.select_related("content_type")
        else:
            yield from Permission.objects.filter(group__in=rows).select_related("content_type").distinct()


def _rows(model: type[models.Model], value: Any) -> Any:
    several = value if isinstance(value, list | tuple | set | models.QuerySet) else [value]
    keys = [getattr(row, "pk", row) for row in several if row not in (None, "")]
    return model._default_manager.filter(pk__in=keys)  # noqa: SLF001 - Django's documented API
