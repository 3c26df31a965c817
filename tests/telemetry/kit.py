"""What the telemetry tests share: providers of their own, and short ways to what they collected.

No test sets a global provider: that can be done only once in a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from actors import Actor
from supervision import RestartPolicy, Telemetry


class Lab:
    """Providers that keep all they get in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracer = self.tracers.get_tracer("the program")
        self.both = Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)
        self.metrics_only = Telemetry(
            tracer_provider=NoOpTracerProvider(), meter_provider=self.meters
        )

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The finished spans, in the order of their ends; all, or those of one name."""
        return [s for s in self.exporter.get_finished_spans() if not name or s.name == name]

    def only(self, name: str) -> ReadableSpan:
        """The one finished span of that name."""
        [span] = self.spans(name)
        return span

    def series(self, name: str) -> dict[tuple[Any, ...], int]:
        """One metric now: the values of its labels in order of their names -> its value."""
        return self.everything().get(name, {})

    def everything(self) -> dict[str, dict[tuple[Any, ...], int]]:
        """All metrics now."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: {
                tuple(str(value) for _, value in sorted(point.attributes.items())): (
                    point.count if isinstance(point, HistogramDataPoint) else point.value
                )
                for point in metric.data.data_points
            }
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def linked(span: ReadableSpan) -> list[int]:
    """The traces that a span is linked to."""
    return [link.context.trace_id for link in span.links]


def traces(spans: Iterable[ReadableSpan]) -> list[int]:
    """The traces of spans."""
    return [span.context.trace_id for span in spans]


def at_once(**more: Any) -> RestartPolicy:
    """Restarts without waits and without limit, unless a test says otherwise."""
    options: dict[str, Any] = {"initial_backoff": 0, "jitter": 0, "max_restarts": 0}
    return RestartPolicy(**(options | more))


class Echo(Actor):
    """Answers with what it gets; fails when told to."""

    async def handle(self, message):
        if message == "fail":
            raise ValueError(message)
        return message
