"""Client ID metadata documents: those that clients publish, those that attackers do, and how they are fetched."""

import base64
import contextlib
import datetime
import io
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote_plus, urlencode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.management import call_command
from django.utils import timezone
from oauth2_provider import views

from django_mcp.auth.toolkit import CIMDError, get_application_model
from django_mcp.core.http_client import Resolver
from django_mcp.oauth import cimd
from django_mcp.oauth.cimd import MetadataFetcher, Unreachable, checked, is_public, normalised
from django_mcp.oauth.client_metadata import InvalidMetadata
from tests.oauth.published_documents import CLAUDE, CODE_AND_REFRESH, DOCUMENTS
from tests.oauth.site import CALLBACK, Browser, Site
from tests.ports import free_port

HOST = "client.example.com"
PATH = "/oauth/client.json"
CONNECT = "urllib3.util.connection.create_connection"
GETADDRINFO = "django_mcp.core.http_client.socket.getaddrinfo"


# What is in a document


class Response:
    """An answer as the fetcher reads it."""

    def __init__(self, document: Any, status: int = 200) -> None:
        self.status = status
        self.headers = {"Content-Type": "application/json", "Cache-Control": "max-age=3600"}
        self.body = document if isinstance(document, bytes) else json.dumps(document).encode()

    def read(self, most: int) -> bytes:
        return self.body[:most]


class StubFetcher(MetadataFetcher):
    """Answers with the documents of the test instead of asking the network."""

    documents: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []

    def addresses(self, host: str, port: int) -> list[str]:
        return ["192.0.2.1"]

    def _download(self, url: Any, addresses: Any, deadline: float) -> tuple[dict[str, Any], int]:
        self.asked.append(url.geturl())
        found = self.documents.get(url.geturl(), 404)
        if isinstance(found, Exception):
            raise found
        return self._read_document(Response({}, found) if isinstance(found, int) else Response(found))


@pytest.fixture
def published(site: Site, settings: Any) -> Iterator[dict[str, Any]]:
    """The documents that can be fetched, by URL."""
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "CIMD_METADATA_FETCHER": StubFetcher}
    StubFetcher.documents = {each["client_id"]: each for each in DOCUMENTS.values()}
    StubFetcher.asked = []
    yield StubFetcher.documents
    StubFetcher.documents = {}


def clients() -> Any:
    return get_application_model().objects.filter(registration_source="cimd")


def test_published_documents_make_public_clients(site: Site, published: Any, subtests: pytest.Subtests) -> None:
    for name, document in DOCUMENTS.items():
        with subtests.test(name=name), site.afresh():
            StubFetcher.asked = []
            callback = document["redirect_uris"][0]
            answer = site.ask(client_id=document["client_id"], redirect_uri=callback)
            assert answer.status_code == 200, answer.content.decode()
            client = clients().get()
            assert client.client_id == document["client_id"]
            assert client.name == document["client_name"]
            assert client.redirect_uris.split() == document["redirect_uris"]
            assert (client.client_type, client.authorization_grant_type) == ("public", "authorization-code")
            assert (client.user, client.skip_authorization) == (None, False)
            assert StubFetcher.asked == [document["client_id"]]


def test_a_client_with_a_document_completes_a_login_on_any_loopback_port(site: Site, published: Any) -> None:
    client_id = DOCUMENTS["Claude Code"]["client_id"]
    redirect = {"redirect_uri": "http://localhost:54321/callback"}
    code = site.code_for(client_id=client_id, **redirect)
    response = site.exchange(code, client_id=client_id, **redirect)
    assert response.status_code == 200, response.content.decode()
    assert site.status(json.loads(response.content)["access_token"]) == 200


def test_a_document_that_names_another_client_makes_none(site: Site, published: Any) -> None:
    published[f"https://{HOST}{PATH}"] = CLAUDE
    answer = site.ask(client_id=f"https://{HOST}{PATH}", redirect_uri=CLAUDE["redirect_uris"][0])
    assert answer.status_code == 400
    assert not clients().exists()


def test_a_document_whose_client_id_is_not_just_its_url_makes_no_client(
    site: Site, published: Any, subtests: pytest.Subtests
) -> None:
    url = f"https://{HOST}{PATH}"
    wrong = [CLAUDE["client_id"], ..., None, "", [url], {"0": url}, True, url.upper(), url + "/", url + "#", f" {url}"]
    for client_id in wrong:
        with subtests.test(client_id=client_id), site.afresh():
            cache.clear()  # where a URL that failed is left alone
            published[url] = good(client_id=client_id)
            StubFetcher.asked = []
            answer = site.ask(client_id=url, redirect_uri="https://app.example/cb")
            assert answer.status_code == 400
            assert StubFetcher.asked == [url]
            assert not clients().exists()
    with site.afresh():
        cache.clear()
        published[url] = good()
        assert site.ask(client_id=url, redirect_uri="https://app.example/cb").status_code == 200


def test_a_document_that_failed_is_left_alone_for_a_while(site: Site, published: Any) -> None:
    for _ in range(3):
        assert site.ask(client_id=f"https://{HOST}{PATH}").status_code == 400
    assert StubFetcher.asked == [f"https://{HOST}{PATH}"]


