"""nginx in front of workers, with the configuration that ``docs/scaling.md`` shows."""

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import HOST, ProcessFailedError, RunningServer

INSTALL = "nginx is not installed. On Debian and Ubuntu: apt-get install nginx-light"

UPSTREAM = """\
upstream {name} {{
{servers}
    keepalive 64;
    keepalive_timeout 60s;
}}
"""
"""One pool of workers. It keeps connections shorter than uvicorn does (``--timeout-keep-alive 75``): whoever closes
while the other sends loses a request."""

SERVER = """\
server {{
    listen {listen};
    client_max_body_size 4m;

    location / {{
        proxy_pass http://{name};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;

        proxy_buffering off;
        proxy_connect_timeout 1s;
        proxy_read_timeout 300s;
        proxy_socket_keepalive on;

        proxy_next_upstream error timeout;
        proxy_next_upstream_tries 3;
{more}    }}
}}
"""
SAY_WHO = "        add_header X-Served-By $upstream_addr always;\n"
"""For the benchmark alone: which worker answered."""

AROUND = """\
{user}daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{sites}
}}
"""


def pool(name: str, addresses: Sequence[str]) -> str:
    """The part about workers."""
    servers = "\n".join(f"    server {each} max_fails=0;" for each in addresses)
    return UPSTREAM.format(name=name, servers=servers)


def site(name: str, listen: str, more: str = "") -> str:
    """The part about what listens for clients."""
    return SERVER.format(name=name, listen=listen, more=more)


def configuration(pools: Sequence[tuple[int, Sequence[int]]], directory: Path) -> str:
    """All of it.

    Args:
        pools: the port for clients, and the ports of its workers.
        directory: for what nginx writes.
    """
    parts = []
    for listen, workers in pools:
        name = f"mcp_{listen}"
        parts += [pool(name, [f"{HOST}:{port}" for port in workers]), site(name, f"{HOST}:{listen}", SAY_WHO)]
    user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""
    return AROUND.format(user=user, directory=directory, sites="\n".join(parts))


def program() -> str:
    """Where nginx is.

    Raises:
        ProcessFailedError: nowhere.
    """
    found = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        raise ProcessFailedError(INSTALL)
    return found


class Nginx(RunningServer):
    """A running nginx, until ``end``.

    Args:
        pools: see ``configuration``.
        directory: for what it writes.
    """

    def __init__(self, pools: Sequence[tuple[int, Sequence[int]]], directory: Path) -> None:
        self.port = pools[0][0]
        own = Path(tempfile.mkdtemp(dir=directory, prefix="nginx-"))
        file = own / "nginx.conf"
        file.write_text(configuration(pools, own))
        self._log = own / "error.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [program(), "-p", str(own), "-c", str(file), "-e", "stderr"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
