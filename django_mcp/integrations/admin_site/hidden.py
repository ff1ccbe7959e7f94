"""Fields and models that the admin shows and the tools hide: password hashes, tokens and other secrets."""

from collections.abc import Collection
from typing import Any

from django_mcp.conf import settings
from django_mcp.core.redaction import is_hidden

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


def is_offered_by_default(options: Any) -> bool:
    """Return True if a model is offered without being named in ``only``."""
    return (
        options.app_label not in HIDDEN_APPS
        and not options.app_label.startswith("otp_")
        and options.label_lower not in HIDDEN_MODELS
    )
