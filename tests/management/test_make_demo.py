"""``make demo``: what it prints, what it refuses and in which words, and how it ends."""

import ast
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from functools import partial
from pathlib import Path
from threading import Timer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from demo_project.travel.management.commands.demo import banner
from demo_project.travel.sample_users import SAMPLE_USERS
from tests.management.checkout import ROOT, copy, environment, free_port, make, run, taken_port

LAST_LINE = "Press Ctrl-C to stop it."
ENDPOINT = "http://127.0.0.1:8000/mcp"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def section(title: str) -> str:
    """The lines of the banner beneath a heading, up to the next one."""
    _, _, rest = banner("http://127.0.0.1:8000").partition(f"\n{title}")
    return rest.partition("\n")[2].partition("\n\n")[0]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """What make needs before anything is installed."""
    return copy(["Makefile", "scripts"], tmp_path)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """What the demo needs once everything is installed; nothing has been loaded yet."""
    return copy(["manage.py", "demo_project", "scripts"], tmp_path)


@pytest.fixture(scope="module")
def shared_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for the tests that start it, of which only the first has to wait for the sample data."""
    return copy(["manage.py", "demo_project", "scripts"], tmp_path_factory.mktemp("demo"))


class TestTheBanner:
    def test_names_the_endpoints_and_says_who_they_are_for(self):
        assert [line.split(maxsplit=1) for line in section("Endpoints").splitlines()] == [
            [ENDPOINT, "for all users: ben, anna, admin"],
            ["http://127.0.0.1:8000/staff/mcp", "for staff: anna, tim, admin"],
            ["http://127.0.0.1:8000/backoffice/mcp", "the admin as tools, for staff: anna, tim, admin"],
            ["http://127.0.0.1:8000/open/mcp", "public, read-only, without signing in"],
        ]

    def test_names_the_pages_for_people(self):
        named = [line.split()[0] for line in section("Pages").splitlines()]

        assert named == [f"http://127.0.0.1:8000{path}" for path in ("/", "/o/access/", "/admin/", "/outbox/")]

    def test_lists_every_sample_user_with_password_and_role(self):
        listed = [tuple(line.split()) for line in section("Sample users").splitlines()]

        assert listed == list(SAMPLE_USERS)

    def test_gives_a_command_for_claude_code(self):
        assert section("Claude Code").split() == [
            *["claude", "mcp", "add", "--transport", "http", "travel"],
            ENDPOINT,
        ]

    def test_gives_one_for_the_back_office(self):
        assert section("The back office in Claude Code").split() == [
            *["claude", "mcp", "add", "--transport", "http", "travel-backoffice"],
            "http://127.0.0.1:8000/backoffice/mcp",
        ]

    def test_gives_settings_that_vs_code_reads(self):
        assert json.loads(section("VS Code: .vscode/mcp.json")) == {
            "servers": {"travel": {"type": "http", "url": ENDPOINT}}
        }

    def test_gives_settings_that_cursor_reads(self):
        assert json.loads(section("Cursor: .cursor/mcp.json")) == {"mcpServers": {"travel": {"url": ENDPOINT}}}

    def test_gives_the_inspector_s_two_commands(self):
        in_the_browser, in_the_terminal = section("MCP Inspector").splitlines()

        assert "--cli http://127.0.0.1:8000/open/mcp --transport http --method tools/list" in in_the_terminal
        assert f"--server-url {ENDPOINT} --transport http" in in_the_browser

    def test_has_no_colour_codes_unless_asked_for(self):
        assert "\x1b" not in banner("http://127.0.0.1:8000")


@needs_make
class TestMakeRefuses:
    def test_a_taken_port_before_it_makes_anything(self, bare):
        before = sorted(bare.rglob("*"))
        with taken_port() as port:
            result = make(bare, "demo", f"PORT={port}")

        assert result.returncode != 0
        assert f"Port {port} cannot be used: another program is listening on it." in result.stderr
        assert re.search(r"^Type: make demo PORT=\d+$", result.stderr, re.MULTILINE)
        assert sorted(bare.rglob("*")) == before

    @pytest.mark.parametrize("port", ["0", "65536", "-1", "eighty", "80 80", "8e3", "٨٠٠٠", ""])
    def test_a_port_that_is_none(self, bare, port):
        result = make(bare, "demo", f"PORT={port}")

        assert result.returncode != 0
        assert "PORT is a whole number from 1 to 65535" in result.stderr
        assert not (bare / ".venv").exists()

    def test_a_python_that_is_not_there(self, bare):
        result = make(bare, "demo", "PYTHON=python3.99")

        assert "There is no 'python3.99' on this machine." in result.stderr
        assert not (bare / ".venv").exists()


class TestPreflightRefuses:
    def preflight(self, folder: Path, prelude: str) -> subprocess.CompletedProcess[str]:
        """Run the check as ``make demo`` does, in a Python which the prelude has changed."""
        start = "sys.argv[1:] = ['demo', '8000']; runpy.run_path('scripts/preflight.py', run_name='__main__')"
        return run(folder, sys.executable, "-c", f"import runpy, sys\n{prelude}\n{start}")

    def test_an_old_python_naming_the_version_found_and_the_one_needed(self, bare):
        result = self.preflight(bare, "sys.version_info = (3, 9, 18, 'final', 0)")

        assert result.returncode == 1
        assert "Python 3.11 or newer is needed, and this is Python 3.9.18" in result.stderr
        assert "make demo PYTHON=python3." in result.stderr
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize("module", ["venv", "ensurepip"])
    def test_a_python_without_the_modules_of_virtual_environments(self, bare, module):
        result = self.preflight(bare, f"sys.modules[{module!r}] = None")

        assert result.returncode == 1
        assert f"Python's {module} module is not installed" in result.stderr
        assert "apt-get install python3-venv" in result.stderr

    def test_in_a_syntax_that_old_pythons_can_read(self):
        source = (ROOT / "scripts" / "preflight.py").read_text()

        ast.parse(source, feature_version=(3, 6))


class TestManagePyDemo:
    def test_refuses_a_taken_port_before_it_touches_the_database(self, demo):
        with taken_port() as port:
            result = run(demo, sys.executable, "manage.py", "demo", "--port", str(port))

        assert result.returncode != 0
        assert f"Port {port} cannot be used: another program is listening on it." in result.stderr
        assert "Traceback" not in result.stderr
        assert not list(demo.glob("**/*.sqlite3"))

    def test_serves_until_ctrl_c_and_starts_again_quickly(self, shared_demo):
        port = free_port()
        with started(shared_demo, port) as process:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
            assert_ends_cleanly(process)

        again = time.monotonic()
        with started(shared_demo, port) as process:
            assert time.monotonic() - again < 20
            assert_ends_cleanly(process)

    def test_every_address_that_is_printed_answers_and_names_the_port(self, shared_demo):
        port = free_port()
        with started(shared_demo, port) as process:
            site = f"http://127.0.0.1:{port}"
            addresses = re.findall(rf"^  ({site}\S*)", "".join(process.printed), re.MULTILINE)
            answers = {address.removeprefix(site): get(address) for address in addresses}
            assert_ends_cleanly(process)

        assert {path: status for path, (status, _) in answers.items()} == {
            "/": 200,
            "/o/access/": 200,  # the login page
            "/admin/": 200,  # too
            "/outbox/": 200,  # too
            "/mcp": 401,
            "/staff/mcp": 401,
            "/backoffice/mcp": 401,
            "/open/mcp": 405,  # there is no stream for whoever may only read
        }
        for path in ("/mcp", "/staff/mcp", "/backoffice/mcp"):
            challenge = answers[path][1]["WWW-Authenticate"]
            assert f'resource_metadata="{site}/.well-known/oauth-protected-resource{path}"' in challenge

    def test_an_address_that_is_given_is_kept(self, shared_demo):
        port = free_port()
        with started(shared_demo, port, BASE_URL="https://travel.example.com") as process:
            assert "https://travel.example.com/mcp" in "".join(process.printed)
            _, headers = get(f"http://127.0.0.1:{port}/mcp")
            assert_ends_cleanly(process)

        assert "https://travel.example.com/.well-known/" in headers["WWW-Authenticate"]

    @needs_curl
    def test_the_commands_for_an_api_key_work_as_they_are_printed(self, shared_demo):
        port = free_port()
        with started(shared_demo, port) as process:
            _, _, rest = "".join(process.printed).partition("an API key, and a call with it\n")
            create, call = rest.partition("\n\n")[0].split("\n", 1)
            made = run(shared_demo, "env", *shlex.split(create))
            key = re.search(r"mcp_key_\w+", made.stdout)
            assert key, made.stdout + made.stderr
            assert f"http://127.0.0.1:{port}/mcp" in made.stdout
            assert "travel:write" in made.stdout
            called = run(shared_demo, *shlex.split(call.replace("\\\n", "").replace("PASTE-THE-KEY-HERE", key[0])))
            assert_ends_cleanly(process)

        found = json.loads(json.loads(called.stdout)["result"]["content"][0]["text"])
        assert found["total"] == 45  # as many as the sample data have of ben's, for who may write may read

    def test_ends_on_ctrl_c_while_a_client_keeps_its_connection(self, shared_demo):
        port = free_port()
        with started(shared_demo, port) as process, socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /admin/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(1024).startswith(b"HTTP/1.1 200")
            assert_ends_cleanly(process)


def get(url: str) -> tuple[int, Message]:
    """The status and the headers of what a GET is answered with, after redirects."""
    try:
        with urlopen(Request(url, headers={"Accept": "text/html"}), timeout=20) as answer:
            return answer.status, answer.headers
    except HTTPError as error:
        with error:
            return error.code, error.headers


class Demo(subprocess.Popen[str]):
    """A demo, and the lines it has printed so far."""

    printed: list[str]


@contextmanager
def started(folder: Path, port: int, **variables: str) -> Iterator[Demo]:
    """The demo, once its whole banner is printed. A demo that hangs is killed, and the test fails."""
    process = Demo(
        [sys.executable, "manage.py", "demo", "--port", str(port)],
        cwd=folder,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Where tests run in the background of a script, Ctrl-C is ignored, and children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    watchdog = Timer(120, process.kill)
    watchdog.start()
    try:
        printed = process.printed = []
        while not (printed and LAST_LINE in printed[-1]):
            printed.append(process.stdout.readline())
            assert printed[-1], f"the demo ended by itself:\n{''.join(printed)}"
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def assert_ends_cleanly(process: Demo) -> None:
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)

    assert output.strip() == "Stopped."
    assert process.returncode == 0
