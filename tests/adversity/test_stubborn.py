"""Children that will not die when asked: what they can hold up, and what is said about them."""

from __future__ import annotations

import threading

import pytest
import trio

from actors import Actor
from supervision import RestartPolicy, Supervisor, Worker
from supervision.events import Abandoned, Ended, Failed, Forced, Stuck
from tests.adversity.helpers import AT_ONCE, ONCE, idle, kinds, running, serve


async def test_a_shield_past_the_deadline_is_reported_and_waited_for(autojump_clock) -> None:
    """A child that shields itself past its deadline is forced, named with its stack again and again, and never left behind."""
    events: list = []

    async def shielded(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(11.5)

    tree = Supervisor("t", [Worker("w", shielded, shutdown=2)])
    async with running(tree, listeners=[events.append]) as pool:
        pass

    assert trio.current_time() == 11.5
    assert [e.time for e in kinds(events, Forced)] == [2]
    assert [e.time for e in kinds(events, Stuck)] == [2, 7]
    assert all("sleep" in e.stack[-1] for e in kinds(events, Stuck))
    assert pool.stop_report.forced == ("t/w/0",)
    assert pool.stop_report.overrun == 9.5


async def test_a_swallowed_cancellation_is_no_failure_of_the_stop(autojump_clock) -> None:
    """A child that swallows Cancelled and goes on is cancelled again at its deadline, and then counts as stopped."""
    swallowed: list[float] = []
    events: list = []

    async def deaf(ctx) -> None:
        for _ in range(3):
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                swallowed.append(trio.current_time())
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)

    tree = Supervisor("t", [Worker("w", deaf, shutdown=2)])
    async with running(tree, listeners=[events.append]) as pool:
        await trio.sleep(1)

    assert swallowed == [1, 2, 3]
    assert pool.info("w").state == "stopped"
    assert [e.how for e in kinds(events, Ended) if e.path == "t/w/0"] == ["stopped"]


async def test_a_stray_cancelled_is_not_a_message_handled(autojump_clock) -> None:
    """A handler that raises a Cancelled of long ago has not handled its message, and its asker is told."""
    kept: list[trio.Cancelled] = []

    class Hoarder(Actor):
        async def started(self, ctx) -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as stray:
                    kept.append(stray)

        async def handle(self, message) -> None:
            raise kept[-1]

    asked: list[BaseException] = []

    async def ask(ref) -> None:
        try:
            await ref.ask("m", timeout=1000)
        except Exception as error:
            asked.append(error)

    tree = Supervisor("t", [Worker("w", Hoarder), Worker("idle", idle)])
    async with running(tree) as pool, trio.open_nursery() as nursery:
        ref = pool.ref("w")
        nursery.start_soon(ask, ref)
        await trio.sleep(1)
        mail = ref.mailbox.statistics()
        nursery.cancel_scope.cancel()

    assert (mail.sent, mail.handled, mail.dead_lettered, mail.in_hand) == (1, 0, 1, 0)
    assert len(asked) == 1
    assert trio.current_time() == 1


@pytest.mark.parametrize("abandon", [True, False])
async def test_a_child_in_a_thread_ends_when_its_thread_lets_it(abandon) -> None:
    """A child in a thread is stopped at once if the thread may be abandoned, and else waited for, with a report that says so."""
    inside, release = threading.Event(), threading.Event()
    entered = trio.Event()
    events: list = []

    def block(token) -> None:
        inside.set()
        trio.from_thread.run_sync(entered.set, trio_token=token)
        release.wait(60)

    async def threaded(ctx) -> None:
        token = trio.lowlevel.current_trio_token()
        await trio.to_thread.run_sync(block, token, abandon_on_cancel=abandon)

    async def let_go(pool) -> None:
        # The clock is the real one: virtual time would jump while the thread holds on.
        async for event in pool.events():
            if isinstance(event, Stuck):
                release.set()
                return

    try:
        tree = Supervisor("t", [Worker("w", threaded, shutdown=0)])
        async with running(tree, listeners=[events.append]) as pool, trio.open_nursery() as nursery:
            await entered.wait()
            if not abandon:
                nursery.start_soon(let_go, pool)
                await trio.lowlevel.checkpoint()
            pool.request_stop()
            await pool.wait_stopped()
    finally:
        release.set()

    assert len(kinds(events, Abandoned)) == pool.stop_report.abandoned_threads == int(abandon)
    assert [e.thread for e in kinds(events, Stuck)] == ([] if abandon else [True])


