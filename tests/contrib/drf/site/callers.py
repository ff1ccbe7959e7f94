"""Who calls."""

from django.contrib.auth.models import User

from django_mcp import Authenticator, Head, Principal


class OneUser(Authenticator):
    """Everybody who calls is the first user there is."""

    def authenticate(self, head: Head, server: object) -> Principal | None:
        return Principal(kind="test", id="one", user=User.objects.earliest("pk"))
