"""An authorization server on this machine, as far as a resource server sees one: metadata, keys and signed tokens."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from jwcrypto.jwk import JWK
from jwcrypto.jws import JWS

from tests.ports import free_port

METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
KEYS = "/keys"


@cache
def rsa_key(kid: str, **more: str) -> JWK:
    """A key, made once, for that takes a while."""
    return JWK.generate(kty="RSA", size=2048, kid=kid, **more)


class Issuer:
    """Serves *documents* (path -> dict, bytes, status, or a function that writes the answer) and counts requests."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.documents: dict[str, Any] = {
            METADATA: {"issuer": self.url, "jwks_uri": self.url + KEYS},
        }
        self.asked: list[str] = []
        self.sign_with(rsa_key("one", use="sig", alg="RS256"))

    def sign_with(self, key: JWK) -> None:
        """Have this key and no other."""
        self.key = key
        self.documents[KEYS] = {"keys": [key.export_public(as_dict=True)]}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Good claims, but for the audience. None takes a claim away."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ada", "exp": now + 300, "iat": now, "client_id": "assistant", "jti": "7"}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def sign(self, claims: Any, *, key: JWK | None = None, **header: Any) -> str:
        """A signed token."""
        key = key or self.key
        told = {"alg": "RS256", "typ": "at+jwt", "kid": key.get("kid"), **header}
        jws = JWS(claims if isinstance(claims, bytes) else json.dumps(claims))
        jws.allowed_algs = [told["alg"]]
        protected = {name: value for name, value in told.items() if value is not None}
        jws.add_signature(key, protected=json.dumps(protected))
        return str(jws.serialize(compact=True))


def handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            document = issuer.documents.get(self.path, 404)
            if isinstance(document, Callable):  # type: ignore[arg-type]
                document(self)
                return
            status, body = (document, b"") if isinstance(document, int) else (200, document)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def running() -> Iterator[Issuer]:
    """An issuer that answers until the end."""
    port = free_port()
    issuer = Issuer(port)
    server = ThreadingHTTPServer(("127.0.0.1", port), handler(issuer))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
