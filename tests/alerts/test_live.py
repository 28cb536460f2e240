"""A real Prometheus scrapes the running system: the dashboard is full, and each fault fires its alert and no other.

The system is a controller with a pool on a real API server, two workers, and the REST API, on a real Postgres and
Redis. The rules are those that ship, sixty times as fast (`prometheus.hurried`).
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx
import pytest
import redis

from samjobs.inputs import NewImage
from samjobs.spec import RetryPolicy
from samjobs.states import JobState, ShardState
from samjobs.store import jobs
from tests import redis_server as redis_servers
from tests.alerts.prometheus import Prometheus, free_port, prometheus
from tests.api.server import Api
from tests.cluster.client import Client
from tests.conftest import missing
from tests.controller.kube.bed import installation, written
from tests.controller.kube.conftest import install_crds
from tests.controller.kube.pool_world import PoolWorld
from tests.postgres import database
from tests.system.system import Process, System
from tests.waiting import until
from tools import dashboard

# Below what the faults reach, and above what work on a busy machine does.
THRESHOLDS = "SamJobsDeadShardsGrow=0"
# A worker that waits for its turn on a busy machine is not silent.
LEASE_S = 6
CHOICE = {"$__rate_interval": "15s", "$namespace": ".*", "$job": ".+", "$region": ".+", "$pool": ".+"}
EXPRESSIONS = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in dashboard.board()["panels"]
    for target in panel.get("targets", ())
}


@dataclass
class Site:
    """The system, and who watches it."""

    system: System
    redis: redis_servers.Server
    watch: Prometheus
    controller: Process
    workers: list[Process]
    api: Api
    start_controller: Callable[[], Process]

    def job(self) -> UUID:
        """A job of four photos, one of which is none."""
        name = uuid4().hex
        items = [NewImage(path.name, str(path)) for path in self.system.photos(name, 3)]
        broken = self.system.root / "broken.png"
        broken.write_text("no photo")
        return self.system.submit_items(name, [*items, NewImage("broken.png", str(broken))], shard_size=2)

    def until_silent(self) -> None:
        until(
            lambda: not self.watch.pending(),
            f"no alert's condition holds any more; they are {self.watch.pending()}\n{self.system.told()}",
            every_s=0.5,
        )

    @contextmanager
    def only(self, alert: str) -> Iterator[None]:
        """In the block a fault is made: this alert fires, and no other; and none once the caller has repaired it."""
        self.until_silent()
        yield
        fired: set[str] = set()

        def fires() -> bool:
            fired.update(self.watch.firing())
            return bool(fired)

        until(fires, f"{alert} fires; what holds is {self.watch.pending()}\n{self.system.told()}", every_s=0.5)
        assert fired == {alert}


@pytest.fixture(scope="module")
def site(api_server: Client, postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("live")
    program = redis_servers.programs()
    if program is None:
        missing(f"Redis is missing: {redis_servers.INSTALL}")
    ports = {
        "samjobs-controller": [free_port()],
        "samjobs-workers": [free_port(), free_port()],
        "samjobs-api": [free_port()],
    }
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("KUBECONFIG", str(api_server.kubeconfig))
        url = stack.enter_context(database(postgres_server))
        server = stack.enter_context(redis_servers.server(program))
        install_crds(api_server)
        namespace = stack.enter_context(api_server.namespace(wait=False))
        pools = PoolWorld(api_server, namespace, url)
        stack.callback(pools.close)
        pools.pool("spot", engine="opencv", scaling={"maxReplicas": 100})
        system = System(root, url, url, server, settings={"STALE_JOB_TIMEOUT_SECONDS": LEASE_S})
        stack.callback(system.close)
        config = written(root, installation(namespace))

        def start_controller() -> Process:
            port = ports["samjobs-controller"][0]
            return system.start("controller", KUBERNETES_CONFIG=config, ALERT_THRESHOLDS=THRESHOLDS, HEALTH_PORT=port)

        controller = start_controller()
        workers = [system.start("worker", HEALTH_PORT=port) for port in ports["samjobs-workers"]]
        for name in ("api", "prometheus"):
            (root / name).mkdir()
        api = Api(root / "api", url, HEALTH_PORT=ports["samjobs-api"][0])
        stack.callback(api.close)
        where = {"samjobs-workers": "gpu"}
        targets = {job: {"ports": ports[job], "namespace": where.get(job, "samjobs")} for job in ports}
        watch = stack.enter_context(prometheus(root / "prometheus", targets))
        site = Site(system, server, watch, controller, workers, api.until_ready(), start_controller)
        until(lambda: watch.up() == sum(map(len, ports.values())), "all processes are scraped")
        yield site


@pytest.fixture
def flow(site: Site) -> Iterator[None]:
    """Jobs come all the time, and somebody asks for them."""
    stop = threading.Event()

    def submit() -> None:
        while not stop.wait(0.5):
            site.job()
            httpx.get(f"{site.api.url}/api/v1/jobs", headers={"Authorization": "Bearer reader"}).raise_for_status()

    thread = threading.Thread(target=submit)
    thread.start()
    yield
    stop.set()
    thread.join(60)


def test_every_panel_of_the_dashboard_shows_something(site: Site, flow: None) -> None:
    empty = dict(EXPRESSIONS)

    def all_full() -> bool:
        for title, expression in [*empty.items()]:
            for variable, value in CHOICE.items():
                expression = expression.replace(variable, value)
            if any(not math.isnan(float(one["value"][1])) for one in site.watch.query(expression)):
                del empty[title]
        return not empty

    with suppress(AssertionError):
        until(all_full, "every query has an answer", patience_s=60, every_s=1)
    assert not empty, "these queries have no answer, while work flows"


def test_a_frozen_worker_is_silent_until_it_goes_on(site: Site) -> None:
    with site.only("SamJobsWorkersSilent"):
        site.workers[0].pause()
    site.workers[0].go_on()
    site.until_silent()


def test_a_redis_that_evicts_is_told_of(site: Site) -> None:
    with redis.Redis(port=site.redis.port) as client:
        with site.only("SamJobsRedisEvicts"):
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory-policy", "noeviction")
    site.until_silent()


def test_shards_that_die_are_told_of(site: Site) -> None:
    with site.only("SamJobsDeadShardsGrow"):
        job_id = site.system.submit(
            uuid4().hex,
            2,
            engine="sam3",
            model=str(site.system.root / "nowhere"),
            retry_policy=RetryPolicy(max_attempts=1),
        )
        until(lambda: site.system.job(job_id).state is JobState.FAILED, "the job fails")
        assert [shard.state for shard in site.system.shards(job_id)] == [ShardState.DEAD]
    with site.system.store.begin() as conn:
        jobs.purge_dead(conn, job_id, actor="test")
    site.until_silent()


def test_a_controller_that_is_gone_is_told_of(site: Site) -> None:
    with site.only("SamJobsControllerDown"):
        site.controller.stop()
    site.controller = site.start_controller()
    site.until_silent()
