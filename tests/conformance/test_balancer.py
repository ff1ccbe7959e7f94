"""The balancer sends each request to the next process, and hides nothing of what either side does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.conformance.balancer import HOST, Balancer
from tests.ports import free_port

PATIENCE = 20


class Backend(ThreadingHTTPServer):
    """A server that says which it is, and at /stream says half and waits for the client to go."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, free_port()), Answering)
        self.left = threading.Event()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = f"{self.server.server_port} {body.decode()} {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        self.connection.settimeout(PATIENCE)
        if self.connection.recv(1) == b"":
            self.server.left.set()

    def log_message(self, *_: object) -> None:
        """Nothing to the terminal."""


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            backend = Backend()
            thread = threading.Thread(target=backend.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(backend.server_close)
            stack.callback(thread.join)
            stack.callback(backend.shutdown)
            made.append(backend)
        yield made


@pytest.fixture
def balancer(backends: list[Backend]) -> Iterator[Balancer]:
    with Balancer(free_port(), [backend.server_port for backend in backends]) as balancer:
        yield balancer


def test_requests_of_one_client_go_to_each_process_in_turn(balancer: Balancer) -> None:
    client = HTTPConnection(HOST, balancer.port, timeout=PATIENCE)
    with closing(client):
        answers = []
        for number in range(4):
            client.request("POST", "/", f"body {number}", {"Connection": "keep-alive"})
            answers.append(client.getresponse().read().decode())

    first, second = balancer.servers
    host = f"{HOST}:{balancer.port}"
    assert answers == [f"{port} body {number} {host}" for number, port in enumerate([first, second] * 2)]
    assert balancer.served == {first: 2, second: 2}


def test_a_stream_arrives_as_it_is_written_and_a_client_that_leaves_is_seen_to(
    balancer: Balancer, backends: list[Backend]
) -> None:
    client = HTTPConnection(HOST, balancer.port, timeout=PATIENCE)
    with closing(client):
        client.request("GET", "/stream")
        with client.getresponse() as answer:
            assert answer.read(4) == b"half"

    assert backends[0].left.wait(PATIENCE)


def test_its_end_waits_for_nobody(backends: list[Backend]) -> None:
    with Balancer(free_port(), [backends[0].server_port]) as balancer:
        client = HTTPConnection(HOST, balancer.port, timeout=PATIENCE)
        client.request("GET", "/stream")
        answer = client.getresponse()
        assert answer.read(4) == b"half"
    with answer, closing(client):
        assert answer.read() == b""


def test_a_port_that_is_taken_is_told_at_once(backends: list[Backend]) -> None:
    with socket.create_server((HOST, free_port())) as taken, pytest.raises(OSError, match="address"):  # noqa: SIM117
        with Balancer(taken.getsockname()[1], [backends[0].server_port]):
            pass
