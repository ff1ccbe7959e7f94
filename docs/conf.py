"""How ``make docs`` builds these pages: Sphinx, with MyST for Markdown."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import django

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))
os.environ["DATABASE_URL"] = ""
os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
django.setup()

from django_mcp import __version__  # noqa: E402 - it wants settings

project = "django_mcp"
author = "The django_mcp authors"
copyright = author  # noqa: A001 - Sphinx calls it that
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "sphinx_copybutton"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
intersphinx_mapping: dict[str, Any] = {}  # pages are built without the network
suppress_warnings = ["ref.python"]  # attributes of different classes have the same name

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"django_mcp {release}"
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/django-mcp/django-mcp-toolkit/",
    "source_branch": "main",
    "source_directory": "docs/",
}

SOURCE = "https://github.com/django-mcp/django-mcp-toolkit/blob/main/"
_OUTSIDE = re.compile(r"\]\(\.\./(?!CHANGELOG)([^)\s]+)\)")


def _lead_outside(_app: Any, docname: str, source: list[str]) -> None:
    """Links to files of the repository that are no pages lead to where it is published."""

    def where(match: re.Match[str]) -> str:
        target = (HERE / docname).parent / ".." / match[1].partition("#")[0]
        path = target.resolve()
        return match[0] if path.is_relative_to(HERE) else f"]({SOURCE}{path.relative_to(ROOT)})"

    source[0] = _OUTSIDE.sub(where, source[0])


def _copy_images(app: Any, error: Exception | None) -> None:
    """Pictures stand in HTML, where Sphinx does not look for them."""
    if error is None and app.builder.format == "html":
        shutil.copytree(HERE / "images", Path(app.outdir) / "images", dirs_exist_ok=True)


def setup(app: Any) -> None:
    """Have Sphinx call these."""
    app.connect("source-read", _lead_outside)
    app.connect("build-finished", _copy_images)
