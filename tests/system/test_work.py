"""Five jobs over three workers, as a user sees them: all done once, progress in the table, `describe` true."""

from samjobs.states import ImageState, JobState
from tests.system.system import System


def test_five_jobs_of_200_images_over_three_workers_are_done_once_each(system: System) -> None:
    workers = system.start_all(workers=3)
    job_ids = [system.submit(f"job-{number}", 200, shard_size=20) for number in range(5)]
    seen: set[int] = set()

    def progressed() -> bool:
        seen.update(system.job(job_id).images_done for job_id in job_ids)
        return all(system.job(job_id).state is JobState.SUCCEEDED for job_id in job_ids)

    system.until(progressed, "all five jobs succeed", patience_s=120)
    for job_id in job_ids:
        system.check_done_once(job_id)
    assert len(seen - {0, 200}) > 5, "the table showed no progress while the jobs ran"
    assert set(system.worked().values()) == {1}, "a picture was given to an engine twice"
    starters = {event.actor for job_id in job_ids for event in system.events(job_id) if event.reason == "Started"}
    assert len(starters) == len(workers), "a worker did nothing"
    assert system.redis_ids() == [], "messages were left in Redis"


def test_describe_is_true_at_each_stage(system: System) -> None:
    job_id = system.submit("walk", 6, shard_size=3)
    system.start("controller")
    system.until(lambda: system.shards(job_id)[0].state == "dispatched", "the first shard is sent out")
    told = system.cli("describe", str(job_id))
    assert "queued" in told
    assert "no worker" in told
    held = system.hold()
    worker = system.start("worker", held=("written", held))
    system.until(lambda: held.pid is not None, "an image is about to be committed")
    told = system.cli("describe", str(job_id))
    assert "running" in told
    assert "0 of 6" in told
    system.cli("suspend", str(job_id))
    held.let_go()
    system.until(
        lambda: all(shard.state == "queued" for shard in system.shards(job_id) if shard.images_done < 3), "it stops"
    )
    told = system.cli("describe", str(job_id))
    assert "suspended" in told
    assert worker.alive
    system.cli("resume", str(job_id))
    system.until_ended(job_id)
    told = system.cli("describe", str(job_id))
    assert "succeeded" in told
    assert "6 of 6" in told
    system.check_done_once(job_id)


def test_one_corrupt_file_fails_that_image_alone_and_a_retry_does_only_it(system: System) -> None:
    system.start_all()
    good = system.photos("mixed", 8)
    bytes_of_it = good[3].read_bytes()
    good[3].write_bytes(b"not a picture")
    job_id = system.submit_listed("mixed", shard_size=4)
    system.until_ended(job_id)
    states = [image.state for image in system.images(job_id)]
    assert states.count(ImageState.FAILED) == 1
    assert states.count(ImageState.DONE) == 7
    assert system.job(job_id).state is JobState.SUCCEEDED
    good[3].write_bytes(bytes_of_it)
    before = system.worked().total()
    system.cli("retry", str(job_id), "--failed-images")
    system.until(lambda: system.job(job_id).images_done == 8, "the failed image is done")
    system.until_ended(job_id)
    assert system.worked().total() == before + 1


def test_the_controller_lists_a_folder_and_the_results_are_gathered_at_the_end(system: System) -> None:
    system.start_all()
    system.photos("folder", 25)
    job_id = system.submit_listed("folder", shard_size=10)
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert len(system.shards(job_id)) == 3
    out = system.root / "out" / "folder"
    system.until(lambda: system.job(job_id).published_at is not None, "the results are gathered")
    assert len((out / "results.jsonl").read_bytes().splitlines()) == 25
