"""Names are text whatever a photo is called, a phone and a keyboard suffice, and what a caller may not do is not
offered."""

import os
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.api.web import browser as browsers
from tests.api.web.browser import PHONE
from tests.api.web.conftest import Visit
from tests.api.web.site import Site
from tests.system.system import draw
from tests.waiting import until

HOSTILE = [
    "<img src=x onerror=window.hacked=1>.png",
    "<script>window.hacked=1<",  # a folder, so that the file's path closes the tag
    "'\"><svg onload=window.hacked=1>.png",
    "{{7*7}}${7*7}&lt;b&gt;.png",
    "\u202egnp.esrever.png",
]
LABEL = "<b onmouseover=window.hacked=1>disc</b>"
LONG = "a-photo-with-a-name-that-is-far-too-long-for-a-phone-" * 3 + ".png"


@pytest.fixture(scope="module")
def job(site: Site) -> UUID:
    """A job that has ended, over photos of such names: some good, one that is none."""
    folder = site.system.root / "photos" / "names"
    for number, name in enumerate(HOSTILE):
        draw(folder / name / "script>.png" if name.endswith("1<") else folder / name, number)
    draw(folder / LONG)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff<i>.png")).write_bytes((folder / LONG).read_bytes())
    (folder / "<u>none<u>.png").write_bytes(b"<img src=x onerror=window.hacked=1>")
    site.worker()
    prompts = {"text": [{"text": "red disc", "label": LABEL}]}
    job_id = site.submit("names", prefix=folder, prompts=prompts)
    site.until_ended(job_id)
    assert site.system.job(job_id).images_done == len(HOSTILE) + 2
    return job_id


def unhacked(page: Page) -> None:
    """Nothing that was named in a file is a part of the page."""
    assert page.evaluate("window.hacked") is None
    foreign = "main :is(script, b, i, u, svg[onload], img[onerror], img[src='x'])"
    assert page.locator(foreign).count() == 0


def test_names_are_text_wherever_they_are_shown(site: Site, visit: Visit, job: UUID) -> None:
    tab = visit(f"/jobs/{job}")
    page = tab.page
    expect(page.locator(".grid li")).to_have_count(len(HOSTILE) + 3)
    for name in HOSTILE:
        expect(page.locator(".name").filter(has_text=name)).to_have_count(1)
    expect(page.locator(".why").filter(has_text="<img src=x onerror=window.hacked=1>")).to_have_count(1)  # in an error
    until(lambda: page.locator(".grid canvas").count() == len(HOSTILE) + 2, "all pictures are drawn", 30)
    unhacked(page)
    page.get_by_label("Show as").select_option("list")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(len(HOSTILE) + 3)
    unhacked(page)
    for heading in ("About this job", "The whole spec", "History"):
        page.get_by_text(heading, exact=True).click()
    expect(page.locator("pre")).to_contain_text(LABEL)
    page.get_by_role("row").filter(has_text="submitted").first.wait_for()
    unhacked(page)
    page.get_by_role("link", name=HOSTILE[0]).click()
    expect(page.get_by_role("checkbox", name=LABEL)).to_be_checked()
    expect(page.locator(".key")).to_contain_text(HOSTILE[0])
    page.get_by_role("checkbox", name=LABEL).hover()
    expect(page.locator("figcaption")).to_contain_text(LABEL)
    unhacked(page)
    tab.check(422)  # of the photo that is none


