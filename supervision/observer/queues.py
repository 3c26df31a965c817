"""Queues: what is known of the jobs that the tree's workers take, looked up now and then.

Floor: above messages. The rule: an engine may be slow or down, and counting its jobs may be dear. So it is asked in the background, seldom
for one that takes long, with a deadline, and only while somebody looks; what is shown is what it said last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio

from actors.jobs.engine import Engine, EngineStatistics
from actors.office import Office
from supervision.observer.messages import Trouble
from supervision.observer.pieces import one_line

__all__ = ["Queues", "lines"]

EVERY: Final = 5.0
"""Seconds between two looks, and more for an engine that takes long."""
PATIENCE: Final = 3.0
SHARE: Final = 0.02
_ENDED: Final = ("completed", "errored", "cancelled")


class Queues:
    """What the engines of one tree said last."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._known: dict[Engine, list[dict[str, Any]]] = {}
        self._next = 0.0
        self._wanted = trio.Event()
        self._stale = False

    def engines(self) -> list[Engine]:
        """The engines whose jobs have been taken here."""
        shared = tuple(self._office.shared.items())
        return [
            thing for (kind, _), thing in shared if kind == "engine" and isinstance(thing, Engine)
        ]

    def named(self, name: str) -> list[Engine]:
        """The engines of this name; of no name, all.

        Raises:
            Trouble: there is none.
        """
        engines = self.engines()
        wanted = [each for each in engines if name in ("", each.name)]
        if not wanted:
            known = ", ".join(each.name for each in engines) or "none"
            raise Trouble(
                "not_found", f"no worker here takes jobs of such an engine; known: {known}"
            )
        return wanted

    def lines(self) -> list[dict[str, Any]]:
        """One a type of jobs, and one an engine that does not answer."""
        return [line for engine in self.engines() for line in self._known.get(engine, ())]

    def wish(self) -> None:
        """Somebody looks: ask again, if it is time."""
        if any(engine not in self._known for engine in self.engines()):
            self._stale = True  # a worker has just taken its first job
        if self._stale or trio.current_time() >= self._next:
            self._wanted.set()

    def changed(self) -> None:
        """Somebody has just acted on jobs: what was said last is not true any more."""
        self._stale = True
        self._wanted.set()

    async def run(self) -> None:
        """Ask while somebody looks."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await self.ask()

    async def ask(self) -> None:
        """Ask all engines once, unless that was done a moment ago."""
        began = trio.current_time()
        if began < self._next and not self._stale:
            return
        self._stale = False
        self._next = began + EVERY
        async with trio.open_nursery() as nursery:
            for engine in self.engines():
                nursery.start_soon(self._ask, engine)
        took = trio.current_time() - began
        self._next = began + max(EVERY, took / SHARE)

    async def _ask(self, engine: Engine) -> None:
        try:
            with trio.fail_after(PATIENCE):
                self._known[engine] = lines(await engine.statistics())
        except Exception as error:
            text = (
                "it did not answer in time"
                if isinstance(error, trio.TooSlowError)
                else one_line(error)
            )
            self._known[engine] = [{**_line(engine.name, "", {}), "error": text}]

    def __repr__(self) -> str:
        return f"<Queues of {len(self.engines())} engines>"


def lines(seen: EngineStatistics) -> list[dict[str, Any]]:
    """What an engine says, a line for each type."""
    types = sorted({*seen.jobs, *seen.paused, *seen.limits})
    return [
        {
            **_line(seen.name, name, seen.jobs.get(name, {})),
            "paused": name in seen.paused,
            "limit": seen.limits.get(name),
        }
        for name in types
    ]


def _line(engine: str, name: str, jobs: Mapping[str, int]) -> dict[str, Any]:
    return {
        "engine": engine,
        "type": name,
        **{state: jobs.get(state, 0) for state in ("ready", "scheduled", "active", "incident")},
        "done_total": sum(jobs.get(state, 0) for state in _ENDED),
        "paused": False,
        "limit": None,
    }