def test_why_a_document_cannot_be_used_is_in_the_log(
    site: Site, published: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert site.ask(client_id=f"https://{HOST}{PATH}").status_code == 400
    said = f"The document of client 'https://{HOST}{PATH}' cannot be used: client_id document returned HTTP 404"
    assert said in caplog.text


def good(**changes: Any) -> dict[str, Any]:
    document = {
        "client_id": f"https://{HOST}{PATH}",
        "client_name": "App",
        "redirect_uris": ["https://app.example/cb"],
        **changes,
    }
    return {name: value for name, value in document.items() if value is not ...}


def test_what_is_left_of_a_document_is_what_a_client_may_have() -> None:
    document = good(
        client_name="Cla\u202eude" + "x" * 100,
        redirect_uris=["http://evil.example/cb", "myapp://cb", "https://app.example/cb", "http://localhost/cb"],
        grant_types=["refresh_token", "client_credentials", "password", "implicit", "authorization_code"],
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_methods_supported=["private_key_jwt", "none"],
        skip_authorization=True,
    )
    assert normalised(document) == {
        "client_id": f"https://{HOST}{PATH}",
        "client_name": "Claude" + "x" * 100,
        "redirect_uris": ["https://app.example/cb", "http://localhost/cb"],
        "grant_types": CODE_AND_REFRESH,
        "token_endpoint_auth_method": "none",
    }


def test_ten_redirect_uris_are_kept() -> None:
    document = good(redirect_uris=[f"https://app.example/{number}" for number in range(2000)])
    assert len(normalised(document)["redirect_uris"]) == 10


def test_a_document_without_what_a_client_needs_is_refused(subtests: pytest.Subtests) -> None:
    cases = [
        {"client_name": ...},
        {"client_name": ""},
        {"client_name": "\u200b"},
        {"client_name": {"en": "App"}},
        {"client_name": None},
        {"redirect_uris": ...},
        {"redirect_uris": []},
        {"redirect_uris": "https://app.example/cb"},
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": [{}]},
        {"grant_types": ["client_credentials"]},
        {"grant_types": []},
        {"grant_types": "authorization_code"},
        {"grant_types": [[]]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": None},
        {"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_methods_supported": "none"},
        {"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_methods_supported": [{}]},
        {"client_secret": "x"},
        {"client_secret_expires_at": 0},
    ]
    for change in cases:
        with subtests.test(change=change), pytest.raises(InvalidMetadata):
            normalised(good(**change))


# Where it is


def test_a_url_that_may_not_name_a_client_is_not_fetched(subtests: pytest.Subtests) -> None:
    cases = [
        "http://client.example.com/client.json",
        "https://client.example.com",
        "https:///client.json",
        "https://user@client.example.com/client.json",
        "https://user:password@client.example.com/client.json",
        "https://client.example.com/client.json#",
        "https://client.example.com/client.json#x",
        "https://client.example.com/a/../client.json",
        "https://client.example.com/./client.json",
        "https://client.example.com:22/client.json",
        "https://client.example.com:8443/client.json",
        "https://client.example.com:99999/client.json",
        "https://client.example.com:x/client.json",
        "https://[::1/client.json",
        "https://client.example.com/client json",
        "https://client.example.com/client.json\r\nX: y",
        "https://client.example.com/\x00",
        "https://client.example.com/ü.json",
        "https://client.example.com\\@evil.example/",
        "https://client.example.com/" + "x" * 255,
    ]
    for url in cases:
        with subtests.test(url=url), pytest.raises(CIMDError):
            checked(url)


def test_other_ports_can_be_allowed(settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CLIENT_DOCUMENT_PORTS": [443, 8443]}
    assert checked("https://client.example.com:8443/client.json").port == 8443


def test_other_urls_may(subtests: pytest.Subtests) -> None:
    for url in ["https://client.example.com/client.json", "https://client.example.com:443/?x=/../"]:
        with subtests.test(url=url):
            assert checked(url).hostname == HOST


INSIDE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.0.0.171",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::10.0.0.1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::",
    "2002:808:808::",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "",
    "localhost",
    "8.8.8.8.",
    "134744072",
]


def test_an_address_that_is_not_of_the_public_internet_is_refused(monkeypatch: Any, subtests: pytest.Subtests) -> None:
    def answers(inside: str, host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("1.1.1.1", inside)]

    monkeypatch.setattr(CONNECT, lambda *_, **__: pytest.fail("It connected."))
    for address in INSIDE:
        with subtests.test(address=address):
            assert is_public(address) is False
            monkeypatch.setattr(GETADDRINFO, partial(answers, address))
            with pytest.raises(CIMDError, match="not public"):
                MetadataFetcher().fetch(f"https://{HOST}{PATH}")


def test_a_public_address_is_not(subtests: pytest.Subtests) -> None:
    for address in ["1.1.1.1", "8.8.8.8", "160.79.104.10", "2606:4700::1111", "2a00:1450:4001::200e"]:
        with subtests.test(address=address):
            assert is_public(address) is True


def test_other_ways_to_write_an_inner_address_are_refused_too(monkeypatch: Any, subtests: pytest.Subtests) -> None:
    for host in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:7f00:1]", "localhost", "10.1"]:
        with subtests.test(host=host):
            monkeypatch.setattr(CONNECT, lambda *_, **__: pytest.fail("It connected."))
            with pytest.raises(CIMDError):
                MetadataFetcher().fetch(f"https://{host}{PATH}")


def test_a_host_that_cannot_be_one_has_no_address(subtests: pytest.Subtests) -> None:
    for host in ["x" * 64 + ".example", ".example", "a..example", "xn--a.example%00"]:
        with subtests.test(host=host), pytest.raises(CIMDError):
            MetadataFetcher().fetch(f"https://{host}{PATH}")


# How it is fetched: from a real server with a certificate


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{host}.crt", folder / f"{host}.key"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return files


class Server:
    """An https server on this machine.

    Attributes:
        answer: what it does with a request.
        requests: (path, headers) of each.
    """

    def __init__(self, folder: Path) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda handler: self.send(handler, b"{}")
        self.stopped = threading.Event()
        self.certificate, key = certificate(folder, HOST)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                with contextlib.suppress(OSError):  # the fetcher has hung up
                    server.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port: int = self.http.server_address[1]
        self.url = f"https://{HOST}:{self.port}{PATH}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def send(
        self,
        handler: BaseHTTPRequestHandler,
        body: bytes,
        status: int = 200,
        kind: str = "application/json",
        **more: str,
    ) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    def serves(self, body: bytes, **options: Any) -> None:
        self.answer = lambda handler: self.send(handler, body, **options)

    def drip(self, handler: BaseHTTPRequestHandler, head: bytes) -> None:
        """Send *head*, and then a byte every 20 ms, for as long as anybody reads."""
        handler.wfile.write(head)
        while not self.stopped.wait(0.02):
            handler.wfile.write(b"x")

    def close(self) -> None:
        self.stopped.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server(tmp_path: Path, settings: Any) -> Iterator[Server]:
    server = Server(tmp_path)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CLIENT_DOCUMENT_PORTS": [server.port]}
    settings.OAUTH2_PROVIDER = {"CIMD_FETCH_TIMEOUT_SECONDS": 5}
    yield server
    server.close()


