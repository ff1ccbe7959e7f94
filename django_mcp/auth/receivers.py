"""Receivers that end or renew streams at logout, deactivation and changes of API keys.

Streams are renewed because they keep the rights they were opened with. What changes rows without a signal is noticed by
the streams themselves (``BaseAuthentication.find_ended``).
"""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_out
from django.db.models.signals import post_delete, post_save, pre_save
from django.dispatch import receiver

from django_mcp.auth.api_keys import State, state_of
from django_mcp.core.signals import classes_of, differs
from django_mcp.models import APIKey
from django_mcp.pubsub.publish import end_access, end_streams, end_streams_of_user, renew_streams


@receiver(user_logged_out, dispatch_uid="django_mcp.auth.leaving.logout")
def end_session_streams(user: Any, **_: Any) -> None:
    if user is not None:
        end_streams("session", str(user.pk))


def end_streams_of_inactive(instance: Any, **_: Any) -> None:
    if not instance.is_active:
        end_streams_of_user(instance.pk)


def end_streams_of_deleted(instance: Any, **_: Any) -> None:
    end_streams_of_user(instance.pk)


for _user in classes_of(get_user_model()):
    post_save.connect(end_streams_of_inactive, sender=_user, dispatch_uid="django_mcp.auth.leaving.inactive")
    post_delete.connect(end_streams_of_deleted, sender=_user, dispatch_uid="django_mcp.auth.leaving.deleted")


@receiver(pre_save, sender=APIKey, dispatch_uid="django_mcp.auth.leaving.key_is_saved")
def look_at_key(instance: Any, update_fields: Any, **_: Any) -> None:
    instance.opens_other = differs(instance, ("endpoints", "scopes", "read_only", "revoked", "expires"), update_fields)


@receiver(post_save, sender=APIKey, dispatch_uid="django_mcp.auth.leaving.key_was_saved")
def renew_streams_of_key(instance: Any, **_: Any) -> None:
    """Renew streams after a change; end them, and the tasks, if the key was revoked or has expired."""
    if not vars(instance).pop("opens_other", False):
        return
    if state_of(instance) in {State.REVOKED, State.EXPIRED}:
        end_access("api_key", str(instance.pk))
    else:
        renew_streams("api_key", str(instance.pk))


@receiver(post_delete, sender=APIKey, dispatch_uid="django_mcp.auth.leaving.key_was_deleted")
def end_access_of_key(instance: Any, **_: Any) -> None:
    end_access("api_key", str(instance.pk))
