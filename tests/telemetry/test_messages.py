"""Spans of messages: context travels with messages, not with tasks."""

from __future__ import annotations

import pytest
import trio
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode

from actors import Actor, HandlerFailed
from supervision import MailboxSpec, Supervisor, Worker, supervisor
from supervision.telemetry import handling
from tests.telemetry.kit import Echo, at_once, linked, traces


def running(lab, *workers, **options):
    """A tree of these workers, traced."""
    return supervisor.running(Supervisor("app", workers), telemetry=lab.both, log=False, **options)


@pytest.mark.parametrize("how", ["tell", "tell_nowait", "ask", "router"])
async def test_a_message_is_linked_to_its_sender(autojump_clock, lab, how):
    """However a message was sent, its handling is a new trace with a link to the span it was sent from."""
    async with running(lab, Worker("echo", Echo, replicas=2 if how == "router" else 1)) as pool:
        ref = pool.ref("echo")
        with lab.tracer.start_as_current_span("request"):
            if how == "tell":
                await ref.tell("x")
            elif how == "ask":
                assert await ref.ask("x") == "x"
            else:
                ref.tell_nowait("x")
        await trio.sleep(1)

    request, handled = lab.only("request"), lab.only("handle echo")
    assert handled.parent is None
    assert handled.context.trace_id != request.context.trace_id
    [link] = handled.links
    assert link.context == request.context
    assert handled.kind is (SpanKind.SERVER if how == "ask" else SpanKind.CONSUMER)
    assert handled.attributes["supervision.path"] == "app/echo/0"
    assert handled.attributes["supervision.run"] == 1
    assert handled.attributes["supervision.message"] == "str"


async def test_a_message_from_nowhere_has_no_link(autojump_clock, lab):
    """A message sent outside any span, and the tick of a timer, are traces of their own without a link."""

    class Clock(Actor):
        async def started(self, ctx):
            ctx.every(1, "tick")

        async def handle(self, message):
            pass

    async with running(lab, Worker("clock", Clock)) as pool:
        pool.ref("clock").tell_nowait("hello")
        await trio.sleep(2.5)

    spans = lab.spans("handle clock")
    assert [span.kind for span in spans] == [
        SpanKind.CONSUMER,
        SpanKind.INTERNAL,
        SpanKind.INTERNAL,
    ]
    assert [(span.parent, span.links) for span in spans] == [(None, ())] * 3
    assert len(set(traces(spans))) == 3


async def test_what_a_handler_does_is_in_the_message_trace(autojump_clock, lab):
    """Spans and tasks of a handler belong to the message's span; what it sends is linked to it."""

    class First(Actor):
        async def handle(self, message):
            with lab.tracer.start_as_current_span("step"):
                pass
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.part)
            self.ctx.find("second").tell_nowait(message)

        async def part(self):
            with lab.tracer.start_as_current_span("part"):
                await trio.sleep(0)

    async with running(lab, Worker("second", Echo), Worker("first", First)) as pool:
        pool.ref("first").tell_nowait("x")
        await trio.sleep(1)

    first, second = lab.only("handle first"), lab.only("handle second")
    for name in ("step", "part"):
        assert lab.only(name).parent.span_id == first.context.span_id
    assert [link.context for link in second.links] == [first.context]


async def test_nothing_leaks_to_the_next_message(autojump_clock, lab):
    """A handler that leaves a span attached, or baggage, does not lend them to the next message or to its run."""
    current = []

    class Careless(Actor):
        async def handle(self, message):
            current.append((trace.get_current_span().get_span_context().span_id, message))
            context.attach(trace.set_span_in_context(lab.tracer.start_span("left open")))
            context.attach(baggage.set_baggage("tenant", "somebody"))

        async def stopped(self, ctx):
            current.append((trace.get_current_span().get_span_context().span_id, "end"))
            assert baggage.get_all() == {}

    async with running(lab, Worker("careless", Careless)) as pool:
        for n in range(3):
            pool.ref("careless").tell_nowait(n)
        await trio.sleep(1)

    spans = lab.spans("handle careless")
    assert current == [(s.context.span_id, n) for n, s in enumerate(spans)] + [(0, "end")]
    assert [s.parent for s in spans] == [None] * 3


async def test_what_started_leaves_open_is_no_parent(autojump_clock, lab):
    """A span that `started` leaves current is not the parent of the messages."""

    class Careless(Actor):
        async def started(self, ctx):
            context.attach(trace.set_span_in_context(lab.tracer.start_span("left open")))

        async def handle(self, message):
            pass

    async with running(lab, Worker("careless", Careless)) as pool:
        pool.ref("careless").tell_nowait("x")
        await trio.sleep(1)

    assert lab.only("handle careless").parent is None


async def test_baggage_travels_with_the_message(autojump_clock, lab):
    """Baggage of the sender is there while its message is handled, and only then."""
    seen = []

    class Look(Actor):
        async def handle(self, message):
            seen.append(dict(baggage.get_all()))

    async with running(lab, Worker("look", Look)) as pool:
        ref = pool.ref("look")
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        ref.tell_nowait(1)
        context.detach(token)
        ref.tell_nowait(2)
        await trio.sleep(1)

    assert seen == [{"tenant": "acme"}, {}]
    assert [span.links for span in lab.spans("handle look")] == [(), ()]


async def test_a_failing_handler_marks_both_spans(autojump_clock, lab):
    """The error of a handler is on the message's span and on the run's."""
    async with running(lab, Worker("echo", Echo, restart=at_once())) as pool:
        with pytest.raises(HandlerFailed):
            await pool.ref("echo").ask("fail")

    for name in ("handle echo", "run echo"):
        span = lab.spans(name)[0]
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "ValueError"