class LocalFetcher(MetadataFetcher):
    """Thinks that the host is on this machine, and trusts the server's certificate. All else is as it is."""

    def __init__(self, server: Server, trusts: bool = True) -> None:
        self.server, self.trusts = server, trusts

    def addresses(self, host: str, port: int) -> list[str]:
        assert host == HOST
        return ["127.0.0.1"]

    def context(self) -> ssl.SSLContext:
        context = super().context()
        if self.trusts:
            context.load_verify_locations(self.server.certificate)
        return context


def fetch(server: Server, url: str | None = None) -> tuple[dict[str, Any], int]:
    return LocalFetcher(server).fetch(url or server.url)


def document_of(server: Server, **changes: Any) -> bytes:
    return json.dumps(good(client_id=server.url, **changes)).encode()


def test_a_document_is_fetched_in_the_hosts_name_and_nothing_is_said_but_that(server: Server) -> None:
    server.serves(document_of(server), Cache_Control="max-age=1234")
    document, age = fetch(server)
    assert (document["client_name"], age) == ("App", 1234)
    [(path, headers)] = server.requests
    assert path == PATH
    assert headers.pop("Host") == f"{HOST}:{server.port}"
    assert headers.pop("Accept-Encoding") == "identity"
    assert headers.keys() == {"Accept", "User-Agent", "Connection"}


def test_the_query_is_a_part_of_the_url(server: Server) -> None:
    server.serves(document_of(server))
    fetch(server, f"{server.url}?version=2")
    assert server.requests[0][0] == f"{PATH}?version=2"


def test_any_json_type_is_taken(server: Server, subtests: pytest.Subtests) -> None:
    for kind in ["application/json; charset=utf-8", "application/cimd+json", "Application/JSON"]:
        with subtests.test(kind=kind):
            server.serves(document_of(server), kind=kind)
            assert fetch(server)[0]["client_name"] == "App"


def test_a_document_is_kept_for_five_minutes_to_a_day(server: Server, subtests: pytest.Subtests) -> None:
    for said, seconds in [("no-store", 300), ("max-age=1", 300), ("max-age=99999999", 86400)]:
        with subtests.test(said=said, seconds=seconds):
            server.serves(document_of(server), Cache_Control=said)
            assert fetch(server)[1] == seconds


def test_links_in_a_document_are_not_followed(server: Server) -> None:
    here = f"https://{HOST}:{server.port}"
    links = {f"{name}_uri": f"{here}/{name}" for name in ("logo", "jwks", "client", "tos", "policy")}
    server.serves(document_of(server, **links))
    fetch(server)
    assert [path for path, _ in server.requests] == [PATH]


def test_a_redirect_is_not_followed(server: Server, subtests: pytest.Subtests) -> None:
    for status in [301, 302, 303, 307, 308]:
        with subtests.test(status=status):
            server.requests.clear()
            target = f"https://{HOST}:{server.port}/other"
            server.serves(document_of(server), status=status, Location=target)
            with pytest.raises(CIMDError):
                fetch(server)
            assert len(server.requests) == 1


