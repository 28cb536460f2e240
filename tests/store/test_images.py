"""Reading images back: what failed, and one photo's story across jobs; on both databases."""

from samjobs.names import Reason
from samjobs.states import ImageState, JobState
from samjobs.store import Store, images
from tests.store.builders import job, run


def test_failed_images_are_listed_in_order_page_by_page(store: Store) -> None:
    job_id = job(store, 8)
    for state in (ImageState.FAILED, ImageState.DONE, ImageState.FAILED, ImageState.DONE):
        run(store, job_id, state)
    with store.read() as conn:
        first = images.failed(conn, job_id, limit=3)
        rest = images.failed(conn, job_id, after=first[-1].index)
    assert [image.index for image in first + rest] == [0, 1, 4, 5]


def test_a_photo_s_history_spans_jobs_newest_first(store: Store) -> None:
    older, newer = job(store, 2, name="first try"), job(store, 2, name="second try")
    run(store, older, ImageState.FAILED)
    with store.read() as conn:
        by_key = images.history(conn, "0001.jpg")
        assert images.history(conn, "photos/0001.jpg") == by_key
        assert images.history(conn, "0001.jpg", limit=1) == by_key[:1]
        assert images.history(conn, "1.jpg") == []
    assert [(told.job_id, told.job_name) for told in by_key] == [(newer, "second try"), (older, "first try")]
    assert [told.image.state for told in by_key] == [ImageState.PENDING, ImageState.FAILED]
    assert (by_key[1].job_state, by_key[0].job_state) == (JobState.FAILED, JobState.QUEUED)
    assert [event.reason for event in by_key[1].events] == [Reason.IMAGE_ERROR]
