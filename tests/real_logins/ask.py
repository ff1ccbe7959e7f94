"""Ask the browser that is open to go to an address, and print the visit: ``python -m tests.real_logins.ask``.

Its arguments are the browser's socket, a user as ``name:password``, and the URL.

It imports nothing that takes long, for JavaScript clients start it for each login.
"""

import socket
import sys

WITHIN = 90.0
"""Seconds for a whole visit."""


def ask(path: str, user: str, url: str) -> tuple[bool, str]:
    """True with the visit as JSON, or False with what went wrong."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(WITHIN)
        asking.connect(path)
        with asking.makefile("rw", encoding="utf-8") as both:
            both.write(f"{user}\n{url}\n")
            both.flush()
            word, _, rest = both.read().partition("\n")
    return word == "visited", rest


if __name__ == "__main__":
    is_visit, said = ask(*sys.argv[1:])
    sys.stdout.write(said)
    sys.exit(0 if is_visit else said or "the browser ended")
