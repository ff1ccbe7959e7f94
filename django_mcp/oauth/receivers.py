"""A client that is blocked loses open streams and running tasks too, not only the next request.

Streams are renewed because they keep the limits they were opened with.
"""

from collections.abc import Callable
from typing import Any

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from django_mcp.auth.toolkit import get_access_token_model
from django_mcp.models import ClientPolicy
from django_mcp.pubsub.publish import end_access, renew_streams


@receiver([post_save, post_delete], sender=ClientPolicy, dispatch_uid="django_mcp.oauth.policies.changed")
def renew_streams_of_client(instance: ClientPolicy, signal: Any, **_: Any) -> None:
    """Renew the streams of all users of a client; end them, and cancel their tasks, if the client is blocked now."""
    is_blocked = instance.blocked and signal is post_save
    _each_caller(end_access if is_blocked else renew_streams, application__client_id=instance.client_id)


def _each_caller(act: Callable[[str, str], None], **wanted: Any) -> None:
    tokens = get_access_token_model().objects.filter(**wanted, application__isnull=False)
    for user, application in tokens.order_by().values_list("user_id", "application_id").distinct():
        for kind in ("oauth", "client"):
            act(kind, f"{user}:{application}")
