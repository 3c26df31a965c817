"""The outbox example, its parts: what is made from a seed, the wire, the stores, the proof."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from examples.outbox import http
from examples.outbox.chaos import Chaos, Fault, Stumbled
from examples.outbox.orders import Order, make_order
from examples.outbox.proof import prove
from examples.outbox.receiver import Receiver
from examples.outbox.store import Ledger, Outbox, Sent
from supervision import RestartPolicy, Supervisor, WatchdogExpired, Worker, supervisor


class HangOnce(Chaos):
    """One fault, the worst, and then none."""

    hung = False

    def fault(self) -> Fault | None:
        fault, self.hung = (None if self.hung else Fault.HANG), True
        return fault


GOOD = [Sent(1, 500, 1, True), Sent(2, 700, 3, True)]


def test_a_series_of_orders_is_the_same_from_any_point_on():
    """Order 17 does not depend on whether the 16 before were made by the same run."""
    assert make_order(3, 17) == [make_order(3, n) for n in range(20)][17]
    assert make_order(3, 17) != make_order(4, 17)


def test_the_same_seed_gives_the_same_faults():
    """Two schedules of one seed agree, and each kind of fault comes once in every four."""
    first, second = (
        [chaos.fault() for _ in range(400)] for chaos in (Chaos(5, every=9), Chaos(5, every=9))
    )
    faults = [fault for fault in first if fault is not None]

    assert first == second
    assert set(faults[:4]) == set(faults[4:8]) == set(Fault)


def test_without_chaos_nothing_fails():
    """`every=0` never deals a fault and never stumbles."""
    chaos = Chaos(5, every=0)
    for _ in range(500):
        chaos.stumble("audit")

    assert [chaos.fault() for _ in range(500)] == [None] * 500
    assert not chaos.dealt


def test_stumbles_are_counted():
    """Every made-up bug that was raised is in `dealt`."""
    chaos = Chaos(5, every=3)
    raised = 0
    for _ in range(300):
        try:
            chaos.stumble("audit")
        except Stumbled:
            raised += 1

    assert raised > 5
    assert chaos.dealt == {"audit stumbles": raised}


async def test_a_claim_has_one_owner(tmp_path):
    """An order that one relay has claimed goes to no other until it is released."""
    outbox = Outbox(tmp_path / "outbox.sqlite")
    order = Order(1, "Ines Costa", "grinder", 1, 8900)
    await outbox.add(order)

    assert await outbox.claim("relay/0") == order
    assert await outbox.claim("relay/1") is None
    await outbox.release("relay/0")
    assert await outbox.claim("relay/1") == order
    await outbox.mark_sent(1)
    await outbox.release("relay/1")
    assert await outbox.claim("relay/0") is None
    assert await outbox.all() == [Sent(1, 8900, 2, True)]
    outbox.close()


async def test_the_ledger_books_an_order_once(tmp_path):
    """However often an order is delivered, each is counted and the first is booked."""
    ledger = Ledger(tmp_path / "ledger.sqlite")

    assert [await ledger.record(4, 100) for _ in range(3)] == [1, 2, 3]
    assert await ledger.booked(4) == [100]
    assert await ledger.all() == ({4: 3}, [(4, 100)])
    ledger.close()


async def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    """The second order of the same number is refused, and the outbox goes on."""
    outbox = Outbox(tmp_path / "outbox.sqlite")
    order = Order(1, "Ines Costa", "grinder", 1, 8900)
    await outbox.add(order)
    with pytest.raises(Exception, match="UNIQUE"):
        await outbox.add(order)

    assert await outbox.last_number() == 1
    outbox.close()


async def test_the_wire_carries_a_request_and_its_answer():
    """A body of several packets comes back whole, with status and headers; a dead port is refused."""
    body = b"x" * 40_000

    async def echo(request: http.Request) -> http.Response:
        return http.Response(503, request.body, {"Retry-After": "0.4"})

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.serve, echo, listeners)
        answer = await http.post(port, "/orders", body)
        nursery.cancel_scope.cancel()

    assert (answer.status, answer.body) == (503, body)
    assert answer.headers["retry-after"] == "0.4"
    with pytest.raises(ConnectionRefusedError):
        await http.post(port, "/orders", body)


async def test_the_receiver_refuses_nonsense_and_lives(tmp_path):
    """A body that is no order is answered 400 and costs no restart."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    receiver = Receiver(ledger, Chaos(1, every=0), heartbeat=1, latency=0)
    tree = Supervisor("t", [Worker("receiver", receiver.run, ready="signal")])
    async with supervisor.running(tree, log=False) as pool:
        answers = [
            await http.post(receiver.port, "/orders", body)
            for body in (b"nonsense", b"[]", b'{"number": 1}', b'{"number": 1, "cents": 2}')
        ]
        assert pool.info("receiver").restarts == 0
    ledger.close()

    assert [answer.status for answer in answers] == [400, 400, 400, 200]


async def test_a_receiver_that_hangs_is_found_by_its_watchdog(tmp_path):
    """An order that is never answered ends in a restart, and is booked once all the same."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    receiver = Receiver(ledger, HangOnce(1, every=0), heartbeat=0.02, latency=0)
    worker = Worker(
        "receiver",
        receiver.run,
        ready="signal",
        watchdog=0.2,
        restart=RestartPolicy(initial_backoff=0),
    )
    body = b'{"number": 9, "cents": 900}'
    with trio.fail_after(20):
        async with supervisor.running(Supervisor("t", [worker]), log=False) as pool:
            events = pool.events()
            with pytest.raises((ConnectionError, trio.BrokenResourceError)):
                await http.post(receiver.port, "/orders", body)
            async for event in events:
                if event.kind == "Ready" and event.run == 2:
                    break
            answer = await http.post(receiver.port, "/orders", body)
            error = pool.info("receiver").error
    assert answer.status == 200
    assert isinstance(error, WatchdogExpired)
    assert await ledger.all() == ({9: 2}, [(9, 900)])
    ledger.close()


def test_a_good_end_is_proved():
    """All stored, sent, received once booked and audited: the proof holds, and counts how often."""
    proof = prove(2, GOOD, {1: 1, 2: 2}, [(1, 500), (2, 700)], [1, 2])

    assert proof.holds
    assert proof.sound
    assert proof.attempts == Counter({1: 1, 3: 1})
    assert proof.deliveries == Counter({1: 1, 2: 1})


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        ("lost", {"deliveries": {1: 1}, "bookings": [(1, 500)]}),
        ("twice", {"bookings": [(1, 500), (2, 700), (2, 700)]}),
        ("wrong", {"bookings": [(1, 500), (2, 701)]}),
        ("unknown", {"deliveries": {1: 1, 2: 1, 3: 1}}),
    ],
)
def test_a_fault_is_found(found, changes):
    """Each thing that must never be makes the proof unsound and is named."""
    facts = {"deliveries": {1: 1, 2: 1}, "bookings": [(1, 500), (2, 700)], **changes}
    proof = prove(2, GOOD, facts["deliveries"], facts["bookings"], [1, 2])

    assert not proof.sound
    assert not proof.holds
    assert getattr(proof, found) == ((3,) if found == "unknown" else (2,))


def test_half_way_the_proof_is_sound_and_does_not_hold():
    """An order that has not arrived yet is missing, not lost; one that is not audited is named."""
    waiting = [*GOOD, Sent(3, 100, 1, False)]
    proof = prove(5, waiting, {1: 1, 2: 1}, [(1, 500), (2, 700)], [1])

    assert proof.sound
    assert not proof.holds
    assert (proof.missing, proof.lost, proof.unaudited) == ((3,), (), (2,))
