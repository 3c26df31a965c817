"""Specs and flags: cases 34 to 39."""

from __future__ import annotations

from itertools import product

import pytest
import trio

from supervision import AutoShutdown, RestartPolicy, SpecError, Strategy, Supervisor, Worker
from tests.otp.kit import TYPES, Stage, active, group, running


async def idle(ctx):
    await trio.sleep_forever()


FAULTY = {
    "run": (lambda: Worker("a", 42), "run must be callable"),
    "coroutine": (lambda: Worker("a", idle(None)), "run is a coroutine"),
    "restart": (lambda: RestartPolicy(type="prmanent"), "Did you mean 'permanent'"),
    "policy": (lambda: Worker("a", idle, restart="permanent"), "restart is a RestartPolicy"),
    "timeout": (lambda: Worker("a", idle, shutdown=-1), "shutdown must be a number of seconds"),
    "name": (lambda: Worker("a/b", idle), "ambiguous in a path"),
    "replicas": (lambda: Worker("a", idle, replicas=-1), "replicas must be a whole number"),
}


@pytest.mark.parametrize(("make", "words"), FAULTY.values(), ids=FAULTY)
def test_child_specs(make, words):
    """Each field that is wrong has its own error, where the spec is written and nowhere later."""
    with pytest.raises(ValueError, match=words):
        make()


def test_child_specs_check():
    """Every combination of legal values makes a child; children come as a list."""
    for kind, shutdown, significant in product(TYPES, (0, 15, float("inf")), (False, True)):
        if significant and kind == "permanent":
            continue
        worker = Worker(
            "a",
            idle,
            restart=RestartPolicy(type=kind),
            shutdown=shutdown,
            significant=significant,
        )
        tree = Supervisor("top", [worker], auto_shutdown="any_significant")
        assert tree.children == (worker,)

    with pytest.raises(SpecError, match="are a list of"):
        Supervisor("top", Worker("a", idle))


def test_child_specs_duplicate():
    """Two children of one name in one list are refused."""
    with pytest.raises(SpecError, match="two children have the name 'a'"):
        Supervisor("top", [Worker("a", idle), Supervisor("a")])


async def test_child_specs_simple(autojump_clock):
    """A dynamic supervisor has no template: it takes different children side by side, and checks each one."""
    stage = Stage()
    async with running(Supervisor("top")) as pool:
        await pool.start_child("top", stage.worker("a", "temporary"))
        await pool.start_child("top", stage.worker("b", "permanent"))
        await pool.start_child("top", group(stage.worker("c"), name="sub"))
        with pytest.raises(SpecError, match="a child is a Worker or a Supervisor"):
            await pool.start_child("top", idle)

        assert active(pool) == (3, 3)


def test_child_specs_map():
    """Significant is refused of what never ends for good, where it has no effect, and if it is no boolean."""
    for mode, kind, significant in product(AutoShutdown, TYPES, (False, True, "yes")):
        legal = significant is False or (
            significant is True
            and kind != "permanent"
            and mode in (AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT)
        )

        def make(mode=mode, kind=kind, significant=significant):
            policy = RestartPolicy(type=kind)
            child = Worker("a", idle, restart=policy, significant=significant)
            return Supervisor("top", [child], auto_shutdown=mode)

        if legal:
            assert make().children[0].significant is significant
        else:
            with pytest.raises(ValueError, match="significant"):
                make()

    with pytest.raises(SpecError, match="permanent supervisor never ends"):
        Supervisor("sub", restart=RestartPolicy(type="permanent"), significant=True)


FLAGS = {
    "strategy": ({"strategy": "one_for_none"}, "strategy"),
    "intensity": ({"intensity": float("inf")}, "intensity"),
    "negative": ({"intensity": -1}, "intensity"),
    "period 0": ({"period": 0}, "period"),
    "endless period": ({"period": float("inf")}, "period"),
    "auto shutdown": ({"auto_shutdown": "sometimes"}, "auto_shutdown"),
    "unknown": ({"strategi": "one_for_one"}, "Did you mean 'strategy'"),
    "misplaced": ({"max_restarts": 3}, r"RestartPolicy\(max_restarts"),
}


@pytest.mark.parametrize(("flags", "words"), FLAGS.values(), ids=FLAGS)
def test_sup_flags(flags, words):
    """Each flag that is wrong has its own error, an unknown one too."""
    with pytest.raises((ValueError, TypeError), match=words):
        Supervisor("top", [Worker("a", idle)], **flags)


@pytest.mark.parametrize("strategy", Strategy)
def test_sup_flags_legal(strategy):
    """Every strategy goes with every limit, a limit of no restart included."""
    for intensity, period in product((None, 0, 10), (0.5, 3600)):
        tree = Supervisor("top", strategy=strategy, intensity=intensity, period=period)
        assert (tree.strategy, tree.intensity, tree.period) == (strategy, intensity, period)
