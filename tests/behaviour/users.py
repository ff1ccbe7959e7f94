"""Callers who are users of the site, each recognised by a header."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType

from django_mcp import BaseAuthentication, InvalidToken, Principal, RequestHead

PERMISSION = "travel.refund_booking"
OTHER_PERMISSION = "travel.void_booking"


class ByName(BaseAuthentication):
    """The user a header names, read anew with each request; and the client, by another one."""

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        user = get_user_model().objects.filter(username=head.headers.get("x-user", ""), is_active=True).first()
        if user is None:
            raise InvalidToken
        return Principal("test", user.username, user, client_id=head.headers.get("x-client"))


def as_user(user: Any) -> Mapping[str, str]:
    """The header of a caller."""
    return {"x-user": user.username}


def permission(name: str = PERMISSION) -> Permission:
    """A permission by its name, made where there is none."""
    app, _, codename = name.partition(".")
    kind, _ = ContentType.objects.get_or_create(app_label=app, model="booking")
    return Permission.objects.get_or_create(content_type=kind, codename=codename, defaults={"name": codename})[0]


def group(name: str) -> Group:
    """A group by its name, made where there is none."""
    return Group.objects.get_or_create(name=name)[0]
