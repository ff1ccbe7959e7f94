"""Who may change a snippet."""

from typing import Any

from rest_framework import permissions


class IsOwnerOrReadOnly(permissions.BasePermission):
    """Everybody may look at a snippet; its owner may change it."""

    message = "Only its owner may change a snippet."

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return request.method in permissions.SAFE_METHODS or obj.owner == request.user
