"""DEGRADATION: where a fallback stands, what it admits, and when a feature has recovered."""

from __future__ import annotations

import pytest
import trio

from actors.resilience import Backoff, BreakerPolicy, Dependency, degrade
from supervision import Supervisor, Worker
from tests.cases.kit import at, under_test
from tests.resilience.kit import Down, Script, policy


async def in_a_tree(run):
    """Run it in a tree; the events about guards, and the counters."""
    async with under_test(Supervisor("app", [Worker("w", run)])) as trial:
        await trial.pool.wait_stopped()
        assert trial.pool.info("w").error is None
        counts = trial.pool._tree.office.counts
    return [e for e in trial.seen if e.kind.startswith("Degrad")], counts


async def test_b108_the_fallback_is_the_outermost_layer(autojump_clock):
    """B108, resilience4j/resilience4j#558: retry runs before the fallback, and the breaker counts each attempt."""
    x = Dependency(
        "x",
        timeout=5,
        retry=policy(backoff=Backoff(0, jitter=0)),
        breaker=BreakerPolicy(failures=5),
    )
    feature = degrade("answers", default=-1)

    script = Script(Down, Down, 0.0)
    answer = await feature.call(x.call, script)
    assert (answer.degraded, script.calls, feature.state.answers) == (False, 3, 0)

    script = Script(Down)
    answer = await feature.call(x.call, script)
    assert (answer.value, script.calls, feature.state.answers) == (-1, 3, 1)
    assert x.statistics().breaker.counts.consecutive_failures == 3


async def test_b109_a_stale_answer_is_marked_counted_and_limited(autojump_clock):
    """B109, linyows/dewy#424: an older result says that it is one, and how old; past its age the real error is raised."""
    feature = degrade("price", stale_for=300)

    async def fetch():
        if trio.current_time() >= 10:
            raise Down("real")
        return 42

    async def run(ctx):
        answer = await feature.call(fetch)
        assert (answer.value, answer.degraded, answer.age) == (42, False, None)
        for when, age in ((20, 20), (299, 299)):
            await at(when)
            answer = await feature.call(fetch)
            assert (answer.value, answer.degraded, answer.age) == (42, True, age)
            assert isinstance(answer.error, Down)
            assert (feature.state.degraded, feature.state.since) == (True, 20)
        await at(301)
        with pytest.raises(Down, match="real"):
            await feature.call(fetch)

    events, counts = await in_a_tree(run)
    assert counts["wf_worker_degraded_total", "w", "price"] == 2
    assert [(e.kind, e.time) for e in events] == [
        ("DegradationChanged", 20),
        ("Degraded", 20),
        ("Degraded", 299),
    ]


async def test_b110_recovery_needs_a_success_by_the_same_rule(autojump_clock):
    """B110, Cap-go/capgo.app#2777: an error answer is no recovery; the mode is entered once and left once."""
    feature = degrade("proxy", default="stored", fails=lambda answer: answer == "5xx")

    async def run(ctx):
        values = []
        for when, step in (
            (0, Down),
            (10, "5xx"),
            (15, Down),
            (20, "5xx"),
            (25, Down),
            (30, "200"),
        ):
            await at(when)
            values.append((await feature.call(Script(step))).value)
            assert feature.state.degraded == (when < 30)
        assert values == ["stored"] * 5 + ["200"]

    events, _ = await in_a_tree(run)
    changes = [(e.time, e.degraded) for e in events if e.kind == "DegradationChanged"]
    assert changes == [(0, True), (30, False)]
