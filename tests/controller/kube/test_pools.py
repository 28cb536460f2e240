"""Pools become Deployments with as many workers as the table has work for, and no busy worker is taken away."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from samjobs.store.rows import WorkerState
from tests import postgres
from tests.cluster.client import Client
from tests.controller.kube.pool_world import PoolWorld, install_crds
from tests.store.builders import job, run, running
from tests.waiting import until

STEPS = {"policy": "steps", "maxReplicas": 5, "upCooldownSeconds": 0, "downCooldownSeconds": 0}


@pytest.fixture
def world(api_server: Client, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolWorld]:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    install_crds(api_server)
    with api_server.namespace(wait=False) as namespace:
        one = PoolWorld(api_server, namespace, postgres_url)
        yield one
        one.close()


def test_a_pool_without_work_starts_no_pod_and_is_ready(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    world.round()
    assert world.replicas() == 0
    world.round()
    assert (world.status()["desiredReplicas"], world.status()["replicas"]) == (0, 0)
    assert world.condition("Ready")["status"] == world.condition("Available")["status"] == "True"


def test_work_brings_workers_within_one_round(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    world.round()
    job(world.store, 40)  # 20 shards
    world.round()
    assert world.replicas() == 2
    assert world.status()["desiredReplicas"] == 2
    assert world.condition("Available")["status"] == "False", "nobody has started yet"


def test_what_was_decided_of_a_pool_is_told_to_prometheus(world: PoolWorld) -> None:
    world.pool(scaling={**STEPS, "minReplicas": 1})
    world.round()
    job(world.store, 40)
    world.round()
    world.pods("a", ready=True)
    world.worker("a", WorkerState.BUSY)
    world.round()
    told = {kind: world.metric("samjobs_pool_replicas", kind=kind) for kind in ("desired", "current", "ready", "busy")}
    assert told == {"desired": 2, "current": 1, "ready": 1, "busy": 1}
    assert world.metric("samjobs_pool_replicas", kind="minimum") == 1
    assert world.metric("samjobs_pool_replicas", kind="maximum") == 5
    assert world.metric("samjobs_pool_scaling_held") == 0
    world.kubectl("delete", "samworkerpool", "spot", "--wait=false")
    world.round()
    assert world.metric("samjobs_pool_replicas", kind="desired") is None


def test_work_of_another_region_is_none_of_ours(world: PoolWorld) -> None:
    world.pool(region="asia", scaling=STEPS)
    job(world.store, 40)
    world.round()
    assert world.replicas() == 0


def test_without_anything_new_nothing_is_written(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    job(world.store, 40)
    world.round()
    world.pods("a", "b")
    for pod in ("a", "b"):
        world.worker(pod, WorkerState.READY)
    world.round()
    before = {verb: len(world.requests(verb, of)) for verb, of in (("patch", "deployments"), ("patch", "pods"))}
    versions = [world.get(kind, name)["metadata"]["resourceVersion"] for kind, name in OWN_OBJECTS]
    for _ in range(3):
        world.round()
    assert [world.get(kind, name)["metadata"]["resourceVersion"] for kind, name in OWN_OBJECTS] == versions
    assert before == {verb: len(world.requests(verb, of)) for verb, of in (("patch", "deployments"), ("patch", "pods"))}


OWN_OBJECTS = (("deployment", "samworkers-spot"), ("samworkerpool", "spot"), ("pod", "a"))


def test_the_idle_go_first_and_the_busy_one_finishes(world: PoolWorld) -> None:
    work = job(world.store, 200)  # 100 shards
    world.pool(scaling=STEPS)
    world.round()
    assert world.replicas() == 4
    pods = ("oldest", "b", "c", "d")
    world.pods(*pods)
    busy, *_ = [world.worker(pod, WorkerState.BUSY if pod == "oldest" else WorkerState.READY) for pod in pods]
    world.round()
    assert set(world.costs().values()) == {None}, "nobody is to go, so nothing is written"

    for _ in range(99):
        run(world.store, work)
    running(world.store, work, busy)
    world.round()

    assert world.replicas() == 1
    assert world.costs() == {"oldest": "100", "b": None, "c": None, "d": None}, "idle is what no annotation means"
    [dear] = world.requests("patch", "pods")
    shrunk = [one for one in world.requests("patch", "deployments") if one["stageTimestamp"] > dear["stageTimestamp"]]
    assert len(shrunk) == 1, "first the costs, then fewer replicas"


def test_who_was_busy_once_is_cheap_again(world: PoolWorld) -> None:
    world.pool(replicas=3)
    world.round()
    world.pods("a", "b", "c")
    first = world.worker("a", WorkerState.BUSY)
    world.pool(replicas=2)
    world.round()
    assert world.costs() == {"a": "100", "b": None, "c": None}

    world.idle(first)
    world.worker("b", WorkerState.BUSY)
    world.kubectl("delete", "pod", "c", "--force")
    world.pool(replicas=1)
    world.round()
    assert world.costs() == {"a": "0", "b": "100"}


def test_never_fewer_than_are_busy(world: PoolWorld) -> None:
    work = job(world.store, 8)  # 4 shards
    world.pool(scaling=STEPS | {"minReplicas": 3})
    world.round()
    world.pods("a", "b", "c")
    crew = [world.worker(pod, WorkerState.BUSY) for pod in ("a", "b", "c")]
    for one in crew:
        running(world.store, work, one)
    world.pool(scaling=STEPS)
    world.round()
    assert world.replicas() == 3


@pytest.mark.parametrize("restarted", [False, True], ids=["the same controller", "one that starts meanwhile"])
def test_a_database_that_is_away_holds_all_pools(
    world: PoolWorld, postgres_process: postgres.Server, restarted: bool
) -> None:
    job(world.store, 40)
    world.pool(scaling=STEPS)
    world.round()
    world.settle()
    postgres_process.stop()
    try:
        if restarted:
            world.restart()
        for _ in range(2):
            world.round()
        assert world.replicas() == 2
        limited = world.condition("ScalingLimited")
        assert (limited["status"], limited["reason"]) == ("Unknown", "UnknownDemand")
        assert "database" in limited["message"]
        assert world.condition("Ready")["status"] == "True"
        world.kubectl("scale", "samworkerpool", "spot", "--replicas=3")
        world.round()
        assert world.replicas() == 3, "a person may still say a number"
    finally:
        postgres_process.start()
    world.kubectl("patch", "samworkerpool", "spot", "--type=json", '-p=[{"op":"remove","path":"/spec/replicas"}]')
    world.round()
    assert (world.replicas(), world.condition("ScalingLimited")["status"]) == (2, "False")


def test_a_restart_changes_no_deployment(world: PoolWorld) -> None:
    job(world.store, 40)
    world.pool(scaling=STEPS)
    world.round()
    before = world.get("deployment", "samworkers-spot")["metadata"]
    world.restart()
    world.round()
    after = world.get("deployment", "samworkers-spot")["metadata"]
    assert (after["generation"], after["resourceVersion"]) == (before["generation"], before["resourceVersion"])


def test_a_number_by_hand_wins_and_leaving_it_out_gives_it_back(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    world.round()
    world.kubectl("scale", "samworkerpool", "spot", "--replicas=3")
    world.round()
    assert world.replicas() == 3
    assert world.status()["reason"] == "ByHand"
    world.kubectl("patch", "samworkerpool", "spot", "--type=json", '-p=[{"op":"remove","path":"/spec/replicas"}]')
    world.round()
    assert world.replicas() == 0


def test_external_scaling_takes_the_number_that_is_set_and_no_other(world: PoolWorld) -> None:
    world.pool(scaling={"mode": "external"}, replicas=2)
    job(world.store, 400)
    world.round()
    assert world.replicas() == 2


def test_the_scale_subresource_tells_autoscalers_what_there_is(world: PoolWorld) -> None:
    world.pool(replicas=2)
    world.round()
    world.pods("a", "b")
    world.round()
    path = f"/apis/samjobs.dev/v1alpha1/namespaces/{world.namespace}/samworkerpools/spot/scale"
    scale = json.loads(world.api.kubectl("get", "--raw", path))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    assert "samjobs.dev/pool=spot" in scale["status"]["selector"]


def test_a_deployment_that_was_scaled_by_hand_is_put_back_and_it_is_told(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    world.round()
    world.kubectl("scale", "deployment", "samworkers-spot", "--replicas=5")
    world.round()
    assert world.replicas() == 0
    [told] = world.events("PutBack")
    assert "from 0 to 5" in told
    assert "kubectl scale samworkerpool spot --replicas=5" in told


def test_a_deployment_that_was_edited_or_deleted_is_put_back(world: PoolWorld) -> None:
    world.pool(scaling=STEPS)
    world.round()
    world.kubectl("set", "image", "deployment/samworkers-spot", "worker=other:1")
    world.round()
    assert image_of(world) == "samjobs-worker:1"
    assert len(world.events("PutBack")) == 1
    world.kubectl("delete", "deployment", "samworkers-spot")
    world.round()
    assert world.replicas() == 0


def image_of(world: PoolWorld) -> str:
    image: str = world.get("deployment", "samworkers-spot")["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def test_an_image_that_is_not_allowed_is_refused_with_a_condition_and_an_event(world: PoolWorld) -> None:
    world.pool(image="evil:1", replicas=1)
    world.round()
    assert world.deployment() is None
    assert "evil:1" in world.condition("Stalled")["message"]
    assert world.condition("Ready")["status"] == "False"
    assert world.status()["reason"] == "InvalidSpec"
    assert len(world.events("InvalidSpec")) == 1


def test_a_spelling_error_ends_no_worker(world: PoolWorld) -> None:
    world.pool(replicas=2)
    world.round()
    world.pool(replicas=2, image="evil:1")
    world.round()
    assert (world.replicas(), image_of(world)) == (2, "samjobs-worker:1")
    world.pool(replicas=2)
    world.round()
    world.round()
    assert world.condition("Stalled")["status"] == "False"


def test_a_refused_pool_is_told_to_prometheus(world: PoolWorld) -> None:
    world.pool(replicas=1)
    world.round()
    assert world.metric("samjobs_pool_scaling_held") == 0
    world.pool(replicas=1, image="evil:1")
    world.pods("a")
    world.round()
    assert world.metric("samjobs_pool_scaling_held") == 1
    assert world.metric("samjobs_pool_replicas", kind="ready") == 1


def test_a_pool_that_never_could_run_keeps_no_region_from_another(world: PoolWorld) -> None:
    world.pool("a", image="evil:1", scaling=STEPS)
    world.pool("b", scaling=STEPS)
    job(world.store, 2)
    world.round()
    assert world.status("a")["reason"] == "InvalidSpec"
    assert world.replicas("b") == 1


def test_a_pool_at_work_keeps_its_region_through_a_spelling_error(world: PoolWorld) -> None:
    world.pool("a", scaling=STEPS)
    world.pool("b", scaling=STEPS)
    job(world.store, 2)
    world.round()
    world.pool("a", image="evil:1", scaling=STEPS)
    world.round()
    assert world.status("a")["reason"] == "InvalidSpec"
    assert world.status("b")["reason"] == "RegionTaken", "two pools would work one region"


NO_FIELD = {"nodeAffinity": {"nodes": ["a"]}}
NO_WEIGHT = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0}]}}


@pytest.mark.parametrize("wrong", [NO_FIELD, NO_WEIGHT], ids=["a field that it does not know", "a wrong value"])
def test_what_the_api_refuses_is_told_too(world: PoolWorld, wrong: dict[str, Any]) -> None:
    world.pool(replicas=1, affinity=wrong)
    for _ in range(2):
        world.round()
    assert "ffinity" in world.condition("Stalled")["message"]
    assert len(world.requests("patch", "deployments")) == 1, "it is not asked again at once"


def test_the_older_of_two_pools_works_a_region(world: PoolWorld) -> None:
    world.pool("b", scaling=STEPS)
    born = world.get("samworkerpool", "b")["metadata"]["creationTimestamp"]
    until(lambda: f"{world.kube.now():%Y-%m-%dT%H:%M:%SZ}" > born, "the API server's clock shows the next second")
    world.pool("a", scaling=STEPS)
    job(world.store, 2)
    world.round()
    assert world.replicas("b") == 1
    assert world.deployment("a") is None
    assert world.status("a")["reason"] == "RegionTaken"
    assert f"{world.namespace}/b" in world.condition("Stalled", "a")["message"]

    world.kubectl("delete", "samworkerpool", "b")
    world.round()
    assert world.replicas("a") == 1


def test_a_pool_that_was_deleted_is_forgotten_and_its_deployment_is_the_garbage_collectors(world: PoolWorld) -> None:
    world.pool(replicas=1)
    world.round()
    assert [row.name for row in world.rows()] == ["spot"]
    uid = world.get("samworkerpool", "spot")["metadata"]["uid"]
    assert [one["uid"] for one in world.get("deployment", "samworkers-spot")["metadata"]["ownerReferences"]] == [uid]
    world.kubectl("delete", "samworkerpool", "spot")
    world.round()
    assert world.rows() == []


def test_a_worker_without_its_model_is_told_at_the_pool(world: PoolWorld) -> None:
    world.pool(replicas=1)
    world.round()
    log = "2026-11-01 12:00:00,1 CRITICAL worker: model '/models': no such folder\n"
    end = {"terminated": {"exitCode": 5, "reason": "Error", "message": log}}
    told = {"name": "worker", "ready": False, "restartCount": 2, "image": "i", "imageID": "i"}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end}
    world.pods("a", ready=False, containerStatuses=[told | waiting])
    world.round()
    condition = world.condition("ModelUnavailable")
    assert (condition["status"], condition["message"]) == ("True", "model '/models': no such folder")
    assert world.events("ModelUnavailable") == ["model '/models': no such folder"]


def test_a_pod_without_a_node_is_told_with_the_schedulers_words(world: PoolWorld) -> None:
    world.pool(replicas=1)
    world.round()
    why = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    world.pods("a", ready=False, conditions=[{"type": "PodScheduled", "status": "False", "message": why}])
    world.round()
    assert world.condition("Unschedulable")["message"] == why


def test_a_restricted_namespace_takes_the_pods_of_a_pool_with_everything(world: PoolWorld) -> None:
    spec = {
        "image": "samjobs-worker:1",
        "model": {"hub": {"id": "facebook/sam3", "revision": "abc", "tokenSecret": {"name": "hf", "key": "token"}}},
        "resources": {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": "1"}},
        "nodeSelector": {"gpu": "l4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "env": [{"name": "SAMJOBS_BATCH", "value": "8"}, {"name": "KEY", "secret": {"name": "s", "key": "k"}}],
        "volumes": [{"claim": "photos", "mountPath": "/photos"}],
        "cache": {"claim": "hub"},
        "imagePullSecrets": ["registry"],
        "podLabels": {"team": "x"},
        "podAnnotations": {"note": "y"},
    }
    world.pool(**spec)
    world.round()
    template = world.get("deployment", "samworkers-spot")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", **template["metadata"]}}
    world.api.apply(pod | {"spec": template["spec"]}, namespace=world.namespace)
