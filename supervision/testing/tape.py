"""Tape: the steps of a state machine, so that they can be taken again.

Theory. What a machine does is decided by Hypothesis: which rules, with what arguments, what they draw on the way, and the order of
tasks. With all of that noted, a second machine can take the same steps, and whatever differs then was not decided by a draw:
a clock, randomness of its own, the order of a set. A value that a rule gave to a `Bundle` is the one that the second machine gave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hypothesis.stateful import MultipleResults
from hypothesis.strategies import DataObject

__all__ = ["Tape"]

Take = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class _Recorder:
    """Stands in for Hypothesis' data, and notes what is drawn."""

    def __init__(self, data: DataObject, drawn: list[Any]) -> None:
        self._data = data
        self._drawn = drawn

    def draw(self, strategy: Any, label: Any = None) -> Any:
        value = self._data.draw(strategy, label)
        self._drawn.append(value)
        return value


class _Player:
    """Stands in for it the second time, and gives out what was noted."""

    def __init__(self, drawn: list[Any]) -> None:
        self._left = iter(drawn)

    def draw(self, _strategy: Any, _label: Any = None) -> Any:
        return next(self._left)


class _Step:
    """One call of a rule, an invariant or a precondition."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.fn = fn
        self.args = args
        self.values: dict[str, Any] = {}
        self.drawn: dict[str, list[Any]] = {}
        self.result: Any = None


class Tape:
    """What one machine did."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def record(
        self,
        take: Take,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        values: dict[str, Any],
    ) -> Any:
        """Take a step, and note it."""
        step = _Step(fn, args)
        self._steps.append(step)
        for name, value in values.items():
            if isinstance(value, DataObject):
                value = _Recorder(value, step.drawn.setdefault(name, []))  # noqa: PLW2901
            step.values[name] = value
        step.result = take(fn, args, step.values)
        return step.result

    def play(self, take: Take) -> None:
        """Take all steps again, by another machine."""
        known: dict[int, Any] = {}
        for step in self._steps:
            values = {name: known.get(id(value), value) for name, value in step.values.items()}
            for name, drawn in step.drawn.items():
                values[name] = _Player(drawn)
            result = take(step.fn, step.args, values)
            for before, now in zip(_each(step.result), _each(result), strict=False):
                if before is not None:
                    known[id(before)] = now


def _each(result: Any) -> tuple[Any, ...]:
    if isinstance(result, MultipleResults):
        return tuple(cast(Any, result).values)
    return (result,)
