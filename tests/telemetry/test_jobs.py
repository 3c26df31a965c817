"""Job workers under telemetry: series that do not grow with jobs, spans that belong to nobody else, contexts that end where they began."""

from __future__ import annotations

import logging

import trio
from opentelemetry import trace

from actors import Backoff
from actors.jobs import JobWorker, MemoryEngine, NewJob
from supervision import Supervisor, Worker, supervisor

AT_ONCE = Backoff(initial=0.1, factor=1, maximum=0.1, jitter=0)


def running(lab, engine, handler, **options):
    """A tree with one job worker, traced and measured."""
    spec = JobWorker("a", handler, engine=engine, backoff=AT_ONCE, **options)
    tree = Supervisor("app", [Worker("w", spec)])
    return supervisor.running(tree, telemetry=lab.both, log=False)


async def finished(engine, n):
    while (await engine.statistics()).jobs["a"].get("completed", 0) < n:
        await trio.sleep(1)


async def test_b136_no_label_grows_with_jobs(autojump_clock, lab):
    """B136, chrisguidry/docket#164: of jobs that each fail twice there are as many series as outcomes, whatever their keys."""
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        if job.attempt < 3:
            raise ValueError(job.key)

    await engine.enqueue_many(NewJob("a", {"n": n}) for n in range(1000))
    async with running(lab, engine, handler, concurrency=32):
        await finished(engine, 1000)
        numbers = lab.everything()

    assert numbers["wf_worker_jobs_handled_total"] == {
        ("success", "a"): 1000,
        ("fail", "a"): 2000,
    }


async def test_b134_a_job_is_in_nobodys_trace(autojump_clock, lab):
    """B134, ogx-ai/ogx#5168: jobs that requests enqueue, and the worker that one of them wakes, do no work in their traces."""
    engine = MemoryEngine("shop")

    async def handler(job, ctx):
        with lab.tracer.start_as_current_span("work"):
            await trio.sleep(1)

    async with running(lab, engine, handler):
        for name in ("A", "B"):
            with lab.tracer.start_as_current_span(name):
                await engine.enqueue(NewJob("a"))
                await trio.sleep(5)
        await finished(engine, 2)

    requests = {lab.only(name).context.trace_id for name in ("A", "B")}
    work = lab.spans("work")
    assert len(work) == 2
    assert not requests & {span.context.trace_id for span in work}


async def test_b133_a_span_ends_where_it_began(autojump_clock, lab, caplog):
    """B133, open-telemetry/opentelemetry-python#2606: a handler cancelled inside its span, by a lost lease or a stop, ends it well."""
    engine = MemoryEngine("shop")
    after = []

    async def handler(job, ctx):
        try:
            with lab.tracer.start_as_current_span(f"work {job.attempt}"):
                await trio.sleep_forever()
        finally:
            after.append(trace.get_current_span().get_span_context().is_valid)

    with caplog.at_level(logging.WARNING, logger="opentelemetry"):
        async with running(lab, engine, handler, timeout=30, grace=1) as pool:
            key = (await engine.enqueue(NewJob("a"))).key
            await trio.sleep(5)
            await engine.cancel(key)
            await trio.sleep(30)
            await engine.enqueue(NewJob("a"))
            await trio.sleep(5)
            await pool.shutdown()

    assert caplog.records == []
    assert len(lab.spans("work 1")) == 2
    assert after == [False] * 2
