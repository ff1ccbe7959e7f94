"""A browser without eyes, for the admin of a server process."""

import html
import re
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

from tests.conformance.balancer import HOST

TOOLS = "/admin/django_mcp/tools/"
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


_FIELD = re.compile(r'<(?:input|button)\b[^>]* name="([^"]+)"[^>]* value="([^"]*)"')


def _fields(page: str) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in _FIELD.findall(page)}


class Browser:
    """Somebody who may be signed in.

    Args:
        port: of the process.
    """

    def __init__(self, port: int) -> None:
        self._root = f"http://{HOST}:{port}"
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(CookieJar()))
        self._token = ""

    def get(self, path: str) -> str:
        """A page."""
        with self._opener.open(f"{self._root}{path}", timeout=30) as answer:
            return self._read(answer.read().decode())

    def post(self, path: str, **fields: str) -> str:
        """Send a form, and follow where it leads."""
        data = urlencode({"csrfmiddlewaretoken": self._token, **fields}).encode()
        with self._opener.open(f"{self._root}{path}", data, timeout=30) as answer:
            return self._read(answer.read().decode())

    def sign_in(self, name: str, password: str) -> None:
        self.get("/admin/login/")
        page = self.post("/admin/login/", username=name, password=password, next=TOOLS)
        assert "plain_sync" in page, "the list of tools"

    def decide(self, value: str) -> None:
        """Save a policy of the list: its value, a space, and the tool; questions are answered with yes."""
        policy, _space, key = value.partition(" ")
        shown = _fields(self.get(TOOLS))[f"seen:{key}"]
        page = self.post(TOOLS, **{f"policy:{key}": policy, f"seen:{key}": shown})
        if "confirmed" in (asked := _fields(page)):
            self.post(TOOLS, **asked)

    def _read(self, page: str) -> str:
        found = _TOKEN.search(page)
        self._token = found[1] if found else self._token
        return page