def test_text_that_would_become_markup_is_refused_by_the_browser_itself(visit: Visit) -> None:
    tab = visit()
    told = tab.page.evaluate(
        "() => { try { document.body.innerHTML = '<b>'; return 'taken'; } catch (error) { return error.name; } }"
    )
    assert told == "TypeError"
    assert any("TrustedHTML" in line for line in tab.errors)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(site: Site, visit: Visit, job: UUID, scheme: str) -> None:
    tab = visit(viewport=PHONE, color_scheme=scheme, has_touch=True)
    page = tab.page
    places = {
        "/jobs": "tbody tr",
        f"/jobs/{job}": ".grid img",
        f"/jobs/{job}?view=list": "tbody tr",
        f"/jobs/{job}/images/0": ".instances li",
        "/queue": "figure",
        "/workers": "tbody tr",
        "/dead": ".slot p",
    }
    for place, there in places.items():
        page.goto(f"{site.url}/#{place}")
        page.locator(there).first.wait_for()
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= PHONE["width"], f"{place} is {wide} pixels wide"
        small = page.locator(
            "main :is(button, .button, select, input:not([type=checkbox], [type=range]))"
        ).evaluate_all(
            "(all) => all.filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 32).length"
        )
        assert small == 0, f"{place} has {small} controls that a finger misses"
    tab.check(perhaps=422)


