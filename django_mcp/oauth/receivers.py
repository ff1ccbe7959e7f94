"""A client that is blocked loses open streams and running tasks too, not only the next request.

Streams are renewed because they keep the limits they were opened with.
"""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models.signals import post_delete, post_save, pre_delete
from django.dispatch import receiver
from django.utils.translation import gettext as _

from django_mcp.auth.oauth import KINDS
from django_mcp.core import database
from django_mcp.models import ClientPolicy, Task
from django_mcp.pubsub.publish import end_access, renew_streams
from django_mcp.tasks.store import UNFINISHED


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


APPLICATION = getattr(settings, "OAUTH2_PROVIDER_APPLICATION_MODEL", "oauth2_provider.Application")
"""As the toolkit reads it, whose other modules are imported on first use."""


@receiver(pre_delete, sender=APPLICATION, dispatch_uid="django_mcp.oauth.applications.deleted")
def end_access_of_application(instance: Any, **_more: Any) -> None:
    """End the streams and tasks of a client that is deleted, as long as its tokens say whose they are."""
    from django_mcp.approvals.approval_requests import withdraw  # noqa: PLC0415 - imported on first use

    with database.unless_unmigrated():
        for kind, key in set(_with_tokens(instance.client_id)).union(_with_tasks(instance.client_id)):
            end_access(kind, key)
        withdraw(_("The client was deleted."), client_id=instance.client_id)


def _with_tokens(client_id: str) -> Iterator[tuple[str, str]]:
    from django_mcp.auth.toolkit import get_access_token_model  # noqa: PLC0415

    tokens = get_access_token_model().objects.filter(application__client_id=client_id)
    for user, application in tokens.order_by().values_list("user_id", "application_id").distinct():
        for kind in KINDS:
            yield kind, f"{user}:{application}"


def _with_tasks(client_id: str) -> Iterator[tuple[str, str]]:
    # Their tokens may have been deleted since.
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415

    for application in get_application_model().objects.filter(client_id=client_id).values_list("pk", flat=True):
        theirs = Task.objects.filter(principal_kind__in=KINDS, principal_id__endswith=f":{application}")
        yield from theirs.filter(status__in=UNFINISHED).values_list("principal_kind", "principal_id")
