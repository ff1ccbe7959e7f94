"""The host: its page, the sandbox of apps on another origin, and an app that is open in it.

The page (host.mjs) is bundled with the extension's AppBridge and the client of the TypeScript SDK; sandbox.html passes
messages on. The policy of ``_meta.ui.csp`` is a header of the sandbox, which the app's frame inherits.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, BrowserContext, Frame, FrameLocator, Page

from tests.ports import free_port
from tests.real_clients.node import Clients

HERE = Path(__file__).resolve().parent
SANDBOX = (HERE / "sandbox.html").read_text()
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Host</title><link rel="icon" href="data:,">
<style>body { margin: 16px; background: light-dark(#fff, #262624) }
iframe { display: block; border: 0; width: 100% }</style>
<main id="app"></main><script type="module" src="/host.js"></script></html>"""
PATIENCE = 10_000
"""Milliseconds within which something comes up."""
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", ({effectiveDirective, blockedURI}) =>
    window.violations.push(`${effectiveDirective} ${blockedURI}`));
"""
DRAWN = """async () => {
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
    for (const _ of "12") await new Promise(requestAnimationFrame);
}"""


def policy(csp: Mapping[str, Any]) -> str:
    """The Content-Security-Policy for a ``_meta.ui.csp``: what is not declared is blocked (Host Behavior)."""

    def declared(name: str, default: str = "") -> str:
        # What is no origin could add a directive.
        origins = [each for each in csp.get(name, []) if re.fullmatch(r"(https?|wss?)://[\w.*:-]+", each)]
        return " ".join(origins) or default

    resources = declared("resourceDomains")
    directives = {
        "default-src": "'none'",
        "script-src": f"'self' 'unsafe-inline' {resources}",
        "style-src": f"'self' 'unsafe-inline' {resources}",
        "img-src": f"'self' data: {resources}",
        "media-src": f"'self' data: {resources}",
        "font-src": f"'self' {resources}",
        "connect-src": declared("connectDomains", "'none'"),
        "frame-src": declared("frameDomains", "'none'"),
        "base-uri": declared("baseUriDomains", "'self'"),
        "form-action": "'none'",
        "object-src": "'none'",
    }
    return "; ".join(f"{name} {sources.strip()}" for name, sources in directives.items())


Reply = Callable[[str], tuple[str, str, Mapping[str, str]] | None]
"""Takes a path; returns the body, its media type and further headers, or None if nothing is there."""


@contextmanager
def served(reply: Reply, port: int) -> Iterator[None]:
    """Answer GET requests at a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = reply(self.path)
            body, media_type, headers = found or ("", "text/plain", {})
            self.send_response(200 if found else 404)
            for name, value in {"Content-Type": f"{media_type}; charset=utf-8", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET  # noqa: N815 - the name that the server calls

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bundle(clients: Clients) -> str:
    """host.mjs with its libraries in one module."""
    command = [clients.libraries / ".bin/esbuild", HERE / "host.mjs", "--bundle", "--format=esm", "--log-level=warning"]
    environment = {**clients.environment(), "NODE_PATH": str(clients.libraries)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


@dataclass
class Host:
    """The servers of the host's page and of the sandbox, and a third origin that apps must not reach.

    Attributes:
        reached: the paths of the requests that came to ``foreign``.
    """

    script: str
    ports: Sequence[int] = field(default_factory=lambda: [free_port() for _ in range(3)])
    reached: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def sandbox(self) -> str:
        return f"http://localhost:{self.ports[1]}"

    @property
    def foreign(self) -> str:
        return f"http://127.0.0.1:{self.ports[2]}"

    @contextmanager
    def serve(self) -> Iterator[None]:
        one, two, three = map(partial(served), (self._page, self._sandbox, self._foreign), self.ports)
        with one, two, three:
            yield

    def _page(self, path: str) -> tuple[str, str, Mapping[str, str]] | None:
        pages = {"/": (PAGE, "text/html", {}), "/host.js": (self.script, "text/javascript", {})}
        return pages.get(path)

    def _sandbox(self, path: str) -> tuple[str, str, Mapping[str, str]] | None:
        url = urlsplit(path)
        if url.path != "/sandbox":
            return None
        csp = json.loads(parse_qs(url.query)["csp"][0])
        header = f"{policy(csp)}; frame-ancestors {self.origin}"
        return SANDBOX, "text/html", {"Content-Security-Policy": header, "Cache-Control": "no-store"}

    def _foreign(self, path: str) -> tuple[str, str, Mapping[str, str]]:
        self.reached.append(path)
        return "", "text/plain", {"Access-Control-Allow-Origin": "*"}


class Hosted:
    """A page of the host with a client of an endpoint, in which one app can be open.

    Attributes:
        tools: definitions that the client got.
        result: of the call whose app is open.
        complaints: errors that the browser wrote to its console, of the host's page too.
        requested: URLs that the app's frames requested, blocked or not.
    """

    def __init__(self, context: BrowserContext, host: Host, endpoint: str, **options: Any) -> None:
        self.host = host
        self.complaints: list[str] = []
        self.requested: list[str] = []
        context.set_default_timeout(PATIENCE)
        context.add_init_script(WATCH)
        context.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.page: Page = context.new_page()
        self.page.on("request", self._note)
        self.page.goto(host.origin)
        self.tools: list[dict[str, Any]] = self._run("connect", endpoint, options)
        self.result: dict[str, Any] = {}

    def _note(self, request: Any) -> None:
        if request.frame.parent_frame and not request.url.startswith(
            ("data:", "blob:", f"{self.host.sandbox}/sandbox?")
        ):
            self.requested.append(request.url)

    def _run(self, name: str, *arguments: Any) -> Any:
        return self.page.evaluate("([name, given]) => window.host[name](...given)", [name, list(arguments)])

    def tool(self, name: str) -> dict[str, Any]:
        return next(each for each in self.tools if each["name"] == name)

    def open(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> "Hosted":
        """Call a tool and open its app; host.mjs lists the options."""
        self.complaints.clear()
        self.requested.clear()
        self.result = self._run("open", self.host.sandbox, tool, dict(arguments or {}), options)
        return self

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool as a model does."""
        return self._run("call", tool, dict(arguments or {}))

    def read(self, uri: str) -> dict[str, Any]:
        return self._run("read", uri)

    def resources(self) -> list[dict[str, Any]]:
        return self._run("resources")

    def parse_errors(self, html: str) -> list[str]:
        return self._run("parseErrors", html)

    def change(self, **context: Any) -> None:
        """Change the host's context, such as ``theme="dark"``."""
        self._run("change", context)

    def deliver(self) -> None:
        """Send the app of ``open(wait=False)`` its arguments and the result, once it has initialized."""
        self._run("deliver")

    def ask(self, method: str, within: float = PATIENCE) -> dict[str, Any]:
        """Send a request without parameters to the app."""
        return self._run("ask", method, within)

    def teardown(self, within: float = PATIENCE) -> dict[str, Any]:
        """Let the app end, and remove it when it has answered."""
        return self._run("teardown", within)

    @property
    def view(self) -> FrameLocator:
        """What the app shows, to find and press."""
        return self.page.frame_locator("#app iframe").frame_locator("iframe")

    @property
    def frame(self) -> Frame:
        """The app's frame, to run scripts in."""
        (sandbox,) = self.page.main_frame.child_frames
        (frame,) = sandbox.child_frames
        return frame

    def messages(self, method: str = "", to: str = "host") -> list[dict[str, Any]]:
        """The messages so far from the app, or with ``to="app"`` from the host; of one method or all."""
        log = self.page.evaluate("window.host.log")
        sent = [each["message"] for each in log if each["to"] == to]
        return [each for each in sent if not method or each.get("method") == method]

    def wait_for(self, method: str, count: int = 1, within: float = PATIENCE) -> list[dict[str, Any]]:
        """Wait until the app has sent *count* messages of a method, for at most *within* milliseconds."""
        there = """([method, count]) =>
            window.host.log.filter((each) => each.to == "host" && each.message?.method == method).length >= count"""
        self.page.wait_for_function(there, arg=[method, count], timeout=within)
        return self.messages(method)

    def violations(self) -> list[str]:
        """What policies blocked in the app and its sandbox: directive and URL."""
        frames = self.page.frames[1:]
        return [each for frame in frames for each in frame.evaluate("window.violations ?? []")]

    def picture(self) -> bytes:
        """Return a PNG of the app as the host shows it, as high as it has reported."""
        self.ask("ping")  # it has the result by then
        self.frame.evaluate(DRAWN)
        height = self.wait_for("ui/notifications/size-changed")[-1]["params"]["height"]
        there = "height => document.querySelector('#app iframe').offsetHeight >= Math.floor(height)"
        self.page.wait_for_function(there, arg=height)
        return self.page.locator("#app").screenshot()


@contextmanager
def opened(browser: Browser, host: Host, endpoint: str, **options: Any) -> Iterator[Hosted]:
    """A page of the host. *options* are the client's: ``headers``, ``mode``, ``extension``."""
    # As high as the host lets an app be: what is outside is not drawn, so not in pictures either.
    context = browser.new_context(viewport={"width": 1400, "height": 2600})
    try:
        yield Hosted(context, host, endpoint, **options)
    finally:
        context.close()
