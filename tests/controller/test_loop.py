"""What the loop does when a step fails, and when it does something at all."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from controller import loop as loop_module
from controller.context import Context
from controller.loop import Loop, Step
from samjobs.errors import DatabaseUnavailable, QueueUnavailable
from samjobs.store.notify import Listener
from tests.controller.world import World
from tests.store.builders import job
from tests.waiting import until


def doing(log: list[str], name: str, *results: Mapping[str, int] | Exception) -> Step:
    """A step that does or raises what is given, one after the other, and then nothing."""
    left = list(results)

    def run(ctx: Context) -> Mapping[str, int]:
        log.append(name)
        result = left.pop(0) if left else {}
        if isinstance(result, Exception):
            raise result
        return result

    return Step(name, run)


@pytest.fixture
def loop(world: World) -> Loop:
    return Loop(world.ctx, None, threading.Event())


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def running(world: World) -> Iterator[Callable[[Listener | None], Loop]]:
    """Start a loop in a thread of its own."""
    stop, ends = threading.Event(), []

    def start(listener: Listener | None) -> Loop:
        one = Loop(world.ctx, listener, stop)
        thread = threading.Thread(target=one.run)
        thread.start()
        ends.append((thread, listener))
        return one

    yield start
    stop.set()
    for thread, listener in ends:
        if listener is not None:
            listener.close()
        thread.join(60)
        assert not thread.is_alive(), "the loop ends after the step in hand"


class TestFailures:
    def test_a_fault_of_one_step_is_told_and_the_others_go_on(
        self, loop: Loop, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        log: list[str] = []

        loop.one_pass([doing(log, "first", ZeroDivisionError("boom")), doing(log, "second")])

        assert log == ["first", "second"]
        (record,) = caplog.records
        assert record.getMessage() == "step=first failed; the next pass goes on"
        assert record.exc_info is not None
        assert world.metric("samjobs_controller_errors_total", step="first") == 1

    def test_a_database_that_is_away_ends_the_pass_and_is_told_once(
        self, loop: Loop, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def answers_nobody(conn: object) -> None:
            raise away

        log: list[str] = []
        away = DatabaseUnavailable("database postgresql://db is unavailable")
        steps = [doing(log, "first", away), doing(log, "second")]
        with monkeypatch.context() as outage:
            outage.setattr(loop_module, "now", answers_nobody)
            loop.one_pass(steps)
            loop.one_pass(steps)
        assert log == ["first"], "while it is away no step is tried"
        assert not loop.ready
        assert world.metric("samjobs_dependency_up", name="database") == 0
        assert caplog.messages == ["outage server=database began: database postgresql://db is unavailable"]

        loop.one_pass(steps)
        assert log[1:] == ["first", "second"]
        assert loop.ready
        assert world.ctx.more, "a whole pass follows at once"
        assert world.metric("samjobs_dependency_up", name="database") == 1
        assert caplog.messages[1].startswith("outage server=database over after ")

    def test_both_servers_away_are_told_once_each(
        self, loop: Loop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def answers_nobody(conn: object) -> None:
            raise gone

        gone = DatabaseUnavailable("gone")
        monkeypatch.setattr(loop_module, "now", answers_nobody)
        log: list[str] = []
        for _ in range(3):
            loop.one_pass([doing(log, "queue", QueueUnavailable("away")), doing(log, "table", gone)])

        assert caplog.messages == ["outage server=redis began: away", "outage server=database began: gone"]

    def test_a_redis_that_is_away_stops_only_what_needs_it(self, loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
        log: list[str] = []
        away = QueueUnavailable("Redis redis://r cannot be reached")
        steps = [doing(log, "first", away, away), doing(log, "second")]

        loop.one_pass(steps)
        loop.one_pass(steps)

        assert log == ["first", "second"] * 2
        assert loop.ready
        assert caplog.messages == ["outage server=redis began: Redis redis://r cannot be reached"]

    def test_a_redis_that_comes_back_is_told_and_a_whole_pass_follows(
        self, loop: Loop, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.ctx.outages.failed("redis", QueueUnavailable("away"))
        asking = Step("asking", lambda ctx: {"asked": int(ctx.redis_answers())})
        loop.one_pass([asking])
        assert world.metric("samjobs_controller_actions_total", step="asking", what="asked") == 0

        monkeypatch.setattr(world.ctx.outages, "pause_s", lambda server: 0.0)
        loop.one_pass([asking])

        assert world.metric("samjobs_controller_actions_total", step="asking", what="asked") == 1
        assert world.ctx.more
        assert world.metric("samjobs_dependency_up", name="redis") == 1
        assert any(message.startswith("outage server=redis over") for message in caplog.messages)

    def test_no_step_begins_once_the_loop_is_to_stop(self, world: World) -> None:
        stop, log = threading.Event(), []
        loop = Loop(world.ctx, None, stop)

        def stopping(ctx: Context) -> Mapping[str, int]:
            stop.set()
            return {}

        loop.one_pass([Step("first", stopping), doing(log, "second")])

        assert log == []


class TestTelling:
    def test_what_was_done_is_one_line_and_nothing_is_none(
        self, loop: Loop, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        log: list[str] = []

        loop.one_pass([doing(log, "heal", {"removed": 0, "requeued": 3}), doing(log, "prune", {"rows": 0})])

        (message,) = caplog.messages
        assert message.startswith("step=heal requeued=3 ms=")
        assert world.metric("samjobs_controller_actions_total", step="heal", what="requeued") == 3
        assert world.metric("samjobs_controller_pass_seconds_count", step="prune") == 1

    def test_the_queue_is_measured_by_region_and_forgotten_with_it(self, loop: Loop, world: World) -> None:
        job(world.store, 4, region="eu")
        world.age("shards", "available_at", 100)

        loop.one_pass(loop_module.ALL)
        assert world.metric("samjobs_shards", region="eu", state="dispatched") == 2
        assert world.metric("samjobs_shards", region="eu", state="due") == 0
        loop.one_pass(loop_module.QUICK)

        world.sql("UPDATE shards SET state = 'queued'")
        loop.one_pass([step for step in loop_module.ALL if step.name == "measure"])
        assert world.metric("samjobs_shards", region="eu", state="due") == 2
        assert (world.metric("samjobs_queue_oldest_due_age_seconds", region="eu") or 0) >= 100

        world.sql("UPDATE shards SET state = 'cancelled'")
        loop.one_pass([step for step in loop_module.ALL if step.name == "measure"])
        assert world.metric("samjobs_shards", region="eu", state="due") is None


class TestWaking:
    def test_a_commit_wakes_it_long_before_its_poll(
        self, world: World, running: Callable[[Listener | None], Loop]
    ) -> None:
        world.ctx.settings = world.settings.model_copy(update={"poller_interval_seconds": 3600})
        one = running(Listener(world.store))
        until(lambda: one.ready, "the first pass is done")

        job(world.store, 2)

        until(lambda: len(world.waiting()) == 1, "the shard is sent")
        assert world.metric("samjobs_controller_listener_connected") == 1

    def test_without_notifications_it_looks_by_itself(
        self, world: World, running: Callable[[Listener | None], Loop], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop_module, "UNHEARD_S", 0.05)
        world.ctx.settings = world.settings.model_copy(update={"poller_interval_seconds": 3600})
        one = running(None)
        until(lambda: one.ready, "the first pass is done")

        job(world.store, 2)

        until(lambda: len(world.waiting()) == 1, "the shard is sent")

    def test_a_pass_that_left_work_is_followed_by_a_whole_one(
        self, world: World, running: Callable[[Listener | None], Loop], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        passes: list[int] = []

        def much(ctx: Context) -> Mapping[str, int]:
            passes.append(1)
            ctx.more = len(passes) < 3
            return {}

        monkeypatch.setattr(loop_module, "ALL", (Step("much", much),))
        monkeypatch.setattr(loop_module, "QUICK", ())
        world.ctx.settings = world.settings.model_copy(update={"poller_interval_seconds": 3600})
        running(None)

        until(lambda: len(passes) == 3, "the work is done")
