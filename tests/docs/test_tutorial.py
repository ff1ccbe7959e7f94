"""``docs/quickstart.md`` and ``docs/tutorial.md``, typed in line by line in an empty directory; then a client comes."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.docs.test_blocks import ROOT, blocks
from tests.lanes import at_night
from tests.ports import free_port
from tests.real_clients.sites import ATTEMPTS, accepts

QUICKSTART, TUTORIAL = ROOT / "docs" / "quickstart.md", ROOT / "docs" / "tutorial.md"
ELSEWHERE = ("mkdir ", "cd ", "python -m venv", ". .venv", "pip install", "python manage.py runserver", "daphne ")
"""What the test has done already, or does in its own way."""

HURRIED = """
from mylibrary.settings import *
DJANGO_MCP = {**DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.1}
"""


class Said(NamedTuple):
    """A command of the page, and what it printed."""

    command: str
    output: str


class Site(NamedTuple):
    """What the tutorial has led to."""

    path: Path
    said: list[Said]

    def of(self, command: str) -> str:
        return "\n".join(each.output for each in self.said if each.command.startswith(command))


def environment() -> dict[str, str]:
    ours = ("DJANGO_", "PYTEST", "PYTHONDONTWRITEBYTECODE", "COV", "DATABASE_URL", "REDIS_URL")
    given = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**given, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{given.get('PATH', '')}"}


def type_in(path: Path, command: str) -> str:
    """A line in the shell; a comment says where it is to fail."""
    own = {}
    if "discard_book" in command or "change_book" in command:
        # It would wait for somebody to approve, as long as people take.
        (path / "mylibrary/hurried.py").write_text(HURRIED)
        own = {"DJANGO_SETTINGS_MODULE": "mylibrary.hurried"}
    done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
        ["bash", "-c", command], cwd=path, env={**environment(), **own}, capture_output=True, text=True, timeout=120
    )
    fails = command.endswith("# exit 1")
    assert done.returncode == int(fails), f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def typed_in(page: Path, path: Path) -> Site:
    """The whole page, from top to bottom."""
    said = []
    for block in blocks(page):
        if block.language == "python":
            first, code = block.code.split("\n", 1)
            named = re.fullmatch(r"# (\S+\.py)(, at the end)?", first)
            assert named, f"the page does not say where this goes: {first}"
            with (path / named[1]).open("a" if named[2] else "w") as file:
                file.write(f"\n{code}" if named[2] else code)
            continue
        lines = [line for line in block.code.strip().splitlines() if not line.startswith(ELSEWHERE)]
        said += [Said(line, type_in(path, line)) for line in lines]
    return Site(path, said)


@contextmanager
def served(site: Site, module: str) -> Iterator[int]:
    """The port on which the site is served by ``python -m`` with these words, which name port 8000."""
    for _ in range(ATTEMPTS):
        port = free_port()
        command = module.replace("8000", str(port)).split()
        output = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, *command], cwd=site.path, env=environment(), stdout=output, stderr=output
        )
        while not (listens := accepts(port)):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
        if listens:
            yield port
            process.terminate()
            process.wait(30)
            return
    raise AssertionError("the server ended")


async def with_key(site: Site, port: int, mode: Any, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """What the official client finds with the key that a command of the page printed."""
    key = re.search(r"mcp_key_\w{49}", site.of("python manage.py mcp_key"))
    assert key
    headers = {"Authorization": f"Bearer {key[0]}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=30) as client:
            return await use(client)


def test_the_quickstart_ends_with_a_client_that_finds_a_book(tmp_path: Path) -> None:
    site = typed_in(QUICKSTART, tmp_path)
    assert "Added book 1." in site.of("python manage.py mcp_call")
    assert "claude mcp add" in (config := site.of("python manage.py mcp_config"))
    assert "http://127.0.0.1:8000/mcp" in config

    async def use(client: Client) -> tuple[list[str], Any]:
        return [each.name for each in (await client.list_tools()).tools], await client.call_tool(
            "search_books", {"query": "austen"}
        )

    with served(site, "manage.py runserver --noreload 8000") as port:
        listed, found = asyncio.run(with_key(site, port, "auto", use))
        assert listed == ["add_book", "search_books", "get_book"]
        assert "Emma" in found.content[0].text
        assert "purchase_notes" not in found.content[0].text
        require_key(port)


def require_key(port: int) -> None:
    """See that nobody is let in without one."""
    answer = httpx2.post(f"http://127.0.0.1:{port}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return typed_in(TUTORIAL, tmp_path_factory.mktemp("mylibrary"))


@pytest.fixture(scope="module")
def port(site: Site) -> Iterator[int]:
    """Where the server of the last step listens."""
    line = next(line for block in blocks(TUTORIAL) for line in block.code.splitlines() if line.startswith("daphne "))
    with served(site, "-m " + line.split("  #")[0]) as port:
        yield port


def test_what_the_page_promises_is_printed(site: Site) -> None:
    assert "search_books" in site.of("python manage.py mcp_inspect")
    found, short = (
        site.of("python manage.py mcp_call search_books query=austen --as ann"),
        site.of("python manage.py mcp_call search_books query=austen pages__lte=300"),
    )
    assert "Emma" in found
    assert "Persuasion" in short
    assert "Emma" not in short
    assert "12.50" not in found
    assert "“Emma” is lent to Mr Knightley" in site.of("python manage.py mcp_call lend_book")
    assert "Mr Knightley" in site.of("python manage.py mcp_call search_loans")
    assert "/admin/" in site.of("python manage.py mcp_call discard_book")
    staff = site.of("python manage.py mcp_inspect --server staff")
    assert "change_book" in staff
    assert "book_take_back" in staff
    assert "12.50 at the fair" in site.of("python manage.py mcp_call get_book pk=1 --server staff")
    assert "Mr Knightley" in site.of("python manage.py mcp_call get_book pk=1 --server staff")
    asked = site.of("python manage.py mcp_call change_book")
    assert re.search(r"by the user you act for.*http://127.0.0.1:8000/\S+", asked, re.DOTALL)
    assert "no issues" in site.of("python manage.py check")
    assert "http://127.0.0.1:8000/mcp" in site.of("python manage.py mcp_config")
    assert "OK" in site.of("python manage.py test")


@pytest.mark.parametrize("mode", ["auto", at_night("legacy")])
def test_the_official_client_calls_the_result(site: Site, port: int, mode: Any) -> None:
    async def use(client: Client) -> tuple[list[str], Any, Any]:
        listed = [each.name for each in (await client.list_tools()).tools]
        found = await client.call_tool("search_books", {"query": "walden"})
        return listed, found, await client.call_tool("lend_book", {"book": 99, "reader": "Nobody"})

    listed, found, lent = asyncio.run(with_key(site, port, mode, use))
    assert listed == ["lend_book", "discard_book", "search_books", "get_book", "search_loans", "get_loan"]
    assert "Walden" in found.content[0].text
    assert lent.is_error
    assert lent.content[0].text == "Book 99 does not exist. Use search_books to find its key."


def test_without_a_key_nobody_comes_in(port: int) -> None:
    require_key(port)


def test_the_scripts_of_the_page_on_clients_run(site: Site, port: int) -> None:
    key = re.search(r"mcp_key_\w{49}", site.of("python manage.py mcp_key"))
    assert key
    shown = list(blocks(ROOT / "docs" / "clients" / "scripts.md"))
    assert [block.language for block in shown] == ["python", ""]
    for block, command in zip(shown, ([sys.executable, "-c"], ["bash", "-c"]), strict=True):
        code = block.code.replace("https://library.example.com", f"http://127.0.0.1:{port}")
        own = {**environment(), "LIBRARY_MCP_KEY": key[0]}
        done = subprocess.run([*command, code], env=own, capture_output=True, text=True, timeout=60, check=True)
        assert "Persuasion" in done.stdout
