"""The toolkit's models, each with a model of the site in its place."""

from django.db import models
from oauth2_provider.models import (
    AbstractAccessToken,
    AbstractApplication,
    AbstractGrant,
    AbstractIDToken,
    AbstractRefreshToken,
)


class Program(AbstractApplication):
    class Meta(AbstractApplication.Meta):
        app_label = "provider"


class Grant(AbstractGrant):
    class Meta(AbstractGrant.Meta):
        app_label = "provider"


class IdToken(AbstractIDToken):
    class Meta(AbstractIDToken.Meta):
        app_label = "provider"


class Token(AbstractAccessToken):
    source_refresh_token = models.OneToOneField(
        "provider.Refresh", models.SET_NULL, null=True, blank=True, related_name="refreshed_access_token"
    )

    class Meta(AbstractAccessToken.Meta):
        app_label = "provider"


class Refresh(AbstractRefreshToken):
    class Meta(AbstractRefreshToken.Meta):
        app_label = "provider"
