"""System checks of skills."""

from django.core.checks import CheckMessage, Error
from django.utils.translation import gettext as _

from django_mcp.skills.serving import skills


def check_skills() -> list[CheckMessage]:
    """What keeps a skill from being served."""
    hint = _("Correct the file. Until then all other skills are served.")
    return [Error(problem, hint=hint, id="django_mcp.E053") for problem in skills.wrong.values()]


ALWAYS = (check_skills,)
