"""The payments example, its parts: the file, the worker's handler, the provider's ledger, the proof."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest
import trio

from actors.jobs import JobWorker, MemoryEngine
from actors.resilience import PoisonMessage
from examples.payments.books import Books
from examples.payments.client import Busy, Declined
from examples.payments.ledger import Ledger
from examples.payments.orders import Line, read, write
from examples.payments.proof import Evidence, Order as Ordered, prove, read_file
from examples.payments.reconciler import Reconciling
from examples.payments.settings import Settings
from examples.payments.worker import FETCH, LIMITS, Charging, Order, dependency
from supervision import Supervisor, Worker, supervisor

GOOD = {"line": 2, "order": "o-1", "card": "tok_ok_1", "amount": "12.50", "currency": "EUR"}


# -- the file ------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_file(tmp_path):
    """Orders and their faults depend on nothing but the seed."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, orders=300, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")

    assert a == b
    assert a != c


def test_every_line_of_the_file_is_passed_on(tmp_path):
    """Also one that is cut off or no UTF-8; an order that is exported twice has one name."""
    write(tmp_path / "orders.csv", orders=2000, seed=7)
    lines = list(read(tmp_path / "orders.csv"))

    assert len({line.ref for line in lines}) == 2000 < len(lines)
    assert [line.number for line in lines] == list(range(2, len(lines) + 2))
    assert any("\\xe9" in line.variables.get("raw", "") for line in lines)


def test_worker_and_proof_understand_the_file_alike(tmp_path):
    """Two readers that share no code agree on what becomes of each of five thousand orders."""
    write(tmp_path / "orders.csv", orders=5000, seed=11)
    ordered, _ = read_file(tmp_path / "orders.csv")

    for line in read(tmp_path / "orders.csv"):
        try:
            order = Order.of(line.variables)
        except PoisonMessage:
            assert ordered[line.ref].fate == "malformed"
        else:
            held = order.amount > LIMITS[order.currency]
            assert (ordered[line.ref].fate == "held") == held
    assert {order.fate for order in ordered.values()} == {
        "charged",
        "declined",
        "held",
        "malformed",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"raw": "2026-1,2026"}, "line 2 is cut off, or no UTF-8: '2026-1,2026'"),
        ({"order": ""}, "line 2 has no order"),
        ({"card": ""}, "line 2 has no card"),
        ({"currency": "EURO"}, "line 2: no currency is called 'EURO'"),
        ({"amount": "12.5O"}, "line 2: '12.5O' is no amount in EUR"),
        ({"amount": "-12.50"}, "line 2: '-12.50' is no amount in EUR"),
        ({"amount": "0.00"}, "line 2: '0.00' is no amount in EUR"),
        ({"amount": "12.505"}, "line 2: '12.505' is no amount in EUR"),
        ({"amount": "٣.٣٣"}, "line 2: '٣.٣٣' is no amount in EUR"),
        ({"amount": "12.50", "currency": "JPY"}, "line 2: '12.50' is no amount in JPY"),
    ],
)
def test_what_cannot_be_understood_says_why(change, reason):
    """A poison message names the line and what is wrong with it."""
    with pytest.raises(PoisonMessage) as caught:
        Order.of({**GOOD, **change})

    assert str(caught.value) == reason


# -- the worker ----------------------------------------------------------------------------------


@attrs.define
class Bank:
    """A provider in memory, which does what it is told to and then answers well."""

    script: list[Exception] = attrs.field(factory=list)
    charged: dict[str, str] = attrs.field(factory=dict)
    calls: int = 0
    cut: bool = False

    async def charge(self, order, *, idempotency_key):
        self.calls += 1
        await trio.lowlevel.checkpoint()
        if self.script:
            raise self.script.pop(0)
        self.charged.setdefault(idempotency_key, f"ch_{len(self.charged)}")
        if self.cut:
            self.cut = False
            raise ConnectionError("the answer got lost")
        return self.charged[idempotency_key]

    async def statement(self, after):
        await trio.lowlevel.checkpoint()
        return [
            {"number": n, "id": c, "order": k.removeprefix("order "), "amount": 1250, "currency": "EUR"}
            for n, (k, c) in enumerate(self.charged.items(), 1)
            if n > after
        ]  # fmt: skip


