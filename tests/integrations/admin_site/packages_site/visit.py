"""Calls tools of both admins as a member of staff, and prints what the packages recorded."""

import json
import sys

import django

django.setup()

from auditlog.models import LogEntry  # noqa: E402 - needs the apps
from django.contrib.auth.models import User  # noqa: E402 - likewise
from django.core.management import call_command  # noqa: E402 - likewise

from django_mcp import MCPServer, admin_tools  # noqa: E402 - likewise
from django_mcp.core.policies import policy_cache  # noqa: E402 - likewise
from django_mcp.test import MCPClient  # noqa: E402 - likewise
from tests.integrations.admin_site.packages_site.models import Shelf  # noqa: E402 - likewise
from tests.integrations.admin_site.packages_site.urls import safe  # noqa: E402 - likewise

call_command("migrate", run_syncdb=True, verbosity=0)
anna = User.objects.create_superuser("anna")
shelf = Shelf.objects.create(name="A")
only = ["packages_site.shelf"]
servers = {name: MCPServer(name) for name in ("office", "safe", "trusting", "doubting")}
admin_tools(only=only, policy="allow", server=servers["office"])
admin_tools(safe, only=only, policy="allow", server=servers["safe"])
admin_tools(safe, only=only, verified=lambda ctx: ctx.user == anna, server=servers["trusting"])
admin_tools(safe, only=only, policy="allow", verified=lambda ctx: False, server=servers["doubting"])
policy_cache.expire()


def client(name: str, user: User = anna) -> MCPClient:
    return MCPClient(user, server=servers[name], protocol_version="modern")


client("office").call("change_shelf", pk=shelf.pk, name="B").assert_ok()
told = {
    "history": str(shelf.history.first().history_user),
    "audit": str(LogEntry.objects.get_for_object(shelf).first().actor),
    "tools": {name: client(name).names() for name in servers},
}
bert = User.objects.create_superuser("bert")
told["bert"] = client("trusting", bert).names()
call = client("trusting").call("change_shelf", pk=shelf.pk, name="C")
call.assert_needs_approval()
told["approved"] = client("trusting").approve(call, bert).assert_ok().structured["pk"] == shelf.pk
told["name"] = Shelf.objects.get().name
sys.stdout.write(json.dumps(told))
