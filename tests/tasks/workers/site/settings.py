"""The conformance site's settings, with tasks.

Environment variables besides those of the conformance site:

``TASKS_ENGINE``
    what runs tasks: ``process``, ``db``, ``rq`` or ``celery``.
``TASKS_QUEUE``
    the queue's name, which no other run of the tests has.
``TASKS_REDIS_URL``
    where the queues of RQ and Celery are.
``FAULTS_JOURNAL``
    the file in which tools write down what they do.
"""

import os

from tests.conformance.settings import *  # noqa: F403

ENGINE = os.environ.get("TASKS_ENGINE", "process")
QUEUE = os.environ.get("TASKS_QUEUE", "default")
REDIS = os.environ.get("TASKS_REDIS_URL", "redis://127.0.0.1:6379/0")
APPS = {
    "process": [],
    "db": ["django_tasks", "django_tasks_db"],
    "rq": ["django_tasks", "django_rq"],
    "celery": ["django_tasks", "django_tasks_fennel"],
}
BACKENDS = {
    "process": "django_tasks.backends.immediate.ImmediateBackend",
    "db": "django_tasks_db.DatabaseBackend",
    "rq": "django_tasks_rq.RQBackend",
    "celery": "django_tasks_fennel.CeleryBackend",
}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.tasks.workers.site",
    *APPS[ENGINE],
]
TASKS = {"default": {"BACKEND": BACKENDS[ENGINE], "QUEUES": [QUEUE]}}
RQ_QUEUES = {QUEUE: {"URL": REDIS, "DEFAULT_TIMEOUT": -1}}
CELERY_BROKER_URL = REDIS
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": f"{QUEUE}:"}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

DJANGO_MCP = {
    "AUTHENTICATION": ["tests.faults.site.callers.ByHeader"],
    "NAME": "tasks",
    "POLL_INTERVAL": 0.05,
    "TASK_QUEUE": QUEUE,
    "TASK_THREADS": 2,
    "TASK_LEASE_TTL": 2.0,
    "TASK_POLL_INTERVAL": 0.05,
}
