"""Background tasks, whose clients poll for the outcome (Tasks extension).

A task is a row (``models.Task``). Its worker, in this process or another, renews a lease on it; when the lease expires,
the worker is gone. A run ends if the task asks its client; the answer starts the next run, in any process.
"""
