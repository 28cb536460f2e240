"""A browser and a system per file of tests: while a browser is open, its thread has an event loop that other tests must
not meet."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser

from api.web.serve import add_page
from tests import redis_server as redis_servers
from tests.api.web import browser as browsers
from tests.api.web import site as sites
from tests.api.web.browser import Tab
from tests.api.web.site import Site
from tests.conftest import missing
from tests.waiting import until

Visit = Callable[..., Tab]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = browsers.program()
    if chromium is None:
        missing(f"Chromium is missing: {browsers.INSTALL}")
    with browsers.running(chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def files() -> Iterator[str]:
    """The page's files alone, without an API behind them: their address."""
    app = FastAPI(openapi_url=None)
    add_page(app)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the page is served")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def site(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running system without a worker."""
    redis = redis_servers.programs()
    if redis is None:
        missing(f"Redis is missing: {redis_servers.INSTALL}")
    with sites.running(postgres_server, redis, tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Visit]:
    """Open the page in a tab of its own as somebody who signs in, at a place of it."""
    with ExitStack() as stack:

        def opened(place: str = "/jobs", who: str = "root", **options: Any) -> Tab:
            tab = stack.enter_context(browsers.tab(browser, site.url, **options))
            tab.page.goto(f"{site.url}/#{place}")
            tab.page.get_by_label("Token").fill(site.tokens[who])
            tab.page.get_by_role("button", name="Sign in").click()
            tab.page.get_by_role("navigation", name="Main").wait_for()
            return tab

        yield opened
