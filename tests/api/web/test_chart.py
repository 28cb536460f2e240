"""What a chart of the queue shows: each value at its height, gaps where nothing is known, and the same in words."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.web import browser as browsers

DRAWN = """async ([samples, keys]) => {
  const { chart } = await import("/static/chart.js");
  const series = keys.map((key) => ({ key, label: key, kind: "one" }));
  document.querySelector("main").replaceChildren(chart("Shards over time", series, samples, 600));
}"""
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def page(browser: Browser, files: str) -> Iterator[Page]:
    with browsers.tab(browser, files) as tab:
        tab.page.goto(files)
        tab.page.get_by_label("Token").wait_for()
        yield tab.page
        tab.check()


def samples(*values: int | None, key: str = "due") -> list[dict[str, Any]]:
    """One each five seconds."""
    return [{"at": (BEGIN + timedelta(seconds=5 * n)).isoformat(), key: value} for n, value in enumerate(values)]


def heights(page: Page) -> dict[int, float]:
    """Where the lines of the scale are, by what is written beside them."""
    texts = page.locator(".chart text[text-anchor=end]").all()
    found = {one.inner_html().replace(",", ""): float(one.get_attribute("y") or 0) - 4 for one in texts}
    return {int(text): y for text, y in found.items() if text.isdigit()}


def points(page: Page) -> list[list[tuple[float, float]]]:
    """The points of each line."""
    paths = [one.get_attribute("d") or "" for one in page.locator(".chart path").all()]
    return [
        [(float(x), float(y)) for x, y in (point.split() for point in d[1:].replace("h0.1", "").split("L"))]
        for d in paths
    ]


@pytest.mark.parametrize("most", [1, 3, 4, 7, 60, 999, 100_000])
def test_each_value_is_at_its_height_on_a_scale_of_whole_numbers(page: Page, most: int) -> None:
    page.evaluate(DRAWN, [samples(0, most, most // 2), ["due"]])
    scale = heights(page)
    assert 2 <= len(scale) <= 7
    assert min(scale) == 0
    assert max(scale) >= most
    per_shard = (scale[0] - scale[max(scale)]) / max(scale)
    [line] = points(page)
    for (_, y), value in zip(line, (0, most, most // 2), strict=True):
        assert y == pytest.approx(scale[0] - value * per_shard, abs=0.1)
    assert [x for x, _ in line] == sorted(x for x, _ in line)


def test_where_nothing_is_known_there_is_a_gap(page: Page) -> None:
    page.evaluate(DRAWN, [samples(1, 2, None, 3), ["due"]])
    assert [len(line) for line in points(page)] == [2, 1]


def test_a_first_sample_and_a_queue_of_nothing_are_charts_too(page: Page) -> None:
    for values in ((5,), (0, 0)):
        page.evaluate(DRAWN, [samples(*values), ["due"]])
        assert len(points(page)[0]) == len(values)


def test_who_sees_no_lines_is_told_in_words_and_numbers(page: Page) -> None:
    page.evaluate(DRAWN, [samples(*range(100), 40), ["due"]])
    picture = page.get_by_role("img", name="Shards over time. due: 40 now, at most 99.")
    expect(picture).to_be_visible()
    page.get_by_text("As a table").click()
    rows = page.locator("table.numbers tbody tr")
    assert 8 <= rows.count() <= 12
    expect(rows.first).to_contain_text("40")  # the newest first
