"""When skills are looked for. Where there cannot be any, what reads and serves them is never imported."""

import sys
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.conf import settings

from django_mcp.core import checking


class Root(NamedTuple):
    """A folder of skills.

    Attributes:
        app: the label of the app it belongs to.
        path: of the folder.
    """

    app: str
    path: Path


def app_roots() -> list[Root]:
    """The ``skills/`` of every installed app that has one, in the order of ``INSTALLED_APPS``."""
    roots = (Root(each.label, Path(each.path) / "skills") for each in apps.get_app_configs())
    return [root for root in roots if root.path.is_dir()]


def start() -> None:
    """Serve skills, if there are any; or if there may be some later, or somebody spoke of some that are not there.

    Raises:
        ImproperlyConfigured: something was said of one that is not there.
    """
    # The folder of that name in this package has code.
    is_wanted = any(root.app != "django_mcp" for root in app_roots())
    if is_wanted or settings.DEBUG or "django_mcp.skills.declaration" in sys.modules:
        from django_mcp.skills.serving import skills  # noqa: PLC0415 - most sites have none

        checking.expect(("django_mcp.skills.checks",))
        skills.start()
