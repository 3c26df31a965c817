"""Spans of runs: one each, a trace of its own, ended in its own task with the verdict of its supervisor."""

from __future__ import annotations

import pytest
import trio
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from supervision import Supervisor, TreeFailed, Worker, supervisor
from tests.telemetry.kit import Echo, at_once


def running(lab, *workers, **options):
    """A tree of these workers, traced."""
    return supervisor.running(Supervisor("app", workers), telemetry=lab.both, log=False, **options)


async def test_a_run_is_a_span(autojump_clock, lab):
    """A run is one span, which says whose it is and how it ended."""

    async def once(ctx):
        await trio.sleep(1)

    async with running(lab, Worker("job", once, replicas=2)) as pool:
        await pool.wait_stopped()

    spans = lab.spans("run job")
    assert sorted(span.attributes["supervision.path"] for span in spans) == [
        "app/job/0",
        "app/job/1",
    ]
    for span in spans:
        assert span.parent is None
        assert span.links == ()
        assert span.status.status_code is StatusCode.UNSET
        assert span.attributes["supervision.worker"] == "job"
        assert span.attributes["supervision.run"] == 1
        assert span.attributes["supervision.ended"] == "returned"
    assert {span.attributes["supervision.replica"] for span in spans} == {0, 1}


async def test_a_run_never_inherits_the_trace_of_the_starter(autojump_clock, lab):
    """Whoever starts a tree, or a child of it, inside a span does not lend it to the runs."""
    seen = []

    async def look(ctx):
        seen.append(trace.get_current_span().get_span_context().is_valid)
        with lab.tracer.start_as_current_span("inside"):
            await trio.sleep(1)
        await trio.sleep_forever()

    with lab.tracer.start_as_current_span("request"):
        async with running(lab, Worker("a", look)) as pool:
            await pool.start_child("app", Worker("b", look))
            await pool.restart("a")
            await trio.sleep(2)

    outside = lab.only("request").context.trace_id
    assert seen == [False] * 3
    assert len(lab.spans("inside")) == 3
    for span in [*lab.spans("inside"), *lab.spans("run a"), *lab.spans("run b")]:
        assert span.parent is None
        assert span.context.trace_id != outside


@pytest.mark.parametrize("telemetry", [True, False, None])
async def test_the_trace_is_left_whatever_telemetry_is(autojump_clock, lab, telemetry, caplog):
    """A tree that traces nothing itself does not carry the trace of its starter either."""
    valid = []

    async def look(ctx):
        valid.append(trace.get_current_span().get_span_context().is_valid)

    with lab.tracer.start_as_current_span("request"):
        tree = Supervisor("app", [Worker("a", look)])
        await supervisor.serve(tree, telemetry=telemetry, log=False, signals=False)

    assert valid == [False]


async def test_a_failed_run_ends_with_its_error(autojump_clock, lab):
    """A failure is recorded with its own type and text, out of the groups that nurseries put round it."""

    async def broken(ctx):
        async with trio.open_nursery() as outer:
            outer.start_soon(trio.sleep_forever)
            async with trio.open_nursery() as inner:
                inner.start_soon(fail)

    async def fail():
        raise LookupError("no such table")

    async with running(lab, Worker("job", broken, restart=at_once(type="temporary"))) as pool:
        await pool.wait_stopped()

    span = lab.only("run job")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "LookupError: no such table"
    assert span.attributes["error.type"] == "LookupError"
    [recorded] = span.events
    assert recorded.attributes["exception.type"] == "LookupError"
    assert "in fail" in recorded.attributes["exception.stacktrace"]
    assert span.attributes["supervision.ended"] == "failed"


async def test_a_group_of_several_stays_a_group(autojump_clock, lab):
    """Of several errors none is chosen: the group is recorded."""

    async def broken(ctx):
        raise ExceptionGroup("both", [ValueError(1), KeyError(2)])

    async with running(lab, Worker("job", broken, restart=at_once(type="temporary"))) as pool:
        await pool.wait_stopped()

    assert lab.only("run job").attributes["error.type"] == "ExceptionGroup"


