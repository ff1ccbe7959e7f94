"""A client that is blocked loses open streams and running tasks too, not only the next request.

Streams are renewed because they keep the limits they were opened with.
"""

from collections.abc import Iterator
from typing import Any

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from django_mcp.auth.toolkit import get_access_token_model, get_application_model
from django_mcp.models import ClientPolicy, Task
from django_mcp.pubsub.publish import end_access, renew_streams
from django_mcp.tasks.store import UNFINISHED

KINDS = ("oauth", "client")
"""Kinds of principals that an application's tokens make."""


@receiver([post_save, post_delete], sender=ClientPolicy, dispatch_uid="django_mcp.oauth.policies.changed")
def renew_streams_of_client(instance: ClientPolicy, signal: Any, **_: Any) -> None:
    """Renew the streams of all users of a client; end them, and cancel their tasks, if the client is blocked now."""
    callers = set(_with_tokens(instance.client_id))
    if not instance.blocked or signal is post_delete:
        for kind, key in callers:
            renew_streams(kind, key)
        return
    for kind, key in callers.union(_with_tasks(instance.client_id)):
        end_access(kind, key)


def _with_tokens(client_id: str) -> Iterator[tuple[str, str]]:
    """Yield kind and id of the callers that have or had an access token."""
    tokens = get_access_token_model().objects.filter(application__client_id=client_id)
    for user, application in tokens.order_by().values_list("user_id", "application_id").distinct():
        for kind in KINDS:
            yield kind, f"{user}:{application}"


def _with_tasks(client_id: str) -> Iterator[tuple[str, str]]:
    """Yield kind and id of the callers with unfinished tasks, whose tokens may have been deleted since."""
    for application in get_application_model().objects.filter(client_id=client_id).values_list("pk", flat=True):
        theirs = Task.objects.filter(principal_kind__in=KINDS, principal_id__endswith=f":{application}")
        yield from theirs.filter(status__in=UNFINISHED).values_list("principal_kind", "principal_id")
