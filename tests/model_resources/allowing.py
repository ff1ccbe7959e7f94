"""Books that can be written, and permissions to do so."""

from typing import Any

from django.contrib.auth.models import Permission

from django_mcp import Context, ModelResource
from tests.model_resources.library.models import Author


class Books(ModelResource):
    """Books of the library."""

    fields = ("title", "price", "pages", "binding", "published", "summary", "extra", "weight")
    lookup_field = "slug"
    actions = ("create", "update", "delete")
    writable_fields = ("title", "slug", "price", "binding", "published", "summary", "extra", "weight")

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
        if not change:
            obj.author = Author.objects.get(name="Anna Berg")
        super().save_model(ctx, obj, change)


def allow(user: Any, *codenames: str) -> None:
    """Give *user* permissions of the library, like ``"change_book"``."""
    found = Permission.objects.filter(content_type__app_label="library", codename__in=codenames)
    assert len(found) == len(codenames)
    user.user_permissions.add(*found)