async def work(bank: Bank, *lines: dict, seconds: float = 100.0):
    """Enqueue lines, let a worker see to them, and return the engine and the books."""
    engine = MemoryEngine("shop")
    books = Books(engine, "?")
    await books.open()
    found = [Line(line["line"], line["order"] or "line", line) for line in lines]
    await engine.run(books.place, found)
    charging = Charging(bank, dependency(Settings(folder="")), books)
    worker = JobWorker("charge", charging, engine=engine, fetch_variables=FETCH)
    tree = Supervisor("office", [Worker("charges", worker)])
    async with supervisor.running(tree, log=False):
        await trio.sleep(seconds)
    return engine, books


async def bookings(engine):
    rows = await engine.run(lambda db: db.execute("SELECT * FROM bookings").fetchall())
    return [tuple(row) for row in rows]


async def test_a_good_order_is_booked_with_its_job(autojump_clock):
    """The charge, the amount in cents and the end of the job are one; without scores it goes on without a score."""
    engine, _ = await work(Bank(), GOOD)

    assert (await engine.find("1")).state == "completed"
    assert await bookings(engine) == [("o-1", "ch_0", 1250, "EUR", None)]


async def test_a_lost_answer_is_charged_once(autojump_clock):
    """The second try comes with the same key, so the provider charges nothing and names the first charge."""
    bank = Bank(cut=True)
    engine, _ = await work(bank, GOOD)

    assert (bank.calls, bank.charged) == (2, {"order o-1": "ch_0"})
    assert await bookings(engine) == [("o-1", "ch_0", 1250, "EUR", None)]


async def test_a_declined_card_is_told_with_its_code(autojump_clock):
    """The job ends in a business error, without another try and without a booking."""
    bank = Bank([Declined("expired_card")])
    engine, _ = await work(bank, GOOD)
    job = await engine.find("1")

    assert (job.state, job.error_code, bank.calls) == ("errored", "expired_card", 1)
    assert await bookings(engine) == []


async def test_what_is_malformed_or_too_large_never_reaches_the_provider(autojump_clock):
    """One is set aside as poison, the other held for a person; both say why."""
    bank = Bank()
    large = {**GOOD, "line": 3, "order": "o-2", "amount": "5000.01"}
    engine, _ = await work(bank, {**GOOD, "amount": "12,50"}, large)
    (poison,) = await engine.poison()
    held = await engine.find("2")

    assert (poison.key, poison.reason) == ("1", "line 2: '12,50' is no amount in EUR")
    assert held.state == "incident"
    assert held.error == "order o-2 over 5000.01 EUR needs a person's approval"
    assert bank.calls == 0


async def test_a_provider_that_is_down_is_waited_for(autojump_clock):
    """While the breaker is open no jobs are taken; when it closes, every order is charged once."""
    lines = [{**GOOD, "line": n, "order": f"o-{n}"} for n in range(2, 42)]
    bank = Bank([Busy(503, 0.1) for _ in range(30)])
    engine, _ = await work(bank, *lines)

    assert len(bank.charged) == len(await bookings(engine)) == 40
    assert (await engine.statistics()).jobs == {"charge": {"completed": 40}}


async def test_orders_that_are_placed_again_are_found_to_be_there(autojump_clock):
    """A second intake enqueues nothing, whatever became of the orders."""
    engine, books = await work(
        Bank([Declined("expired_card")]), GOOD, {**GOOD, "line": 3, "order": "o-2"}
    )
    before = (await engine.statistics()).jobs

    assert await engine.run(books.place, [Line(2, "o-1", GOOD), Line(9, "o-2", GOOD)]) == 0
    assert (await engine.statistics()).jobs == before


async def test_the_statement_is_compared_with_the_books(autojump_clock):
    """A charge that is not booked stays open until it is; one that nobody ordered is an incident."""
    bank = Bank()
    _, books = await work(bank, GOOD)
    reconciling = Reconciling(bank, dependency(Settings(folder="")), books)
    await reconciling(None, None)
    assert (await books.numbers()).reconciled == 1

    bank.charged["order o-9"] = "ch_9"
    with pytest.raises(Exception, match="charges that nobody ordered: ch_9"):
        await reconciling(None, None)


