"""A tool that pays, and writes down that it did."""

import os
from typing import Any

from django_mcp import tool


def would_pay(amount: int, to: str) -> dict[str, Any]:
    """What would change."""
    changes = [{"field": "balance", "label": "balance", "before": 1000, "after": 1000 - amount}]
    return {"verb": "update", "object": f"Account for {to}", "changes": changes}


@tool(policy="ask", preview=would_pay)
def pay(amount: int, to: str) -> str:
    """Pay money to somebody."""
    file = os.open(os.environ["FAULTS_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"paid {amount} to {to}\n".encode())
    finally:
        os.close(file)
    return f"Paid {amount} to {to}."
