"""A person at a browser: signs in, reads the consent page, presses Allow. ``python -m tests.auth_check.browser URL``.

The browser is the system's Chromium, without a window. Name and password are those of ``AUTH_CHECK_USER``, written
``name:password``. What was seen is printed as JSON, or appended to the file that ``AUTH_CHECK_VISITS`` names.
"""

# ruff: noqa: T201 - a command speaks

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Response, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 20_000
"""Milliseconds for one page."""
WITHIN = 90.0
"""Seconds for a whole visit."""
USER, VISITS = "AUTH_CHECK_USER", "AUTH_CHECK_VISITS"
ALLOW = "button[name=allow], input[type=submit][name=allow]"
"""Its button on the consent page."""


class NoBrowserError(Exception):
    """There is no Chromium on this machine."""


class NotAllowedError(Exception):
    """The person could not allow it; says what was on the page instead."""


@dataclass
class Visit:
    """What a person saw.

    Attributes:
        signed_in: whether a login page asked for a password.
        consent: the text of the page on which Allow was pressed.
        consent_headers: that page's headers.
        arrived: the URL to which the browser was sent from there, as the client gets it.
        complaints: what the browser's console said: a resource that its policy forbade, a script that failed.
    """

    signed_in: bool = False
    consent: str = ""
    consent_headers: dict[str, str] = field(default_factory=dict)
    arrived: str = ""
    complaints: list[str] = field(default_factory=list)

    @property
    def answer(self) -> dict[str, str]:
        """Parameters of the authorization response."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.arrived).query).items()}


def find_chromium() -> str:
    """The system's Chromium.

    Raises:
        NoBrowserError: there is none.
    """
    if found := next(filter(None, map(shutil.which, PROGRAMS)), None):
        return found
    raise NoBrowserError(
        f"There is no Chromium: none of {', '.join(PROGRAMS)} is in PATH. On Debian: apt-get install chromium."
    )


def allow(url: str, username: str, password: str, *, javascript: bool = True) -> Visit:
    """Open *url*, sign in where that is asked for, and press Allow, in a browser that knows nobody yet.

    Raises:
        NoBrowserError: there is no Chromium.
        NotAllowedError: no page with a button Allow came, or none after it.
    """
    with launched() as browser:
        return allow_in(browser, url, username, password, javascript=javascript)


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser. While it is there, this thread counts as one with an event loop: no queries here.

    Raises:
        NoBrowserError: there is no Chromium.
    """
    program = find_chromium()
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers and root do not have; these pages are our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def allow_in(browser: Browser, url: str, username: str, password: str, *, javascript: bool = True) -> Visit:
    """``allow`` in a browser that is open, with a profile that knows nobody yet.

    Raises:
        NotAllowedError: see there.
    """
    visit = Visit()
    # The certificate is made for one run, and no authority knows it.
    context = browser.new_context(ignore_https_errors=True, java_script_enabled=javascript)
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: _note(visit, url, said))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        _go_through(page, url, username, password, visit)
    except Error as error:
        raise NotAllowedError(f"{url}: {error}") from None
    finally:
        context.close()
    return visit


def _go_through(page: Page, url: str, username: str, password: str, visit: Visit) -> None:
    seen = page.goto(url)
    if page.locator("input[type=password]").count():
        visit.signed_in = True
        page.fill("input[name=username]", username)
        page.fill("input[type=password]", password)
        seen = _follow(page, lambda: page.press("input[type=password]", "Enter"))
    visit.consent = _text(page)
    if not page.locator(ALLOW).count():
        status = seen.status if seen else "no answer"
        raise NotAllowedError(f"No button Allow at {page.url} ({status}). The page says: {visit.consent[:1000]}")
    visit.consent_headers = seen.all_headers() if seen else {}
    site, before = urlsplit(url).netloc, page.url
    _follow(page, page.locator(ALLOW).first.click)
    visit.arrived = page.url
    if urlsplit(page.url).netloc == site or page.url == before:
        raise NotAllowedError(f"Allow led to {page.url}, not to the client. The page says: {_text(page)[:1000]}")


def _note(visit: Visit, url: str, said: ConsoleMessage) -> None:
    """Keep what the console says of this site's pages; those of clients are their own business."""
    where = said.location["url"]
    if said.type == "error" and urlsplit(where).netloc in {urlsplit(url).netloc, ""}:
        visit.complaints.append(f"{where}: {said.text}")


def _follow(page: Page, press: Callable[[], None]) -> Response | None:
    """Press something and wait for the page it leads to."""
    with page.expect_navigation() as coming:
        press()
    return coming.value


def _text(page: Page) -> str:
    return page.locator("body").inner_text().strip()


def visit(url: str, user: str, *, javascript: bool = True) -> Visit:
    """The same in a process of its own, for callers in which an event loop runs.

    Args:
        url: the authorization request.
        user: ``name:password``.
        javascript: whether pages may run any.

    Raises:
        NotAllowedError: it failed; with what the program said.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__, *([] if javascript else ["--no-javascript"]), url],
        cwd=ROOT,
        env={**os.environ, USER: user},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    if done.returncode:
        raise NotAllowedError(done.stderr.strip() or done.stdout)
    return Visit(**json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Allow what was asked for; the answer is the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    javascript = "--no-javascript" not in given
    username, _, password = os.environ.get(USER, "").partition(":")
    try:
        seen = json.dumps(asdict(allow(given[-1], username, password, javascript=javascript)))
    except (NoBrowserError, NotAllowedError) as error:
        print(error, file=sys.stderr)
        return 1
    if not (visits := os.environ.get(VISITS)):
        print(seen)
        return 0
    with Path(visits).open("a", encoding="utf-8") as log:
        log.write(seen + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
