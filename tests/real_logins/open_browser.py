"""A Chromium that stays open for all logins of a session: ``python -m tests.real_logins.open_browser SOCKET``.

Each visit that ``ask`` asks for is in a profile of its own, which knows nobody yet. It prints ``ready``, and ends with
its standard input.
"""

import json
import socket
import sys
import threading
from dataclasses import asdict
from typing import Any

from playwright.sync_api import Browser

from tests.auth_check.browser import NotAllowedError, allow_in, launched


def answer(browser: Browser, connection: socket.socket) -> None:
    """Make the visit that somebody asks for."""
    with connection, connection.makefile("rw", encoding="utf-8") as both:
        user, url = both.readline().strip(), both.readline().strip()
        name, _, password = user.partition(":")
        try:
            both.write(f"visited\n{json.dumps(asdict(allow_in(browser, url, name, password)))}")
        except NotAllowedError as error:
            both.write(f"failed\n{error}")


def main(path: str) -> None:
    """Do it until the input is closed."""
    listener: Any = socket.socket(socket.AF_UNIX)
    with listener, launched() as browser:
        listener.bind(path)
        listener.listen()
        ending = threading.Thread(target=lambda: (sys.stdin.read(), listener.shutdown(socket.SHUT_RDWR)), daemon=True)
        ending.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # shut down
                return
            answer(browser, connection)


if __name__ == "__main__":
    main(sys.argv[1])
