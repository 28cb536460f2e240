"""The queue in Redis: what is pushed is popped once and leaves nothing, planted entries do nothing, outages show."""

import os
import pickle
import shutil
import signal
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from rq.cli import main as rq_command
from rq.job import Job
from rq.serializers import JSONSerializer

from samjobs import queue
from samjobs.errors import ErrorClass, InvalidInput, QueueUnavailable
from samjobs.names import GLOBAL_RETRY_QUEUE, listened_queues, message_id, parse_message_id, queue_of, retry_queue_of
from samjobs.queue import RedisQueue
from tests import redis_server as redis_servers

EU, US = queue_of("eu"), queue_of("us")
BEFORE, AFTER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
STOCK = "rq.SimpleWorker"
MARK = "hunter2-geheim"  # in every password here; in no message, log line or repr


def message(n: int, attempt: int = 1) -> str:
    return message_id(UUID(int=n), attempt)


@pytest.fixture
def q(redis_url: str) -> Iterator[RedisQueue]:
    opened = RedisQueue.connect(redis_url)
    yield opened
    opened.close()


@pytest.fixture
def admin(redis_url: str) -> Iterator[Any]:
    """Whoever else can write to this Redis."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def own(own_redis: redis_servers.Server) -> Iterator[RedisQueue]:
    opened = RedisQueue.connect(own_redis.url)
    yield opened
    opened.close()


@pytest.fixture
def own_admin(own_redis: redis_servers.Server) -> Iterator[Any]:
    with redis.Redis(port=own_redis.port) as client:
        yield client


def refusal(call: Callable[[], object]) -> str:
    """The message of the outage that `call` has to meet."""
    with pytest.raises(QueueUnavailable) as caught:
        call()
    assert caught.value.error_class is ErrorClass.TRANSIENT
    return str(caught.value)


def wait_until(met: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not met():
        assert time.monotonic() < until, f"not within a minute: {what}"
        time.sleep(0.005)


# pushing and popping


def test_what_is_pushed_first_is_popped_first(q: RedisQueue) -> None:
    q.push([(EU, message(n)) for n in (3, 1, 2)])
    assert [q.pop([EU], 0) for _ in range(4)] == [message(3), message(1), message(2), None]


def test_a_worker_empties_global_retry_then_region_retry_then_region(q: RedisQueue) -> None:
    retry = retry_queue_of("eu")
    q.push([(EU, message(1)), (US, message(2)), (retry, message(3)), (GLOBAL_RETRY_QUEUE, message(4))])
    popped = [q.pop(listened_queues("eu"), 0) for _ in range(4)]
    assert popped == [message(4), message(3), message(1), None], "an id of another region, or out of order"


def test_nothing_pushed_is_nothing_sent(q: RedisQueue, admin: Any) -> None:
    q.push([])
    assert admin.keys() == []


def test_an_id_pushed_twice_in_one_call_waits_once(q: RedisQueue, admin: Any) -> None:
    q.push([(EU, message(1)), (EU, message(1))])
    assert admin.llen(f"rq:queue:{EU}") == 1


def test_each_id_goes_to_one_of_many_poppers(q: RedisQueue) -> None:
    q.push([(EU, message(n)) for n in range(200)])

    def pop_all(_: int) -> list[str]:
        return list(iter(lambda: q.pop([EU], 0), None))

    with ThreadPoolExecutor(4) as pool:
        popped = [one for some in pool.map(pop_all, range(4)) for one in some]
    assert sorted(popped) == sorted(message(n) for n in range(200))


def test_a_waiting_pop_gets_what_is_pushed_meanwhile(q: RedisQueue, admin: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        popped = pool.submit(q.pop, [GLOBAL_RETRY_QUEUE, EU], 60)
        wait_until(lambda: admin.info("clients")["blocked_clients"] == 1, "the pop waits in Redis")
        q.push([(EU, message(1))])
        assert popped.result(30) == message(1)


def test_a_pop_may_wait_longer_than_the_socket(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "SOCKET_TIMEOUT_S", 0.4)
    patient = RedisQueue.connect(f"{redis_url}?socket_timeout=0.1")  # which the address cannot set
    begun = time.monotonic()
    assert patient.pop([EU], 1.0) is None
    assert time.monotonic() - begun >= 1.0, "it gave up before its time"
    patient.close()


def test_a_push_of_many_is_one_transaction_and_asks_nothing(q: RedisQueue, admin: Any) -> None:
    admin.config_resetstat()
    q.push([(EU, message(n)) for n in range(50)] + [(US, message(n)) for n in range(50, 60)])
    calls = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in admin.info("commandstats").items()}
    assert calls["exec"] == 1
    asked = calls.keys() - {"multi", "exec", "sadd", "rpush", "config|resetstat", "client|setinfo"}
    assert asked <= {"info"}, "each of these costs the dispatcher a round trip"
    assert calls.get("info", 0) == 0, "RQ asked for the server's version"


# as RQ sees it


def test_rq_info_shows_the_queues_and_their_counts(q: RedisQueue, redis_url: str) -> None:
    q.push([(EU, message(1)), (EU, message(2)), (US, message(3))])
    shown = CliRunner().invoke(rq_command, ["info", "--raw", "--only-queues", "--url", redis_url])
    assert sorted(line.split(",")[0] for line in shown.output.splitlines()) == [f"queue {EU} 2", f"queue {US} 1"]


def test_a_stock_rq_worker_finds_nothing_to_run(q: RedisQueue, redis_url: str, admin: Any) -> None:
    q.push([(EU, message(1))])
    shown = CliRunner().invoke(rq_command, ["worker", "--burst", "--url", redis_url, "--worker-class", STOCK, EU])
    assert shown.exit_code == 0, shown.output
    assert q.waiting() == {}
    assert admin.keys("rq:job:*") + admin.keys("rq:f*") == []


def test_nothing_stays_of_what_was_popped_or_removed(q: RedisQueue, admin: Any) -> None:
    q.push([(EU, message(n)) for n in range(4)])
    assert q.pop([EU], 0) is not None
    q.remove(EU, [message(n) for n in range(1, 4)])
    assert admin.keys() == [b"rq:queues"]


# hostile entries


def plant(admin: Any, entry: bytes, **fields: Any) -> None:
    """What somebody who can write to Redis leaves for a worker."""
    if fields:
        admin.hset(b"rq:job:" + entry, mapping={"origin": EU, "status": "queued", **fields})
    admin.sadd("rq:queues", f"rq:queue:{EU}")
    admin.rpush(f"rq:queue:{EU}", entry)


def called(function: str, *args: str) -> bytes:
    return zlib.compress(JSONSerializer.dumps((function, None, args, {})))


class Bomb:
    """Runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("exit 66",)


