"""Settings of the site with workers, and with tools that ask.

Environment variables besides those of that site:

``APPROVAL_WAIT``
    seconds for which a client waits for a decision.
"""

import os

from tests.tasks.workers.site.settings import *  # noqa: F403
from tests.tasks.workers.site.settings import DJANGO_MCP as OF_TASKS
from tests.tasks.workers.site.settings import INSTALLED_APPS as APPS_OF_TASKS

INSTALLED_APPS = [*APPS_OF_TASKS, "tests.approvals.processes.site"]
DJANGO_MCP = {**OF_TASKS, "APPROVAL_WAIT_TIMEOUT": float(os.environ.get("APPROVAL_WAIT", "20"))}
