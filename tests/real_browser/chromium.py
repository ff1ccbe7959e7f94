"""Chromium, without a window."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.auth_check.browser import find_chromium


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. While it is there, this thread counts as one with an event loop: no queries here."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers and root do not have; these pages are our own.
        options = {"executable_path": find_chromium(), "args": ["--no-sandbox", "--disable-gpu"]}
        opened = playwright.chromium.launch(**options)
        yield opened
        opened.close()
