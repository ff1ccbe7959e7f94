"""Who calls."""

from django.contrib.auth.models import User

from django_mcp import BaseAuthentication, Principal, RequestHead


class OneUser(BaseAuthentication):
    """Everybody who calls is the first user there is."""

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        return Principal(kind="test", id="one", user=User.objects.earliest("pk"))
