"""What a person does to a SamJob happens to the work, and what happens to the work is said at the SamJob."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.e2e import photos
from tests.e2e.release import Release
from tests.e2e.site import PER_SHARD, Site


@pytest.fixture(scope="module")
def site(release: Release) -> Iterator[Site]:
    """A region with one worker, which does the jobs of all tests here."""
    mine = Site(release, f"r{uuid4().hex[:6]}")
    mine.pool(scaling=PER_SHARD | {"minReplicas": 1, "maxReplicas": 1})
    yield mine
    mine.clear()


def until_idle(site: Site) -> None:
    """Wait until the worker has nothing in hand."""
    query = f"SELECT count(*) AS busy FROM workers WHERE region = '{site.name}' AND state = 'busy'"
    site.until(lambda: site.release.rows(query) == [{"busy": 0}], "the worker has nothing in hand")


def conditions(site: Site, job: str) -> dict[str, str]:
    """The reasons of the job's conditions that hold."""
    listed = site.release.get("samjob", job)["status"]["conditions"]
    return {one["type"]: one["reason"] for one in listed if one["status"] == "True"}


def test_deleting_a_running_job_cancels_it_and_its_worker_stops_at_the_next_image(site: Site) -> None:
    job = site.job("unwanted", photos.slow("unwanted", 100, 0.5))
    site.until_at_work(job)
    site.release.kubectl("delete", "samjob", job)
    site.until(lambda: site.row(job)["state"] == "cancelled", "its row is cancelled")
    until_idle(site)
    row = site.row(job)
    assert (row["reason"], row["shards_cancelled"]) == ("ObjectDeleted", 1)
    assert row["images_done"] < row["images_total"]
    assert set(site.commits(job).values()) == {1}


def test_a_suspended_job_leaves_the_worker_and_goes_on_where_it_was(site: Site) -> None:
    job = site.job("held", photos.slow("held", 20, 0.5))
    site.until_at_work(job)
    patch = ("patch", "samjob", job, "--type=merge")
    site.release.kubectl(*patch, '--patch={"spec": {"suspend": true}}')
    site.release.kubectl("wait", f"samjob/{job}", "--for=condition=Suspended", "--timeout=60s")
    until_idle(site)
    before = site.commits(job)
    assert 0 < len(before) < 20
    assert site.release.get("samjob", job)["status"]["phase"] == "Suspended"
    site.release.kubectl(*patch, '--patch={"spec": {"suspend": false}}')
    site.release.kubectl("wait", f"samjob/{job}", "--for=condition=Complete", "--timeout=120s")
    site.check_done_once(job)


def test_a_job_that_fails_is_finished_and_says_why(site: Site) -> None:
    job = site.job("absent", {"list": [{"image": f"{site.folder}/nothing-{number}.png"} for number in range(3)]})
    site.release.kubectl("wait", f"samjob/{job}", "--for=condition=Finished", "--timeout=120s")
    assert conditions(site, job) == {"Failed": "AllImagesFailed", "Finished": "AllImagesFailed"}
    status = site.release.get("samjob", job)["status"]
    assert (status["phase"], status["images"]["failed"]) == ("Failed", 3)
    why = f"{site.folder}/nothing-0.png does not exist, or is a folder"
    assert status["message"] == f"all 3 images failed; the first: {why}"


def test_a_job_goes_when_its_time_after_the_end_is_over(site: Site) -> None:
    job = site.job("brief", photos.slow("brief", 2, 0.1), ttlSecondsAfterFinished=2)
    site.release.kubectl("wait", f"samjob/{job}", "--for=create", "--timeout=10s")
    site.until(lambda: site.release.find("samjob", job) is None, "its object is deleted")
    assert site.row(job)["state"] == "succeeded", "the row outlives its object, which else would be a new wish"


def test_a_spec_that_cannot_be_followed_is_refused_in_one_line(site: Site) -> None:
    with pytest.raises(AssertionError) as refused:
        site.job("boxless", {"prefix": "/data/photos"}, mode="inside_box", prompts={"text": [{"text": "red"}]})
    [line] = [line for line in str(refused.value).splitlines() if "is invalid" in line]
    assert "prompts.text does not go with mode inside_box" in line

    job = site.job("astray", {"prefix": "/data/photos"}, output={"uri": "/dev/null"})
    site.release.kubectl("wait", f"samjob/{job}", "--for=condition=Stalled", "--timeout=60s")
    assert set(conditions(site, job)) == {"Failed", "Finished", "Stalled"}
    status = site.release.get("samjob", job)["status"]
    assert status["phase"] == "Invalid"
    assert "/dev/null is a file" in status["message"]
    assert len(status["message"].splitlines()) == 1
    assert site.row(job) == {}
