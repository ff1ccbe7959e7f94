"""Fields and models that the admin shows and the tools hide: password hashes, tokens and other secrets."""

from collections.abc import Collection
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.constants import LOOKUP_SEP

from django_mcp.conf import settings
from django_mcp.core.redaction import is_hidden
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument

HIDDEN = "hidden; see the page in the admin"
"""Stands for the value."""
HIDDEN_APPS = frozenset(
    {"sessions", "contenttypes", "django_mcp", "oauth2_provider", "authtoken", "knox", "axes", "admin"}
)
"""Apps whose models are offered only by name, with ``only=``: sessions, tokens, the admin's own log."""
HIDDEN_MODELS = frozenset({"auth.permission"})


def is_secret_widget(widget: Any) -> bool:
    """Return True if a widget shows or takes a password."""
    from django.contrib.auth.forms import ReadOnlyPasswordHashWidget  # noqa: PLC0415 - needs the app

    inner = getattr(widget, "widget", widget)  # of RelatedFieldWidgetWrapper
    return isinstance(inner, ReadOnlyPasswordHashWidget) or getattr(inner, "input_type", None) == "password"


def is_secret(label: str, name: str, shown: Collection[str]) -> bool:
    """Return True if a column or field of a model is hidden by its name.

    Args:
        label: of the model, such as ``"shop.customer"``.
        name: of the field.
        shown: fields that the site opened, such as ``"shop.customer.api_key"``.
    """
    return f"{label}.{name}" not in shown and is_hidden(name, "text", settings.REDACTED_ARGUMENTS)


PREFIXES = "^=@"
"""Of ``search_fields``."""


def reaches_secret(model: type[models.Model], path: str, shown: Collection[str]) -> bool:
    """Return True if a path of the admin, such as ``"customer__api_key"``, leads to a field that is hidden.

    Args:
        model: of the list.
        path: of ``search_fields``, ``list_filter`` or ``list_display``, or a name.
        shown: fields that the site opened.
    """
    parts, place = path.lstrip(PREFIXES).split(LOOKUP_SEP), model
    hides = is_hidden(LOOKUP_SEP.join(parts), "text", settings.REDACTED_ARGUMENTS)
    for number, part in enumerate(parts):
        label = place._meta.label_lower  # noqa: SLF001 - Django's documented API
        if not {f"{label}.{part}", f"{label}.{LOOKUP_SEP.join(parts[number:])}"}.isdisjoint(shown):
            return False
        hides = hides or is_hidden(part, "text", settings.REDACTED_ARGUMENTS)
        try:
            related = place._meta.get_field(part).related_model  # noqa: SLF001 - likewise
        except FieldDoesNotExist:  # a lookup, an annotation or a method
            break
        if not isinstance(related, type):
            break
        place = related
    return hides


def secret_search_fields(model: type[models.Model], fields: Any, shown: Collection[str]) -> list[str]:
    """Return the entries of ``search_fields`` that lead to hidden fields, whose values a search would tell."""
    return [path for path in fields or () if isinstance(path, str) and reaches_secret(model, path, shown)]


def require_open_search(admin: Any, request: Any, shown: Collection[str]) -> None:
    """Raise ArgumentError if the search of a ``ModelAdmin`` looks into hidden fields."""
    if found := secret_search_fields(admin.model, admin.get_search_fields(request), shown):
        words = f"cannot be used: the admin's search looks into {', '.join(found)}, which is hidden."
        raise ArgumentError([about_argument(["query"], words)])


def is_offered_by_default(options: Any) -> bool:
    """Return True if a model is offered without being named in ``only``."""
    return (
        options.app_label not in HIDDEN_APPS
        and not options.app_label.startswith("otp_")
        and options.label_lower not in HIDDEN_MODELS
    )
