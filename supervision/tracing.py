"""Spans: one for each run, one for each message that is handled.

Floor: above tree. Theory: context travels with messages, not with tasks. A worker lives long, so whatever it does is a trace of
its own: a run's span and a message's span are roots, and a message's span has a *link* to the span it was sent from. The run's
span is not made current: all that a worker does in months would be one trace. A message's span is current while it is handled.

Spans are opened and closed in the task that owns them. Whatever the tracing library raises is logged once and kept away from
the tree; no span is worth a failed run.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import trio
from opentelemetry import baggage
from opentelemetry.context import Context as TraceContext, attach, detach, get_current
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)

from actors.context import Context
from actors.letters import Letter, Tick
from actors.mailbox import Mailbox
from actors.ref import Ask
from supervision.child import Replica
from supervision.tree import Tree

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["Tracing", "leave_trace"]

logger: Final = logging.getLogger("supervision")


def leave_trace(tree: Tree) -> None:
    """Take the trace of whoever starts `tree` out of the context that its runs and listeners begin with."""
    tree.base.run(attach, TraceContext())


@attrs.frozen
class _Sender:
    """What a message carries of the place it was sent from."""

    span: SpanContext | None
    baggage: dict[str, object]


class Tracing:
    """Makes the spans of one tree.

    Args:
        tree: whose.
        provider: where tracers come from; one that really records.
    """

    def __init__(self, tree: Tree, provider: TracerProvider) -> None:
        self.tracer: Tracer = provider.get_tracer("supervision")
        self._told = False
        tree.around_run = self._around_run
        tree.office.capture = self._capture
        tree.office.around = self._around_message

    def failed(self, error: Exception) -> None:
        """Log the first error of the tracing library, drop the rest."""
        if not self._told:
            self._told = True
            with suppress(Exception):  # logging may fail as well
                logger.error(
                    "tracing failed; the tree goes on, this is logged once", exc_info=error
                )

    def _around_run(self, ctx: Context) -> _RunSpan:
        return _RunSpan(self, ctx)

    def _around_message(self, box: Mailbox, item: object) -> _MessageSpan:
        return _MessageSpan(self, box, item)

    def _capture(self) -> _Sender | None:
        try:
            here = get_current()
            if not here:
                return None
            span = get_current_span(here).get_span_context()
            carried = baggage.get_all(here)
            if span.is_valid or carried:
                return _Sender(span if span.is_valid else None, dict(carried))
        except Exception as error:
            self.failed(error)
        return None


class _RunSpan:
    """The span of one run; a context manager."""

    __slots__ = ("_ctx", "_span", "_tracing")

    def __init__(self, tracing: Tracing, ctx: Context) -> None:
        self._tracing = tracing
        self._ctx = ctx
        self._span: Span | None = None

    def __enter__(self) -> None:
        ctx = self._ctx
        try:
            self._span = self._tracing.tracer.start_span(
                f"run {ctx.name}", context=TraceContext(), attributes=_whose(ctx)
            )
        except Exception as error:
            self._tracing.failed(error)

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        replica = self._ctx.host
        assert isinstance(replica, Replica)
        how, failure = _verdict(replica, exc)
        try:
            if self._span is not None:
                self._span.set_attribute("supervision.ended", how)
                _finish(self._span, failure)
        except Exception as error:
            self._tracing.failed(error)


class _MessageSpan:
    """The span of one message, current while it is handled; a context manager."""

    __slots__ = ("_box", "_item", "_span", "_token", "_tracing")

    def __init__(self, tracing: Tracing, box: Mailbox, item: object) -> None:
        self._tracing = tracing
        self._box = box
        self._item = item
        self._span: Span | None = None
        self._token: Token[Any] | None = None

    def __enter__(self) -> None:
        try:
            self._begin(self._item, self._box.run)
        except Exception as error:
            self._tracing.failed(error)

    def _begin(self, item: object, ctx: object) -> None:
        assert isinstance(ctx, Context)
        letter = item if isinstance(item, Letter) else Letter(item)
        here = TraceContext()
        links: list[Link] = []
        sender = letter.context
        if isinstance(sender, _Sender):
            for key, value in sender.baggage.items():
                here = baggage.set_baggage(key, value, here)
            if sender.span is not None:
                links.append(Link(sender.span))
        attributes = _whose(ctx)
        attributes["supervision.message"] = type(letter.message).__qualname__
        attributes["supervision.deliveries"] = letter.deliveries
        span = self._span = self._tracing.tracer.start_span(
            f"handle {ctx.name}",
            context=here,
            kind=_kind(item),
            attributes=attributes,
            links=links,
        )
        self._token = attach(set_span_in_context(span, here))

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._token is not None:
            detach(self._token)
        try:
            if self._span is not None:
                _finish(self._span, _bare(exc))
        except Exception as error:
            self._tracing.failed(error)


def _kind(item: object) -> SpanKind:
    if isinstance(item, Ask):
        return SpanKind.SERVER
    return SpanKind.INTERNAL if isinstance(item, Tick) else SpanKind.CONSUMER


def _whose(ctx: Context) -> dict[str, str | int]:
    return {
        "supervision.path": ctx.path,
        "supervision.worker": ctx.name,
        "supervision.replica": ctx.replica,
        "supervision.run": ctx.run,
    }


def _verdict(replica: Replica, error: BaseException | None) -> tuple[str, BaseException | None]:
    """How the run ended and with what failure, as its supervisor will see it."""
    error = _bare(error)
    if error is not None and not isinstance(error, Exception):
        return "failed", error
    if replica.cause is not None:
        return "stopped", None
    if replica._killed_by is not None:
        return "failed", replica._killed_by
    return ("returned", None) if error is None else ("failed", error)


def _bare(error: BaseException | None) -> BaseException | None:
    """`error` without cancellations and without groups of one."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    inner = [rest for rest in map(_bare, group.exceptions) if rest is not None]
    return inner[0] if len(inner) == 1 else group if inner else None


def _finish(span: Span, error: BaseException | None) -> None:
    """End the span, with an error if there is one. It ends even if the error cannot be told."""
    try:
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    finally:
        span.end()
