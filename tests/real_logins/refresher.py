"""One process of a client: refreshes when it is told to. ``python -m tests.real_logins.refresher``.

A JSON object comes as the first line of standard input: the token endpoint and the MCP endpoint, the file of the
authority to trust, the form to send. It connects, prints ``ready``, and sends the form as soon as another line comes.
Then it prints a JSON object: the token endpoint's ``status`` and ``body``, and how the MCP endpoint answered to the new
access token (``endpoint``).
"""

# ruff: noqa: T201 - a command speaks

import json
import ssl
import sys
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
WITHIN = 60.0
"""Seconds for one answer."""


def connect(url: str, authority: str) -> HTTPSConnection:
    """A connection that is open already, so that nothing but the request is left to do."""
    context = ssl.create_default_context(cafile=authority)
    connection = HTTPSConnection(urlsplit(url).netloc, timeout=WITHIN, context=context)
    connection.connect()
    return connection


def post(connection: HTTPSConnection, url: str, body: str, headers: dict[str, str]) -> tuple[int, str]:
    connection.request("POST", urlsplit(url).path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def main() -> None:
    """Do it."""
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    connection = connect(given["token_endpoint"], given["authority"])
    form = urlencode(given["form"])
    print("ready", flush=True)
    sys.stdin.readline()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    status, body = post(connection, given["token_endpoint"], form, kind)
    said: dict[str, Any] = {"status": status, "body": json.loads(body) if body.startswith("{") else body[:1000]}
    if status == 200:
        headers = {
            "Authorization": f"Bearer {said['body']['access_token']}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2025-06-18",
        }
        fresh = connect(given["endpoint"], given["authority"])
        said["endpoint"], _ = post(fresh, given["endpoint"], json.dumps(PING), headers)
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
