"""Condition: how an engine is, as one of those that call it finds it.

Floor: above signals. The rules: a fault is reported once, when it is met, and its end once. One that lasts longer than a call may
take makes the run degraded, so that a probe says so. A call that does not return is a fault as well, whatever holds it up:
nothing is well because it was well when it was last heard of (dexidp/dex#4985: a check that hung kept its last good result).
"""

from __future__ import annotations

from typing import Final

import trio

from actors.context import Context
from actors.errors import shown
from actors.jobs.signals import EngineFailing, EngineRecovered

__all__ = ["Condition"]

FAULT: Final = "engine"


class Condition:
    """Told of every call by whoever makes it; asked by nobody: it reports.

    Args:
        ctx: of the run that calls.
        engine: its name.
        patience: seconds that a call may take, and that a fault may last before the run is degraded.
    """

    def __init__(self, ctx: Context, engine: str, patience: float) -> None:
        self._ctx = ctx
        self._engine = engine
        self._patience = patience
        self._since: dict[str, float] = {}  # when a call was made that has had no good answer yet
        self._failing: set[str] = set()
        self.failures = 0
        """Calls in a row, of whatever kind, that have failed."""

    def asked(self, call: str) -> None:
        """A call begins."""
        self._since.setdefault(call, trio.current_time())

    def works(self, call: str) -> None:
        """It had its answer."""
        self._since.pop(call, None)
        self._failing.discard(call)
        if self.failures and not self._failing:
            self.failures = 0
            self._emit(EngineRecovered)
            self._ctx.restored(FAULT)

    def failed(self, call: str, error: Exception, retry_in: float) -> None:
        """It failed, and will be made again."""
        self._failing.add(call)
        self.failures += 1
        if self.failures == 1:
            self._emit(EngineFailing, error=error, retry_in=retry_in)
        self._judge(call, f"fails with {shown(error)}")

    def look(self) -> None:
        """Find calls that should have ended. To be called now and then."""
        for call in self._since.keys() - self._failing:
            if self._judge(call, f"has not answered for {self._patience:g} s or more"):
                self.failed(call, trio.TooSlowError(f"no answer to {call}, and no end of it"), 0.0)

    def _judge(self, call: str, what: str) -> bool:
        late = trio.current_time() - self._since[call] >= self._patience
        if late:
            self._ctx.degraded(FAULT, f"engine {self._engine} {what}")
        return late

    def _emit(self, event: type[EngineFailing | EngineRecovered], **fields: object) -> None:
        ctx = self._ctx
        ctx.mailbox.office.events.emit(event, ctx.path, ctx.run, engine=self._engine, **fields)

    def __repr__(self) -> str:
        return f"<Condition of {self._engine}: {f'{self.failures} failures' if self.failures else 'well'}>"