def test_a_keyboard_is_enough(site: Site, browser: browsers.Browser, job: UUID) -> None:
    with browsers.tab(browser, site.url) as tab:
        page = tab.page
        page.goto(f"{site.url}/#/jobs")
        expect(page.get_by_label("Token")).to_be_focused()
        page.keyboard.type(site.tokens["root"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Jobs")).to_be_focused()
        page.reload()  # as one comes back to it: the token is still there, and the focus at the very start
        page.get_by_role("heading", name="Jobs").wait_for()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        tabbed_to(page, "Skip to the content", backwards=True)
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        tabbed_to(page, "names")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is not seen"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="names")).to_be_focused()
        page.locator(".grid li").first.wait_for()
        tabbed_to(page, LONG)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Image")).to_be_focused()
        page.locator(".instances li").wait_for()
        tabbed_to(page, LABEL)
        expect(page.locator(".instances li")).to_have_class("marked")
        page.keyboard.press("Space")
        expect(page.get_by_role("checkbox", name=LABEL)).not_to_be_checked()
        here = page.url
        page.keyboard.press("ArrowRight")  # in a field, arrows are the field's
        assert page.url == here
        tabbed_to(page, "Next ›", backwards=True)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Image")).to_be_focused()
        assert page.url != here
        tab.check(perhaps=422)


def tabbed_to(page: Page, text: str, *, backwards: bool = False) -> None:
    """Press Tab until something of that text has the focus."""
    for _ in range(60):
        found = page.evaluate("(document.activeElement.closest('label') ?? document.activeElement).textContent.trim()")
        if str(found).startswith(text):
            return
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"no Tab leads to {text!r}")


def test_what_a_caller_may_not_do_is_not_offered(site: Site, visit: Visit, job: UUID) -> None:
    waits = site.submit("waits", prefix=site.system.root / "photos" / "names", region="nowhere", resume=False)
    tab = visit(f"/jobs/{waits}", who="vic")
    page = tab.page
    page.locator(".condition").wait_for()
    expect(page.locator(".actions button")).to_have_count(0)
    page.goto(f"{site.url}/#/jobs/{job}")
    expect(page.get_by_role("heading", name="names")).to_be_visible()
    expect(page.locator(".actions button")).to_have_count(0)
    expect(page.get_by_role("link", name="Workers")).to_have_count(0)
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("row").filter(has_text="nowhere")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Workers")).to_have_count(0)
    assert page.locator("figure").count() == 0
    page.goto(f"{site.url}/#/workers")
    expect(page.get_by_role("alert")).to_contain_text("has no right to admin")
    with site.api() as api:
        api.post(f"/api/v1/jobs/{waits}/cancel")
    tab.check(403, perhaps=422)


def test_another_tenant_s_job_is_as_one_that_there_is_not(site: Site, visit: Visit) -> None:
    theirs = site.submit("theirs", tenant="other", prefix=site.system.root / "photos" / "names", region="nowhere")
    tab = visit(f"/jobs/{theirs}", who="ann")
    expect(tab.page.get_by_role("alert")).to_contain_text("or it is not yours to see")
    tab.page.get_by_role("link", name="To the jobs").click()
    expect(tab.page.get_by_role("link", name="names")).to_be_visible()
    expect(tab.page.get_by_role("link", name="theirs")).to_have_count(0)
    with site.api() as api:
        api.post(f"/api/v1/jobs/{theirs}/cancel")
    tab.check(404)


def test_a_wrong_token_is_told_and_one_that_was_taken_away_leads_back_to_the_sign_in(
    site: Site, browser: browsers.Browser
) -> None:
    with browsers.tab(browser, site.url) as tab:
        page = tab.page
        page.goto(site.url)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("the token is none that is known here")
        with site.holder("eve") as token:
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
            expect(page.get_by_text("token:eve")).to_be_visible()
            assert page.context.cookies() == []
            assert token not in page.url
            assert page.evaluate("localStorage.length") == 0
        expect(page.get_by_label("Token")).to_be_visible()  # by the list's own next look
        expect(page.get_by_role("alert")).to_contain_text("the token is none that is known here")
        assert page.evaluate("sessionStorage.length") == 0
        page.get_by_label("Token").fill(site.tokens["ann"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0
        tab.check(401)


def test_a_tab_that_nobody_sees_holds_no_stream(site: Site, visit: Visit) -> None:
    waits = site.submit("unseen", prefix=site.system.root / "photos" / "names", region="nowhere", resume=False)
    tab = visit(f"/jobs/{waits}")
    with site.api() as api:

        def watchers() -> int:
            return int(api.get("/admin/runtime/stats").json()["watchers"])

        until(lambda: watchers() == 1, "the job is followed", 30)
        turn = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        turn += " document.dispatchEvent(new Event('visibilitychange')); }"
        tab.page.evaluate(turn, True)
        until(lambda: watchers() == 0, "the stream is closed", 30)
        tab.page.evaluate(turn, False)
        until(lambda: watchers() == 1, "the job is followed again", 30)
        api.post(f"/api/v1/jobs/{waits}/cancel")
    expect(tab.page.locator("h1 .badge")).to_have_text("cancelled")
    tab.check(perhaps=422)


def test_times_are_those_of_the_reader_s_zone_with_utc_beside(site: Site, visit: Visit, job: UUID) -> None:
    at = site.system.job(job).created_at
    tab = visit(f"/jobs/{job}", timezone_id="Asia/Kolkata")
    tab.page.get_by_text("About this job", exact=True).click()
    shown = tab.page.locator("dd time").first
    expect(shown).to_have_attribute("title", f"{at:%Y-%m-%d %H:%M:%S} UTC")
    expect(shown).to_contain_text(f"{at.astimezone(ZoneInfo('Asia/Kolkata')):%H:%M}")


def test_a_server_that_is_away_is_told_and_the_page_goes_on_when_it_is_back(
    site: Site, visit: Visit, job: UUID
) -> None:
    tab = visit()
    page = tab.page
    expect(page.get_by_role("link", name="names")).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    expect(page.get_by_role("link", name="names")).to_be_visible()  # what was known stays
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_count(0)
    tab.errors.clear()  # the browser's own notes of the outage
    tab.check()


def test_a_job_is_followed_on_when_the_api_was_away(site: Site, visit: Visit) -> None:
    waits = site.submit("waits-on", prefix=site.system.root / "photos" / "names", region="nowhere", resume=False)
    tab = visit(f"/jobs/{waits}")
    page = tab.page
    expect(page.locator("h1 .badge")).to_have_text("queued")
    site.process.stop()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    site.start()
    expect(page.get_by_role("alert")).to_have_count(0)
    with site.api() as api:
        api.post(f"/api/v1/jobs/{waits}/cancel")
    expect(page.locator("h1 .badge")).to_have_text("cancelled")
    tab.errors.clear()  # the browser's own notes of the outage
    tab.check(perhaps=422)
