"""What lies in Redis, and what may be believed of it?

Pointers only: ids of shards' attempts (`names.message_id`) in lists, one list per queue, and counters for the rate
limit. Losing all of it costs one pass of the controller; an id that is there twice costs nothing, since a start is
fenced in the database.

The lists and their names are RQ's own, so that `rq info` and dashboards show queues and counts, but a message is its id
and nothing else. RQ keeps a hash beside each id, which names functions, callbacks and webhooks, and holds data that is
decompressed without a limit. Here none is written, and none is read: whoever can write to Redis gets none of that done,
and a stock RQ worker that takes an id finds no job to run.

Needs Redis 6 or newer. One server or a primary with replicas; not a cluster, whose lists cannot be waited for together.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue

from samjobs.errors import InvalidInput, QueueUnavailable, describe
from samjobs.names import GLOBAL_RETRY_QUEUE

# How long the server may take to answer, or to accept a connection.
SOCKET_TIMEOUT_S = 5.0

# Of the counters of one minute: for as long as clocks may differ.
RATE_TTL_S = 120

_OURS = GLOBAL_RETRY_QUEUE.partition(":")[0] + ":"
_LONGEST_ID = 200  # characters; a true one has at most 47
_SHORTEST_BLOCK_S = 0.01  # Redis 6 rounds less than a millisecond to 0, which means for ever
_ADDRESS = "redis[s]://[[user]:password@]host[:port][/number]"


class RedisQueue:
    """The queues of one Redis database. Safe to share between threads.

    Connects at the first call and again whenever the connection broke. A call that meets a broken connection is tried
    once more, so a push may happen twice and a spending may count twice; the first is harmless, the second delays.

    Every method raises QueueUnavailable when Redis cannot be reached, does not answer in time, or refuses.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.name = name
        self._redis = client

    @classmethod
    def connect(cls, url: str) -> "RedisQueue":
        """The queues at `redis://…` or `rediss://…`; nothing is sent yet.

        Raises:
            InvalidInput: no such address. The message does not repeat it: there may be a password in it.
        """
        options: dict[str, Any] = {
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_connect_timeout": SOCKET_TIMEOUT_S,
            "socket_keepalive": True,
            "protocol": 2,  # no messages that the server sends unasked
            "encoding_errors": "surrogateescape",  # what `waiting` gives goes back as it was
            "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        }
        try:
            scheme = urlsplit(url).scheme
            pool = redis.ConnectionPool.from_url(url, **options)
            pool.connection_kwargs.update(options)  # no option of an address undoes them
            pool.connection_class(**pool.connection_kwargs)  # finds an unknown option now, not at the first call
        except (ValueError, TypeError, redis.RedisError):
            scheme = ""
        if scheme not in ("redis", "rediss"):
            raise InvalidInput(f"SAMJOBS_REDIS_URL: no address of a Redis, or with an unknown option; write {_ADDRESS}")
        place = pool.connection_kwargs
        host = place.get("host", "localhost")
        name = f"{scheme}://{f'[{host}]' if ':' in host else host}:{place.get('port', 6379)}/{place.get('db', 0)}"
        return cls(redis.Redis.from_pool(pool), name)

    def __repr__(self) -> str:
        return f"RedisQueue({self.name})"

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """The connection itself, for what RQ writes about workers. Its errors come out as QueueUnavailable."""
        with self._asking() as client:
            yield client

    def ping(self) -> None:
        """Ask for a sign of life."""
        with self._asking() as client:
            client.ping()

    def push(self, messages: Sequence[tuple[str, str]]) -> None:
        """Append (queue, id) to their queues, all or none, in one round trip. The order within a queue is kept.

        When it raises, they may be there all the same: a start is fenced, and `heal` pushes what is not.
        """
        by_queue: dict[str, dict[str, None]] = {}
        for name, message in messages:
            by_queue.setdefault(_key(name), {})[message] = None
        if not by_queue:
            return
        # One list is lengthened in one step anyway, and whoever waits for it need not wait for a transaction.
        with self._asking() as client, client.pipeline(transaction=len(by_queue) > 1) as pipeline:
            for key, ids in by_queue.items():
                pipeline.rpush(key, *ids)
            pipeline.sadd(Queue.redis_queues_keys, *by_queue)
            pipeline.execute()

    def pop(self, queues: Sequence[str], timeout_s: float) -> str | None:
        """Take the oldest id of the first queue that has one; wait for one for up to `timeout_s`, then None.

        What comes back is whatever somebody put there: `names.parse_message_id` tells whether it is ours. Bytes that
        are no text become replacement characters, and what is far too long is cut.
        """
        keys = [_key(queue) for queue in queues]
        until = time.monotonic() + timeout_s
        longest = SOCKET_TIMEOUT_S / 2  # so that a silent server is never taken for an empty queue
        with self._asking() as client:
            while True:
                left = until - time.monotonic()
                found = client.blpop(keys, max(_SHORTEST_BLOCK_S, min(left, longest)))
                if found is not None:
                    return _shown(_text(found[1])[:_LONGEST_ID])
                if left <= longest:
                    return None

    def waiting(self, queues: Sequence[str] | None = None) -> dict[str, str]:
        """Every id that waits, with its queue; `queues` None: in all queues of samjobs, whatever region.

        Bytes that are no text come back as surrogates, by which `remove` finds them again; `errors.storable` makes
        such an id fit to be shown.
        """
        with self._asking() as client:
            if queues is None:
                prefix = _key(_OURS)
                registered = sorted(_text(key) for key in client.smembers(Queue.redis_queues_keys))
                queues = [key.removeprefix(_key("")) for key in registered if key.startswith(prefix)]
            with client.pipeline(transaction=False) as pipeline:
                for queue in queues:
                    pipeline.lrange(_key(queue), 0, -1)
                lists = pipeline.execute()
        return {_text(message): queue for queue, ids in zip(queues, lists, strict=True) for message in ids}

    def remove(self, queue: str, ids: Sequence[str]) -> None:
        """Take ids off a queue, however often they are there."""
        if not ids:
            return
        with self._asking() as client, client.pipeline(transaction=False) as pipeline:
            for message in ids:
                pipeline.lrem(_key(queue), 0, message)
            pipeline.execute()

    def eviction_unsafe(self) -> str | None:
        """The policy by which this Redis throws keys away when it is full; None: it has no limit, or refuses writes."""
        with self._asking() as client:
            memory = client.info("memory")
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        return policy if memory.get("maxmemory") and policy != "noeviction" else None

    def minute_left(self, tenants: Sequence[str], limit: int, minute: int) -> dict[str, int]:
        """How many more shards each tenant may send out in this minute, of `limit`.

        Args:
            minute: any count of minutes, the same for all controllers.
        """
        if not tenants:
            return {}
        with self._asking() as client:
            spent = client.mget([_rate(tenant, minute) for tenant in tenants])
        used = [int(count) if count and count.isdigit() else 0 for count in spent]
        return {tenant: max(0, limit - count) for tenant, count in zip(tenants, used, strict=True)}

    def spend(self, tenants: Mapping[str, int], minute: int) -> None:
        """Count what each tenant sent out in this minute."""
        with self._asking() as client, client.pipeline() as pipeline:
            for tenant, count in tenants.items():
                pipeline.incrby(_rate(tenant, minute), count)
                pipeline.expire(_rate(tenant, minute), RATE_TTL_S)
            pipeline.execute()

    def close(self) -> None:
        """Close all connections. A later call would open one again."""
        self._redis.close()

    @contextmanager
    def _asking(self) -> Iterator[redis.Redis]:
        try:
            yield self._redis
        except redis.RedisError as error:
            # Not chained: Redis names the user in some of its own messages.
            raise QueueUnavailable(f"Redis {self.name} {_meaning(error)}") from None


def _meaning(error: redis.RedisError) -> str:
    """What happened and what helps, without user and password."""
    said = describe(error, 300)
    match error:
        case redis.AuthenticationError() | redis.exceptions.AuthorizationError():
            return "refuses the user or the password: put the right ones into SAMJOBS_REDIS_URL"
        case redis.exceptions.NoPermissionError():
            return (
                "forbids its user a command or a key: allow it to read and write rq:* and samjobs:*, with blocking "
                "commands, transactions and INFO"
            )
        case redis.BusyLoadingError():
            return "is still loading its data: wait until it has"
        case redis.ReadOnlyError():
            return "is a replica and takes no writes: name the primary in SAMJOBS_REDIS_URL"
        case redis.OutOfMemoryError():
            return "is full: raise its maxmemory, or see what fills it"
        case redis.TimeoutError():
            return f"did not answer within {SOCKET_TIMEOUT_S:g} s: see whether it is overloaded or cut off"
        case redis.ConnectionError():
            return f"cannot be reached: start it, or name another in SAMJOBS_REDIS_URL ({said})"
    if "MISCONF" in said:
        return "refuses writes because it cannot save its data: see its log, and free its disk"
    if "WRONGTYPE" in said:
        return f"has something else where a queue should be: delete that key ({said})"
    return f"refuses: {said}"


def _key(queue: str) -> str:
    return Queue.redis_queue_namespace_prefix + queue


def _rate(tenant: str, minute: int) -> str:
    return f"{_OURS}rate:{minute}:{tenant}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
