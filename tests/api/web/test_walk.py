"""A person's way through the page on the running system: from a submitted job to masks, and out of what went wrong."""

import re
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from samjobs.names import Reason
from samjobs.store import pools
from samjobs.store.rows import Pool
from tests.api.web.conftest import Visit
from tests.api.web.site import Site
from tests.system.system import Process, draw
from tests.waiting import until

# The opacity of each pixel of the masks' canvas, read from a copy.
ALPHAS = """() => {
  const canvas = document.getElementById("masks");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  return Array.from(data.filter((value, place) => place % 4 === 3));
}"""


@pytest.fixture(scope="module")
def worker(site: Site) -> Process:
    return site.worker()


WIDTH, HEIGHT = 64, 48
POISON = 50, 48  # the size of a photo that kills whoever segments it: tests/system/witness
DISC_X, DISC_Y = 19, 22  # the middle of the disc on photo 3
DISC = DISC_Y * WIDTH + DISC_X
POOL = Pool(
    namespace="gpus",
    name="large",
    region="default",
    engine="sam3",
    desired=3,
    ready=2,
    busy=2,
    reason=Reason.AT_MAXIMUM,
    message="5 workers are wanted, and maxReplicas is 3",
    changed_at=None,
    enough_since=None,
    enough=None,
    image_s=None,
    load_s=None,
)


def photos(site: Site, name: str, count: int) -> Path:
    """A folder of photos with a red disc on each."""
    folder = site.system.root / "photos" / name
    for number in range(count):
        draw(folder / f"{number:04}.png", number, mark=len(name))
    return folder


def button(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def state(page: Page) -> str:
    return page.locator("h1 .badge").inner_text()


def until_state(page: Page, wanted: str) -> None:
    expect(page.locator("h1 .badge")).to_have_text(wanted, timeout=60_000)


def test_from_a_submitted_job_to_the_masks_of_its_images(site: Site, visit: Visit) -> None:
    tab = visit(who="ann")
    page = tab.page
    expect(page.get_by_text("There are no jobs yet")).to_be_visible()
    job_id = site.submit("trip", who="ann", prefix=photos(site, "trip", 6), shardSize=1)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="trip"))
    expect(row).to_contain_text("queued")  # without a reload
    expect(row).to_contain_text("Waits for a worker: none of its region is ready")
    page.get_by_role("link", name="trip").click()
    expect(page.locator(".condition")).to_contain_text("Waits for a worker: none of its region is ready")
    expect(page.get_by_role("progressbar", name="Images of this job")).to_have_attribute("aria-valuenow", "0")
    held = site.system.hold()
    site.system.start("worker", held=("mid-image", held))
    site.system.until(lambda: held.pid is not None, "a worker has an image in hand")
    site.worker()  # does all others meanwhile
    expect(page.locator(".head")).to_contain_text("5 of 6 images done")
    assert state(page) == "running"
    held.let_go()
    until_state(page, "succeeded")
    expect(page.locator(".head")).to_contain_text("6 of 6 images done")
    expect(page.get_by_role("progressbar", name="Images of this job")).to_have_attribute("aria-valuenow", "6")
    expect(page.get_by_role("status")).to_contain_text("The job is succeeded")  # said, too
    expect(page.locator(".grid li")).to_have_count(6)
    expect(page.locator(".grid img")).to_have_count(6)
    expect(page.locator(".grid canvas")).to_have_count(6)
    page.get_by_role("link", name="0003.png").click()
    expect(page.get_by_role("heading", name="Image 4 of 6")).to_be_visible()
    look_at_masks(page)
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", name="Image 5 of 6")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Image 4 of 6")).to_be_visible()
    page.get_by_role("link", name="trip").click()
    page.get_by_text("History", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="token:ann")).not_to_have_count(0)
    assert site.state(job_id) == "succeeded"
    tab.check()


def until_painted(page: Page, pixels: int) -> None:
    until(lambda: sum(value > 0 for value in alphas(page)) == pixels, f"{pixels} pixels of masks are painted", 30)


