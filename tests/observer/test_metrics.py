"""/metrics: the promised names, in a form that Prometheus reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from actors.durations import Durations
from actors.jobs import BpmnError, FailWithRetry, JobWorker, MemoryEngine, NewJob
from actors.resilience import (
    Backoff,
    BreakerPolicy,
    Dependency,
    PoisonMessage,
    RetryPolicy,
    degrade,
)
from supervision import Supervisor, Worker
from supervision.metrics import FAMILIES, HISTOGRAMS, Reading
from supervision.observer.exposition import exposition
from tests.observer.kit import get, seen

PROMISED = {
    "wf_worker_jobs_handled_total": {"type", "outcome"},
    "wf_worker_job_duration_seconds": {"type"},
    "wf_worker_retries_total": {"type", "dependency"},
    "wf_worker_circuit_breaker_state": {"breaker"},
    "wf_worker_backpressure_events_total": {"type", "reason"},
    "wf_worker_panics_total": {"type"},
    "wf_worker_idempotency_cache_hits_total": {"type"},
    "wf_worker_degraded_total": {"worker", "feature"},
}


def read(text):
    """Families by the name that the text uses, each a list of labels and value."""
    out = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            out.setdefault(sample.name, []).append((sample.labels, sample.value))
    return out


def test_the_promised_names_are_there():
    """Names and labels are exactly those that dashboards and alerts stand on."""
    present = {family.name: set(family.labels) for family in (*FAMILIES, *HISTOGRAMS)}

    assert {name: labels for name, labels in present.items() if name.startswith("wf_")} == PROMISED


async def test_after_some_work(autojump_clock):
    """Every kind of outcome, retry, refusal and degradation is counted where it is promised."""
    engine = MemoryEngine()
    stripe = Dependency(
        "stripe",
        timeout=1,
        retry=RetryPolicy(attempts=2, backoff=Backoff(initial=0.1), on=(OSError,)),
        breaker=BreakerPolicy(failures=2, open_for=200),
    )
    hits = degrade("scoring", default=None)

    async def down():
        raise OSError

    async def handler(job, ctx):
        await trio.sleep(0.2)
        match job.variables["do"]:
            case "fail":
                raise ValueError
            case "bpmn":
                raise BpmnError("NO_FUNDS")
            case "poison":
                raise PoisonMessage("bad")
            case "later":
                raise FailWithRetry("busy", retry_in=1000)
            case "call":
                await hits.call(down)
                await stripe.call(down)

    worker = Worker("charges", JobWorker("charge", handler, engine=engine, concurrency=1))
    async with seen(Supervisor("shop", [worker])) as server:
        for what, retries in (
            ("ok", 3),
            ("fail", 3),
            ("fail", 1),
            ("bpmn", 3),
            ("poison", 3),
            ("later", 3),
            ("call", 3),
            ("call", 3),
        ):
            await engine.enqueue(NewJob("charge", {"do": what}, retries=retries))
        await trio.sleep(10)
        _status, text = await get(server, "/metrics")

    found = read(text)
    handled = {labels["outcome"]: value for labels, value in found["wf_worker_jobs_handled_total"]}
    assert set(handled) == {"success", "fail", "bpmn_error", "incident", "poison"}
    assert (handled["success"], handled["incident"], handled["poison"]) == (1, 1, 1)
    assert found["supervision_jobs_put_back_total"]
    assert found["wf_worker_retries_total"] == [({"type": "charges", "dependency": "stripe"}, 1)]
    assert found["wf_worker_circuit_breaker_state"] == [({"breaker": "stripe"}, 2)]
    assert {labels["reason"] for labels, _ in found["wf_worker_backpressure_events_total"]} == {
        "breaker_open"
    }
    assert found["wf_worker_degraded_total"][0][0] == {"worker": "charges", "feature": "scoring"}
    assert found["wf_worker_panics_total"] == [({"type": "charges"}, 0)]
    ((labels, count),) = found["wf_worker_job_duration_seconds_count"]
    assert labels == {"type": "charge"}
    assert count == 8
    buckets = {each["le"]: value for each, value in found["wf_worker_job_duration_seconds_bucket"]}
    assert buckets["0.1"] == 0
    assert buckets["+Inf"] == count
    assert found["wf_worker_job_duration_seconds_sum"][0][1] >= 1.6


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_promtool_finds_nothing(autojump_clock):
    """Prometheus' own checker has no complaint."""
    async with seen() as server:
        _, text = await get(server, "/metrics")

    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr


def test_label_values_are_escaped():
    """Whatever a name holds, the text stays readable and the name comes back."""
    reading = Reading()
    odd = 'a"b\\c\nd{}, 1'
    reading.add("wf_worker_retries_total", (odd, ""), 3)
    seconds = Durations()
    seconds.add(0.005)
    seconds.add(1e9)

    found = read(exposition(reading, {("wf_worker_job_duration_seconds", odd): seconds}))

    assert found["wf_worker_retries_total"] == [({"type": odd, "dependency": ""}, 3)]
    buckets = [
        (labels["type"], labels["le"], value)
        for labels, value in found["wf_worker_job_duration_seconds_bucket"]
    ]
    assert buckets[0] == (odd, "0.005", 1)
    assert buckets[-1] == (odd, "+Inf", 2)


async def test_a_scrape_of_a_fresh_tree(autojump_clock):
    """Every family says what it is, also one that has no value yet, and states are there with 0."""
    async with seen() as server:
        _, text = await get(server, "/metrics")

    for family in (*FAMILIES, *HISTOGRAMS):
        assert f"# TYPE {family.name} " in text
    replicas = {labels["state"]: value for labels, value in read(text)["supervision_replicas"]}
    assert replicas["running"] == 2
    assert replicas["failed"] == 0