# -- the provider --------------------------------------------------------------------------------


async def test_the_ledger_charges_once_for_a_key(tmp_path):
    """The same request gets the same answer again; the same key for something else is refused."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    order = {"order": "o-1", "card": "tok_ok_1", "amount": 1250, "currency": "EUR"}
    first = await ledger.charge("k", order)
    again = await ledger.charge("k", order)
    other = await ledger.charge("k", {**order, "amount": 1})

    assert (first.status, again.status, other.status) == (201, 201, 409)
    assert again.value == first.value
    assert again.headers == {"Idempotent-Replayed": "true"}
    assert len(await ledger.charges(0, 10)) == 1
    ledger.close()


async def test_the_ledger_does_not_know_orders(tmp_path):
    """Two keys for one order are two charges: what the proof is there to find."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    order = {"order": "o-1", "card": "tok_ok_1", "amount": 1250, "currency": "EUR"}
    for key in "ab":
        await ledger.charge(key, order)

    assert [line["order"] for line in await ledger.charges(0, 10)] == ["o-1", "o-1"]
    ledger.close()


# -- the proof -----------------------------------------------------------------------------------

EUR = ("EUR", Decimal("12.50"))
TOLD = Evidence(
    ordered={
        "a": Ordered("charged", EUR),
        "b": Ordered("declined", EUR, "expired_card"),
        "c": Ordered("malformed"),
        "d": Ordered("held"),
    },
    lines=5,
    charges=[("ch_a", "a", *EUR)],
    declined={"b": "expired_card"},
    repeated=1,
    bookings=[("ch_a", "a", *EUR)],
    ended={"b": ("errored", "expired_card"), "c": ("incident", "x"), "d": ("incident", "y")},
    poison={"c": "x"},
    reconciled={"ch_a"},
)


def test_the_proof_holds_when_three_places_agree():
    """Nothing is wrong and nothing is missing."""
    proof = prove(TOLD)

    assert (proof.holds, proof.wrong, proof.missing) == (True, {}, {})


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"charges": [("ch_a", "a", *EUR), ("ch_b", "a", *EUR)]}, "charged twice"),
        ({"bookings": [("ch_a", "a", *EUR)] * 2}, "booked twice"),
        (
            {"charges": [("ch_a", "a", *EUR), ("ch_c", "c", *EUR)]},
            "charged, although it should not be",
        ),
        ({"charges": [("ch_a", "a", "EUR", Decimal("12.51"))]}, "charged another amount"),
        ({"bookings": [("ch_x", "a", *EUR)]}, "booked, but never charged"),
        ({"bookings": [("ch_a", "a", "USD", Decimal("12.50"))]}, "booked another amount"),
        ({"declined": {"b": "stolen_card"}}, "declined by the provider for another reason"),
        (
            {"ended": {**TOLD.ended, "b": ("errored", "stolen_card")}},
            "ended with another code than the provider's",
        ),
        (
            {"ended": {**TOLD.ended, "b": ("incident", "z")}},
            "ended in another way than it should",
        ),
        ({"poison": {"c": ""}}, "set aside without a reason"),
    ],
)
def test_each_wrong_is_found(change, wrong):
    """Whatever must never be makes the proof unsound, and is named."""
    proof = prove(attrs.evolve(TOLD, **change))

    assert not proof.sound
    assert wrong in proof.wrong


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"charges": [], "bookings": []}, "not charged"),
        (
            {"bookings": [], "ended": {**TOLD.ended, "a": ("active", "")}},
            "charged, and not booked yet",
        ),
        (
            {"ended": {**TOLD.ended, "b": ("ready", "")}},
            "declined, and the process was not told",
        ),
        ({"ended": {**TOLD.ended, "c": ("ready", "")}, "poison": {}}, "malformed, and not set aside"),
        ({"ended": {**TOLD.ended, "d": ("ready", "")}}, "too large, and not held for a person"),
        ({"reconciled": set()}, "not found in the provider's statement"),
    ],
)  # fmt: skip
def test_what_is_to_come_is_no_wrong(change, missing):
    """A demonstration that was stopped half way is sound, and does not hold."""
    proof = prove(attrs.evolve(TOLD, **change))

    assert (proof.sound, proof.holds) == (True, False)
    assert missing in proof.missing
