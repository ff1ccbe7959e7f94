"""What a forked process finds of its parent: none of its locks is taken, and nothing is held."""

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, os, pkgutil, threading

import django

django.setup()
import django_mcp
from django_mcp.core import after_fork

for info in pkgutil.walk_packages(django_mcp.__path__, "django_mcp."):
    if ".migrations" not in info.name and info.name != "django_mcp.tasks.job":  # which needs an extra
        importlib.import_module(info.name)


class Held:
    pass


def fill(table):
    if hasattr(table, "keys"):
        table[held] = held
    else:
        table.add(held)


held = Held()
locks = [owner for owner in after_fork._owners if isinstance(owner, after_fork.FreshLock)]
begun, end = threading.Event(), threading.Event()


def hold():
    for lock in locks:
        while lock.acquire(blocking=False) and isinstance(lock._lock, threading.Semaphore):
            pass
    begun.set()
    end.wait()


threading.Thread(target=hold, daemon=True).start()
begun.wait()
assert not any(lock.acquire(blocking=False) for lock in locks)
for table in after_fork._tables:
    fill(table)
child = os.fork()
if child == 0:
    left = [table for table in after_fork._tables if table]
    taken = [lock for lock in locks if not lock.acquire(blocking=False)]
    os._exit(1 if left or taken else 0)
_, status = os.waitpid(child, 0)
assert all(table for table in after_fork._tables), "the parent keeps what it holds"
print(len(locks), len(after_fork._tables), os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow  # a process of its own: no test should fork one with others' threads
def test_a_forked_process_finds_every_lock_free_and_nothing_held() -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    locks, tables, code = map(int, done.stdout.split())
    assert code == 0
    assert locks >= 5
    assert tables >= 10
