"""System checks of skills."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error
from django.utils.translation import gettext as _

from django_mcp.core.checking import add
from django_mcp.skills.serving import skills


@add
def check_skills(app_configs: Sequence[Any] | None, **_options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """What keeps a skill from being served."""
    hint = _("Correct the file. Until then all other skills are served.")
    return [Error(problem, hint=hint, id="django_mcp.E053") for problem in skills.wrong.values()]
