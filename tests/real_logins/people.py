"""A person who is asked to let clients in, and the Python client that asks."""

import asyncio
import hashlib
import json
import sqlite3
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.auth_check.browser import NotAllowedError, Visit
from tests.auth_check.site import Certificate, Demo
from tests.ports import free_port
from tests.real_logins.ask import ask

T = TypeVar("T")

READ = "Look up flights, hotels, weather and documents"
WRITE = "Book and cancel trips, and write into your calendar"
"""What the consent page says of the demo's scopes."""
BEN = "ben:travel-ben"
"""A customer of the demo, as ``name:password``."""


class Listener:
    """Where a browser is sent with the answer, as programs on people's computers have it."""

    def __init__(self, browser: str) -> None:
        self._browser = browser
        self.port = free_port()

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    def answer_to(self, url: str) -> tuple[Visit, dict[str, str]]:
        """Let somebody go through the pages of *url*; what they saw, and the parameters that came here."""
        came: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                came.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"You may close this window.")

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        with HTTPServer(("127.0.0.1", self.port), Handler) as server:
            serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            serving.start()
            try:
                is_visit, said = ask(self._browser, BEN, url)
            finally:
                server.shutdown()
                serving.join()
        if not is_visit:
            raise NotAllowedError(said)
        (path,) = [each for each in came if each.startswith("/callback")]
        return Visit(**json.loads(said)), {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}


class PythonClient:
    """The official client, with what it keeps between connections.

    Args:
        demo: the site.
        certificate: to trust.
        mode: of the library.
        browser: socket of the browser that is open.
        document: URL of the client's document, if it has one.

    Attributes:
        visits: what a person saw each time it sent one to the browser.
        tokens: those that it has.
        information: what it knows of itself from its registration.
    """

    def __init__(
        self, demo: Demo, certificate: Certificate, mode: str, browser: str, document: str | None = None
    ) -> None:
        self._demo = demo
        self._mode = mode
        self._trust = ssl.create_default_context(cafile=certificate.authority)
        self._listener = Listener(browser)
        self._answer: dict[str, str] = {}
        self.visits: list[Visit] = []
        self.tokens: OAuthToken | None = None
        self.information: OAuthClientInformationFull | None = None
        about = OAuthClientMetadata(client_name="Python client", redirect_uris=[self._listener.redirect_uri])
        self.provider = OAuthClientProvider(
            demo.endpoint, about, self, self._open_browser, self._wait_for_answer, client_metadata_url=document
        )

    def use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """What *work* does with a connected client."""

        async def main() -> T:
            async with (
                httpx2.AsyncClient(auth=self.provider, verify=self._trust, timeout=60) as http,
                Client(streamable_http_client(self._demo.endpoint, http_client=http), mode=self._mode) as client,
            ):
                return await asyncio.wait_for(work(client), 120)

        return asyncio.run(main())

    def call(self, name: str, **arguments: Any) -> Any:
        """The result of a tool."""

        async def work(client: Client) -> Any:
            return await client.call_tool(name, arguments)

        return self.use(work)

    # The browser

    async def _open_browser(self, url: str) -> None:
        seen, self._answer = await asyncio.to_thread(self._listener.answer_to, url)
        self.visits.append(seen)

    async def _wait_for_answer(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**self._answer)

    # The client's storage

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.information

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.information = client_info


def expire(demo: Demo, token: str) -> None:
    """Let an hour go by for an access token: its row is changed, for nobody wants to wait."""
    checksum = hashlib.sha256(token.encode()).hexdigest()
    # Not longer ago: the life of a refresh token is counted from where that of its access token ends.
    just_now = (datetime.now(UTC) - timedelta(seconds=1)).strftime("%Y-%m-%d %H:%M:%S.%f")
    with closing(sqlite3.connect(demo.environment["DEMO_DATABASE"], timeout=20)) as connection, connection:
        changed = connection.execute(
            "UPDATE oauth2_provider_accesstoken SET expires = ? WHERE token_checksum = ?", [just_now, checksum]
        )
        assert changed.rowcount == 1


def status_of(demo: Demo, certificate: Certificate, token: str) -> int:
    """How the endpoint answers to somebody with this token."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    trust = ssl.create_default_context(cafile=certificate.authority)
    return httpx2.post(demo.endpoint, json=body, headers=headers, verify=trust).status_code
