"""A real Chromium, and tabs in it that notice what a page must not do: errors in its console, requests elsewhere."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect, sync_playwright

INSTALL = "install Chromium (Debian: apt-get install chromium), or put chromium on PATH"
OPTIONS = [
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = ViewportSize(width=1280, height=900)
expect.set_options(timeout=30_000)  # the machine may be busy with other tests
PHONE = ViewportSize(width=375, height=740)


def program() -> str | None:
    """Chromium, or None."""
    return shutil.which("chromium")


@contextmanager
def running(chromium: str) -> Iterator[Browser]:
    """A browser without windows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """One tab at one site, with nothing kept from any other."""

    page: Page
    site: str
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)  # answers of 400 and above

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        # The browser itself notes each answer of 400 and above: whether one was due is the test's to say.
        _, found, status = message.text.partition("the server responded with a status of ")
        if found:
            self.refused.append(int(status.split()[0]))
        else:
            self.errors.append(message.text)

    def _asked(self, request: Request) -> None:
        where = urlsplit(request.url)
        if where.scheme not in ("blob", "data") and f"{where.scheme}://{where.netloc}" != self.site:
            self.elsewhere.append(request.url)

    def check(self, *refused: int, perhaps: int | None = None) -> None:
        """The page did nothing that it must not; its requests were refused just as the test meant them to be."""
        assert self.errors == [], "the console must stay empty"
        assert self.elsewhere == [], "nothing may be asked of another host"
        assert {*self.refused} - {perhaps} == {*refused}, f"answers that were refused: {self.refused}"


@contextmanager
def tab(browser: Browser, site: str, **options: Any) -> Iterator[Tab]:
    """A new tab, blank; `options` as `Browser.new_context` takes them."""
    context = browser.new_context(**({"viewport": DESK, "locale": "en-GB", "timezone_id": "Europe/Berlin"} | options))
    context.set_default_timeout(30_000)
    try:
        yield Tab(context.new_page(), site)
    finally:
        context.close()