def look_at_masks(page: Page) -> None:
    """Of an image with one red disc: its mask can be hidden, shown and pointed at."""
    checkbox = page.get_by_role("checkbox", name="red disc")
    expect(checkbox).to_be_checked()
    area = int(re.sub(r"\D", "", page.locator(".instances .quiet").inner_text()))
    assert 350 < area < 550
    until_painted(page, area)
    checkbox.uncheck()
    until_painted(page, 0)
    expect(page.locator(".layers rect")).to_be_hidden()
    button(page, "Show all")
    until_painted(page, area)
    button(page, "Hide all")
    until_painted(page, 0)
    expect(checkbox).not_to_be_checked()
    checkbox.check()
    expect(page.locator(".layers rect")).to_be_visible()
    page.get_by_role("checkbox", name="Boxes").uncheck()
    expect(page.locator(".layers svg")).to_be_hidden()
    frame = page.locator("#masks").bounding_box()
    assert frame is not None
    row = page.locator(".instances li")
    page.mouse.move(frame["x"] + frame["width"] * DISC_X / WIDTH, frame["y"] + frame["height"] * DISC_Y / HEIGHT)
    expect(row).to_have_class("marked")
    expect(page.locator("figcaption")).to_contain_text("red disc, score")
    page.mouse.move(frame["x"] + 2, frame["y"] + 2)
    expect(row).not_to_have_class("marked")
    before = alphas(page)[DISC]
    page.get_by_label("Opacity of the masks").fill("90")
    until(lambda: alphas(page)[DISC] > before, "the mask hides more of the photo", 30)


def alphas(page: Page) -> list[int]:
    found: list[int] = page.evaluate(ALPHAS)
    return found


def test_an_image_that_failed_says_why_and_is_done_once_it_is_mended_and_tried_again(
    site: Site, visit: Visit, worker: Process
) -> None:
    folder = photos(site, "broken", 3)
    (folder / "0001.png").write_bytes(b"no picture at all")
    job_id = site.submit("broken", prefix=folder)
    site.until_ended(job_id)
    tab = visit(f"/jobs/{job_id}?state=failed&view=list")
    page = tab.page
    expect(page.locator(".condition")).to_have_text("Finished, but some images failed.")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="0001.png"))
    expect(row).to_contain_text("permanent error")
    expect(page.get_by_role("row").filter(has=page.get_by_role("link", name=".png"))).to_have_count(1)
    page.get_by_role("link", name="0001.png").click()
    expect(page.get_by_role("alert").first).to_contain_text("Permanent error")
    expect(page.get_by_role("alert").first).to_contain_text("this is text, not an image")
    page.go_back()
    draw(folder / "0001.png", 1)
    button(page, "Retry 1 failed image")
    until_state(page, "succeeded")
    expect(page.locator(".head")).to_contain_text("3 of 3 images done")
    expect(page.get_by_text("No image is in this state.")).to_be_visible()
    assert tab.refused, "the photo that is none was asked for"
    assert site.system.job(job_id).images_failed == 0
    tab.check(*tab.refused)


def test_a_job_is_suspended_and_goes_on_and_is_cancelled_only_after_a_question(
    site: Site, visit: Visit, worker: Process
) -> None:
    job_id = site.submit("held", prefix=photos(site, "held", 2), notBefore="2099-01-01T00:00:00Z")
    tab = visit(f"/jobs/{job_id}")
    page = tab.page
    expect(page.locator(".condition")).to_contain_text("waits for its notBefore", ignore_case=True)
    button(page, "Suspend")
    until_state(page, "suspended")
    expect(page.locator(".condition")).to_contain_text("Suspended until somebody resumes it")
    button(page, "Resume")
    until_state(page, "queued")
    button(page, "Cancel…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel held?")
    expect(dialog.get_by_role("button", name="Leave it as it is")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert site.state(job_id) == "queued"
    button(page, "Cancel…")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    button(page, "Cancel…")
    button(page, "Cancel the job")
    until_state(page, "cancelled")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    assert site.state(job_id) == "cancelled"
    tab.check()


def test_long_lists_come_in_pages_and_short_ones_by_filters(site: Site, visit: Visit, worker: Process) -> None:
    job_id = site.submit("many", tenant="archive", prefix=photos(site, "many", 26))
    site.until_ended(job_id)
    tab = visit("/jobs")
    page = tab.page
    page.get_by_label("Tenant").fill("archive")
    page.get_by_label("State").select_option("succeeded")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_label("Tenant")).to_have_value("archive")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Region").fill("elsewhere")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("No job fits.")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="many").click()
    expect(page.locator(".grid li")).to_have_count(24)
    page.get_by_role("link", name="Next page").click()
    expect(page.locator(".grid li")).to_have_count(2)
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="To the start").click()
    expect(page.locator(".grid li")).to_have_count(24)
    tab.check()


