"""Metrics: plain numbers of the tree, read from any thread, in as many series as the declaration has."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import trio
from opentelemetry.sdk.metrics import Counter, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

from actors import Actor
from supervision import MailboxSpec, Supervisor, Telemetry, TreeFailed, Worker, supervisor
from supervision.board import REMEMBERED
from supervision.metrics import FAMILIES
from tests.telemetry.kit import Echo, at_once


def running(lab, tree, **options):
    """That tree, measured but not traced."""
    return supervisor.running(tree, telemetry=lab.metrics_only, log=False, **options)


async def forever(ctx):
    """A worker that does nothing."""
    await trio.sleep_forever()


async def test_replicas_by_state(autojump_clock, lab):
    """Every state of every worker is a series, those with nobody in it too."""
    tree = Supervisor(
        "app",
        [
            Worker("on", forever, replicas=3),
            Worker("off", forever, replicas=2, enabled=False),
            Worker("slow", Echo, restart=at_once(initial_backoff=9, max_backoff=9)),
        ],
    )
    async with running(lab, tree) as pool:
        await pool.stop("app/on/1")
        pool.ref("slow").tell_nowait("fail")
        await trio.sleep(1)
        series = lab.series("supervision_replicas")

    assert {labels[:2]: n for labels, n in series.items() if labels[2] == "app/on" and n} == {
        ("running", "app"): 2,
        ("stopped", "app"): 1,
    }
    assert series["disabled", "app", "app/off"] == 2
    assert series["restarting", "app", "app/slow"] == 1
    assert len(series) == 3 * 6


async def test_restarts_failures_and_panics(autojump_clock, lab):
    """Failed runs and automatic restarts are counted by worker, over its replicas; panics by type."""
    tree = Supervisor(
        "app",
        [
            Worker("echo", Echo, replicas=2, restart=at_once()),
            Supervisor("inner", [Worker("echo", Echo, restart=at_once()), Worker("idle", Echo)]),
        ],
    )
    async with running(lab, tree) as pool:
        for path in ("app/echo/0", "app/echo/1", "app/echo/1", "app/inner/echo/0"):
            pool.ref(path).tell_nowait("fail")
            await trio.sleep(1)
        await pool.restart("app/echo")  # by hand: counts against no limit, and here as neither
        numbers = lab.everything()

    counted = {("app", "app/echo"): 3, ("app", "app/inner/echo"): 1, ("app", "app/inner/idle"): 0}
    assert numbers["supervision_failures_total"] == counted
    assert numbers["supervision_restarts_total"] == counted
    assert numbers["wf_worker_panics_total"] == {("echo",): 4, ("idle",): 0}


async def test_a_supervisor_that_gives_up_is_counted(autojump_clock, lab):
    """Supervisors have counters of their own: how often they gave up and were restarted."""
    inner = Supervisor("inner", [Worker("echo", Echo, restart=at_once(max_restarts=1))])
    async with running(lab, Supervisor("app", [inner])) as pool:
        for _ in range(4):
            pool.ref("echo").tell_nowait("fail")
            await trio.sleep(2)
        numbers = lab.everything()

    assert numbers["supervision_supervisor_gave_up_total"] == {
        ("app", "app"): 0,
        ("app/inner", "app"): 2,
    }
    assert numbers["supervision_supervisor_restarts_total"] == {
        ("app", "app"): 0,
        ("app/inner", "app"): 2,
    }
    assert numbers["supervision_failures_total"] == {("app", "app/inner/echo"): 4}


async def test_mailboxes_by_outcome(autojump_clock, lab):
    """What became of messages is counted by worker, and what waits is shown."""

    class Slow(Actor):
        async def handle(self, message):
            if message == "fail":
                raise ValueError
            await trio.sleep(10)

    mailbox = MailboxSpec(capacity=2, overflow="reject")
    tree = Supervisor("app", [Worker("slow", Slow, mailbox=mailbox, restart=at_once(), shutdown=0)])
    async with running(lab, tree) as pool:
        ref = pool.ref("slow")
        ref.tell_nowait("fail")
        await trio.sleep(1)
        ref.tell_nowait(1)
        await trio.sleep(15)
        for n in range(3):
            ref.tell_nowait(n)
            await trio.sleep(0.1)
        with pytest.raises(Exception, match="full"):
            ref.tell_nowait("too many")
        numbers = lab.everything()

    assert numbers["supervision_mailbox_queued"] == {("app", "app/slow"): 2}
    assert numbers["supervision_mailbox_messages_total"] == {
        ("handled", "app", "app/slow"): 1,
        ("rejected", "app", "app/slow"): 1,
        ("dropped", "app", "app/slow"): 0,
        ("dead_lettered", "app", "app/slow"): 1,
    }
    assert numbers["supervision_dead_letters_total"] == {("failed", "app"): 1}


async def test_slow_and_failing_listeners_are_counted(autojump_clock, lab):
    """Events that a slow reader lost and errors of listeners are numbers of the tree."""

    def bad(event):
        raise ValueError

    async with running(lab, Supervisor("app", [Worker("echo", Echo)]), listeners=[bad]) as pool:
        reader = pool.events(size=1)
        await pool.restart("echo")
        await trio.sleep(1)
        numbers = lab.everything()
        lost = pool._tree.events.dropped
        assert reader.receive_nowait() is not None

    assert numbers["supervision_listener_drops_total"] == {("app",): lost}
    assert lost > 0
    assert numbers["supervision_listener_errors_total"][("app",)] > 0


async def test_b136_series_do_not_grow_with_traffic(autojump_clock, lab):
    """B136, chrisguidry/docket#164: series depend on the declaration, not on messages, runs, or children added later."""
    tree = Supervisor("app", [Worker("echo", Echo, restart=at_once()), Supervisor("sessions")])
    async with running(lab, tree) as pool:

        def count():
            return {name: len(series) for name, series in lab.everything().items()}

        async def traffic(first):
            for n in range(first, first + 20):
                pool.ref("echo").tell_nowait("fail")
                child = Worker(f"session-{n}", Echo, restart=at_once())
                ref = await pool.start_child("sessions", child)
                assert await ref.ask(n) == n
                ref.tell_nowait("fail")
                await trio.sleep(1)
                if n % 2:
                    await pool.stop(f"session-{n}")

        await traffic(0)
        before = count()
        await traffic(20)
        assert count() == before
        numbers = lab.everything()

    every = {family.name for family in FAMILIES}
    silent = {name for name in every if name.startswith("wf_worker_") or "_jobs_" in name}
    silent -= {"wf_worker_panics_total"}
    assert set(numbers) == every - silent  # no call of this tree is armoured, and it has no jobs
    assert numbers["supervision_failures_total"] == {
        ("app", "app/echo"): 40,
        ("app", "app/sessions/*"): 40,
    }
    assert numbers["wf_worker_panics_total"] == {("echo",): 40, ("sessions/*",): 40}
    assert numbers["supervision_mailbox_messages_total"]["handled", "app", "app/sessions/*"] == 40
    assert numbers["supervision_restarts_total"]["app", "app/sessions/*"] == 40
    assert numbers["supervision_replicas"]["running", "app", "app/sessions/*"] == 20


