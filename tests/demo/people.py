"""The agency's people at an endpoint of a test, without logins."""

from typing import Any

from django.contrib.auth import get_user_model

from django_mcp import BaseAuthentication, Principal, RequestHead


class Somebody(BaseAuthentication):
    """Everybody is the user of that name, or whom a header names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        user: Any = get_user_model().objects.get(username=head.headers.get("x-user", self.name))
        return Principal("test", user.username, user)
