"""OTLP: sending traces and metrics to where the standard environment variables say, for `treewarden serve`.

Floor: above telemetry. The rules: nothing is set up unless an endpoint is named, or if the program has set providers itself; what cannot
be set up is one line of the log, and the tree runs without.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Final

from supervision.telemetry import in_use

__all__ = ["exporting", "wanted"]

logger: Final = logging.getLogger("supervision")

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HOMES: Final = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
}


def wanted(environ: Mapping[str, str]) -> set[str]:
    """Which of `traces` and `metrics` are to be sent."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return set()
    return {
        signal
        for signal in ("traces", "metrics")
        if (environ.get(_ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"))
        and environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") == "otlp"
    }


@contextmanager
def exporting(service: str, environ: Mapping[str, str] = os.environ) -> Generator[set[str]]:
    """Set providers as the environment says, and flush them at the end. Yields what is sent.

    Args:
        service: the name of the service, unless the environment has one.
        environ: the environment.
    """
    signals = wanted(environ)
    if not signals or in_use():
        yield set()
        return
    with ExitStack() as stack:
        try:
            _set_up(signals, service, environ, stack)
        except ImportError as error:
            logger.warning(
                "an OTLP endpoint is set, but %s is missing, so nothing is sent:"
                " pip install 'treewarden[otel]'",
                error.name,
            )
            signals.clear()
        except Exception:
            logger.exception("OTLP cannot be set up, so nothing is sent")
            signals.clear()
        yield signals


def _set_up(signals: set[str], service: str, environ: Mapping[str, str], stack: ExitStack) -> None:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.resources import Resource

    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": service})
    if "traces" in signals:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _exporter("trace_exporter", "OTLPSpanExporter", "TRACES", environ)
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(exporter))
        stack.callback(tracers.shutdown)
        trace.set_tracer_provider(tracers)
    if "metrics" in signals:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        exporter = _exporter("metric_exporter", "OTLPMetricExporter", "METRICS", environ)
        reader = PeriodicExportingMetricReader(exporter)
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        stack.callback(meters.shutdown)
        metrics.set_meter_provider(meters)


def _exporter(module: str, name: str, signal: str, environ: Mapping[str, str]) -> Any:
    """The exporter of one signal; it reads endpoint, headers and the rest from the environment itself."""
    protocol = environ.get(
        f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL",
        environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    )
    home = _HOMES.get(protocol)
    if home is None:
        raise ValueError(f"OTLP speaks {' or '.join(_HOMES)} here, not {protocol!r}")
    return getattr(import_module(f"{home}.{module}"), name)()
