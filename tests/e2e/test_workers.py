"""Workers come, go and are taken away, and no work is lost, done twice or charged with it."""

from collections import Counter

from samjobs.names import Reason
from tests.e2e import photos
from tests.e2e.site import RESOURCES, Site


def test_of_four_workers_the_idle_ones_go_and_the_busy_one_finishes(site: Site) -> None:
    pool = site.pool()
    first = site.job("first", photos.slow("first", 100, 1.0))
    site.until_at_work(first)
    # Newer than the first one's worker, so that Kubernetes by itself would take theirs first.
    stays = site.job("stays", photos.slow("stays", 50, 0.5))
    others = [site.job(name, photos.slow(name, 100, 1.0)) for name in ("b", "c")]
    pods = site.until_at_work(first, stays, *others)
    assert len(set(pods.values())) == 4
    site.release.kubectl("delete", "samjob", first, *others)
    site.until(lambda: site.replicas(pool) == 1, "one worker is enough")
    site.until(lambda: len(site.pods(pool)) == 1, "three go")
    assert list(site.pods(pool)) == [pods[stays]]
    site.until_ended(stays)
    site.check_done_once(stays)
    assert [shard["attempt"] for shard in site.shards(stays)] == [1], "the busy one was not disturbed"


def test_a_deleted_pod_gives_its_work_back_and_another_goes_on(site: Site) -> None:
    pool = site.pool()
    job = site.job("trip", photos.slow("trip", 30, 0.5))
    pod = site.until_at_work(job)[job]
    site.release.kubectl("delete", "pod", pod)
    site.until_ended(job)
    site.check_done_once(job)
    assert Reason.DRAINED in site.reasons(job)
    assert pod not in site.pods(pool)


def test_without_a_free_gpu_the_number_stays_and_the_pool_says_so(site: Site) -> None:
    pool = site.pool(resources=RESOURCES | {"limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}})
    jobs = [site.job(f"job-{number}", photos.slow(f"job-{number}", 60, 0.5)) for number in range(6)]

    def told() -> str:
        conditions = site.release.get("samworkerpool", pool).get("status", {}).get("conditions", [])
        return "".join(
            one["message"] for one in conditions if (one["type"], one["status"]) == ("Unschedulable", "True")
        )

    site.until(lambda: "Insufficient nvidia.com/gpu" in told(), "the pool says what is missing")
    assert site.replicas(pool) == 6
    generation = site.release.get("deployment", f"samworkers-{pool}")["metadata"]["generation"]

    def done() -> int:
        return sum(site.row(job)["images_done"] for job in jobs)

    site.until(lambda: len(site.at_work()) >= 2, "those that have a GPU work")
    before = done()
    site.until(lambda: done() >= before + 40, "they go on")
    assert site.release.get("deployment", f"samworkers-{pool}")["metadata"]["generation"] == generation
    pending = [pod for pod in site.pods(pool).values() if pod["status"]["phase"] == "Pending"]
    assert len(site.pods(pool)) == 6
    assert len(pending) >= 2


def test_a_new_template_takes_the_idle_worker_first_and_costs_the_busy_one_no_image(site: Site) -> None:
    pool = site.pool(replicas=2)
    job = site.job("trip", photos.slow("trip", 60, 0.5))
    busy = site.until_at_work(job)[job]
    before = set(site.pods(pool))
    site.until(lambda: len(ready(site, pool)) == 2, "both workers are ready")
    site.pool(replicas=2, podAnnotations={"colour": "blue"})
    site.until(lambda: set(site.pods(pool)) - before != set(), "the first new worker is made")
    assert busy in site.pods(pool), "the idle one went"
    site.until(lambda: ready(site, pool).isdisjoint(before) and len(ready(site, pool)) == 2, "all are new")
    site.until_ended(job)
    site.check_done_once(job)
    assert Reason.DRAINED in site.reasons(job)


def test_workers_of_a_deleted_pool_drain(site: Site) -> None:
    pool = site.pool()
    job = site.job("trip", photos.slow("trip", 30, 0.5))
    site.until_at_work(job)
    site.release.kubectl("delete", "samworkerpool", pool)
    site.until(lambda: site.replicas(pool) is None and not site.pods(pool), "its workers go with it")
    site.until(lambda: Reason.DRAINED in site.reasons(job), "the work is given back")
    assert 0 < len(site.commits(job)) < 30
    assert set(site.commits(job).values()) == {1}
    site.pool("next")
    site.until_ended(job)
    site.check_done_once(job)
    assert Counter(site.reasons(job))[Reason.DRAINED] == 1


def ready(site: Site, pool: str) -> set[str]:
    """Names of the pool's pods that are ready."""
    return {
        name
        for name, pod in site.pods(pool).items()
        if any((one["type"], one["status"]) == ("Ready", "True") for one in pod["status"].get("conditions", []))
    }
