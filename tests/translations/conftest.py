"""Fixtures for translations."""

from tests.exposure.conftest import _installed_distributions

__all__ = ["_installed_distributions"]