@pytest.fixture(scope="module")
def dead_jobs(site: Site) -> tuple[UUID, UUID]:
    """Two jobs whose only shard is dead, since their photo kills its worker; another worker is there."""
    made = []
    for name in ("lost-one", "lost-two"):
        draw(site.system.root / "photos" / name / "0.png", size=POISON)
        folder = site.system.root / "photos" / name
        made.append(site.submit(name, prefix=folder, retryPolicy={"maxAttempts": 1}))
        site.worker()
    site.until_ended(*made)
    site.worker()
    return made[0], made[1]


def test_dead_shards_are_tried_again_or_given_up(site: Site, visit: Visit, dead_jobs: tuple[UUID, UUID]) -> None:
    one, two = dead_jobs
    editor = visit("/dead", who="ann").page
    expect(editor.get_by_role("button", name="Retry")).to_have_count(2)
    expect(editor.get_by_role("button", name="Purge")).to_have_count(0)  # that is an administrator's
    tab = visit("/dead")
    page = tab.page
    section = page.locator("section").filter(has=page.get_by_role("link", name="lost-two"))
    expect(section).to_contain_text(site.system.shards(two)[0].error or "an error")
    section.get_by_role("button", name="Purge…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Purge the dead shards of lost-two?")
    button(page, "Purge")
    expect(page.get_by_role("status")).to_have_text("1 shard purged.")
    expect(page.get_by_role("link", name="lost-two")).to_have_count(0)
    assert site.system.shards(two)[0].state.value == "cancelled"
    draw(site.system.root / "photos" / "lost-one" / "0.png")  # the cause is gone
    button(page, "Retry")
    expect(page.get_by_role("status")).to_have_text("1 shard put back to work.")
    expect(page.get_by_text("No shard is dead.")).to_be_visible()
    site.system.until(lambda: site.state(one) == "succeeded", "the job is done after all")
    tab.check()


def test_the_queue_and_the_workers_are_shown_over_time(site: Site, visit: Visit, worker: Process) -> None:
    job_id = site.submit("waits", prefix=photos(site, "waits", 2), region="elsewhere")
    tab = visit("/queue")
    page = tab.page
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="default", exact=True))
    expect(row).to_contain_text("ready")
    expect(page.get_by_role("row").filter(has_text="elsewhere")).to_contain_text("none")
    shards, workers = page.locator("figure").nth(0), page.locator("figure").nth(1)
    expect(workers.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"Workers over time\. alive: \d+ now")
    )
    expect(shards.locator("path.series.one").first).to_be_attached()
    shards.get_by_text("As a table").click()
    expect(shards.get_by_role("columnheader", name="running")).to_be_visible()
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("row").filter(has_text="ready")).not_to_have_count(0)
    expect(page.get_by_text("There are no pools")).to_be_visible()
    with site.system.store.begin() as conn:
        pools.save(conn, POOL)
    row = page.get_by_role("row").filter(has_text="gpus/large")  # by the page's own next look
    expect(row).to_contain_text("2 of 3")
    expect(row).to_contain_text("at maximum")
    expect(row).to_contain_text(POOL.message)
    with site.api() as api:
        api.post(f"/api/v1/jobs/{job_id}/cancel")
    tab.check()
