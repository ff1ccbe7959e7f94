"""PostgreSQL and Redis of the soak's own, in its directory and on ports of their own, so that they can be restarted."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.process import HOST, ProcessFailedError

READY_WITHIN = 30.0
"""Seconds within which a service answers."""
LOOK = 0.02
"""Seconds between two looks at whether it does."""
FALLBACK_USERS = ("postgres", "nobody")
"""As whom PostgreSQL runs where the soak is run as root, which it refuses to be."""


def find_postgresql() -> Path | None:
    """The folder with ``initdb`` and ``postgres``: on the path, or where Debian keeps the newest."""
    found = shutil.which("initdb")
    if found and shutil.which("postgres", path=str(Path(found).resolve().parent)):
        return Path(found).resolve().parent
    kept = [each.parent for each in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(kept, key=lambda each: float(each.parent.name), default=None)


def missing() -> list[str]:
    """What is not on this machine, and how to get it; empty where all is there."""
    lacking = []
    if find_postgresql() is None:
        lacking.append(
            "PostgreSQL's server (initdb, postgres): install it (Debian: postgresql; Fedora: postgresql-server; "
            "macOS: brew install postgresql) and have its folder of programs on PATH"
        )
    if shutil.which("redis-server") is None:
        lacking.append("redis-server: install it (Debian: redis-server; Fedora: redis; macOS: brew install redis)")
    for module in ("psycopg", "channels_redis", "uvicorn"):
        try:
            __import__(module)
        except ImportError:
            lacking.append(f"the Python package {module}: install the extra dev of this project")
    return lacking


def as_user() -> dict[str, Any]:
    """What ``subprocess`` needs to run something as nobody special."""
    if os.name != "posix" or os.geteuid() != 0:
        return {}
    import pwd  # noqa: PLC0415 - there is none on Windows

    for name in FALLBACK_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise ProcessFailedError(f"PostgreSQL does not run as root, and there is no user {' or '.join(FALLBACK_USERS)}")


class Service:
    """One of the two: a child of this process that can be ended and started again on the same port.

    Args:
        command: words of the program.
        ends_by: the signal that ends it as its administrator would.
        answers: raises OSError, or the like, until it does its work.
        log: file for what it writes.
    """

    def __init__(
        self,
        command: Sequence[str],
        ends_by: signal.Signals,
        answers: Callable[[], None],
        log: Path,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._command, self._ends_by, self._answers = list(command), ends_by, answers
        self._log, self._options = log, dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            ProcessFailedError: it does not.
        """
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt from the keyboard is the soak's, which ends it in its turn
                **self._options,
            )
        end = time.monotonic() + READY_WITHIN
        while True:
            try:
                self._answers()
            except Exception as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    said = self._log.read_text(errors="replace")[-1000:]
                    raise ProcessFailedError(f"{self._command[0]} does not answer ({error}): {said}") from error
                time.sleep(LOOK)
            else:
                return

    def stop(self) -> None:
        """End it: as its administrator would, and surely."""
        if self._process is None:
            return
        for number in (self._ends_by, signal.SIGKILL):
            self._process.send_signal(number)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                continue
            break
        self._process = None


def postgresql(directory: Path, port: int) -> tuple[Service, str]:
    """A cluster made for the purpose, not yet started, and the URL of its database. Its restart is the "fast" one."""
    import psycopg  # noqa: PLC0415 - see ``missing``

    programs = find_postgresql()
    assert programs is not None
    options = as_user()
    data = directory / "postgresql"
    data.mkdir(mode=0o700)
    log = directory / "postgresql.log"
    if options:
        os.chown(data, options["user"], options["group"])
        directory.chmod(0o711)  # whom it runs as has to get through
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
        cwd=data,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    if made.returncode:
        raise ProcessFailedError(f"initdb failed: {made.stderr[-1000:]}")
    url = f"postgres://postgres@{HOST}:{port}/postgres"

    def answers() -> None:
        psycopg.connect(url, connect_timeout=2).close()

    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-c", f"listen_addresses={HOST}"]
    command += ["-c", "unix_socket_directories="]
    return Service(command, signal.SIGINT, answers, log, {**options, "cwd": data}), url


def redis(directory: Path, port: int) -> tuple[Service, str]:
    """A Redis that keeps nothing, not yet started, and its URL."""
    import redis as driver  # noqa: PLC0415 - see ``missing``

    url = f"redis://{HOST}:{port}/0"

    def answers() -> None:
        with driver.Redis.from_url(url, socket_timeout=2) as connection:
            connection.ping()

    command = [shutil.which("redis-server") or "redis-server", "--port", str(port), "--bind", HOST]
    command += ["--save", "", "--appendonly", "no", "--dir", str(directory)]
    return Service(command, signal.SIGTERM, answers, directory / "redis.log"), url


DISK = "48m"
"""Size of the disk that is filled."""


@contextmanager
def small_disk(directory: Path) -> Iterator[Path | None]:
    """Mount a file system in memory, with a folder for PostgreSQL's tables; None where that is not allowed."""
    disk = directory / "disk"
    disk.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    words = [mount or "mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", str(disk)]
    if not mount or not unmount or subprocess.run(words, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        tables = disk / "tables"
        tables.mkdir(mode=0o700)
        if options := as_user():
            os.chown(tables, options["user"], options["group"])
        yield disk
    finally:
        subprocess.run([unmount, str(disk)], capture_output=True, check=False)
