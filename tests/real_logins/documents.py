"""A server with the metadata document of a client, over https on this machine."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.auth_check import DOCUMENTS_HOST
from tests.ports import free_port

PATH = "/oauth/client.json"


class Documents:
    """Serves one document while it is entered, and counts how often it was fetched."""

    def __init__(self, chain: Path) -> None:
        self.port = free_port()
        self.fetched = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.fetched += self.path == PATH
                body = json.dumps(owner.document()).encode()
                self.send_response(200 if self.path == PATH else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """The document's, which is the client's id."""
        return f"https://{DOCUMENTS_HOST}:{self.port}{PATH}"

    def document(self) -> dict[str, Any]:
        """As programs on people's computers have it."""
        return {
            "client_id": self.url,
            "client_name": "Example Assistant",
            "client_uri": f"https://{DOCUMENTS_HOST}",
            "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
