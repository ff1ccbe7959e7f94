"""The demo as it is, with a slow tool beside its own, and little patience with clients that know no tasks."""

from demo_project.settings import *  # noqa: F403
from demo_project.settings import DJANGO_MCP as DEMO
from demo_project.settings import INSTALLED_APPS as APPS

INSTALLED_APPS = [*APPS, "tests.real_clients.slow"]
DJANGO_MCP = {**DEMO, "TASK_WAIT_TIMEOUT": 0.5, "TASK_POLL_INTERVAL": 0.1}