async def test_counters_outlive_replicas(autojump_clock, lab):
    """Scaling down or removing a child, or restarting its supervisor, takes nothing from the counters."""
    inner = Supervisor("inner", [Worker("echo", Echo, replicas=3)])
    async with running(lab, Supervisor("app", [inner])) as pool:

        def handled():
            series = lab.series("supervision_mailbox_messages_total")
            return sum(n for labels, n in series.items() if labels[0] == "handled")

        await pool.start_child("inner", Worker("extra", Echo))
        for path in ("app/inner/echo/0", "app/inner/echo/2", "app/inner/extra/0"):
            await pool.ref(path).ask("x")
        assert handled() == 3
        await pool.scale("echo", 1)
        assert handled() == 3
        assert lab.series("supervision_replicas")["running", "app", "app/inner/echo"] == 1
        await pool.restart("inner")
        assert handled() == 3
        await pool.ref("echo").ask("x")
        assert handled() == 4


async def test_children_of_a_restarted_supervisor_answer_no_more(autojump_clock):
    """A child that was added at run time and went with its supervisor's restart refuses messages at once."""
    tree = Supervisor("app", [Supervisor("inner", [Worker("echo", Echo)])])
    async with supervisor.running(tree, log=False) as pool:
        ref = await pool.start_child("inner", Worker("extra", Echo))
        await pool.restart("inner")
        before = trio.current_time()
        with pytest.raises(Exception, match="app/inner/extra/0"):
            await ref.ask("x", timeout=60)
        assert trio.current_time() == before


async def test_reading_from_another_thread_is_safe(autojump_clock, lab):
    """Exporters read while the tree changes; nothing breaks, nothing waits, and no counter ever goes down."""
    tree = Supervisor("app", [Supervisor("sessions")])
    readings, done, errors = [], threading.Event(), []

    def export():
        try:
            while not done.is_set():
                readings.append(lab.series("supervision_mailbox_messages_total"))
        except BaseException as error:
            errors.append(error)

    async with running(lab, tree) as pool:
        thread = threading.Thread(target=export)
        thread.start()
        try:
            for n in range(300):
                ref = await pool.start_child("sessions", Worker(f"s{n}", Echo))
                await ref.ask(n)
                await pool.stop(f"s{n}")
        finally:
            done.set()
            thread.join()
        readings.append(lab.series("supervision_mailbox_messages_total"))

    assert errors == []
    handled = [r[key] for r in readings if (key := ("handled", "app", "app/sessions/*")) in r]
    assert handled == sorted(handled)
    assert handled[-1] == 300


