"""Starting, pinning and ending processes: only those started here, and always all of them."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
_PORTS = range(20_000, 32_768)  # below those that the kernel gives to outgoing connections
_READY_WITHIN = 30.0
_END_WITHIN = 5.0


class ProcessFailedError(Exception):
    """A process did not do what it was started for; the message carries the end of its output."""


def run_to_end(*arguments: str, environment: Mapping[str, str], within: float = 300.0) -> None:
    """Run this Python with *arguments* from the project's folder, and wait for its end.

    Args:
        environment: added to that of this process.
        within: seconds.

    Raises:
        ProcessFailedError: it failed.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    if done.returncode:
        said = f"{done.stdout[-1000:]}{done.stderr[-2000:]}"
        raise ProcessFailedError(f"python {' '.join(arguments)} failed: {said}")


def cores() -> tuple[int, int] | None:
    """Return a core for servers and another for the load generator, or None where they cannot be told apart."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[1]) if len(available) > 1 else None


@contextmanager
def _pinned(core: int | None) -> Iterator[None]:
    """Pin this thread for a moment: a child inherits that from its first instruction on."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with the checkout importable and the benchmark's settings."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "DJANGO_SETTINGS_MODULE": "benchmarks.site.settings",
        **extra,
    }


def run(module: Sequence[str], core: int | None, extra: Mapping[str, str], within: float) -> str:
    """Run ``python -m`` with these words to its end and return what it printed, whatever its exit status."""
    with _pinned(core):
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env=environment(extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        output, problems = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        raise ProcessFailedError(f"{module[0]} took longer than {within:.0f} s") from None
    finally:
        process.kill()
        process.wait()
    if process.returncode and not output:
        raise ProcessFailedError(f"{module[0]} ended with {process.returncode}: {problems[-2000:]}")
    return output


class RunningServer:
    """A server process, from the moment it accepts connections until ``end``."""

    def __init__(
        self,
        module: Sequence[str],
        port: int,
        core: int | None,
        extra: Mapping[str, str],
        directory: Path,
        python: str = sys.executable,
    ) -> None:
        self.port = port
        with tempfile.NamedTemporaryFile(dir=directory, suffix=".log", delete=False) as log:
            self._log = Path(log.name)
            with _pinned(core):
                self._process = subprocess.Popen(
                    [python, "-m", *module],
                    cwd=directory,  # what a server leaves behind goes when the directory goes
                    env=environment(extra),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # so that its own children can be ended with it
                )

    @property
    def pid(self) -> int:
        """The process's id, which is also that of its group."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        """Return when the server accepts connections."""
        deadline = time.monotonic() + _READY_WITHIN
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ProcessFailedError(f"the server ended with {self._process.returncode}: {self.log()}")
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise ProcessFailedError(f"the server did not listen within {_READY_WITHIN:.0f} s: {self.log()}")

    def log(self) -> str:
        """Return the end of what the server wrote."""
        return self._log.read_text(errors="replace")[-2000:].strip()

    def end(self) -> None:
        """End the server and its children: politely, then surely."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
            try:
                self._process.wait(_END_WITHIN)
            except subprocess.TimeoutExpired:
                continue
            # The leader is gone; a child that outlived it gets the second signal.
        self._process.wait(_END_WITHIN)


def free_port(taken: set[int]) -> int:
    """Return a port that nobody listens on and that was not returned before."""
    for port in random.sample(_PORTS, k=100):
        if port in taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        taken.add(port)
        return port
    raise ProcessFailedError("found no free port")