async def test_a_cancelled_handler_is_no_error(autojump_clock, lab):
    """A message whose handler is cut off by the stop deadline has a span without error."""

    class Slow(Actor):
        async def handle(self, message):
            await trio.sleep_forever()

    async with running(lab, Worker("slow", Slow, shutdown=1)) as pool:
        pool.ref("slow").tell_nowait("x")
        await trio.sleep(1)

    assert lab.only("handle slow").status.status_code is StatusCode.UNSET


async def test_a_redelivered_message_keeps_its_link(autojump_clock, lab):
    """Each delivery of one message is a span with the same link, and says which delivery it is."""
    worker = Worker("echo", Echo, restart=at_once(), mailbox=MailboxSpec(redeliver=2))
    async with running(lab, worker) as pool:
        with lab.tracer.start_as_current_span("request"):
            pool.ref("echo").tell_nowait("fail")
        await trio.sleep(1)

    spans, request = lab.spans("handle echo"), lab.only("request")
    assert [linked(span) for span in spans] == [[request.context.trace_id]] * 3
    assert [span.attributes["supervision.deliveries"] for span in spans] == [0, 1, 2]
    assert [span.attributes["supervision.run"] for span in spans] == [1, 2, 3]


async def test_dead_letters_hold_the_bare_message(autojump_clock, lab):
    """What was sent is what the dead letters show and an error hands back, traced or not."""
    async with running(lab, Worker("echo", Echo, restart=at_once())) as pool:
        with lab.tracer.start_as_current_span("request"):
            pool.ref("echo").tell_nowait("fail")
        await trio.sleep(1)
        assert [letter.message for letter in pool.dead_letters] == ["fail"]


async def test_b134_a_lazily_started_worker_is_in_nobodys_trace(autojump_clock, lab):
    """B134, ogx-ai/ogx#5168: a worker started by a request does no work in that request's trace."""

    class Background(Actor):
        async def started(self, ctx):
            if ctx.run == 1:
                ctx.after(20 - trio.current_time(), "timer")

        async def handle(self, message):
            with lab.tracer.start_as_current_span(f"work on {message}"):
                await trio.sleep(0)

    async with supervisor.running(
        Supervisor("app"), telemetry=lab.both, log=False, signals=False
    ) as pool:
        with lab.tracer.start_as_current_span("A"):
            ref = await pool.start_child("app", Worker("background", Background))
        await trio.sleep_until(10)
        with lab.tracer.start_as_current_span("B"):
            await ref.tell("B's")
        await trio.sleep_until(25)
        await pool.restart("background")
        await trio.sleep_until(30)
        with lab.tracer.start_as_current_span("C"):
            await ref.tell("C's")
        await trio.sleep(1)

    a, b, c = (lab.only(name).context.trace_id for name in "ABC")
    from_b, from_timer, from_c = lab.spans("handle background")
    assert [linked(span) for span in (from_b, from_timer, from_c)] == [[b], [], [c]]
    assert [span.parent for span in (from_b, from_timer, from_c)] == [None] * 3
    work = [lab.only(f"work on {whose}") for whose in ("B's", "timer", "C's")]
    assert traces(work) == traces([from_b, from_timer, from_c])
    assert [span.name for span in lab.spans() if span.context.trace_id == a] == ["A"]


async def test_a_function_has_spans_where_it_says_so(autojump_clock, lab):
    """A worker that reads its mailbox itself gets the same span, with the link, round the block it marks."""

    async def reads(ctx):
        async for message in ctx.mailbox:
            with handling(ctx), lab.tracer.start_as_current_span(f"work on {message}"):
                await trio.sleep(0)

    async with running(lab, Worker("reads", reads)) as pool:
        with lab.tracer.start_as_current_span("request"):
            pool.ref("reads").tell_nowait("one")
        pool.ref("reads").tell_nowait("two")
        await trio.sleep(1)

    one, two = lab.spans("handle reads")
    assert linked(one) == [lab.only("request").context.trace_id]
    assert linked(two) == []
    for name, span in (("one", one), ("two", two)):
        assert span.parent is None
        assert lab.only(f"work on {name}").parent.span_id == span.context.span_id


async def test_handling_is_nothing_while_nobody_traces(autojump_clock):
    """The same code runs untraced, and outside any message."""
    got = []

    async def reads(ctx):
        with handling(ctx):
            pass
        async for message in ctx.mailbox:
            with handling(ctx):
                got.append(message)

    tree = Supervisor("app", [Worker("reads", reads)])
    async with supervisor.running(tree, telemetry=False, log=False) as pool:
        pool.ref("reads").tell_nowait("one")
        await trio.sleep(1)
    assert got == ["one"]


async def test_the_tree_may_be_started_inside_a_request(autojump_clock, lab):
    """A whole tree started inside a span, its timers and its listeners included, is not in that trace."""
    valid = []

    def listen(event):
        valid.append(trace.get_current_span().get_span_context().is_valid)

    class Clock(Actor):
        async def started(self, ctx):
            ctx.after(1, "tick")

        async def handle(self, message):
            pass

    with lab.tracer.start_as_current_span("request"):
        async with running(lab, Worker("clock", Clock), listeners=[listen]):
            await trio.sleep(2)

    request = lab.only("request").context.trace_id
    assert [s.name for s in lab.spans() if s.context.trace_id == request] == ["request"]
    assert valid
    assert not any(valid)
