"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.tasks.workers.site"
    label = "tasks_site"
    default_auto_field = "django.db.models.BigAutoField"
