"""Startup of skills. The modules that read and serve them are only imported if needed."""

from django.conf import settings

from django_mcp.skills.declaration import has_declarations
from django_mcp.skills.skill import app_roots


def start() -> None:
    """Serve skills if there are any, or may be later (in development), or were declared.

    Raises:
        ImproperlyConfigured: a declared skill does not exist.
    """
    # django_mcp/skills is a package of code.
    is_wanted = any(root.app != "django_mcp" for root in app_roots())
    if is_wanted or settings.DEBUG or has_declarations():
        from django_mcp.skills.serving import skills  # noqa: PLC0415 - most sites have none

        skills.start()
