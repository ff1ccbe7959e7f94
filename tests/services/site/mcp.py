"""The service, a line for each of its methods, and which clubs a caller may see."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet

from django_mcp import Context, ModelResource, register, tool
from tests.services.site.clubs import Clubs


@register(Group)
class GroupResource(ModelResource):
    """Clubs, but the secret ones."""

    fields = ("name",)
    lookup_field = "name"
    view_permission = None

    def get_queryset(self, ctx: Context) -> QuerySet[Any]:
        """All but the secret ones."""
        return Group.objects.exclude(name__startswith="Secret")


clubs = Clubs(most=10)
for method in (clubs.found, clubs.rename, clubs.called, clubs.roll, clubs.motto, clubs.stamp):
    tool(method)
