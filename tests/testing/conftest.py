"""An endpoint as a site may have one, and people who call it, in the transaction of the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from django_mcp import Context, MCPServer, ModelResource, ToolError, prompt, register, resource, tool
from django_mcp.approvals import tool_policies
from django_mcp.core.policies import policy_cache
from tests.model_resources.library.models import Tag


@pytest.fixture(autouse=True)
def _decided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was decided about tools counts, as it does in the tests of a site."""
    monkeypatch.setattr(policy_cache, "reload", lambda: tool_policies.reload_policies() and 0.0)
    monkeypatch.setattr(policy_cache, "is_read", False)
    policy_cache.expire()
    yield
    policy_cache.expire()


@pytest.fixture
def people(db: None) -> dict[str, Any]:
    """Ann, who may change tags, Bob, who may not, and Cleo, who approves."""
    model = get_user_model()
    made = {name: model.objects.create_user(username=name) for name in ("ann", "bob", "cleo")}
    rights = Permission.objects.exclude(content_type__app_label="back_office")  # which has tags of its own
    for name, codename in (("ann", "change_tag"), ("ann", "view_tag"), ("cleo", "approve_tool_call")):
        made[name].user_permissions.add(rights.get(codename=codename))
    return {name: model.objects.get(pk=each.pk) for name, each in made.items()}


@pytest.fixture
def ann(people: dict[str, Any]) -> Any:
    return people["ann"]


@pytest.fixture
def site(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint with one thing of every kind."""
    server = make_server("site")

    @register(Tag, server=server)
    class TagResource(ModelResource):
        fields = ("word",)

    @tool(server=server, permission="library.change_tag")
    def rename_tag(ctx: Context, old: str, new: str) -> dict[str, str]:
        """Give a tag another word."""
        tag = Tag.objects.filter(word=old).first()
        if tag is None:
            raise ToolError(f"There is no tag {old!r}. Use one of the list.")
        if not ctx.confirm(f"Rename {old} to {new}?"):
            return {"word": old}
        ctx.report_progress(1, 2, "asked")
        ctx.log("info", f"{old} becomes {new}")
        tag.word = new
        tag.save()
        return {"word": new}

    @tool(server=server)
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool(server=server, policy="ask")
    def pay(amount: int) -> str:
        """Pay money."""
        return f"Paid {amount}."

    @tool(server=server, task="optional")
    def count_tags() -> int:
        """Count, which may take long."""
        return Tag.objects.count()

    @resource("site://about", server=server)
    def about() -> str:
        """About this site."""
        return "A site."

    @prompt(server=server, completions={"tag": lambda value: [each for each in ("blue", "black") if value in each]})
    def describe(tag: str) -> str:
        """Describe a tag."""
        return f"Describe {tag}."

    return server
