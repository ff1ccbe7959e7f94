"""Tools that leave traces outside the database: whether, how often and in which process they ran."""

import os

from django_mcp import Context, tool
from tests.tasks.workers.site.mcp import hold, journal


@tool(policy="ask", task="optional", atomic=False)
def pay(label: str) -> str:
    """Pay money to somebody."""
    journal(f"pid {label} {os.getpid()}")
    journal(f"paid {label}")
    return f"Paid {label}."


@tool(task="optional", atomic=False)
def refund(label: str) -> str:
    """Pay money back. It asks where people decided so."""
    journal(f"pid {label} {os.getpid()}")
    journal(f"paid {label}")
    return f"Paid {label}."


@tool(policy="ask", task="optional", atomic=False, idempotent=True)
def pay_slowly(ctx: Context, label: str) -> str:
    """Pay money to somebody, which may be said twice."""
    hold(ctx, label)
    journal(f"paid {label}")
    return f"Paid {label}."
