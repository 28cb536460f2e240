"""The pictures of the page in docs/images, by `python -m tests.api.web.pictures`: on a running system, with the example
photos.

Whoever changes the page makes them anew and looks at them.
"""

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

from tests import postgres
from tests import redis_server as redis_servers
from tests.api.web import browser as browsers
from tests.api.web import site as sites
from tests.api.web.browser import DESK, PHONE, Tab
from tests.api.web.site import Site
from tests.system.system import draw
from tests.waiting import until

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "photos"
# Frames in sight without a picture, or without its masks.
EMPTY = """() => [...document.querySelectorAll(".frame")].filter((frame) =>
  frame.getBoundingClientRect().top < innerHeight && !frame.querySelector("canvas, span")).length"""
SMALL = ViewportSize(width=1080, height=720)
ADD, SHOOT = 280, 60  # shards that are due when a second worker comes, and when the queue is shot


def main(folder: Path) -> None:
    """Make them."""
    folder.mkdir(parents=True, exist_ok=True)
    server, redis, chromium = postgres.programs(), redis_servers.programs(), browsers.program()
    if server is None or redis is None or chromium is None:
        sys.exit("PostgreSQL, Redis and Chromium are needed: tools/install_servers.sh")
    with (
        tempfile.TemporaryDirectory() as root,
        postgres.server(server) as database,
        sites.running(database.url, redis, Path(root)) as site,
        browsers.running(chromium) as browser,
    ):
        job_id = work(site)
        with browsers.tab(browser, site.url, viewport=DESK, color_scheme="light") as tab:
            desk(site, tab, job_id, folder)
        with browsers.tab(browser, site.url, viewport=PHONE, color_scheme="dark", device_scale_factor=2) as tab:
            enter(site, tab, f"/jobs/{job_id}")
            settle(tab.page)
            shoot(tab.page, folder / "phone.png")


def work(site: Site) -> UUID:
    """Jobs in all states; the one with the example photos."""
    root = site.system.root
    photos = root / "photos" / "trip"
    shutil.copytree(EXAMPLES, photos)
    (photos / "home" / "sofa.jpg").write_bytes((photos / "home" / "cat.jpg").read_bytes()[:2000])
    with (photos / "boxes.csv").open("a") as boxes_file:
        boxes_file.write("home/sofa.jpg,10,10,90,90,sofa\n")
    boxes: dict[str, Any] = {
        "images": {"prefix": str(photos), "boxes": str(photos / "boxes.csv")},
        "mode": "inside_box",
    }
    for number in range(4000):
        draw(root / "photos" / "street" / f"{number:04}.png", number, mark=7)
    for name in ("harbour", "night"):
        draw(root / "photos" / name / "0001.png", 1)
    site.worker()
    trip = site.submit("trip", prefix=photos, prompts=None, shardSize=4, **boxes)
    lost = site.submit(
        "harbour",
        prefix=root / "photos" / "harbour",
        engine="sam3",
        model="/models/sam3",
        retryPolicy={"maxAttempts": 1},
    )
    site.until_ended(trip, lost)
    site.submit("street", tenant="city", prefix=root / "photos" / "street", shardSize=10)
    site.submit("night", prefix=root / "photos" / "night", region="eu-west")
    return trip


def desk(site: Site, tab: Tab, job_id: UUID, folder: Path) -> None:
    page = tab.page
    enter(site, tab, "/jobs")
    expect(page.get_by_text(re.compile("none of its region|no worker of region")).first).to_be_visible()
    expect(page.locator("tr", has_text="street").locator(".badge")).to_have_text("running")
    expect(page.locator("tr", has_text="street").locator(".told")).not_to_contain_text(re.compile("^0 "))
    shoot(page, folder / "jobs.png")
    page.goto(f"{site.url}/#/jobs/{job_id}")
    settle(page)
    shoot(page, folder / "job.png", full=True)
    page.get_by_role("link", name="coins.jpg").click()
    page.set_viewport_size(SMALL)
    page.locator(".instances li").first.wait_for()
    page.locator(".instances li").nth(1).hover()
    shoot(page, folder / "overlay.png")
    page.set_viewport_size(DESK)
    page.goto(f"{site.url}/#/queue")
    with site.api() as api:
        until(lambda: api.get("/queue/history").json()["samples"][-1]["due"] < ADD, "half is done", 300, every_s=1)
        site.worker()
        until(lambda: api.get("/queue/history").json()["samples"][-1]["due"] < SHOOT, "more is done", 300, every_s=1)
    page.reload()
    page.locator("path.series").first.wait_for(state="attached")
    shoot(page, folder / "queue.png")


def enter(site: Site, tab: Tab, place: str) -> None:
    tab.page.goto(f"{site.url}/#{place}")
    tab.page.get_by_label("Token").fill(site.tokens["root"])
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.get_by_role("navigation", name="Main").wait_for()


def settle(page: Page) -> None:
    """Until the pictures that are in sight are drawn."""
    page.locator(".grid canvas").first.wait_for()
    until(lambda: page.evaluate(EMPTY) == 0, "pictures are there", 30)


def shoot(page: Page, file: Path, *, full: bool = False) -> None:
    shot = Image.open(io.BytesIO(page.screenshot(full_page=full, animations="disabled")))
    shot.convert("RGB").save(file, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
