"""What a tool meets about which nobody has decided anything."""

from django_mcp.conf import settings
from django_mcp.core.policies import Decision, Rule
from django_mcp.primitives.tool import Tool

ASKING = ("destructive", "writes", "nothing")
"""Values of ``ASK_BY_DEFAULT``."""


def default_decision(tool: Tool) -> Decision:
    """What it says of itself, in its options or by its hints."""
    if tool.policy is not None:
        return Decision[tool.policy.upper()]
    return Decision.ASK if _asks(tool) else Decision.ALLOW


def _asks(tool: Tool) -> bool:
    # The hint has to be given: the specification takes for destructive whatever does not say otherwise, and clients do
    # so too; a site would be asked about everything.
    if settings.ASK_BY_DEFAULT == "destructive":
        return bool(tool.annotations.get("destructiveHint"))
    return settings.ASK_BY_DEFAULT == "writes" and not tool.read_only


def default_rule(tool: Tool) -> Rule:
    """The same as a rule for everybody."""
    return Rule(default_decision(tool), version="default")
