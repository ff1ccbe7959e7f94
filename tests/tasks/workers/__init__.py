"""Tasks in real workers: processes of Django's Tasks framework, with queues in the database, RQ and Celery."""
