"""The page of the admin that sets the password of a user, as ``UserAdmin`` has it."""

from typing import Any

from django.contrib.admin.utils import quote
from django.db import models

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.visit import page_url, visit
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument

PASSWORD = "password"  # noqa: S105 - the name of the argument
_FIELDS = ("password1", "password2")


def has_page(admin: Any) -> bool:
    """Return True if a ``ModelAdmin`` has such a page."""
    return hasattr(admin, "user_change_password")


def set_password(ctx: Context, site: Any, model: type[models.Model], key: Any, password: str) -> list[str]:
    """Set a password, and return the admin's messages.

    Raises:
        ToolError: there is no such row for the user, or the page is another one than Django's.
        ArgumentError: the site's validators refuse the password.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    change = page_url(ctx, site, f"{options.app_label}_{options.model_name}_change", quote(str(key)))
    path = f"{change.removesuffix('change/')}password/"  # where the change page links to; its name is of auth.User
    page = visit(ctx, path)
    if page.location is not None:
        raise ToolError(f"There is no {options.verbose_name} {key}.")
    pairs = page.form().pairs
    if not {name for name, _ in pairs}.issuperset(_FIELDS):
        raise ToolError("The page of the admin does not ask for a new password, so nothing was done.")
    sent = visit(ctx, path, data=[(name, password if name in _FIELDS else value) for name, value in pairs])
    if sent.location is not None:
        return sent.messages
    errors = getattr(sent.context.get("form"), "errors", {})
    words = list(dict.fromkeys(str(error) for found in errors.values() for error in found))
    raise ArgumentError([about_argument([PASSWORD], text) for text in words or ["was refused by the admin."]])