async def test_a_stopped_run_is_no_error(autojump_clock, lab):
    """A run that ends because it was asked to is no error, not even if it raises then."""

    async def quiet(ctx):
        await trio.sleep_forever()

    async def loud(ctx):
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("closing failed")

    async with running(lab, Worker("quiet", quiet), Worker("loud", loud), Worker("actor", Echo)):
        await trio.sleep(1)

    for name in ("quiet", "loud", "actor"):
        span = lab.only(f"run {name}")
        assert span.status.status_code is StatusCode.UNSET
        assert span.attributes["supervision.ended"] == "stopped"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"ready": "signal", "start_timeout": 2}, "StartTimeout"),
        ({"watchdog": 2}, "WatchdogExpired"),
    ],
)
async def test_a_run_that_is_cut_off_is_a_failure(autojump_clock, lab, options, error):
    """A run cancelled by its start timeout or its watchdog ends with that error."""

    async def idle(ctx):
        await trio.sleep_forever()

    worker = Worker("job", idle, restart=at_once(type="temporary"), **options)
    async with running(lab, worker) as pool:
        await pool.wait_stopped()

    span = lab.only("run job")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == error


async def test_a_fatal_error_is_on_the_span(autojump_clock, lab):
    """A KeyboardInterrupt out of a worker ends its span with an error, and comes through unchanged."""

    async def interrupted(ctx):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with running(lab, Worker("job", interrupted)) as pool:
            await pool.wait_stopped()

    assert lab.only("run job").attributes["error.type"] == "KeyboardInterrupt"


async def test_b133_spans_are_closed_in_their_own_task(autojump_clock, lab, caplog):
    """B133, open-telemetry/opentelemetry-python#2606: a span is opened and closed in the task that owns it."""
    starts = []

    async def loop(ctx):
        starts.append(trio.current_time())
        with lab.tracer.start_as_current_span("loop"):
            if ctx.run == 2:
                await trio.sleep(4)
                raise RuntimeError("at 5")
            await trio.sleep_forever()

    worker = Worker(
        "child", loop, restart=at_once(initial_backoff=1, factor=1, max_backoff=1, max_restarts=5)
    )
    async with running(lab, worker) as pool:
        await trio.sleep(1)
        await pool.restart("child")
        await trio.sleep_until(7)

    assert starts == [0, 1, 6]
    assert "detach" not in caplog.text
    first, second, third = lab.spans("loop")
    assert [s.status.status_code for s in (first, second, third)] == [
        StatusCode.UNSET,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]
    assert [s.parent for s in (first, second, third)] == [None, None, None]
    runs = lab.spans("run child")
    assert [s.attributes["supervision.run"] for s in runs] == [1, 2, 3]
    assert [s.attributes["supervision.ended"] for s in runs] == ["stopped", "failed", "stopped"]
    assert len({s.context.trace_id for s in [first, second, third, *runs]}) == 6


async def test_a_span_left_open_does_not_reach_the_next_run(autojump_clock, lab):
    """A run that fails with a context attached leaves nothing of it to the run that follows in the same task."""
    from opentelemetry.context import attach

    parents = []

    async def careless(ctx):
        parents.append(trace.get_current_span().get_span_context().is_valid)
        attach(trace.set_span_in_context(lab.tracer.start_span(f"left open {ctx.run}")))
        if ctx.run < 3:
            raise ValueError

    async with running(lab, Worker("job", careless, restart=at_once())) as pool:
        await pool.wait_stopped()

    assert parents == [False] * 3


async def test_every_run_of_a_tree_that_fails_has_ended(autojump_clock, lab):
    """When a tree has failed, no span is left open."""

    async def broken(ctx):
        raise ValueError(ctx.run)

    async def steady(ctx):
        await trio.sleep_forever()

    with pytest.raises(TreeFailed):
        async with running(
            lab, Worker("steady", steady), Worker("bad", broken, restart=at_once(max_restarts=2))
        ) as pool:
            await pool.wait_stopped()

    assert len(lab.spans("run bad")) == 3
    assert len(lab.spans("run steady")) == 1
