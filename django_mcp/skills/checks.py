"""System check of skill files."""

from django.core.checks import CheckMessage, Error
from django.utils.translation import gettext as _

from django_mcp.skills.serving import skills


def check_skills() -> list[CheckMessage]:
    hint = _("Correct the file. All other skills are served.")
    return [Error(problem, hint=hint, id="django_mcp.E053") for problem in skills.wrong.values()]


ALWAYS = (check_skills,)
