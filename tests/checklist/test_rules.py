"""Every rule has a tree that trips it and one that does not."""

from __future__ import annotations

from math import inf

import pytest

from actors import MailboxSpec
from supervision import RestartPolicy, Strategy, Supervisor, Worker
from supervision.checklist import RULES, examine
from tests.checklist import downstreams as to, kit
from tests.checklist.kit import codes, one, some


def many(number: int, **options) -> list[Worker]:
    return [Worker(f"w{n}", kit.idle, **options) for n in range(number)]


def deep(levels: int, **options) -> Supervisor:
    """A worker below so many supervisors."""
    tree = Supervisor("s0", [Worker("work", kit.idle)], **options)
    for n in range(1, levels):
        tree = Supervisor(f"s{n}", [tree], **options)
    return tree


TRIPS = {
    "TW101": [one(kit.idle, restart=kit.ENDLESS), some(Supervisor("s", many(1), restart=kit.ENDLESS))],
    "TW102": [
        some(*many(20), intensity=10),
        some(*many(1, replicas=20), intensity=10),
        some(*many(1, restart=kit.AT_ONCE), intensity=3),
        some(*many(2, restart=kit.ENDLESS), intensity=100),
        some(*many(3, restart=kit.AT_ONCE), intensity=3, strategy=Strategy.ONE_FOR_ALL),
    ],
    "TW103": [some(deep(2))],
    "TW104": [some(Supervisor("s", many(1, restart=kit.SLOW)))],
    "TW105": [one(kit.Till, mailbox=MailboxSpec(redeliver=5))],
    "TW106": [some(Supervisor("guests"))],
    "TW107": [one(kit.idle, ready="signal")],
    "TW201": [one(kit.idle, shutdown=16), one(kit.idle, shutdown=inf)],
    "TW202": [some(Worker("a", kit.idle, shutdown=9), Worker("b", kit.idle, shutdown=8))],
    "TW203": [one(kit.calling(to.slow))],
    "TW301": [
        one(kit.calling(to.timeless)),
        one(kit.names_it),
        one(kit.Till),
        one(kit.Clerk(to.timeless)),
        one(kit.calls_decorated),
        one(kit.PARTIAL),
        one(lambda: kit.Till()),
        one(kit.jobs(requires=[to.timeless])),
    ],
    "TW302": [one(kit.without_key), one(kit.pays_without_key), one(kit.refused)],
    "TW303": [one(kit.calling(to.stubborn))],
    "TW304": [one(kit.calling(to.waiting))],
    "TW305": [one(kit.calling(to.blind))],
    "TW401": [
        one(kit.jobs(timeout=0.5, claim_timeout=0.1)),
        one(kit.jobs(timeout=7200)),
        one(kit.jobs(timeout=4)),
        one(kit.slow_handler),
    ],
    "TW402": [one(kit.jobs(fetch_variables=None))],
    "TW403": [one(kit.jobs(concurrency=4, max_jobs_activated=8))],
    "TW404": [one(kit.jobs(grace=15)), one(kit.jobs(), shutdown=4)],
    "TW501": [one(kit.idle, mailbox=MailboxSpec(capacity=inf))],
    "TW601": [one(kit.sleeps), one(kit.sleeps_inside), one(kit.by_helper), one(kit.Sleepy), one(kit.Saving)],
}  # fmt: skip

PASSES = {
    "TW101": [
        one(kit.idle, restart=RestartPolicy(max_restarts=0)),
        one(kit.idle, restart=kit.AT_ONCE),
        one(kit.idle, restart=RestartPolicy(type="temporary", max_restarts=0, initial_backoff=0)),
    ],
    "TW102": [
        some(*many(3), intensity=9),
        some(*many(3), intensity=3, strategy=Strategy.ONE_FOR_ALL),
        some(*many(50)),
        some(intensity=1),
    ],
    "TW103": [some(deep(1)), some(deep(2, restart=kit.ONCE)), deep(1)],
    "TW104": [
        some(Supervisor("s", many(1))),
        some(Supervisor("s", many(1, restart=kit.SLOW), restart=RestartPolicy(reset_after=600))),
    ],
    "TW105": [one(kit.Till, mailbox=MailboxSpec(redeliver=4))],
    "TW106": [some(Supervisor("guests", max_children=9))],
    "TW107": [one(kit.idle, ready="signal", start_timeout=9)],
    "TW201": [one(kit.idle, shutdown=15), one(kit.idle, shutdown=9)],
    "TW202": [some(Worker("a", kit.idle, shutdown=7), Worker("b", kit.idle, shutdown=8)), some(*many(9))],
    "TW203": [one(kit.calling(to.bounded))],
    "TW301": [one(kit.calling(to.bounded)), one(kit.calling(to.bounded_in_all))],
    "TW302": [one(kit.with_key), one(kit.pays_with_key), one(kit.only_reads)],
    "TW303": [one(kit.calling(to.steady))],
    "TW304": [one(kit.calling(to.steady))],
    "TW305": [one(kit.calling(to.seeing))],
    "TW401": [one(kit.jobs()), one(kit.quick_handler)],
    "TW402": [one(kit.jobs())],
    "TW403": [one(kit.jobs(concurrency=4, max_jobs_activated=6))],
    "TW404": [one(kit.jobs(grace=14)), one(kit.jobs(), shutdown=5)],
    "TW501": [one(kit.idle)],
    "TW601": [one(kit.in_a_thread), one(kit.idle), one(kit.SavingElsewhere)],
}  # fmt: skip


@pytest.mark.parametrize(("code", "tree"), [(c, t) for c, trees in TRIPS.items() for t in trees])
def test_a_mistake_is_found(code: str, tree: Supervisor) -> None:
    """Each rule finds what it is for, and says the place, what is wrong and the way out."""
    found = [finding for finding in examine(tree).findings if finding.code == code]

    assert found
    for finding in found:
        assert finding.path.startswith(tree.name)
        assert finding.text
        assert finding.way_out
        assert str(finding).startswith(f"{code} {finding.severity} {finding.path}")


@pytest.mark.parametrize(("code", "tree"), [(c, t) for c, trees in PASSES.items() for t in trees])
def test_what_is_in_order_passes(code: str, tree: Supervisor) -> None:
    """No rule complains about the nearest thing that is right."""
    assert code not in codes(tree)


def test_every_rule_is_tried_both_ways() -> None:
    """No rule is without a tree that trips it and one that does not."""
    table = [rule.code for rule in RULES]

    assert list(TRIPS) == list(PASSES) == table
    assert len(set(table)) == len(table)


def test_every_rule_says_why() -> None:
    """The function of each rule says in its docstring why it matters: the docs show it."""
    assert [rule.code for rule in RULES if not rule.check.__doc__] == []


def test_a_tree_of_defaults_is_clean() -> None:
    """Nothing is found in a tree that only uses defaults."""
    assert codes(some(*many(5), Supervisor("group", many(2)))) == []


def test_the_stop_timeout_counts() -> None:
    """What fits into the stop timeout depends on the stop timeout."""
    tree = one(kit.idle, shutdown=30)

    assert codes(tree) == ["TW201"]
    assert codes(tree, stop_timeout=31) == []
    assert codes(tree, stop_timeout=inf) == []
