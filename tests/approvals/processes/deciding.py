"""Who decides, in a process of their own: ``python -m tests.approvals.processes.deciding approve <label>``.

The admin calls the same functions.
"""

import sys
from collections.abc import Mapping

from benchmarks.process import run_to_end

REASON = "Too dear."


def prepare(environment: Mapping[str, str]) -> None:
    """Make the people, and decide that ``refund`` asks."""
    run_to_end("-m", __name__, "prepare", environment=environment)


def approved(environment: Mapping[str, str], label: str) -> None:
    """Approve the call that waits, of which the argument is *label*.

    Raises:
        ProcessFailedError: there is none, or not only one.
    """
    run_to_end("-m", __name__, "approve", label, environment=environment)


def refused(environment: Mapping[str, str], label: str) -> None:
    """Refuse it, with ``REASON``. Raises as above."""
    run_to_end("-m", __name__, "refuse", label, environment=environment)


def _prepare() -> None:
    from django.contrib.auth.models import Permission, User

    from django_mcp import server
    from django_mcp.approvals.tool_policies import set_policy

    User.objects.create_user("ann")
    approve = Permission.objects.get(codename="approve_tool_call")
    User.objects.create_user("cleo").user_permissions.add(approve)
    set_policy(server, server.tools["refund"], "ask")


def _decide(verb: str, label: str) -> None:
    from django.contrib.auth.models import User

    from django_mcp.approvals.decisions import approve, deny
    from django_mcp.models import Approval

    cleo = User.objects.get(username="cleo")
    waiting = Approval.objects.filter(state=Approval.State.PENDING)
    (ticket,) = [each for each in waiting if each.arguments == {"label": label}]
    done = approve(ticket, cleo) if verb == "approve" else deny(ticket, cleo, reason=REASON)
    assert done, "somebody else decided"


if __name__ == "__main__":
    import django

    django.setup()
    if sys.argv[1] == "prepare":
        _prepare()
    else:
        _decide(*sys.argv[1:])
