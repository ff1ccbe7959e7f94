"""Signal receivers and hooks that connect approvals and notices to the rest of the package. Imports are lazy."""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.signals import request_started
from django.db.models import Q
from django.db.models.signals import post_delete, post_save, pre_delete
from django.utils.translation import gettext as _

from django_mcp.conf import settings
from django_mcp.core import database, dispatch
from django_mcp.core.signals import access_ended, classes_of
from django_mcp.models import APIKey, ClientPolicy, ToolPolicy
from django_mcp.protocol.jsonrpc import Result


def is_wanted() -> bool:
    return bool(settings.APPROVAL_EMAILS or settings.APPROVAL_WEBHOOK)


def connect() -> None:
    """Connect to the first request, and to what ends a caller's access or changes what was approved."""
    request_started.connect(_serves, dispatch_uid="django_mcp.approvals")
    uid = "django_mcp.approvals.withdrawal"
    access_ended.connect(_on_access_ended, dispatch_uid=uid)
    for user in classes_of(get_user_model()):
        post_save.connect(_on_user_saved, sender=user, dispatch_uid=uid)
        pre_delete.connect(_on_user_deleted, sender=user, dispatch_uid=uid)
    post_save.connect(_on_key_saved, sender=APIKey, dispatch_uid=uid)
    post_save.connect(_on_client_saved, sender=ClientPolicy, dispatch_uid=uid)
    for signal in (post_save, post_delete):
        signal.connect(_on_policy_changed, sender=ToolPolicy, dispatch_uid=uid)


def _withdraw(why: str, *wanted: Q, **of: Any) -> None:
    from django_mcp.approvals.approval_requests import withdraw  # noqa: PLC0415 - most sites ask for no approvals

    with database.unless_unmigrated():
        withdraw(why, *wanted, **of)


def _on_access_ended(kind: str, id: str, **_more: Any) -> None:  # noqa: A002 - as ``Principal`` has it
    _withdraw(_("The access of the caller was revoked."), principal_kind=kind, principal_id=id)


def _on_user_saved(instance: Any, raw: bool = False, **_more: Any) -> None:
    if not raw and not getattr(instance, "is_active", True):
        _withdraw(_("The user was deactivated."), user=instance.pk)


def _on_user_deleted(instance: Any, **_more: Any) -> None:
    _withdraw(_("The user was deleted."), user=instance.pk)


def _on_key_saved(instance: APIKey, raw: bool = False, **_more: Any) -> None:
    if raw or not instance.read_only:
        return
    from django_mcp.approvals.approval_requests import withdraw_writing  # noqa: PLC0415 - likewise

    why = _("The API key was limited to tools that change nothing.")
    withdraw_writing(why, principal_kind="api_key", principal_id=str(instance.pk))


def _on_client_saved(instance: ClientPolicy, raw: bool = False, **_more: Any) -> None:
    if raw:
        return
    if instance.blocked:
        _withdraw(_("The client was blocked."), client_id=instance.client_id)
        return
    if instance.read_only:
        from django_mcp.approvals.approval_requests import withdraw_writing  # noqa: PLC0415 - likewise

        withdraw_writing(_("The client was limited to tools that change nothing."), client_id=instance.client_id)
    if instance.tools is not None:
        chosen = (key.partition(".") for key in instance.tools)
        others = ~Q(pk=None)
        for server, _dot, tool in chosen:
            others &= ~Q(server=server, tool=tool)
        _withdraw(_("The client was limited to other tools."), others, client_id=instance.client_id)


def _on_policy_changed(instance: ToolPolicy, raw: bool = False, **_more: Any) -> None:
    if raw:
        return
    of: dict[str, Any] = {"server": instance.server, "tool": instance.tool}
    if instance.client_id:
        of["client_id"] = instance.client_id
    if instance.group_id is not None and hasattr(get_user_model(), "groups"):
        of["user__groups"] = instance.group_id
    _withdraw(_("The policy of the tool was changed."), **of)


def start() -> None:
    dispatch.approval_gate = _admit


async def _admit(*given: Any) -> Result | None:
    from django_mcp.approvals.gate import admit  # noqa: PLC0415 - most calls need no approval

    return await admit(*given)


def _serves(**_: Any) -> None:
    """Deliver notices left by stopped processes, at the first request of this one."""
    request_started.disconnect(dispatch_uid="django_mcp.approvals")
    if is_wanted():
        from django_mcp.approvals.notices import look  # noqa: PLC0415 - most sites send no notices

        look()
