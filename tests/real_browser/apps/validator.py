"""The rules of the extension for servers and apps, checked on one tool that has an app.

The extension's repository has a validator (pull request 722), which no published package contains
(@modelcontextprotocol/ext-apps 2.0.4). These are its rules APP-001 to APP-106, and some more; shapes are checked with
the package's schemas.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from jsonschema import Draft202012Validator
from playwright.sync_api import Error

from tests.real_browser.apps.host import PATIENCE, Hosted

MIME_TYPE = "text/html;profile=mcp-app"
ORIGIN = re.compile(r"(https?|wss?)://(\*\.)?[\w.-]+(:\d+)?")
MCP = {
    "tools/call",
    "tools/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "sampling/createMessage",
    "ping",
}
"""Methods of the protocol itself that apps may use, besides notifications."""
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
"""What axe-core checks. Its other rules are of whole pages, with landmarks."""


class Validator:
    """Checks the apps of the server to which a page of the host is connected.

    An app is given *within* milliseconds for each of its answers.
    """

    def __init__(self, hosted: Hosted, libraries: Path, within: float = PATIENCE) -> None:
        self.hosted = hosted
        self.within = within
        schemas = libraries / "@modelcontextprotocol/ext-apps/dist/src/generated/schema.json"
        self.shapes: dict[str, Any] = json.loads(schemas.read_text())["$defs"]
        methods = {
            shape.get("properties", {}).get("method", {}).get("const"): name for name, shape in self.shapes.items()
        }
        self.of_method = {method: name for method, name in methods.items() if method}

    def problems(self, tool: str, arguments: Mapping[str, Any] | None = None) -> list[str]:
        """Return what is wrong with a tool and its app; the app is driven if it can be opened."""
        found = [*self._definition(self.hosted.tool(tool)), *self._result(tool, arguments)]
        uri = self._uri(tool)
        try:
            contents = self.hosted.read(uri)["contents"]
        except Error as error:
            return [*found, f"{uri} cannot be read: {error.message.splitlines()[0]}"]
        found += self._resource(uri, contents)
        return [*found, *self._app(tool, arguments)]

    def listed_problems(self) -> list[str]:
        """Return what is wrong with the list of resources: an app outside of ``ui://`` is shown by no host."""
        return [
            f"{each['uri']} is an app, and does not begin with ui://"
            for each in self.hosted.resources()
            if not each["uri"].startswith("ui://")
            and (each.get("mimeType") == MIME_TYPE or "ui" in each.get("_meta", {}))
        ]

    def _uri(self, tool: str) -> str:
        meta = self.hosted.tool(tool)["_meta"]
        return meta.get("ui", {}).get("resourceUri", "") or meta.get("ui/resourceUri", "")

    def _wrong(self, shape: str, value: Any, label: str) -> Iterator[str]:
        for error in Draft202012Validator(self.shapes[shape]).iter_errors(value):
            yield f"{label}{''.join(f'.{part}' for part in error.absolute_path)}: {error.message}"

    # The server.

    def _definition(self, tool: Mapping[str, Any]) -> Iterator[str]:
        meta = tool["_meta"]
        yield from self._wrong("McpUiToolMeta", meta.get("ui", {}), "the tool's _meta.ui")
        if "resourceUri" not in meta.get("ui", {}):
            yield "the tool names its app only by the deprecated key ui/resourceUri"
        if not self._uri(tool["name"]).startswith("ui://"):
            yield "the app's URI does not begin with ui://"

    def _result(self, tool: str, arguments: Mapping[str, Any] | None) -> Iterator[str]:
        result = self.hosted.call(tool, arguments)
        if result.get("isError"):
            yield f"the call fails: {result['content']}"
        elif not any(block.get("text", "").strip() for block in result["content"]):
            yield "the result has no text for clients without apps"

    def _resource(self, uri: str, contents: list[dict[str, Any]]) -> Iterator[str]:
        listed = [each for each in self.hosted.resources() if each["uri"] == uri]
        if len(contents) != 1:
            yield f"{uri} has {len(contents)} contents"
        for each in [*listed, *contents]:
            if each.get("mimeType") != MIME_TYPE:
                yield f"{uri} has the MIME type {each.get('mimeType')}"
            meta = each.get("_meta", {}).get("ui", {})
            yield from self._wrong("McpUiResourceMeta", meta, "the resource's _meta.ui")
            for name, origins in meta.get("csp", {}).items():
                yield from (f"{each!r} in csp.{name} is no origin" for each in origins if not ORIGIN.fullmatch(each))
        for each in contents:
            html = each["text"] if "text" in each else base64.b64decode(each["blob"]).decode()
            yield from (f"the HTML has the error {error}" for error in self.hosted.parse_errors(html))
            if not re.search(r"<title>\s*\S", html):
                yield "the HTML has no title"
            if not re.search(r"<html[^>]* lang=", html):
                yield "the HTML does not say its language"

    # The app.

    def _app(self, tool: str, arguments: Mapping[str, Any] | None) -> Iterator[str]:
        hosted = self.hosted
        hosted.open(tool, arguments, width=320, wait=False)
        try:
            hosted.wait_for("ui/initialize", within=self.within)
            hosted.wait_for("ui/notifications/initialized", within=self.within)
        except Error:
            yield "the app does not initialize"
        else:
            yield from self._initialized()
        yield from self._sent()
        yield from (f"the policy of the app blocks {each}" for each in hosted.violations())
        yield from (f"the browser complains: {each}" for each in hosted.complaints)
        yield from (f"the app requests {url}" for url in hosted.requested if not self._is_declared(tool, url))
        try:
            hosted.teardown(self.within)
        except Error as error:
            yield f"the app does not answer ui/resource-teardown: {error.message.splitlines()[0]}"

    def _initialized(self) -> Iterator[str]:
        hosted = self.hosted
        hosted.deliver()
        try:
            hosted.wait_for("ui/notifications/size-changed", within=self.within)
        except Error:
            yield "the app does not report its size"
        if hosted.frame.evaluate("document.documentElement.scrollWidth > innerWidth"):
            yield "the app is wider than a container of 320 pixels"
        (begun,) = hosted.messages("ui/initialize")
        for method in ("ping", "tools/list") if "tools" in begun["params"].get("appCapabilities", {}) else ("ping",):
            try:
                hosted.ask(method, self.within)
            except Error as error:
                yield f"the app does not answer {method}: {error.message.splitlines()[0]}"
        yield from self._themes()

    def _themes(self) -> Iterator[str]:
        colours = []
        for theme in ("light", "dark"):
            self.hosted.change(theme=theme)
            self.hosted.frame.evaluate("() => new Promise(requestAnimationFrame)")
            colours.append(self.hosted.frame.evaluate("getComputedStyle(document.body).color"))
            for each in Axe().run(self.hosted.frame, options={"runOnly": WCAG}).response["violations"]:
                yield f"axe-core in the {theme} theme: {each['id']}, {each['nodes'][0]['html']}"
        if colours[0] == colours[1]:
            yield "the app does not follow a change of the host's theme"

    def _sent(self) -> Iterator[str]:
        """Check what the app has sent so far."""
        for message in self.hosted.messages():
            method = message.get("method", "") if isinstance(message, dict) else ""
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not (method or "id" in message):
                yield f"the app sends what is not JSON-RPC: {message}"
            elif method in self.of_method:
                body = {key: value for key, value in message.items() if key not in {"jsonrpc", "id"}}
                yield from self._wrong(self.of_method[method], body, method)
            elif method and method not in MCP and not method.startswith("notifications/"):
                yield f"the app sends the unknown method {method}"
            if method == "ui/request-display-mode" and message["params"].get("mode") != "inline":
                yield f"the app requests a display mode that the host does not have: {message['params']}"

    def _is_declared(self, tool: str, url: str) -> bool:
        (contents,) = self.hosted.read(self._uri(tool))["contents"]
        csp = contents.get("_meta", {}).get("ui", {}).get("csp", {})
        origins = {origin for origins in csp.values() for origin in origins}
        return f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" in origins
