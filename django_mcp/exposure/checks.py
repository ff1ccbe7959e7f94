"""System checks of declarations."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error

from django_mcp.core.checking import add
from django_mcp.exposure.registration import found_problems


@add
def check_declarations(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:  # noqa: ARG001
    """What keeps a ``ModelResource`` from being served."""
    return [Error(problem.text, hint=problem.hint, id=problem.id) for problem in found_problems()]
