"""Which providers are used, what is paid without one, and what their faults can do."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider

from supervision import SpecError, Supervisor, Telemetry, Worker, supervisor
from supervision.telemetry import in_use
from tests.telemetry.kit import Echo, at_once

ROOT = Path(__file__).parent.parent.parent
NOTHING = Telemetry(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())


def hooks(pool):
    """What is installed for each message and each run."""
    office = pool._tree.office
    return office.capture, office.around, pool._tree.around_run


@pytest.mark.parametrize(
    "telemetry", [None, False, NOTHING, Telemetry(tracer_provider=ProxyTracerProvider())]
)
async def test_without_a_real_provider_nothing_is_installed(autojump_clock, telemetry):
    """The API's own providers record nothing, so with them a message and a run go through no hook."""
    assert not in_use()
    tree = Supervisor("app", [Worker("echo", Echo)])
    async with supervisor.running(tree, telemetry=telemetry, log=False) as pool:
        assert hooks(pool) == (None, None, None)
        assert not pool._tree.events.on


async def test_metrics_alone_cost_a_message_nothing(autojump_clock, lab):
    """With a meter provider only, messages and runs go through no hook."""
    tree = Supervisor("app", [Worker("echo", Echo)])
    async with supervisor.running(tree, telemetry=lab.metrics_only, log=False) as pool:
        assert hooks(pool) == (None, None, None)
        assert lab.series("supervision_restarts_total") == {("app", "app/echo"): 0}


async def test_asking_for_what_is_not_there_is_said_once(autojump_clock, caplog):
    """`telemetry=True` without a provider logs what is missing and what to do."""
    tree = Supervisor("app", [Worker("echo", Echo)])
    async with supervisor.running(tree, telemetry=True, log=False) as pool:
        assert hooks(pool) == (None, None, None)

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "no OpenTelemetry provider is set" in record.getMessage()


@pytest.mark.parametrize("telemetry", ["yes", 1, TracerProvider])
async def test_telemetry_is_checked_at_the_door(telemetry):
    """Anything but None, True, False or a Telemetry is refused with the value in the message."""
    with pytest.raises(SpecError, match="telemetry is None, True, False or a Telemetry") as info:
        await supervisor.serve(Supervisor("app", [Worker("echo", Echo)]), telemetry=telemetry)
    assert info.value.option == "telemetry"


def run_alone(program: str) -> str:
    """Run a program in a process of its own, where it may set global providers."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_api_is_imported_on_use_only():
    """Serving a tree in a program that does not use OpenTelemetry does not import it."""
    program = """
        import sys, trio
        from supervision import Supervisor, Telemetry, Worker, supervisor

        async def once(ctx):
            pass

        trio.run(supervisor.serve, Supervisor("app", [Worker("once", once)]))
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    assert run_alone(program) == "[]"


def test_a_global_provider_is_found():
    """Providers that the program set before are used by default, without a word to the tree."""
    program = """
        import trio
        from opentelemetry import metrics, trace
        from tests.telemetry.kit import Lab
        from supervision import Supervisor, Worker, supervisor
        from supervision.telemetry import in_use

        async def once(ctx):
            pass

        lab = Lab()
        print(in_use())
        trace.set_tracer_provider(lab.tracers)
        metrics.set_meter_provider(lab.meters)
        print(in_use())
        trio.run(supervisor.serve, Supervisor("app", [Worker("once", once)]))
        print([span.name for span in lab.spans()], sorted(lab.series("supervision_failures_total")))
        lab.meters.shutdown()
    """
    assert run_alone(program).splitlines() == [
        "False",
        "True",
        "['run once'] [('app', 'app/once')]",
    ]


class Hostile(SpanProcessor):
    """A span processor that raises wherever it is called."""

    def on_start(self, span, parent_context=None):
        raise OSError("disk full")

    def on_end(self, span):
        raise OSError("disk full")


class LostExporter(SpanExporter):
    """An exporter whose backend is gone."""

    def export(self, spans):
        raise ConnectionError("no route")


@pytest.mark.parametrize("processor", [Hostile(), SimpleSpanProcessor(LostExporter())])
async def test_a_failing_processor_breaks_nothing(autojump_clock, caplog, processor):
    """Errors of processors and exporters reach no run and no sender; ours are logged once."""
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tree = Supervisor("app", [Worker("echo", Echo, restart=at_once())])
    telemetry = Telemetry(tracer_provider=provider, meter_provider=NoOpMeterProvider())
    async with supervisor.running(tree, telemetry=telemetry, log=False) as pool:
        for n in range(3):
            assert await pool.ref("echo").ask(n) == n
        pool.ref("echo").tell_nowait("fail")
        await trio.sleep(1)
        assert await pool.ref("echo").ask("again") == "again"
        assert pool.workers()[0].run == 2
        assert str(pool.workers()[0].error) == "fail"

    ours = [record for record in caplog.records if record.name == "supervision"]
    assert len(ours) == (1 if isinstance(processor, Hostile) else 0)
    provider.shutdown()


class BrokenProvider:
    """A provider that cannot even make a tracer or a meter."""

    def get_tracer(self, *_, **__):
        raise RuntimeError("no tracer")

    def get_meter(self, *_, **__):
        raise RuntimeError("no meter")


@pytest.mark.parametrize("part", ["tracer_provider", "meter_provider"])
async def test_a_broken_provider_breaks_nothing(autojump_clock, caplog, part):
    """A tree whose provider cannot be used goes on without, and the log says so."""
    telemetry = Telemetry(**{part: BrokenProvider()})
    tree = Supervisor("app", [Worker("echo", Echo)])
    async with supervisor.running(tree, telemetry=telemetry, log=False) as pool:
        assert await pool.ref("echo").ask(1) == 1

    assert "OpenTelemetry cannot be used" in caplog.text