ID = message(9).encode()
HOSTILE = {
    "bytes that are no text": (b"\xff\xfe\x00\x80", {}),
    "a pickle for an id": (pickle.dumps(Bomb()), {}),
    "an id as long as a file": (b"a" * 1_000_000, {}),
    "an id with a line break for the log": (ID + b"\nERROR all is lost", {}),
    "a hash that calls the shell": (ID, {"data": called("os.system", "exit 66")}),
    "a hash that is a pickle": (ID, {"data": zlib.compress(pickle.dumps(Bomb()))}),
    "a hash that grows a thousandfold": (ID, {"data": zlib.compress(b"\0" * 200_000_000, 9)}),
    "a hash with callbacks": (ID, {f"{kind}_callback_name": "os.abort" for kind in ("success", "failure", "stopped")}),
    "a hash with webhooks": (ID, {"webhooks": '[{"url": "http://169.254.169.254/", "statuses": ["finished"]}]'}),
}


@pytest.fixture
def narrow(own_redis: redis_servers.Server, own_admin: Any) -> Iterator[RedisQueue]:
    """A queue whose user may take ids off lists and do nothing else: no reading of hashes, no subscribing."""
    own_admin.acl_setuser("worker", enabled=True, passwords=[f"+{MARK}"], keys=["rq:queue:*"], commands=["+blpop"])
    opened = RedisQueue.connect(f"redis://worker:{MARK}@127.0.0.1:{own_redis.port}/0")
    yield opened
    opened.close()


def test_a_pop_takes_the_id_and_reads_nothing_else_whatever_was_planted(narrow: RedisQueue, own_admin: Any) -> None:
    for what, (entry, fields) in HOSTILE.items():
        plant(own_admin, entry, **fields)
        popped = narrow.pop(listened_queues("eu"), 0)
        assert isinstance(popped, str), f"{what}: lost"
        assert len(popped) <= 200, f"{what}: not cut"
        popped.encode("utf-8")  # can be written to a log and to the database
        assert (parse_message_id(popped) is not None) == (entry == ID), f"{what}: taken for one of ours"


