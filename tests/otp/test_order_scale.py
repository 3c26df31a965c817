"""Order and scale: cases 81, 91 and 92. Scale is counted, in work done, not in seconds."""

from __future__ import annotations

import pytest
import trio

from supervision import Supervisor, Worker
from tests.otp.kit import CRASH, Stage, active, counting, group, otp, running, settle


async def idle(ctx):
    await trio.sleep_forever()


async def test_order_of_children(autojump_clock):
    """Children start in the order of their list, not of their names; they stop, alone or as a group, in reverse."""
    stage = Stage()
    children = [stage.worker(name) for name in ("c", "a", "e", "b", "d")]
    async with running(group(*children, strategy="rest_for_one")) as pool:
        assert stage.take() == "+c +a +e +b +d"
        await stage.tell("top/e", CRASH)
        assert stage.take() == "-e -d -b +e +b +d"
        await pool.shutdown()

    assert stage.take() == "-d -b -e -a -c"


async def test_order_of_children_waits(autojump_clock):
    """The next child starts when the one before is ready, and is stopped when the one after has ended."""
    stage = Stage()
    stage.starting = {"a": 3, "b": 2}
    times: dict[str, float] = {}

    async def note(ctx):
        times["+"] = trio.current_time()
        try:
            await trio.sleep_forever()
        finally:
            times["-"] = trio.current_time()

    children = [stage.worker("a", linger=1), stage.worker("b", linger=4), Worker("n", note)]
    async with running(group(*children)) as pool:
        assert times == {"+": 5}
        await settle()
        report = await pool.shutdown()

    assert (times["-"], report.seconds) == (5, 5)
    assert stage.take() == "+a +b -b -a"


@pytest.mark.parametrize("added", [False, True], ids=["listed", "added"])
async def test_scale_start_stop_many_children(added, autojump_clock):
    """The work of starting and of stopping ten times as many children grows in proportion."""

    async def measure(children: int):
        workers = [Worker(f"c{n}", idle) for n in range(children)]
        with counting() as start:
            manager = running(Supervisor("top") if added else group(*workers))
            pool = await manager.__aenter__()
            for worker in workers if added else []:
                await pool.start_child("top", worker)
        assert active(pool) == (children, children)
        with counting() as stop:
            await pool.shutdown()
        await manager.__aexit__(None, None, None)
        return start, stop

    few, many = await measure(100), await measure(1000)

    assert few[0].linear(many[0], 10)
    assert few[1].linear(many[1], 10)


async def test_simple_one_for_one_scale_many_temporary_children(autojump_clock):
    """The work of ending ten times as many temporary children, by stop and by themselves, grows in proportion."""

    async def measure(children: int):
        end = trio.Event()

        async def wait(ctx):
            await end.wait()

        async with running(Supervisor("top")) as pool:
            for n in range(2 * children):
                run = idle if n % 2 else wait
                await pool.start_child("top", Worker(f"c{n}", run, restart=otp("temporary")))
            await settle()
            with counting() as by_themselves:
                end.set()
                await settle()
            assert active(pool) == (children, children)
            with counting() as by_stop:
                await pool.shutdown()
        return by_themselves, by_stop

    few, many = await measure(100), await measure(1000)

    assert few[0].linear(many[0], 10)
    assert few[1].linear(many[1], 10)


async def test_scale_of_replicas(autojump_clock):
    """The work of scaling one worker up and down grows in proportion to its replicas."""

    async def measure(replicas: int):
        async with running(group(Worker("w", idle))) as pool:
            with counting() as up:
                await pool.scale("w", replicas)
                await settle()
            with counting() as down:
                await pool.scale("w", 1)
            assert active(pool) == (1, 1)
        return up, down

    few, many = await measure(100), await measure(1000)

    assert few[0].linear(many[0], 10)
    assert few[1].linear(many[1], 10)