async def test_a_reading_in_the_middle_of_a_change_is_not_lower(autojump_clock, lab):
    """A replica that is just being taken out when somebody reads makes no counter go down."""
    tree = Supervisor("app", [Worker("echo", Echo, replicas=2)])
    async with running(lab, tree) as pool:

        def handled():
            key = ("handled", "app", "app/echo")
            return lab.series("supervision_mailbox_messages_total")[key]

        await pool.ref("app/echo/1").ask("x")
        assert handled() == 1
        members = pool._tree.root.slots["echo"].members
        taken = members.pop()  # what another thread may see between two steps of forgetting it
        assert handled() == 1
        members.append(taken)
        await pool.ref("app/echo/1").ask("x")
        assert handled() == 2


async def test_an_ended_tree_has_counters_but_no_levels(autojump_clock, lab):
    """After the end what was counted can still be exported, and nothing is shown as running."""
    tree = Supervisor("app", [Worker("echo", Echo, restart=at_once())])
    async with running(lab, tree) as pool:
        pool.ref("echo").tell_nowait("fail")
        await trio.sleep(1)
    numbers = lab.everything()

    assert numbers["supervision_failures_total"] == {("app", "app/echo"): 1}
    assert numbers["wf_worker_panics_total"] == {("echo",): 1}
    assert numbers.get("supervision_replicas", {}) == {}
    assert numbers.get("supervision_mailbox_queued", {}) == {}


async def test_a_failed_tree_is_counted_to_its_end(autojump_clock, lab):
    """The last failure, the one that ended the tree, is in the numbers."""

    async def broken(ctx):
        raise ValueError

    tree = Supervisor("app", [Worker("bad", broken, restart=at_once(max_restarts=2))])
    with pytest.raises(TreeFailed):
        await supervisor.serve(tree, telemetry=lab.metrics_only, log=False, signals=False)
    assert lab.series("supervision_failures_total") == {("app", "app/bad"): 3}
    assert lab.series("supervision_supervisor_gave_up_total") == {("app", "app"): 1}


async def test_a_tree_of_the_same_name_continues_the_counters(autojump_clock):
    """Whoever exports differences never sees a negative one when a tree is followed by another of its name."""
    temporality = {
        Counter: AggregationTemporality.DELTA,
        ObservableCounter: AggregationTemporality.DELTA,
    }
    reader = InMemoryMetricReader(preferred_temporality=temporality)
    telemetry = Telemetry(meter_provider=MeterProvider([reader]))
    differences = []
    for failures in (3, 1):
        tree = Supervisor("app", [Worker("echo", Echo, restart=at_once())])
        async with supervisor.running(tree, telemetry=telemetry, log=False) as pool:
            for _ in range(failures):
                pool.ref("echo").tell_nowait("fail")
                await trio.sleep(1)
        data = reader.get_metrics_data()
        differences += [
            point.value
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
            if metric.name == "supervision_failures_total"
            for point in metric.data.data_points
        ]
    telemetry.meter_provider.shutdown()
    assert differences == [3, 1]


async def test_a_thousand_trees_leave_nothing(autojump_clock, lab, caplog):
    """Trees that ran one after the other are not kept, and the counters of the last ones only."""
    trees = []
    for n in range(1000):
        tree = Supervisor(f"tree-{n}", [Worker("echo", Echo)])
        async with running(lab, tree) as pool:
            trees.append(weakref.ref(pool._tree))
        del pool
    gc.collect()

    assert sum(ref() is not None for ref in trees) <= 1
    numbers = lab.everything()
    assert len(numbers["supervision_listener_drops_total"]) == REMEMBERED
    assert numbers["wf_worker_panics_total"] == {("echo",): 0}
    assert caplog.text == ""


async def test_panics_of_forgotten_trees_still_count(autojump_clock, lab):
    """Panics are counted over all trees of the process, those too whose own numbers are not shown any more."""

    async def broken(ctx):
        raise ValueError

    for n in range(REMEMBERED + 3):
        bad = Worker("bad", broken, restart=at_once(type="temporary"))
        await supervisor.serve(
            Supervisor(f"tree-{n}", [bad]), telemetry=lab.metrics_only, log=False, signals=False
        )
    assert lab.series("wf_worker_panics_total") == {("bad",): REMEMBERED + 3}


async def test_trees_side_by_side_share_the_instruments(autojump_clock, lab, caplog):
    """Two trees on one provider are two sets of series of the same instruments, and no warning."""
    async with (
        running(lab, Supervisor("one", [Worker("echo", Echo)])),
        running(lab, Supervisor("two", [Worker("echo", Echo, replicas=2)])),
    ):
        series = lab.series("supervision_replicas")

    assert series["running", "one", "one/echo"] == 1
    assert series["running", "two", "two/echo"] == 2
    assert caplog.text == ""
