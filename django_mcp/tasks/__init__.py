"""Long work: calls that go on in the background, and whose clients ask for the outcome (Tasks extension).

A task is a row (``models.Task``). Whoever runs it, in the serving process or in a worker elsewhere, holds a lease on
the row and renews it; a row whose lease has run out has lost its worker. A task that asks its client ends its run; the
answer begins the next one, anywhere.
"""
