"""Decisions of people who may not decide."""

from collections.abc import Callable

import pytest
from django.core.exceptions import PermissionDenied

from django_mcp import MCPServer
from django_mcp.approvals.decisions import approve, deny
from tests.approvals.asking import Calls, People, events, newest, serve


@pytest.mark.parametrize("decide", [approve, deny])
@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_who_may_not_approve_decides_and_withdraws_nothing(
    server: MCPServer, people: People, pay: Calls, decide: Callable[..., bool], is_withdrawn: bool
) -> None:
    serve(server, people["ann"], "pay", {"amount": 5})
    if is_withdrawn:  # as is noticed when somebody decides
        changed = server.tools["pay"]
        changed.definition = {**changed.definition, "description": "Pay twice."}
    for name in ("ben", "ann"):
        with pytest.raises(PermissionDenied):
            decide(newest(), people[name])
    assert newest().state == "pending"
    assert events(newest()) == ["proposed"]
