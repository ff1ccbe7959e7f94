"""Admins of packages that replace views, forms or lists of Django's: the tools show and save what their pages do."""

import json
from typing import Any

import pytest

from tests.environments import ROOT, python_with, run

pytestmark = pytest.mark.slow
SITE = "tests.integrations.admin_site.third_party"
PACKAGES = (
    "Django>=5.2,<6",
    "django-admin-autocomplete-filter>=0.7,<1",
    "django-admin-confirm>=1.3,<2",
    "django-admin-interface>=0.32",
    "django-admin-rangefilter>=0.15",
    "django-admin-sortable2>=2.3,<3",
    "django-celery-beat>=2.9,<3",
    "django-ckeditor-5>=0.2",
    "django-colorfield>=0.14",
    "django-constance>=4.4,<5",
    "django-countries>=9,<10",
    "django-filer>=3.6,<4",
    "django-fsm-2-admin>=2,<3",
    "django-guardian>=3,<4",
    "django-import-export>=4.4,<5",
    "django-inline-actions>=3,<4",
    "django-jazzmin>=3,<4",
    "django-modeltranslation>=0.20",
    "django-money>=3.6,<4",
    "django-mptt>=0.20",
    "django-nested-admin>=4.1,<5",
    "django-object-actions>=5.1,<6",
    "django-ordered-model>=3.7,<4",
    "django-parler>=2.4,<3",
    "django-phonenumber-field[phonenumberslite]>=9,<10",
    "django-polymorphic>=4.11,<5",
    "django-reversion>=6.4,<7",
    "django-safedelete>=1.5,<2",
    "django-simple-history>=3.13,<4",
    "django-solo>=2.5,<3",
    "django-summernote>=0.8.20",
    "django-taggit>=6.1,<7",
    "django-timezone-field>=7.2",
    "django-tinymce>=5,<6",
    "django-treebeard>=7,<8",
    "django-unfold>=0.91",
    "djangoql>=0.19",
    "jsonschema>=4.23",
)
THEMES = ("", "unfold", "jazzmin", "admin_interface")


def judged(theme: str, *arguments: str) -> list[dict[str, Any]]:
    """Return what was compared and what differs, for each package and user."""
    python = python_with(*PACKAGES)
    settings = f"{SITE}.settings"
    command = (python, "-W", "ignore", "-m", f"{SITE}.judge", *arguments)
    told = run(*command, cwd=ROOT, timeout=1500, DJANGO_SETTINGS_MODULE=settings, THEME=theme)
    return [json.loads(line) for line in told.splitlines()]


def test_admins_of_packages_show_and_save_the_same_at_an_endpoint() -> None:
    found = judged("", "--effects")
    assert len({each["package"] for each in found}) > 25
    wrong = {(each["package"], each["role"]): each["unexplained"] for each in found if each["unexplained"]}
    assert not wrong
    assert all(sum(each["compared"].values()) > 4 for each in found)


@pytest.mark.parametrize("theme", THEMES[1:])
def test_a_theme_makes_no_difference(theme: str) -> None:
    package = "unfold" if theme == "unfold" else "theme"
    found = judged(theme, package, "import-export", "--effects")
    assert not [each["unexplained"] for each in found if each["unexplained"]]
    assert {each["role"] for each in found} == {"superuser", "clerk"}
