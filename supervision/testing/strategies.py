"""Strategies: schedules, lives, plans, commands, durations and whole trees for Hypothesis to draw.

Theory. A limit is crossed only by several failures in a row, and an edge only by an exact time. So lives come in runs of the same
fate, and durations are first those that the declaration speaks of, and their edges; after those, eighths of a second, which
binary fractions hold exactly (fifty times 0.1 is not 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from supervision.restart import RestartPolicy, RestartType
from supervision.specs import OnFailed, Spec, Strategy, Supervisor, Worker
from supervision.testing.commands import Command, Verb
from supervision.testing.faulty import idle
from supervision.testing.life import Kind, Life, Plan
from supervision.testing.schedule import Drawn, Pct

__all__ = ["commands", "durations", "lives", "plans", "schedules", "trees"]

STEP: Final = 0.125
"""Seconds of the grid."""
_LONGEST: Final = 64.0
"""Seconds above which a constant of a declaration is not waited for."""
_TIMELESS: Final = (Kind.RUNS,)


@cache
def _below(n: int) -> SearchStrategy[int]:
    return st.integers(0, n - 1)


@st.composite
def schedules(
    draw: DrawFn,
    *,
    kind: Literal["uniform", "pct"] = "uniform",
    depth: int = 3,
    steps: int = 60,
) -> Drawn:
    """Orders of ready tasks, drawn while the run goes on; the simplest is first in, first out.

    Args:
        kind: `uniform` draws each choice; `pct` draws priorities of tasks and few points at which they change.
        depth: of the bug that PCT looks for: how many particular orderings it needs.
        steps: batches of ready tasks that PCT reckons with.
    """

    def choose(below: int) -> int:
        return draw(_below(below))

    return Pct(choose, depth=depth, steps=steps) if kind == "pct" else Drawn(choose)


def _constants(spec: Spec) -> Iterator[float]:
    """The durations that a declaration speaks of."""
    policy = spec.restart
    yield policy.initial_backoff
    yield policy.initial_backoff * policy.factor
    yield policy.max_backoff
    yield policy.reset_after
    if isinstance(spec, Supervisor):
        yield spec.period
        for child in spec.children:
            yield from _constants(child)
    else:
        yield spec.shutdown
        yield spec.start_timeout or 0.0
        yield spec.watchdog or 0.0


def durations(tree: Spec) -> SearchStrategy[float]:
    """Seconds: 0, those that `tree` speaks of and what is just beside them, then eighths up to 8."""
    constants = sorted({float(c) for c in _constants(tree) if 0 < c <= _LONGEST})
    edges = [c + d for c in constants for d in (-STEP, STEP) if c + d > 0]
    spoken = list(dict.fromkeys([0.0, *constants, *edges]))
    return st.one_of(st.sampled_from(spoken), st.integers(0, 64).map(lambda n: n * STEP))


def lives(tree: Spec, *, kinds: Collection[Kind | str] = tuple(Kind)) -> SearchStrategy[Life]:
    """One run of a worker, of these kinds, with times from `durations(tree)`."""
    wanted = [kind for kind in Kind if kind in {Kind(kind) for kind in kinds}]
    # Failing first: what draws tend to, and shrink to, should be what trees are for.
    wanted.sort(key=lambda kind: kind is not Kind.CRASHES)

    def make(pair: tuple[Kind, float]) -> Life:
        kind, seconds = pair
        return Life(kind) if kind in _TIMELESS else Life(kind, seconds)

    return st.tuples(st.sampled_from(wanted), durations(tree)).map(make)


def plans(
    tree: Supervisor,
    *,
    storm: bool = True,
    max_lives: int = 6,
    kinds: Collection[Kind | str] = tuple(Kind),
) -> SearchStrategy[dict[str, Plan]]:
    """A plan for each worker of `tree`, by path; see `faulty`.

    Args:
        storm: let the same fate befall several runs in a row.
        max_lives: lives of a plan at most.
        kinds: of lives.
    """
    one = lives(tree, kinds=kinds)
    often = st.integers(1, 4 if storm else 1)

    def make(fates: list[tuple[Life, int]]) -> Plan:
        return Plan(tuple(life for life, times in fates for _ in range(times))[:max_lives])

    plan = st.lists(st.tuples(one, often), max_size=max_lives).map(make)
    paths = [path for path, spec in tree.walk() if isinstance(spec, Worker)]
    return st.fixed_dictionaries(dict.fromkeys(paths, plan))


def commands(
    tree: Supervisor,
    *,
    max_size: int = 3,
    verbs: Collection[Verb | str] = tuple(Verb),
    messages: SearchStrategy[Any] | None = None,
) -> SearchStrategy[list[Command]]:
    """What operators and senders do to the workers of `tree`, at times from `durations(tree)`; see `operate`.

    Args:
        max_size: commands at most.
        verbs: what they do.
        messages: what is told; small numbers by default.
    """
    wanted = [verb for verb in Verb if verb in {Verb(verb) for verb in verbs}]
    paths = [path for path, spec in tree.walk() if isinstance(spec, Worker)] or [tree.name]
    one: SearchStrategy[Command] = st.builds(
        Command,
        at=durations(tree),
        verb=st.sampled_from(wanted),
        target=st.sampled_from(paths),
        number=st.integers(0, 3),
        message=st.integers(0, 3) if messages is None else messages,
    )
    return st.lists(one, max_size=max_size)


def _policies() -> SearchStrategy[RestartPolicy]:
    return st.builds(
        RestartPolicy,
        type=st.sampled_from(RestartType),
        # Without a limit and without a wait, time would stand still.
        max_restarts=st.integers(1, 4),
        initial_backoff=st.sampled_from([0.0, 0.5, 1.0]),
        max_backoff=st.sampled_from([2.0, 4.0]),
        reset_after=st.sampled_from([1.0, 4.0]),
        jitter=st.just(0.0),
    )


@st.composite
def trees(
    draw: DrawFn,
    *,
    max_depth: int = 3,
    max_children: int = 3,
    run: Any = idle,
    strategies: Collection[Strategy | str] = tuple(Strategy),
    intensity: SearchStrategy[int | None] | None = None,
    policies: SearchStrategy[RestartPolicy] | None = None,
) -> Supervisor:
    """Trees: nested to `max_depth`, of all strategies, with every limit and wait small.

    Args:
        run: what all workers do: get ready and wait, by default.
        intensity: of each supervisor; none or 0 to 3 by default.
        policies: of all children.
    """
    policy = _policies() if policies is None else policies
    limits = st.none() | st.integers(0, 3) if intensity is None else intensity
    wanted = [Strategy(strategy) for strategy in strategies]

    def worker(name: str) -> Worker:
        return Worker(
            name,
            run,
            replicas=draw(st.sampled_from([1, 1, 2])),
            restart=draw(policy),
            shutdown=draw(st.sampled_from([1.0, 0.0, 4.0])),
            on_failed=draw(st.sampled_from(OnFailed)),
        )

    def group(name: str, depth: int) -> Supervisor:
        children: list[Spec] = []
        for number in range(draw(st.integers(1, max_children))):
            child = f"{name}{number}"
            nested = depth > 1 and draw(st.sampled_from([False, False, True]))
            children.append(group(child, depth - 1) if nested else worker(f"{child}w"))
        return Supervisor(
            name,
            children,
            strategy=draw(st.sampled_from(wanted)),
            intensity=draw(limits),
            period=draw(st.sampled_from([1.0, 5.0])),
            restart=draw(policy),
            on_failed=draw(st.sampled_from(OnFailed)),
        )

    return group("t", max_depth)
