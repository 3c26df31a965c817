"""OpenTelemetry: whether a tree traces and measures, and for whom.

Floor: above metrics and tracing. The rule: only the API is used, and only if the program uses it; without a provider
that records, a message pays nothing.

A provider is *real* unless it is one of the API's own, which only stand in until another one is set. Real ones are looked for
once, when a tree is served. So set yours before; a provider that is set later is not seen by a tree that runs already.

Instruments cannot be taken back in OpenTelemetry, so they are made once for each meter provider and show whatever trees live.
"""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import attrs

from actors.context import Context
from actors.letters import NOTHING
from actors.records import Record
from supervision.errors import SpecError
from supervision.tree import Tree

if TYPE_CHECKING:
    # Not even attrs needs them at run time: the API is imported on use.
    from opentelemetry.metrics import MeterProvider  # noqa: TC004
    from opentelemetry.trace import TracerProvider  # noqa: TC004

__all__ = ["Telemetry", "handling", "in_use", "install"]

logger: Final = logging.getLogger("supervision")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Telemetry(Record):
    """Where spans and metrics of a tree go: `serve(tree, telemetry=Telemetry(tracer_provider=...))`."""

    tracer_provider: TracerProvider | None = None
    """None is the one that the program has set, if it has."""
    meter_provider: MeterProvider | None = None
    """None is the one that the program has set, if it has."""


def in_use() -> bool:
    """True if the program has imported OpenTelemetry and set a provider that records."""
    return _tracers(load=False) is not None or _meters(load=False) is not None


def install(tree: Tree, telemetry: bool | Telemetry | None = True) -> None:
    """Trace and measure `tree`, which has not been started. Called by `serve`.

    Args:
        tree: which.
        telemetry: None uses the providers that the program has set, if it has imported OpenTelemetry; True imports it, and
            says so in the log if no provider is set; a `Telemetry` brings its own; False traces and measures nothing.

    Whatever it is, a run does not inherit the trace of whoever started the tree.
    """
    if telemetry is not None and not isinstance(telemetry, (bool, Telemetry)):
        raise SpecError(
            f"telemetry is None, True, False or a Telemetry(...), not {telemetry!r}",
            option="telemetry",
        )
    if "opentelemetry.context" in sys.modules:
        from supervision.tracing import leave_trace

        leave_trace(tree)
    if telemetry is False:
        return
    load = telemetry is not None
    chosen = telemetry if isinstance(telemetry, Telemetry) else Telemetry()
    try:
        tracers = _real(chosen.tracer_provider) or _tracers(load=load)
        meters = _real(chosen.meter_provider) or _meters(load=load)
        if tracers is not None:
            from supervision.tracing import Tracing

            Tracing(tree, tracers)
        if meters is not None:
            from supervision.board import board_of

            board_of(meters).add(tree)
    except Exception:
        logger.exception("OpenTelemetry cannot be used; the tree goes on without")
        return
    if telemetry is True and tracers is None and meters is None:
        logger.warning(
            "telemetry=True, but no OpenTelemetry provider is set, so nothing is traced or"
            " measured. Set one before the tree is served."
        )


def handling(ctx: Context) -> AbstractContextManager[object]:
    """`with handling(ctx):` round the work on a message makes the span that an `Actor`'s messages get by themselves.

    For workers that are functions and read `ctx.mailbox`. It is about the message taken last; while nobody traces it does nothing.
    """
    box = ctx.mailbox
    around = box.office.around
    if around is None or box.in_hand is NOTHING:
        return nullcontext()
    return around(box, box.in_hand)


def _real(provider: Any) -> Any:
    """`provider`, or None if it is one of the API's own that record nothing."""
    home = type(provider).__module__
    api = home.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
    return None if api else provider


def _tracers(*, load: bool) -> TracerProvider | None:
    if not load and "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    found: TracerProvider | None = _real(trace.get_tracer_provider())
    return found


def _meters(*, load: bool) -> MeterProvider | None:
    if not load and "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics

    found: MeterProvider | None = _real(metrics.get_meter_provider())
    return found
