"""Receivers that end or renew streams at logout, deactivation and changes of API keys.

Streams are renewed because they keep the rights they were opened with.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_out
from django.db.models.signals import post_save, pre_save
from django.dispatch import receiver

from django_mcp.models import APIKey
from django_mcp.pubsub.publish import differs, end_streams, end_streams_of_user, renew_streams


@receiver(user_logged_out, dispatch_uid="django_mcp.auth.leaving.logout")
def end_session_streams(user: Any, **_: Any) -> None:
    """End the streams of a session at logout."""
    if user is not None:
        end_streams("session", str(user.pk))


@receiver(post_save, sender=settings.AUTH_USER_MODEL, dispatch_uid="django_mcp.auth.leaving.inactive")
def end_streams_of_inactive(instance: Any, **_: Any) -> None:
    """End the streams of a deactivated user."""
    if not instance.is_active:
        end_streams_of_user(instance.pk)


@receiver(pre_save, sender=APIKey, dispatch_uid="django_mcp.auth.leaving.key_is_saved")
def look_at_key(instance: Any, update_fields: Any, **_: Any) -> None:
    """Note whether endpoints or scopes change."""
    instance.opens_other = differs(instance, ("endpoints", "scopes"), update_fields)


@receiver(post_save, sender=APIKey, dispatch_uid="django_mcp.auth.leaving.key_was_saved")
def renew_streams_of_key(instance: Any, **_: Any) -> None:
    """Renew streams after a change of endpoints or scopes."""
    if vars(instance).pop("opens_other", False):
        renew_streams("api_key", str(instance.pk))
