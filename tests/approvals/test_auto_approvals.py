"""Rules that approve further calls, as they are stored and shown."""

from django.contrib.auth.models import User
from django.test import Client as Browser

from django_mcp import MCPServer
from django_mcp.approvals.decisions import approve
from django_mcp.models import AutoApprovalRule
from tests.approvals.asking import Calls, People, kind_of, newest, serve


def test_a_rule_shows_the_default_of_an_argument_that_was_not_sent(
    server: MCPServer, people: People, pay: Calls
) -> None:
    serve(server, people["ann"], "pay", {"amount": 5})
    assert approve(newest(), people["cleo"], names=["amount", "to", "note"], calls=None, seconds=60)
    rule = AutoApprovalRule.objects.get()
    assert rule.arguments == {"amount": 5, "to": "the-landlord", "note": None}
    browser, owner = Browser(), User.objects.create_superuser("owner-of-rules")
    browser.force_login(owner)
    shown = browser.get(f"/admin/django_mcp/autoapprovalrule/{rule.pk}/change/").content.decode()
    parts = shown.partition("<b>to</b>")[2]
    assert "the-landlord" in parts.partition("</div>")[0]
    assert "null" in shown.partition("<b>note</b>")[2].partition("</div>")[0]
    owner.delete()
    serve(server, people["ann"], "pay", {"amount": 5})  # with the approval itself
    assert not serve(server, people["ann"], "pay", {"amount": 5, "to": "the-landlord"}).get("isError")
    assert kind_of(serve(server, people["ann"], "pay", {"amount": 5, "to": "a-thief"})) == "approval_required"
