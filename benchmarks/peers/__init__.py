"""Other packages that serve MCP, each as the smallest honest server that offers ``benchmarks.catalogue.TOOLS``.

Their dependencies conflict with ours and with each other, so each has an environment of its own, made when it is
first asked for. Nothing here but this module runs in the project's environment.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ROOT, ProcessFailedError

ASGI_APP = "benchmarks.peers.asgi:application"
WSGI_APP = "benchmarks.peers.wsgi:application"

_ENVIRONMENTS = ROOT / ".benchmarks"
_INSTALLED_WITHIN = 600.0
_MARKER = "complete.txt"


@dataclass(frozen=True, slots=True)
class Peer:
    """A package to compare with, and how its server is reached."""

    name: str
    """Its name on PyPI."""
    requirements: tuple[str, ...]
    app: str
    """The application on the kind of server that it is fastest on."""
    shape: str
    """Of the request: the newest protocol version that it answers without a session, at its path."""
    settings: str = ""
    """The settings module, where it is a Django site."""


_UVICORN = "uvicorn[standard]>=0.40"
_GUNICORN = "gunicorn>=23"

PEERS: tuple[Peer, ...] = (
    Peer(
        name="fastmcp",
        requirements=("fastmcp>=4.1,<4.2", _UVICORN),
        app="benchmarks.peers.fastmcp_app:application",
        shape="modern-add",
    ),
    Peer(
        name="django-mcp-server",
        requirements=("django-mcp-server>=0.5,<0.6", "mcp<2", _GUNICORN, _UVICORN),
        app=WSGI_APP,
        shape="legacy-add",
        settings="benchmarks.peers.django_mcp_server.settings",
    ),
    Peer(
        name="django-mcpz",
        requirements=("django-mcpz>=1.2,<1.3", _GUNICORN, _UVICORN),
        app=WSGI_APP,
        shape="modern-add-slash-text",
        settings="benchmarks.peers.mcpz.settings",
    ),
    Peer(
        name="django-stateless-mcp",
        requirements=("django-stateless-mcp>=0.1,<0.2", _GUNICORN, _UVICORN),
        app=ASGI_APP,
        shape="modern-add-slash",
        settings="benchmarks.peers.stateless.settings",
    ),
    Peer(
        name="djangorestframework-mcp-server",
        requirements=("djangorestframework-mcp-server>=0.54,<0.55", _GUNICORN, _UVICORN),
        app=WSGI_APP,
        shape="modern-add-slash",
        settings="benchmarks.peers.drf.settings",
    ),
)


def python_of(peer: Peer) -> Path:
    """Return the interpreter of the peer's environment, which is made first where it is missing or outdated.

    Raises:
        ProcessFailedError: the environment could not be made; the message carries the end of pip's output.
    """
    home = _ENVIRONMENTS / peer.name
    python = home / "bin" / "python"
    if is_installed(peer):
        return python
    _run(peer, sys.executable, "-m", "venv", "--clear", str(home))
    # Isolated, so that nothing on PYTHONPATH passes for installed; twice quiet, because pip's warnings would
    # push the error out of the message.
    pip = (str(python), "-I", "-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check")
    _run(peer, *pip, "install", *peer.requirements)
    (home / _MARKER).write_text(_made_from(peer))
    return python


def is_installed(peer: Peer) -> bool:
    """Whether its environment is there, made from this list of packages and for this Python."""
    home = _ENVIRONMENTS / peer.name
    marker = home / _MARKER
    return marker.exists() and marker.read_text() == _made_from(peer) and (home / "bin" / "python").exists()


def _made_from(peer: Peer) -> str:
    return "\n".join([f"Python {sys.version}", *peer.requirements])


def _run(peer: Peer, *command: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALLED_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"{peer.name} could not be installed within {_INSTALLED_WITHIN:.0f} s"
        raise ProcessFailedError(message) from None
    if done.returncode:
        raise ProcessFailedError(f"{peer.name} could not be installed: {done.stdout[-2000:].strip()}")
