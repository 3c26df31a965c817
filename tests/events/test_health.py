"""Health: live, ready and started, read from the states themselves, with a reason for each no."""

from __future__ import annotations

import pytest
import trio

from supervision import RestartPolicy, Supervisor, TreeFailed, Worker, supervisor


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


async def bad(ctx):
    """A worker that fails at once."""
    raise ValueError("no such table: orders")


NEVER = RestartPolicy(max_restarts=1, initial_backoff=0)


def running(*children, **options):
    """A tree of these children, silent."""
    options.setdefault("wait_ready", True)
    return supervisor.running(Supervisor("app", children), log=False, **options)


async def test_all_is_well(autojump_clock):
    """While everything that should run is ready, the answer is ok and names nobody."""
    async with running(Worker("a", forever, replicas=2), Worker("b", forever)) as pool:
        health = pool.health()

    assert (health.live, health.ready, health.started) == (True, True, True)
    assert health.problems == ()
    assert health.waiting_for == ()
    assert str(health) == "ok"


async def test_a_held_failure_is_told_by_name_replica_and_reason(autojump_clock):
    """A replica that is failed for good makes the tree not live, in these words."""
    worker = Worker("relay", bad, replicas=2, restart=NEVER, on_failed="hold")
    async with running(worker, Worker("good", forever)) as pool:
        await trio.sleep(100)
        health = pool.health()

    assert not health.live
    assert not health.ready
    assert health.started
    assert health.problems == (
        "worker relay (replica 0) failed: no such table: orders",
        "worker relay (replica 1) failed: no such table: orders",
    )
    assert str(health) == "; ".join(health.problems)


async def test_an_error_without_words_is_told_by_its_type(autojump_clock):
    """The reason is never empty."""

    async def silent(ctx):
        raise KeyError

    async def odd(ctx):
        raise Odd

    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

        __repr__ = __str__

    async with running(
        Worker("silent", silent, restart=NEVER, on_failed="hold"),
        Worker("odd", odd, restart=NEVER, on_failed="hold"),
        Worker("good", forever),
    ) as pool:
        await trio.sleep(1)
        first, second = pool.health().problems

    assert first == "worker silent (replica 0) failed: KeyError"
    assert second.startswith("worker odd (replica 0) failed: ")
    assert "Odd" in second


async def test_a_repaired_tree_is_live_again(autojump_clock):
    """Health has no memory: when a failed worker is started again and runs, all is well."""
    broken = True

    async def mended(ctx):
        if broken:
            raise ValueError
        await trio.sleep_forever()

    async with running(Worker("w", mended, restart=NEVER, on_failed="hold")) as pool:
        await trio.sleep(1)
        assert not pool.health().live
        broken = False
        await pool.start("w")
        health = pool.health()

    assert (health.live, health.ready) == (True, True)


async def test_stopped_and_disabled_are_healthy(autojump_clock):
    """What an operator stopped or disabled, and what has ended well, is no problem and not waited for."""

    async def once(ctx):
        pass

    async with running(
        Worker("stopped", forever),
        Worker("disabled", forever),
        Worker("off", forever, enabled=False),
        Worker("once", once),
        Supervisor("inner", [Worker("x", forever)]),
        Worker("good", forever),
    ) as pool:
        await pool.stop("stopped")
        await pool.disable("disabled")
        await pool.stop("inner")
        health = pool.health()

    assert (health.live, health.ready, health.started) == (True, True, True)
    assert str(health) == "ok"


async def test_waiting_for_a_restart_is_live_but_not_ready(autojump_clock):
    """A replica in backoff is nobody's failure yet; the tree is not ready and says whom it waits for."""

    async def flaky(ctx):
        if ctx.run == 1:
            await trio.sleep(1)
            raise ValueError
        await trio.sleep_forever()

    policy = RestartPolicy(initial_backoff=5, jitter=0)
    async with running(Worker("flaky", flaky, restart=policy)) as pool:
        await trio.sleep(2)
        during = pool.health()
        await trio.sleep(5)
        after = pool.health()

    assert (during.live, during.ready, during.started) == (True, False, True)
    assert during.waiting_for == ("app/flaky/0",)
    assert str(during) == "not ready: app/flaky/0"
    assert after.ready


async def test_started_comes_with_the_first_complete_start_and_stays(autojump_clock):
    """`started` is false until the whole tree was ready once, then true for ever."""

    async def slow(ctx):
        await trio.sleep(10)
        ctx.started()
        await trio.sleep(10)
        raise ValueError

    worker = Worker("slow", slow, ready="signal", restart=RestartPolicy(jitter=0))
    async with running(Worker("quick", forever), worker, wait_ready=False) as pool:
        await trio.sleep(5)
        before = pool.health()
        await trio.sleep(10)
        ready = pool.health()
        await trio.sleep(10)
        again = pool.health()
        pool.request_stop()
        stopping = pool.health()
    ended = pool.health()

    assert (before.started, before.ready, before.live) == (False, False, True)
    assert before.waiting_for == ("app/slow/0",)
    assert (ready.started, ready.ready) == (True, True)
    assert (again.started, again.ready) == (True, False)
    assert (stopping.started, stopping.ready, stopping.live) == (True, False, True)
    assert (ended.started, ended.ready, ended.live) == (True, False, True)


async def test_a_stopping_tree_is_not_ready(autojump_clock):
    """From the first request to stop on, no more traffic is wanted, while work in hand goes on."""

    async def busy(ctx):
        with ctx.busy():
            await trio.sleep(5)

    async with running(Worker("busy", busy)) as pool:
        pool.request_stop()
        await trio.sleep(1)
        health = pool.health()

    assert (health.live, health.ready) == (True, False)
    assert "not ready" in str(health)


async def test_a_failed_supervisor_is_told(autojump_clock):
    """A supervisor that gave up for good and is held is a problem of its own, beside its worker."""
    inner = Supervisor("inner", [Worker("w", bad, restart=NEVER)], restart=NEVER, on_failed="hold")
    async with running(inner, Worker("good", forever)) as pool:
        await trio.sleep(100)
        problems = pool.health().problems

    assert any(problem.startswith("supervisor inner failed: ") for problem in problems)
    assert "worker w (replica 0) failed: no such table: orders" in problems


async def test_a_failed_tree_is_not_live(autojump_clock):
    """When the root has given up the probe says so with the worker's name."""
    pools = []

    async def look(pool):
        pools.append(pool)
        await trio.sleep_forever()

    with pytest.raises(TreeFailed):
        async with running(Worker("w", bad, restart=NEVER), wait_ready=False) as pool:
            await look(pool)

    health = pools[0].health()
    assert not health.live
    assert "worker w (replica 0) failed: no such table: orders" in health.problems
