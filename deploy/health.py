"""Ask the worker in this container whether its endpoint answers; the exit code says it to Docker.

``ping`` needs neither a session nor the database, so a worker does not count as ill while the database is away: it
answers again as soon as that is back.
"""

import json
import sys
from urllib.request import Request, urlopen

URL = "http://127.0.0.1:8000/open/mcp"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
TIMEOUT = 3.0


def main(url: str = URL) -> str | None:
    """Send a ping; the answer is the complaint, if there is one."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = Request(url, json.dumps(PING).encode(), headers)  # noqa: S310 - a http URL, see above
    try:
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - the same
            answer = json.load(response)
    except (OSError, ValueError) as error:
        return f"{url} does not answer a ping: {error}"
    return None if answer.get("result") == {} else f"{url} answers a ping with {answer}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
