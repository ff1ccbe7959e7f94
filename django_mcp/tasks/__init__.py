"""Background tasks: calls that continue after the response, whose clients poll for the outcome (Tasks extension).

A task is a row (``models.Task``). Its worker, in the serving process or elsewhere, holds a lease on the row and renews
it; an expired lease means that the worker is gone. A run ends when the task asks its client for input; the answer
starts the next run, in any process.
"""
