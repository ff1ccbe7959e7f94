"""Say in plain words why a make target cannot work here, before it starts the long part.

Whichever ``python3`` a machine has runs this file, so its syntax stays within Python 3.6's: no walrus,
no ``match``, and annotations newer than that in quotes. A test parses it as 3.6 to keep it so.
"""

import errno
import importlib.util
import re
import shutil
import socket
import sys

MINIMUM = (3, 11)
NEWER_NAMES = ("python3.14", "python3.13", "python3.12", "python3.11")
HOST = "127.0.0.1"
HIGHEST_PORT = 65535
REASONS = {
    errno.EADDRINUSE: "another program is listening on it",
    errno.EACCES: "this user may not listen on so low a port",
}


def main(arguments: "list[str]") -> "str | None":
    """Check the Python and, where one is named, the port; the answer is the complaint, if there is one.

    Args:
        arguments: The make target to speak of, then the port it wants to listen on, if any.
    """
    command = "make " + arguments[0]
    problem = python_problem(tuple(sys.version_info), command) or venv_problem(command)
    if problem is None and len(arguments) > 1:
        problem = port_problem(arguments[1], HOST, command + " PORT={}")
    return problem


def python_problem(version: "tuple[int, ...]", command: str) -> "str | None":
    """Complain of a Python older than the package's, naming a newer one when this machine has it."""
    if version[:2] >= MINIMUM:
        return None
    found = ".".join(str(part) for part in version[:3])
    wanted = ".".join(str(part) for part in MINIMUM)
    installed = [name for name in NEWER_NAMES if shutil.which(name)]
    if installed:
        advice = f"This machine has a newer one. Type: {command} PYTHON={installed[0]}"
    else:
        advice = f"Install a newer one and name it, for example: {command} PYTHON=python3.12"
    return f"Python {wanted} or newer is needed, and this is Python {found} ({sys.executable}).\n{advice}"


def venv_problem(command: str) -> "str | None":
    """Complain of a Python without venv or ensurepip, which Debian and Ubuntu package separately."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return (
        f"Python's {' and '.join(missing)} module is not installed, and a virtual environment needs it.\n"
        f"On Debian and Ubuntu: sudo apt-get install python3-venv. Then type {command} again."
    )


def port_problem(port: "str | int", host: str, retry: str) -> "str | None":
    """Complain of a port that is no port, or that nothing new can listen on.

    Args:
        port: The port as it was typed.
        host: The address to listen on.
        retry: The command to suggest instead, with ``{}`` where the port goes.
    """
    text = str(port)
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= HIGHEST_PORT:
        return f"PORT is a whole number from 1 to {HIGHEST_PORT}, not {text!r}. Type: {retry.format(8000)}"
    reason = why_not_listen(host, int(text))
    if reason is None:
        return None
    following = range(int(text) + 1, min(int(text) + 21, HIGHEST_PORT + 1))
    free = next((other for other in following if why_not_listen(host, other) is None), 8000)
    return f"Port {text} cannot be used: {reason}.\nType: {retry.format(free)}"


def why_not_listen(host: str, port: int) -> "str | None":
    """Listen for a moment, as the server will, and tell what stood in the way."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers set it, so that connections which have just closed do not count as "in use".
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return REASONS.get(error.errno, f"{error.strerror} (on {host})")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