def reads_a_hash(q: RedisQueue) -> None:
    with q.client() as client:
        client.hgetall(Job.key_for(message(9)))


def test_the_user_of_that_test_could_not_have_read_a_hash(narrow: RedisQueue) -> None:
    assert "forbids its user a command or a key" in refusal(lambda: reads_a_hash(narrow))


def test_planted_ids_are_seen_and_removed(q: RedisQueue, admin: Any) -> None:
    for entry, fields in HOSTILE.values():
        plant(admin, entry, **fields)
    seen = q.waiting()
    assert len(seen) == len({entry for entry, _ in HOSTILE.values()})
    q.push([(EU, message(1))])
    q.remove(EU, list(seen))
    assert admin.lrange(f"rq:queue:{EU}", 0, -1) == [message(1).encode()]


# what waits


def test_waiting_tells_every_id_of_every_region_with_its_queue(q: RedisQueue) -> None:
    assert q.waiting() == {}
    pushed = {message(1): EU, message(2): US, message(3): retry_queue_of("us"), message(4): GLOBAL_RETRY_QUEUE}
    q.push([(name, one) for one, name in pushed.items()])
    assert q.waiting() == pushed
    assert q.waiting([US, queue_of("asia")]) == {message(2): US}


def test_queues_of_other_programs_are_left_alone(q: RedisQueue, admin: Any) -> None:
    admin.sadd("rq:queues", "rq:queue:default", "rq:queue:samjobsothers:x")
    admin.rpush("rq:queue:default", "theirs")
    q.push([(EU, message(1))])
    assert q.waiting() == {message(1): EU}


def test_an_id_that_waits_twice_is_removed_twice(q: RedisQueue) -> None:
    q.push([(EU, message(1))])
    q.push([(EU, message(1)), (EU, message(2))])
    q.remove(EU, [message(1), message(7)])
    q.remove(EU, [])
    assert [q.pop([EU], 0), q.pop([EU], 0)] == [message(2), None]


# the rate limit


def test_what_a_tenant_sent_out_in_this_minute_is_counted_by_all_controllers(q: RedisQueue, redis_url: str) -> None:
    other = RedisQueue.connect(redis_url)
    q.spend({"team-a": 3, "team-b": 1}, minute=7)
    other.spend({"team-a": 4}, minute=7)
    other.spend({}, minute=7)
    other.close()
    assert q.minute_left(["team-a", "team-b", "team-c"], limit=5, minute=7) == {"team-a": 0, "team-b": 4, "team-c": 5}
    assert q.minute_left(["team-a"], limit=5, minute=8) == {"team-a": 5}, "a new minute is a new budget"
    assert q.minute_left([], limit=5, minute=7) == {}


def test_counters_of_past_minutes_go_by_themselves(q: RedisQueue, admin: Any) -> None:
    q.spend({"team-a": 1}, minute=7)
    assert 60 < admin.ttl("samjobs:rate:7:team-a") <= queue.RATE_TTL_S


def test_a_counter_that_is_no_number_counts_for_nothing(q: RedisQueue, admin: Any) -> None:
    admin.set("samjobs:rate:7:team-a", "many")
    assert q.minute_left(["team-a"], limit=5, minute=7) == {"team-a": 5}


# a Redis that throws keys away


@pytest.mark.parametrize(
    ("limit", "policy", "unsafe"),
    [
        ("0", "allkeys-lru", None),
        ("50mb", "noeviction", None),
        ("50mb", "allkeys-lru", "allkeys-lru"),
        ("50mb", "volatile-ttl", "volatile-ttl"),
    ],
)
def test_a_policy_that_drops_keys_is_told(
    own: RedisQueue, own_admin: Any, limit: str, policy: str, unsafe: str | None
) -> None:
    own_admin.config_set("maxmemory", limit)
    own_admin.config_set("maxmemory-policy", policy)
    own_admin.execute_command("ACL SETUSER", "default", "-config")  # as hosted Redis often is
    assert own.eviction_unsafe() == unsafe


# outages


def test_a_stopped_redis_is_told_and_a_started_one_is_used_again(
    own: RedisQueue, own_redis: redis_servers.Server
) -> None:
    own.push([(EU, message(1))])
    own_redis.stop()
    told = refusal(lambda: own.push([(EU, message(2))]))
    assert own.name in told
    assert "start it, or name another in SAMJOBS_REDIS_URL" in told
    for call in (own.ping, own.waiting, own.eviction_unsafe, lambda: own.pop([EU], 1)):
        refusal(call)
    own_redis.start()
    own.push([(EU, message(2))])
    assert [own.pop([EU], 0), own.pop([EU], 0)] == [message(1), message(2)]


