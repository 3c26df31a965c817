"""Stopping: cases 16 to 22 and 69."""

from __future__ import annotations

import math

import pytest
import trio

from actors import Context
from supervision import Supervisor, Worker
from tests.otp.kit import (
    CRASH,
    FINISH,
    LEAVE,
    TYPES,
    Crashed,
    Stage,
    active,
    group,
    of,
    otp,
    running,
    settle,
    states,
)


def busy(name: str, seconds: float, log: list[str], **options: object) -> Worker:
    """A worker with work in hand that takes `seconds` after a stop was asked for."""

    async def run(ctx: Context) -> None:
        with ctx.busy():
            try:
                while not ctx.stopping:
                    await trio.sleep(0.1)
                await trio.sleep(seconds)
            except trio.Cancelled:
                log.append(f"{name} cancelled")
                raise
            log.append(f"{name} finished")

    return Worker(name, run, restart=otp(), **options)


async def test_sup_stop_infinity(autojump_clock):
    """An unlimited time to stop is legal, and a child that needs an hour gets it."""
    log: list[str] = []
    tree = group(busy("a", 3600, log, shutdown=math.inf))
    async with running(tree, stop_timeout=math.inf) as pool:
        report = await pool.shutdown()

    assert log == ["a finished"]
    assert (report.orderly, report.forced) == (("top/a/0",), ())


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
async def test_sup_stop_timeout(dynamic, autojump_clock):
    """A child that ignores the stop is cancelled at its timeout, reported and waited for; its siblings stop in order."""
    stage, events = Stage(), []
    children = [stage.worker("good"), stage.worker("stubborn", linger=7, shutdown=1)]
    async with running(
        Supervisor("top") if dynamic else group(*children), listeners=[events.append]
    ) as pool:
        for child in children if dynamic else []:
            await pool.start_child("top", child)
        began = trio.current_time()
        report = await pool.shutdown()
        assert trio.current_time() == began + 7

    assert (report.orderly, report.forced) == (("top/good/0",), ("top/stubborn/0",))
    assert pytest.approx(report.overrun) == 6
    assert of(events, "Forced") == ["Forced top/stubborn/0"]
    assert {*of(events, "Stuck")} == {"Stuck top/stubborn/0"}
    assert pool.info("top").state == "stopped"


async def test_sup_stop_brutal_kill(autojump_clock):
    """With no time to stop, work in hand is cancelled at once; a sibling's is finished."""
    log: list[str] = []
    async with running(group(busy("a", 1, log, shutdown=0), busy("b", 1, log))) as pool:
        report = await pool.shutdown()

    assert log == ["b finished", "a cancelled"]
    assert (report.orderly, report.forced) == (("top/b/0",), ("top/a/0",))


async def test_sup_stop_brutal_kill_dynamic(autojump_clock):
    """Ten dynamic children with work in hand and no time to stop are all cancelled, at the same moment."""
    log: list[str] = []
    async with running(Supervisor("top")) as pool:
        for n in range(10):
            await pool.start_child("top", busy(f"c{n}", 5, log, shutdown=0))
        began = trio.current_time()
        report = await pool.shutdown()
        assert trio.current_time() == began

    assert sorted(log) == [f"c{n} cancelled" for n in range(10)]
    assert len(report.forced) == 10


def endings() -> list[tuple[str, str]]:
    """Every restart type with every order to end by oneself."""
    return [(kind, order) for kind in TYPES for order in (FINISH, LEAVE, CRASH, "crash later")]


async def test_sup_stop_race(autojump_clock):
    """Children that end by themselves while another takes long to stop keep their own reason and stay down."""
    stage, events = Stage(), []
    others = [stage.worker(f"{kind}-{n}", kind) for n, (kind, _) in enumerate(endings())]
    tree = group(stage.worker("first"), *others, stage.worker("slow", linger=5))
    async with running(tree, listeners=[events.append]) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(pool.shutdown)
        await trio.sleep(1)
        stage.take()
        for worker, (_, order) in zip(others, endings(), strict=True):
            if order == "crash later":
                await trio.sleep(0.25)
                order = CRASH
            await stage.tell(f"top/{worker.name}", order)
        assert {worker.run for worker in pool.workers()} == {1}
        assert states(pool)["first"] == "running"

    assert stage.take().endswith("-slow -first")
    ends = of(events, "Failed", "Ended")
    expected = [
        f"{'Failed' if order.startswith(CRASH) else 'Ended'} top/{worker.name}/0"
        for worker, (_, order) in zip(others, endings(), strict=True)
    ]
    assert ends == [*expected, "Ended top/slow/0", "Ended top/first/0", "Ended top"]
    assert {*states(pool).values()} == {"stopped"}


@pytest.mark.parametrize("kind", TYPES)
async def test_sup_stop_non_shutdown_exit_dynamic(kind, autojump_clock):
    """Dynamic children that raise or return as they are stopped, whatever their type, do not disturb the stop."""

    async def raises(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Crashed("while stopping")

    async def returns(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return

    async with running(Supervisor("top")) as pool:
        for n, run in enumerate([raises, returns, raises]):
            await pool.start_child("top", Worker(f"c{n}", run, restart=otp(kind)))
        await settle()
        report = await pool.shutdown()

    assert {*report.orderly} == {"top/c0/0", "top/c1/0", "top/c2/0"}
    assert pool.info("top").state == "stopped"


async def test_child_unlink(autojump_clock):
    """A child that swallows its cancellation cannot make the stop hang: the supervisor waits for the end and goes on."""

    async def swallows(ctx: Context) -> None:
        for _ in range(3):
            try:
                await ctx.sleep(1000)
                await trio.sleep(0)
            except trio.Cancelled:
                pass

    stage = Stage()
    async with running(group(Worker("a", swallows, restart=otp()), stage.worker("b"))) as pool:
        await settle()
        await pool.stop("a")

        assert active(pool) == (2, 1)
        await pool.start("a")
        assert active(pool) == (2, 2)