def test_only_200_has_a_document(server: Server, subtests: pytest.Subtests) -> None:
    for status in [201, 204, 206, 400, 404, 500]:
        with subtests.test(status=status):
            server.serves(document_of(server), status=status)
            with pytest.raises(CIMDError):
                fetch(server)


def test_a_document_of_another_type_is_refused(server: Server, subtests: pytest.Subtests) -> None:
    for kind in ["text/html", "text/plain", "text/json", "application/octet-stream", "image/+json", ""]:
        with subtests.test(kind=kind):
            server.serves(document_of(server), kind=kind)
            with pytest.raises(CIMDError):
                fetch(server)


def test_what_is_no_document_is_refused(server: Server, subtests: pytest.Subtests) -> None:
    cases = [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe{}",
        b"[" * 15_000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"client_name":"\\ud800","redirect_uris":["https://app.example/\\ud800"]}',
        b'{"redirect_uris":{"a":NaN}}',
    ]
    for body in cases:
        with subtests.test(body=body):
            server.serves(body)
            with pytest.raises(CIMDError):
                fetch(server)


def test_a_document_of_more_than_sixteen_kibibytes_is_refused(server: Server) -> None:
    server.serves(document_of(server, padding="x" * 16 * 1024))
    with pytest.raises(CIMDError, match="size"):
        fetch(server)


def test_a_body_without_an_end_is_not_read_to_its_end(server: Server) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while not server.stopped.is_set():
            handler.wfile.write(b"x" * 65536)

    server.answer = endless
    with pytest.raises(CIMDError, match="size"):
        fetch(server)


def test_a_server_that_drips_is_given_up_at_the_deadline(
    server: Server, settings: Any, subtests: pytest.Subtests
) -> None:
    for head in [
        b"",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
    ]:
        with subtests.test(head=head):
            settings.OAUTH2_PROVIDER = {"CIMD_FETCH_TIMEOUT_SECONDS": 0.1}
            server.answer = partial(server.drip, head=head)
            began = time.monotonic()
            with pytest.raises(CIMDError, match=r"TimeoutError|too slow"):
                fetch(server)
            assert time.monotonic() - began < 5


def test_a_server_that_says_nothing_is_given_up_at_the_deadline(settings: Any, server: Server) -> None:
    settings.OAUTH2_PROVIDER = {"CIMD_FETCH_TIMEOUT_SECONDS": 0.5}
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        port = silent.getsockname()[1]
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CLIENT_DOCUMENT_PORTS": [port]}
        began = time.monotonic()
        with pytest.raises(CIMDError):
            fetch(server, f"https://{HOST}:{port}{PATH}")
        assert time.monotonic() - began < 5


