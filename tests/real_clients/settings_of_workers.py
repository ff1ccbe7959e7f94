"""The demo as it is, with workers: ``TASKS_ENGINE`` says of which kind, ``TASKS_QUEUE`` which queue is theirs."""

from tests.real_clients.settings_of_tasks import *  # noqa: F403
from tests.real_clients.settings_of_tasks import DJANGO_MCP as DEMO
from tests.real_clients.settings_of_tasks import INSTALLED_APPS as APPS
from tests.tasks.workers.site import settings as workers

INSTALLED_APPS = [*APPS, *workers.APPS[workers.ENGINE]]
TASKS = workers.TASKS
RQ_QUEUES = workers.RQ_QUEUES
CELERY_BROKER_URL = workers.CELERY_BROKER_URL
CELERY_TASK_IGNORE_RESULT = workers.CELERY_TASK_IGNORE_RESULT
CELERY_BROKER_TRANSPORT_OPTIONS = workers.CELERY_BROKER_TRANSPORT_OPTIONS
DJANGO_MCP = {**DEMO, "TASK_QUEUE": workers.QUEUE}