def test_a_restart_between_two_calls_is_not_noticed(own: RedisQueue, own_redis: redis_servers.Server) -> None:
    for restart in range(3):
        own.push([(EU, message(restart))])
        own_redis.kill()
        own_redis.start(empty=restart == 2)
    own.ping()
    assert own.waiting() == {}, "it came back with what it should have lost"
    own.push([(EU, message(7))])
    assert own.waiting() == {message(7): EU}, "a queue that is lost is known again by the next push"


def test_a_pop_that_waits_in_a_killed_redis_ends_at_once(
    own: RedisQueue, own_redis: redis_servers.Server, own_admin: Any
) -> None:
    with ThreadPoolExecutor(1) as pool:
        popped = pool.submit(own.pop, [EU], 600)
        wait_until(lambda: own_admin.info("clients")["blocked_clients"] == 1, "the pop waits in Redis")
        own_redis.kill()
        refusal(lambda: popped.result(60))


def test_a_pop_whose_connection_is_cut_waits_on_another(q: RedisQueue, admin: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        popped = pool.submit(q.pop, [EU], 60)
        wait_until(lambda: admin.info("clients")["blocked_clients"] == 1, "the pop waits in Redis")
        admin.client_kill_filter(_type="normal", skipme=True)
        wait_until(lambda: admin.info("clients")["blocked_clients"] == 1, "the pop waits in Redis again")
        q.push([(EU, message(1))])
        assert popped.result(30) == message(1)


def test_a_redis_that_does_not_answer_is_told_and_its_late_answer_is_nobodys(
    own_redis: redis_servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SOCKET_TIMEOUT_S", 0.5)
    own = RedisQueue.connect(own_redis.url)
    own.push([(EU, message(1))])
    os.kill(own_redis.pid, signal.SIGSTOP)
    assert "did not answer within 0.5 s" in refusal(lambda: own.pop([US], 0))
    os.kill(own_redis.pid, signal.SIGCONT)
    assert own.minute_left(["a"], limit=5, minute=1) == {"a": 5}
    assert own.pop([EU], 0) == message(1)
    own.close()


def test_a_redis_that_is_still_loading_is_told(
    own: RedisQueue, own_redis: redis_servers.Server, own_admin: Any
) -> None:
    own_admin.mset({str(n): "" for n in range(50_000)})
    own_admin.save()
    own_redis.kill()
    # 200 µs for each key are 10 s in all, with an ear for clients after each kilobyte.
    slowly = ("--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024", "--appendonly", "no")
    own_redis.start(options=slowly, ready=False)
    assert "still loading" in refusal(own.ping)


def test_a_replica_is_told(own: RedisQueue, own_admin: Any) -> None:
    own_admin.replicaof("127.0.0.1", "1")
    for call in (lambda: own.push([(EU, message(1))]), lambda: own.pop([EU], 0)):
        assert "is a replica and takes no writes: name the primary" in refusal(call)


def test_a_full_redis_is_told(own: RedisQueue, own_admin: Any) -> None:
    own_admin.config_set("maxmemory", 1)
    assert "is full: raise its maxmemory" in refusal(lambda: own.push([(EU, message(1))]))


def test_a_redis_that_cannot_save_is_told(own: RedisQueue, own_redis: redis_servers.Server, own_admin: Any) -> None:
    own_admin.config_set("appendonly", "no")
    own_admin.config_set("save", "3600 1")
    shutil.rmtree(own_redis.folder)
    own_admin.bgsave()
    wait_until(lambda: own_admin.info("persistence")["rdb_last_bgsave_status"] == "err", "saving fails")
    assert "cannot save its data" in refusal(lambda: own.push([(EU, message(1))]))


def test_another_thing_in_a_queues_place_is_told(q: RedisQueue, admin: Any) -> None:
    admin.set(f"rq:queue:{EU}", "x")
    for call in (lambda: q.push([(EU, message(1))]), lambda: q.pop([EU], 0), lambda: q.waiting([EU])):
        assert "delete that key" in refusal(call)


# secrets


def secretless(*texts: str) -> None:
    for text in texts:
        assert MARK not in text, f"the password is in: {text}"
        assert "willi" not in text, f"the user is in: {text}"


def test_no_error_names_the_user_or_the_password(
    own_redis: redis_servers.Server,
    own_admin: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "SOCKET_TIMEOUT_S", 1.0)  # a server without TLS is silent when it is asked for it
    caplog.set_level("DEBUG")
    own_admin.acl_setuser("willi", enabled=True, passwords=[f"+{MARK}"], keys=["other"], commands=["+@all"])
    own_admin.acl_setuser("default", enabled=True, passwords=[f"+{MARK}"], nopass=False)
    there = f"127.0.0.1:{own_redis.port}"
    failing = {
        "wrong password": f"redis://willi:{MARK}x@{there}",
        "wrong password of the default user": f"redis://:{MARK}x@{there}",
        "no password": f"redis://{there}",
        "a user without permission": f"redis://willi:{MARK}@{there}",
        "TLS to a server without": f"rediss://willi:{MARK}@{there}",
        "no such number": f"redis://willi:{MARK}@{there}/99",
        "nobody listens": f"redis://willi:{MARK}@127.0.0.1:1",
        "no such host": f"redis://willi:{MARK}@nowhere.invalid",
        "password as an option": f"redis://{there}?username=willi&password={MARK}x",
    }
    for what, url in failing.items():
        opened = RedisQueue.connect(url)
        with pytest.raises(QueueUnavailable) as caught:
            opened.push([(EU, message(1))])
        secretless(str(caught.value), "".join(traceback.format_exception(caught.value)))
        secretless(repr(opened), str(opened), opened.name)
        assert opened.name in str(caught.value), f"{what}: which Redis?"
        opened.close()
    secretless(caplog.text)


@pytest.mark.parametrize(
    "url",
    [
        f"redis://willi:{MARK}/x@host",  # a slash that is not escaped ends the host
        f"redis://willi:{MARK}@host:port",
        f"redis://willi:{MARK}@host?speed=high",
        f"rediss://willi:{MARK}@host?ssl_cert_reqs=perhaps",
        f"http://willi:{MARK}@host",
        f"unix://willi:{MARK}@/run/redis.sock",
        f"willi:{MARK}@host:6379",
        "",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^SAMJOBS_REDIS_URL: .*redis\[s\]://") as caught:
        RedisQueue.connect(url)
    secretless("".join(traceback.format_exception(caught.value)))


def test_the_name_is_the_address_without_secrets() -> None:
    names = {
        f"redis://willi:{MARK}@queue.example:7000/3": "redis://queue.example:7000/3",
        f"rediss://:{MARK}@[::1]": "rediss://[::1]:6379/0",
        "redis://": "redis://localhost:6379/0",
    }
    assert {url: RedisQueue.connect(url).name for url in names} == names


def test_a_right_user_and_password_work_over_tls(
    own_redis: redis_servers.Server, own_admin: Any, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    own_admin.config_set("tls-cert-file", certificate, "tls-key-file", key)
    own_admin.config_set("tls-auth-clients", "no")
    own_admin.config_set("port", 0, "tls-port", own_redis.port)
    own_admin.acl_setuser("willi", enabled=True, passwords=[f"+{MARK}"], keys=["rq:*"], commands=["+@all"])
    opened = RedisQueue.connect(f"rediss://willi:{MARK}@127.0.0.1:{own_redis.port}?ssl_ca_certs={certificate}")
    opened.push([(EU, message(1))])
    assert opened.pop([EU], 0) == message(1)
    opened.close()
    stranger = RedisQueue.connect(f"rediss://willi:{MARK}@127.0.0.1:{own_redis.port}")
    assert "certificate verify failed" in refusal(stranger.ping), "a certificate that nobody vouches for was believed"


def self_signed(folder: Path) -> tuple[str, str]:
    """Files of a certificate for 127.0.0.1 and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "redis")])
    there = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(BEFORE).not_valid_after(AFTER).add_extension(there, critical=False)
    certificate, private = folder / "redis.crt", folder / "redis.key"
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(certificate), str(private)


def test_close_leaves_no_connection(redis_url: str, admin: Any) -> None:
    before = admin.info("clients")["connected_clients"]
    opened = RedisQueue.connect(redis_url)
    together = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(lambda: (together.wait(), opened.pop([EU], 0.2)))
    assert admin.info("clients")["connected_clients"] > before
    opened.close()
    wait_until(lambda: admin.info("clients")["connected_clients"] == before, "all connections are gone")