def write(answer: bytes, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(answer)


def test_what_is_not_http_is_refused(server: Server, subtests: pytest.Subtests) -> None:
    for answer in [b"", b"\x00\x01", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/9 x y\r\n\r\n"]:
        with subtests.test(answer=answer):
            server.answer = partial(write, answer)
            with pytest.raises(CIMDError):
                fetch(server)


def test_a_certificate_that_nobody_vouches_for_is_refused(server: Server) -> None:
    server.serves(document_of(server))
    with pytest.raises(CIMDError, match="certificate"):
        LocalFetcher(server, trusts=False).fetch(server.url)
    assert server.requests == []


def test_a_certificate_of_another_host_is_refused(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(LocalFetcher, "addresses", lambda *_: ["127.0.0.1"])
    with pytest.raises(CIMDError, match="certificate"):
        fetch(server, f"https://other.example.com:{server.port}{PATH}")
    assert server.requests == []


def test_the_name_is_resolved_once_so_that_a_second_answer_cannot_lead_inside(server: Server, monkeypatch: Any) -> None:
    lookups, connections = [], []

    def answers(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        lookups.append(host)
        inside = "127.0.0.1" if len(lookups) > 1 else "1.1.1.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (inside, port))]

    def connect(address: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
        connections.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(GETADDRINFO, answers)
    monkeypatch.setattr(CONNECT, connect)
    with pytest.raises(CIMDError):
        MetadataFetcher().fetch(server.url)
    assert (lookups, connections) == ([HOST], [("1.1.1.1", server.port)])


def test_the_next_address_is_tried_where_one_does_not_answer(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(LocalFetcher, "addresses", lambda *_: ["127.0.0.2", "127.0.0.1"])
    server.serves(document_of(server))
    assert fetch(server)[0]["client_name"] == "App"


# Who causes a fetch, and how many

URL = f"https://{HOST}{PATH}"


def configure(site: Site, **changes: Any) -> None:
    site.configure(**changes)
    site.configure_toolkit(CIMD_METADATA_FETCHER=StubFetcher)


def ask(site: Site, url: str = URL, **changes: Any) -> Any:
    """What a logged-in user sees who is sent by the client of a document."""
    return site.ask(client_id=url, **{"redirect_uri": "https://app.example/cb", **changes})


def expire(url: str = URL, ago: datetime.timedelta = datetime.timedelta(hours=1)) -> None:
    """Let the cached document be out of date, and a failed fetch be forgotten."""
    assert clients().filter(client_id=url).update(cimd_expires_at=timezone.now() - ago)
    cache.clear()


@pytest.mark.postgresql
def test_programs_cause_no_fetch_at_any_endpoint(site: Site, published: Any, subtests: pytest.Subtests) -> None:
    published[URL] = good()
    basic = {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(quote_plus(URL).encode() + b":x").decode()}
    bodies = [
        {"grant_type": "refresh_token", "refresh_token": "x"},
        {"grant_type": "refresh_token", "refresh_token": "x", "client_secret": "x"},
        {"grant_type": "authorization_code", "code": "x", "redirect_uri": "https://app.example/cb"},
        {"grant_type": "client_credentials"},
        {"token": "x"},
        {"response_type": "code", "redirect_uri": "https://app.example/cb", "grant_type": "refresh_token"},
    ]
    for path in ["/o/token/", "/o/token", "/o/revoke_token/", "/o/revoke_token"]:
        for body in bodies:
            for headers in ({}, basic):
                with subtests.test(path=path, body=body, headers=headers):
                    cache.clear()
                    given = body if headers else {**body, "client_id": URL}
                    response = Browser().post_form(path, given, **headers)
                    assert response.status_code in {400, 401}
    assert StubFetcher.asked == []
    assert not clients().exists()


@pytest.mark.parametrize("view", ["TokenView", "RevokeTokenView", "IntrospectTokenView", "DeviceAuthorizationView"])
@pytest.mark.parametrize(
    "validator", ["django_mcp.oauth.validator.Validator", "tests.oauth.own_validator.MixedValidator"]
)
def test_nor_at_the_toolkits_own_endpoints(
    site: Site, published: Any, rf: Any, view: str, validator: str, subtests: pytest.Subtests
) -> None:
    """A site that had the toolkit before keeps its URLs."""
    published[URL] = good()
    site.configure_toolkit(OAUTH2_VALIDATOR_CLASS=validator)
    basic = {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(quote_plus(URL).encode() + b":x").decode()}
    for extra in ({}, {"client_secret": "x"}, {"response_type": "code", "redirect_uri": "https://app.example/cb"}):
        for headers in ({}, basic):
            with subtests.test(extra=extra, headers=headers):
                body = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x", "client_id": URL, **extra}
                request = rf.post("/o/x/", urlencode(body), "application/x-www-form-urlencoded", **headers)
                request.user = AnonymousUser()
                with contextlib.suppress(TypeError):  # the toolkit's device endpoint fails with oauthlib 4
                    assert getattr(views, view).as_view()(request).status_code in {400, 401, 403}
    assert StubFetcher.asked == []


def test_a_document_that_has_expired_is_not_renewed_by_a_program(site: Site, published: Any) -> None:
    published[URL] = good(redirect_uris=[CALLBACK])
    tokens = json.loads(site.exchange(site.code_for(client_id=URL), client_id=URL).content)
    expire()
    StubFetcher.asked.clear()
    assert site.refresh(tokens["refresh_token"], client_id=URL).status_code == 200
    assert site.revoke("x", client_id=URL).status_code == 200
    assert StubFetcher.asked == []


def test_a_user_may_name_so_many_documents_an_hour(site: Site, published: Any) -> None:
    configure(site, REGISTRATION_RATE="2/h")
    pages = [ask(site, f"https://{HOST}/{number}.json") for number in range(3)]
    assert [page.status_code for page in pages] == [400, 400, 429]
    assert 1 <= int(pages[2]["Retry-After"]) <= 3601
    assert len(StubFetcher.asked) == 2
    published[URL] = good()
    grace = site.make_user("grace")
    assert ask(site, user=grace).status_code == 200, "another user, of the same address"
    assert ask(site).status_code == 200, "no fetch is needed for what is known"


def test_requests_without_a_login_count_for_nobody(site: Site, published: Any) -> None:
    configure(site, REGISTRATION_RATE="1/h", MAX_UNUSED_CLIENTS=2)
    for number in range(5):
        url = f"https://127.0.0.1/{number}"
        site.token(grant_type="authorization_code", code="x", client_id=url, redirect_uri="https://app.example/cb")
        query = urlencode(site.authorize_query(client_id=url))
        assert Browser().get(f"/o/authorize/?{query}").status_code == 302
    published[URL] = good()
    assert ask(site).status_code == 200


def test_documents_that_are_not_fetched_do_not_count(site: Site, published: Any) -> None:
    configure(site, REGISTRATION_RATE="2/h")
    published[URL] = good()
    for _ in range(5):
        assert ask(site, f"https://{HOST}/gone.json").status_code == 400
    assert ask(site).status_code == 200
    assert StubFetcher.asked == [f"https://{HOST}/gone.json", URL]


@pytest.mark.postgresql
def test_documents_leave_no_more_than_so_many_unused_clients(site: Site, published: Any) -> None:
    configure(site, MAX_UNUSED_CLIENTS=3, REGISTRATION_RATE=None)
    for number in range(6):
        url = f"https://{HOST}/{number}.json"
        published[url] = good(client_id=url)
        assert ask(site, url).status_code == 200
    assert {each.client_id for each in clients()} == {f"https://{HOST}/{number}.json" for number in (3, 4, 5)}


def test_while_too_many_are_fetched_a_user_is_asked_to_try_again(
    site: Site, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    published[URL] = good()
    monkeypatch.setattr(cimd, "_slots", threading.BoundedSemaphore(1))
    with cimd._slots:
        page = ask(site)
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert StubFetcher.asked == []
    assert ask(site).status_code == 200


def test_the_sites_permission_classes_are_asked(site: Site, published: Any) -> None:
    published[URL] = good()
    allowlist = "oauth2_provider.cimd.HostAllowlistCIMDPermission"
    site.configure_toolkit(CIMD_REGISTRATION_PERMISSION_CLASSES=(allowlist,), CIMD_ALLOWED_HOSTS=["other.example"])
    assert ask(site).status_code == 400
    assert StubFetcher.asked == []
    site.configure_toolkit(CIMD_ALLOWED_HOSTS=[HOST])
    assert ask(site).status_code == 200


def test_a_document_makes_no_secret_and_costs_no_hash(site: Site, published: Any) -> None:
    published[URL] = good()
    ask(site)
    assert clients().get().client_secret == ""


def test_a_host_name_that_is_never_answered_ends_at_the_deadline_and_threads_do_not_pile_up(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, started = threading.Event(), []

    def hang(host: str, *_: Any, **__: Any) -> Any:
        started.append(host)
        answers.wait(30)
        raise socket.gaierror

    settings.OAUTH2_PROVIDER = {"CIMD_FETCH_TIMEOUT_SECONDS": 0.05}
    monkeypatch.setattr(cimd, "_resolver", Resolver(2))
    monkeypatch.setattr(GETADDRINFO, hang)
    try:
        for _ in range(2):
            with pytest.raises(Unreachable):
                MetadataFetcher().fetch(URL)
        with pytest.raises(CIMDError, match="Too many"):
            MetadataFetcher().fetch(URL)
    finally:
        answers.set()
    assert started == [HOST, HOST]


# Documents that change, go, or cannot be fetched

TAKEN_BACK: dict[str, Any] = {
    "404": 404,
    "410": 410,
    "no JSON": b"<html>",
    "another client": good(client_id=URL + "2"),
    "no redirect URIs": good(redirect_uris=[]),
    "a key": good(token_endpoint_auth_method="private_key_jwt"),
    "a secret": good(client_secret="x"),
    "no codes": good(grant_types=["client_credentials"]),
}
IN_TROUBLE: dict[str, Any] = {
    "500": 500,
    "503": 503,
    "429": 429,
    "403": 403,
    "a redirect": 302,
    "no network": Unreachable("no route to the host"),
    "too slow": CIMDError("TimeoutError"),
    "a bug": RuntimeError("a site's own fetcher"),
}


def test_a_client_that_can_only_sign_is_told_which_methods_there_are(site: Site, published: Any) -> None:
    published[URL] = good(token_endpoint_auth_method="private_key_jwt", jwks_uri="https://client.example.com/jwks")
    for _ in range(2):  # the second time from the cache
        words = ask(site, redirect_uri=CALLBACK).content.decode()
        assert "does not offer the method “none”" in words
        assert "must offer the token_endpoint_auth_method none" in words
    metadata = json.loads(Browser().get("/.well-known/oauth-authorization-server").content)
    assert metadata["token_endpoint_auth_methods_supported"] == ["none", "client_secret_post", "client_secret_basic"]


@pytest.mark.postgresql
@pytest.mark.parametrize("answer", TAKEN_BACK)
def test_a_document_that_takes_itself_back_ends_its_client(site: Site, published: Any, answer: str) -> None:
    published[URL] = good(redirect_uris=[CALLBACK])
    first = json.loads(site.exchange(site.code_for(client_id=URL), client_id=URL).content)
    code = site.code_for(client_id=URL)
    published[URL] = TAKEN_BACK[answer]
    assert ask(site, redirect_uri=CALLBACK).status_code == 200, "not before the cache has expired"
    expire()
    for _ in range(2):
        page = ask(site, redirect_uri=CALLBACK)
        assert page.status_code == 400
        words = "in a way that this site does not support" if answer == "a key" else "does not describe an application"
        assert words in page.content.decode()
    assert site.exchange(code, client_id=URL).status_code == 400
    refused = site.refresh(first["refresh_token"], client_id=URL)
    assert (refused.status_code, json.loads(refused.content)["error"]) == (400, "unauthorized_client")
    assert site.revoke(first["access_token"], client_id=URL).status_code == 200
    published[URL] = good(redirect_uris=[CALLBACK])
    cache.clear()
    assert ask(site, redirect_uri=CALLBACK).status_code == 200, "a mistake can be corrected"


@pytest.mark.parametrize("answer", IN_TROUBLE)
def test_a_document_that_cannot_be_fetched_counts_for_another_day(site: Site, published: Any, answer: str) -> None:
    published[URL] = good(redirect_uris=[CALLBACK])
    tokens = json.loads(site.exchange(site.code_for(client_id=URL), client_id=URL).content)
    published[URL] = IN_TROUBLE[answer]
    expire()
    assert ask(site, redirect_uri=CALLBACK).status_code == 200
    expire(ago=datetime.timedelta(hours=25))
    for _ in range(2):
        page = ask(site, redirect_uri=CALLBACK)
        assert page.status_code == 400
        assert f"This site could not reach {HOST} to learn about this application." in page.content.decode()
    assert site.refresh(tokens["refresh_token"], client_id=URL).status_code == 200


@pytest.mark.postgresql
def test_the_daily_command_notices_what_was_taken_back(site: Site, published: Any) -> None:
    urls = {name: f"https://{HOST}/{name}.json" for name in ("gone", "away", "good", "unused")}
    tokens = {}
    for name, url in urls.items():
        published[url] = good(client_id=url, redirect_uris=[CALLBACK])
        code = site.code_for(client_id=url)
        if name != "unused":
            tokens[name] = json.loads(site.exchange(code, client_id=url).content)["refresh_token"]
    del published[urls["gone"]]
    published[urls["away"]] = 503
    published[urls["good"]]["client_name"] = "New name"
    clients().update(cimd_expires_at=timezone.now() - datetime.timedelta(hours=1))
    StubFetcher.asked.clear()
    said = io.StringIO()
    call_command("mcp_clear", stdout=said)
    assert set(StubFetcher.asked) == {urls["gone"], urls["away"], urls["good"]}
    assert "1 client with a withdrawn document" in said.getvalue()
    assert {name: site.refresh(token, client_id=urls[name]).status_code for name, token in tokens.items()} == {
        "gone": 400,
        "away": 200,
        "good": 200,
    }
    assert clients().get(client_id=urls["good"]).name == "New name"


# What a site says that cannot fetch documents

CODE_CLIENT = DOCUMENTS["Claude Code"]["client_id"]
METADATA = "/.well-known/oauth-authorization-server"


def is_advertised() -> bool:
    return bool(json.loads(Browser().get(METADATA).content)["client_id_metadata_document_supported"])


def ask_for_claude_code(site: Site, url: str = CODE_CLIENT) -> Any:
    return ask(site, url, redirect_uri="http://localhost/callback")


@pytest.mark.parametrize("away", [Unreachable("Name or service not known"), CIMDError("a secret of the network")])
def test_the_user_reads_which_host_could_not_be_reached_and_no_more(site: Site, published: Any, away: Any) -> None:
    published[CODE_CLIENT] = away
    text = ask_for_claude_code(site).content.decode()
    assert "This site could not reach claude.ai to learn about this application." in text
    assert "Its owner can allow https to claude.ai, or turn metadata documents off." in text
    assert str(away) not in text


def test_a_host_that_may_not_be_fetched_reads_as_one_that_cannot(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise anyone with an account could map the site's network."""
    pages = set()
    for answer in ([("10.0.0.1", 443)], [("127.0.0.1", 443)], socket.gaierror("unknown"), OSError("no route")):

        def resolve(*_: Any, answer: Any = answer, **__: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in answer]

        cache.clear()
        monkeypatch.setattr(GETADDRINFO, resolve)
        page = ask(site)
        pages.add((page.status_code, re.sub(r'(nonce|action)="[^"]*"', "", page.content.decode())))
        monkeypatch.undo()
    assert len({text for _, text in pages}) == 1


def test_while_claude_cannot_be_reached_clients_are_told_to_register(site: Site, published: Any) -> None:
    published[CODE_CLIENT] = Unreachable("no route")
    assert is_advertised()
    page = ask_for_claude_code(site)
    assert "it may then register itself instead" in page.content.decode()
    assert not is_advertised()
    published[URL] = good()
    assert ask(site).status_code == 200, "those that still send a URL are tried"
    assert is_advertised(), "for a document could be fetched"


def test_a_user_cannot_switch_documents_off_by_naming_hosts_that_do_not_exist(site: Site, published: Any) -> None:
    configure(site, REGISTRATION_RATE=None)
    port = CODE_CLIENT.replace("claude.ai", "claude.ai:8443")
    site.configure(CLIENT_DOCUMENT_PORTS=[443, 8443], REGISTRATION_RATE=None)
    site.configure_toolkit(CIMD_METADATA_FETCHER=StubFetcher)
    hosts = ["nowhere.example", "claude.ai.evil.example", "evil-claude.ai", "chatgpt.com.", "x.chatgpt.com"]
    for url in [*(f"https://{host}/c.json" for host in hosts), port]:
        published[url] = Unreachable("no address")
        assert ask(site, url).status_code == 400
    published[CODE_CLIENT] = CIMDError("TimeoutError: it was reached, and is slow")
    assert ask_for_claude_code(site).status_code == 400
    assert is_advertised()


def test_where_clients_cannot_register_documents_stay_advertised(site: Site, published: Any) -> None:
    site.configure_toolkit(DCR_ENABLED=False)
    published[CODE_CLIENT] = Unreachable("no route")
    assert "register itself" not in ask_for_claude_code(site).content.decode()
    assert is_advertised()


def test_documents_are_advertised_again_after_an_hour(
    site: Site, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    published[CODE_CLIENT] = Unreachable("no route")
    ask_for_claude_code(site)
    assert not is_advertised()
    now = time.time()
    monkeypatch.setattr("django.core.cache.backends.locmem.time.time", lambda: now + 3601)
    assert is_advertised()


def test_a_site_may_do_without_documents(site: Site, published: Any) -> None:
    published[URL] = good()
    assert ask(site).status_code == 200
    configure(site, CLIENT_DOCUMENTS=False)
    assert not is_advertised()
    StubFetcher.asked.clear()
    for url in (URL, CODE_CLIENT):
        page = ask(site, url)
        assert page.status_code == 400
        assert "does not accept applications that are described by a document" in page.content.decode()
    assert StubFetcher.asked == []


def test_a_cache_that_fails_does_not_keep_anybody_out(site: Site, published: Any, settings: Any) -> None:
    published[URL] = good()
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.BrokenCache"}}
    assert ask(site).status_code == 200
    assert ask(site, f"https://{HOST}/gone.json").status_code == 400
    published[CODE_CLIENT] = Unreachable("no route")
    assert ask_for_claude_code(site).status_code == 400
    assert is_advertised()


class BrokenCache(BaseCache):
    def __init__(self, *_: Any) -> None:
        super().__init__({})

    def get(self, *_: Any, **__: Any) -> Any:
        raise ConnectionError("the cache is away")

    add = set = delete = touch = get


def test_a_document_that_may_not_be_renewed_now_still_counts(site: Site, published: Any) -> None:
    configure(site, REGISTRATION_RATE="1/h")
    published[URL] = good()
    assert ask(site).status_code == 200
    assert clients().update(cimd_expires_at=timezone.now() - datetime.timedelta(hours=1))
    assert ask(site).status_code == 200
    assert StubFetcher.asked == [URL]
    clients().update(cimd_expires_at=timezone.now() - datetime.timedelta(hours=25))
    assert ask(site).status_code == 429


def test_a_url_that_may_not_name_a_client_is_unknown_and_does_not_count(
    site: Site, published: Any, subtests: pytest.Subtests
) -> None:
    configure(site, REGISTRATION_RATE="1/h")
    for url in [f"https://{HOST}:8443/c.json", f"https://u@{HOST}/c.json", "https://[::1/c", f"https://{HOST}"]:
        with subtests.test(url=url):
            page = ask(site, url)
            assert page.status_code == 400
            assert "is unknown to this site" in page.content.decode()
    assert StubFetcher.asked == []
    published[URL] = good()
    assert ask(site).status_code == 200


@pytest.mark.parametrize("failure", [TimeoutError("timed out"), ConnectionRefusedError(), OSError(101, "no route")])
def test_a_host_that_nothing_leads_to_is_unreachable(
    settings: Any, monkeypatch: pytest.MonkeyPatch, failure: OSError
) -> None:
    """A firewall that drops packets uses up the time with the first address."""
    settings.OAUTH2_PROVIDER = {"CIMD_FETCH_TIMEOUT_SECONDS": 5}
    resolve_to(monkeypatch, "1.1.1.1", "8.8.8.8")
    clock = time.monotonic()
    used = [0]

    def connect(*_: Any, **__: Any) -> Any:
        used[0] += 5 if isinstance(failure, TimeoutError) else 0
        raise failure

    monkeypatch.setattr(cimd.time, "monotonic", lambda: clock + used[0])
    monkeypatch.setattr(CONNECT, connect)
    with pytest.raises(Unreachable):
        MetadataFetcher().fetch(URL)


# Through a proxy


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """URLs and addresses that are asked for, in an environment with a proxy."""
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("https_proxy", "http://proxy.example.com:3128")
    asked: list[Any] = []

    @contextlib.contextmanager
    def send(method: str, url: str, headers: Any, **options: Any) -> Iterator[Any]:
        asked.append((url, options["address"]))
        yield Response(good())

    monkeypatch.setattr(cimd, "send", send)
    return asked


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror("Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(GETADDRINFO, resolve)


def test_the_proxy_of_the_environment_resolves_what_the_site_cannot(
    proxied: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for addresses in ([], ["1.1.1.1"]):
        resolve_to(monkeypatch, *addresses)
        assert MetadataFetcher().fetch(URL)[0]["client_name"] == "App"
    assert proxied == [(URL, None)] * 2


def test_a_proxy_leads_to_no_host_that_this_site_knows_as_an_inner_one(
    proxied: list[Any], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    resolve_to(monkeypatch, "10.0.0.1")
    for host in [HOST, "10.0.0.1", "127.0.0.1", "[::1]", "169.254.169.254"]:
        with subtests.test(host=host), pytest.raises(CIMDError):
            MetadataFetcher().fetch(f"https://{host}{PATH}")
    resolve_to(monkeypatch)
    for host in ["intranet", "localhost"]:
        with subtests.test(host=host), pytest.raises(CIMDError):
            MetadataFetcher().fetch(f"https://{host}{PATH}")
    assert proxied == []


def test_a_proxy_that_denies_a_host_counts_as_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    denied: list[str] = []

    class Denies(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            denied.append(self.path)
            self.send_error(403)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Denies) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.setattr(MetadataFetcher, "addresses", lambda *_: [])
        with pytest.raises(Unreachable):
            MetadataFetcher().fetch(URL)
        proxy.shutdown()
        thread.join()
    assert denied == [f"{HOST}:443"]


def test_hosts_of_no_proxy_are_fetched_directly(proxied: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", HOST)
    resolve_to(monkeypatch, "1.1.1.1")
    MetadataFetcher().fetch(URL)
    assert proxied == [(URL, "1.1.1.1")]
    resolve_to(monkeypatch)
    with pytest.raises(Unreachable):
        MetadataFetcher().fetch(URL)
