"""What the tests of the armour share: errors, scripted calls and exact waits."""

from __future__ import annotations

from typing import Any

import trio

from actors.resilience import Backoff, RetryPolicy
from actors.resilience.vegas import Vegas


class Down(Exception):
    """The dependency failed; another attempt may help."""

    def __init__(self, text: str = "down", retry_after: object = None) -> None:
        super().__init__(text)
        if retry_after is not None:
            self.retry_after = retry_after


class Script:
    """An async function that does what a list says: raise an error, sleep a number of seconds, or return the rest.

    The last entry is repeated for ever. `times` are those at which it was called.
    """

    def __init__(self, *steps: Any, sleep: float = 0.0) -> None:
        self.steps = list(steps)
        self.sleep = sleep
        self.times: list[float] = []
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.times.append(trio.current_time())
        self.seen.append((args, kwargs))
        step = self.steps[min(len(self.times), len(self.steps)) - 1]
        if self.sleep:
            await trio.sleep(self.sleep)
        if isinstance(step, (int, float)) and not isinstance(step, bool):
            await trio.sleep(step)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, type) and issubclass(step, BaseException):
            raise step()
        return step

    @property
    def calls(self) -> int:
        return len(self.times)


def exact(*, initial: float = 1.0, factor: float = 2.0, maximum: float = 1000.0) -> Backoff:
    """Waits without jitter."""
    return Backoff(initial, factor, maximum, jitter=0)


def policy(**options: Any) -> RetryPolicy:
    """Retries `Down` with exact waits of 1, 2, 4, ... unless told otherwise."""
    return RetryPolicy(**{"on": (Down,), "backoff": exact(), **options})


def known(law: Vegas) -> list[object]:
    """All that a law of a limit has counted and found."""
    return [getattr(law, name) for name in Vegas.__slots__ if name not in ("_random", "policy")]


async def gather(*calls: Any) -> list[Any]:
    """Begin all calls at once; their results, or the errors that they raised."""
    out: list[Any] = [None] * len(calls)

    async def one(number: int, call: Any) -> None:
        try:
            out[number] = await call()
        except Exception as error:
            out[number] = error

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(one, number, call)
    return out