@pytest.mark.parametrize("alone", [True, False])
async def test_an_error_in_cleanup_is_the_failure_when_nothing_asked(alone, autojump_clock) -> None:
    """What a run raises in its cleanup fails it like anything else; after a stop it is reported and changes nothing."""
    events: list = []

    async def untidy(ctx) -> None:
        try:
            if alone:
                raise LookupError("work")
            await trio.sleep_forever()
        finally:
            raise OSError("cleanup")

    tree = Supervisor("t", [Worker("w", untidy, restart=ONCE), Worker("idle", idle)])
    with trio.move_on_after(0.5):
        await serve(tree, listeners=[events.append])

    failed = [type(e.error) for e in kinds(events, Failed)]
    ended = [type(e.error) for e in kinds(events, Ended) if e.path == "t/w/0"]
    assert (failed, ended) == (([OSError], []) if alone else ([], [OSError]))


async def test_a_group_that_holds_a_cancelled_is_the_rest_of_it(autojump_clock) -> None:
    """A group of an error and a Cancelled is that error; the Cancelled in it is nobody's."""
    events: list = []

    async def both(ctx) -> None:
        async def late() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("late")

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(late)
                nursery.start_soon(trio.sleep_forever)
                await trio.sleep(1)
                scope.cancel()

    async def raw(ctx) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as stray:
                caught = stray
        raise BaseExceptionGroup("both", [caught, OSError("raw")])

    later = RestartPolicy(initial_backoff=100, max_backoff=100)
    workers = [Worker("both", both, restart=later), Worker("raw", raw, restart=later)]
    with trio.move_on_after(1.5):
        await serve(Supervisor("t", [*workers, Worker("idle", idle)]), listeners=[events.append])

    errors = {e.path: e.error for e in kinds(events, Failed)}
    assert set(errors) == {"t/both/0", "t/raw/0"}
    for error in errors.values():
        assert isinstance(error, ExceptionGroup)
        assert [type(leaf) for leaf in error.exceptions] == [OSError]


async def test_a_watchdog_does_not_bark_during_a_stop(autojump_clock) -> None:
    """Once a run has been asked to stop, its deadline is all that counts."""
    events: list = []

    async def quiet(ctx) -> None:
        with ctx.busy():
            await trio.sleep(5)

    tree = Supervisor("t", [Worker("w", quiet, watchdog=2, shutdown=10)])
    async with running(tree, listeners=[events.append]):
        await trio.sleep(1)

    assert trio.current_time() == 5
    assert kinds(events, Failed) == kinds(events, Forced) == []


async def test_a_stop_wins_over_a_watchdog_that_has_just_barked(autojump_clock) -> None:
    """A run that is being cancelled by its watchdog when the stop comes ends as stopped and is not run again."""
    events: list = []

    async def stuck(ctx) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)

    tree = Supervisor("t", [Worker("w", stuck, watchdog=2, restart=AT_ONCE)])
    async with running(tree, listeners=[events.append]) as pool:
        await trio.sleep(3)
        assert pool.info("w").run == 1

    assert trio.current_time() == 5
    assert pool.info("w").state == "stopped"
    assert pool.info("w").run == 1


async def test_a_stop_cuts_a_start_short(autojump_clock) -> None:
    """A run that is not ready yet when the stop comes is stopped at once, not at its start_timeout."""
    worker = Worker("w", idle, ready="signal", start_timeout=100)
    async with running(Supervisor("t", [worker]), wait_ready=False) as pool:
        await trio.sleep(1)

    assert trio.current_time() == 1
    assert pool.info("w").state == "stopped"
    assert pool.info("w").error is None
