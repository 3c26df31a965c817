"""Much of something: large messages, large groups, many children. What is not asked for costs nothing."""

from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorRef, ActorStopped, MailboxFull, MailboxSpec, NoSuchActor, Registry
from actors.mailbox import Mailbox
from actors.office import Office
from supervision import Supervisor, Worker
from tests.adversity.helpers import idle, running


class Large:
    """A message that is dear to show."""

    shown = 0

    def __repr__(self) -> str:
        Large.shown += 1
        return "<Large>"


class Slow(Actor):
    async def handle(self, message):
        await trio.sleep_forever()


async def test_a_refused_message_is_shown_to_who_reads_the_refusal(autojump_clock) -> None:
    """A full mailbox, a stop with a full mailbox, and a send to a stopped actor make no text of messages; a reader gets it."""
    Large.shown = 0
    refused = []
    box = MailboxSpec(capacity=3, overflow="reject")
    async with running(Supervisor("t", [Worker("w", Slow, mailbox=box, shutdown=0)])) as pool:
        ref = pool.ref("w")
        ref.tell_nowait(Large())
        await trio.sleep(1)
        for _ in range(3):
            ref.tell_nowait(Large())
        for _ in range(100):
            with pytest.raises(MailboxFull) as caught:
                ref.tell_nowait(Large())
            refused.append(caught.value)
    with pytest.raises(ActorStopped) as caught_late:
        ref.tell_nowait(Large())

    assert len(pool.dead_letters) == 4
    assert Large.shown == 0
    assert "so <Large> was not queued" in str(refused[0])
    assert repr(refused[0]) == f"MailboxFull({str(refused[0])!r})"
    assert "so <Large> was not delivered" in str(caught_late.value)


def test_a_member_of_a_large_group_leaves_without_looking_at_the_others() -> None:
    """Leaving and ending compare no members, so that a group of thousands ends in the time of thousands."""

    class Counting(ActorRef):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counting.compared += self is not other
            return super().__eq__(other)

        __hash__ = ActorRef.__hash__

    registry, office = Registry(), Office()
    members = [Counting(Mailbox(f"t/w/{n}", MailboxSpec(), office)) for n in range(300)]
    for member in members:
        registry.join("g", member)
        registry.join("g", member)
    Counting.compared = 0
    for member in reversed(members):
        assert registry.leave("g", member)
        registry.release(member)

    assert Counting.compared < 300
    assert registry.members("g") == ()
    assert not registry


def test_a_group_keeps_the_order_of_joining() -> None:
    """Each join needs its own leave, which undoes the earliest."""
    registry, office = Registry(), Office()
    a, b = (ActorRef(Mailbox(f"t/{name}/0", MailboxSpec(), office)) for name in "ab")
    for member in (a, b, a):
        registry.join("g", member)

    assert registry.members("g") == (a, b, a)
    assert registry.leave("g", a)
    assert registry.members("g") == (b, a)
    assert registry.leave("g", a)
    assert not registry.leave("g", a)
    assert registry.statistics().memberships == 1


async def test_children_that_come_and_go_are_found_by_name(autojump_clock) -> None:
    """A bare name means what is there now: added, below an added supervisor, ambiguous, forgotten, added again."""
    tree = Supervisor("t", [Supervisor("pool"), Worker("w", idle)])
    async with running(tree) as pool:
        assert pool.info("w").path == "t/w/0"
        await pool.start_child("pool", Worker("one", idle))
        assert pool.info("one").path == "t/pool/one/0"
        await pool.start_child("pool", Supervisor("more", [Worker("w", idle), Worker("two", idle)]))
        assert pool.info("two").path == "t/pool/more/two/0"
        with pytest.raises(NoSuchActor, match=r"ambiguous.*t/w, t/pool/more/w"):
            pool.info("w")
        await pool.stop("one")
        with pytest.raises(NoSuchActor):
            pool.info("one")
        await pool.stop("more")
        assert pool.info("w").path == "t/w/0"
        await pool.start_child("pool", Worker("one", idle, replicas=2))
        await pool.scale("one", 1)
        assert pool.info("one").path == "t/pool/one/0"
        await pool.scale("one", 0)
        await pool.remove("one")
        with pytest.raises(NoSuchActor):
            pool.info("one")


async def test_a_slip_is_compared_with_a_bounded_number_of_names(autojump_clock) -> None:
    """With few children the error names the nearest; with thousands a miss stays cheap and only says that there is none."""
    tree = Supervisor("t", [Supervisor("pool")])
    async with running(tree) as pool:
        await pool.start_child("pool", Worker("orders", idle))
        with pytest.raises(NoSuchActor, match="Did you mean orders"):
            pool.ref("order")
        with pytest.raises(NoSuchActor, match="Did you mean t/pool/orders"):
            pool.ref("t/pool/order")
        for number in range(600):
            await pool.start_child("t/pool", Worker(f"session-{number}", idle))
        with pytest.raises(NoSuchActor) as caught:
            pool.ref("session-x")

    assert caught.value.candidates == ()
