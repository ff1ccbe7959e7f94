"""When skills are looked for. Where there cannot be any, what reads and serves them is never imported."""

from django.conf import settings

from django_mcp.skills.declaration import has_declarations
from django_mcp.skills.skill import app_roots


def start() -> None:
    """Serve skills, if there are any; or if there may be some later, or somebody spoke of some that are not there.

    Raises:
        ImproperlyConfigured: something was said of one that is not there.
    """
    # The folder of that name in this package has code.
    is_wanted = any(root.app != "django_mcp" for root in app_roots())
    if is_wanted or settings.DEBUG or has_declarations():
        from django_mcp.skills.serving import skills  # noqa: PLC0415 - most sites have none

        skills.start()
