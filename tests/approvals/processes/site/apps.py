"""The app whose ``mcp.py`` is found."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.approvals.processes.site"
    label = "approvals_site"
