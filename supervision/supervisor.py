"""serve and running: the ways to keep a tree alive.

Floor: above pool. Theory of the nesting: all runs live in one nursery inside a shielded scope, so an outer cancellation never
cuts them at random. A task outside the shield notices it and asks for the ordered stop; the shield opens when that is
done. So `serve` ends only when no task of the tree is left, whatever ends it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from actors.events import Event, Subscription
from actors.options import is_number
from supervision.errors import SpecError
from supervision.logs import log_event
from supervision.pool import Pool
from supervision.specs import Start, Supervisor, check_makeable, check_root, check_runnable
from supervision.telemetry import Telemetry, install as instrument
from supervision.tree import Tree

if TYPE_CHECKING:
    from supervision.observer.host import Host
    from supervision.observer.spec import Observer

__all__ = ["Listener", "running", "serve"]

logger: Final = logging.getLogger("supervision")

Listener = Callable[[Event], object]
"""A sync or async function of one event. It gets its own bounded queue and task."""

LISTENER_BUFFER: Final = 1024
OBSERVER_GRACE: Final = 3.0
"""Seconds that viewers get to take leave when the tree has ended."""
LISTENER_GRACE: Final = 1.0
"""Seconds that listeners which still make progress get for what is queued at the end."""


async def serve(
    tree: Supervisor,
    *,
    start: Start | str | None = None,
    stop_timeout: float = 15.0,
    wait_ready: bool = True,
    listeners: Iterable[Listener] = (),
    log: bool = True,
    telemetry: bool | Telemetry | None = None,
    services: Any = None,
    signals: bool | None = None,
    random: Random | None = None,
    observer: str | Sequence[str] | Observer | bool | None = None,
    task_status: trio.TaskStatus[Pool] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run `tree` until it is done, is asked to stop, or fails. Synopsis::

        trio.run(supervisor.serve, tree)                     # a whole process
        pool = await nursery.start(supervisor.serve, tree)   # inside a Trio service

    Args:
        start: `"strict"` rolls back and raises if a first start fails, in the whole tree.
        stop_timeout: seconds that the ordered stop may take; then everything left is cancelled.
        wait_ready: whether `task_status.started(pool)` waits until the first start is complete. Without, the pool comes at once,
            and a strict start that fails ends `serve` after that.
        listeners: functions of one event, sync or async; a slow or failing one disturbs nobody.
        log: write events to the `supervision` logger.
        telemetry: trace and measure with OpenTelemetry; by default if the program has set a provider before. A `Telemetry` brings
            its own.
        services: a `svcs.Registry` from which constructors of workers get their parameters.
        signals: stop on SIGTERM and SIGINT, cancel on the second; by default if this is the main task of the run.
        random: source of jitter, for tests.
        observer: where the tree can be seen from outside: an address such as `"127.0.0.1:8023"`, `":0"` or `"unix:/run/app.sock"`, or
            an `Observer` with more options. It serves the page, the API, the probes and `/metrics`.

    Cancelling it from outside is turned into the same ordered stop.

    Raises:
        ObserverUnavailable: the observer cannot have its address; nothing was started.
        TreeFailed: the root gave up. Its cause is a group of the last failures.
        StartFailed: with `start="strict"`.
        BaseException: what a worker raised that is not an `Exception` (KeyboardInterrupt, SystemExit), unchanged.
    """
    if not isinstance(tree, Supervisor):
        raise SpecError(f"serve() runs a Supervisor, not {tree!r}; write Supervisor('name', [...])")
    if not is_number(stop_timeout) or not stop_timeout >= 0:
        raise SpecError(
            f"stop_timeout must be a number of seconds, 0 or more, not {stop_timeout!r}",
            where="serve()",
            option="stop_timeout",
        )
    listeners = _checked(listeners, signals, random)
    check_root(tree)
    check_runnable(tree)
    strict = start is not None and Start(start) is Start.STRICT
    live = Tree(tree, stop_timeout=stop_timeout, strict=strict, random=random)
    if log:
        live.events.tap(log_event)
    if services is None:
        check_makeable(tree)
    else:
        from supervision.services import install

        install(live, services)
    instrument(live, telemetry)
    pool = Pool(live)
    host = await _open_observer(pool, observer)
    try:
        async with trio.open_nursery() as outside:
            outside.start_soon(_notice_cancellation, live)
            if signals or (signals is None and _is_main()):
                await outside.start(_obey_signals, live)  # before the first run may be interrupted
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    live.nursery = nursery
                    live.spawn(live.timers.run, f"timers of {tree.name}")
                    queues = [_Listening(live, fn) for fn in listeners]
                    for queue in queues:
                        live.spawn(queue.run, f"a listener of {tree.name}")
                    seen = await nursery.start(_seen, live, host) if host is not None else None
                    live.root.start()
                    if wait_ready:
                        await _through_interrupts(live, live.ready)
                    if live.fatal is None and live.failure is None:
                        task_status.started(pool)
                    await _through_interrupts(live, live.done)
                    live.events.close()
                    await _finish_listening(queues)
                    await _end_observer(seen)
                    nursery.cancel_scope.cancel(reason="the tree has ended")
            outside.cancel_scope.cancel(reason="the tree has ended")
    finally:
        live.done.set()  # also if the library itself has failed: nobody may wait for this tree for ever
        if host is not None:
            host.close()
        error = live.failure if live.fatal is None else live.fatal
        if error is not None:
            raise error


@asynccontextmanager
async def running(tree: Supervisor, **options: Any) -> AsyncGenerator[Pool]:
    """`async with supervisor.running(tree) as pool:` keeps `tree` alive round a block of ordinary code.

    Leaving the block, in whatever way, stops the tree in order. If the tree fails, the block is cancelled and `TreeFailed` raised.
    An exception of the block comes out as itself, not in a group, unless the tree failed as well. Options are those of `serve`.
    """
    try:
        async with trio.open_nursery() as nursery:
            pool: Pool = await nursery.start(partial(serve, tree, **{"signals": False, **options}))
            try:
                yield pool
            finally:
                pool.request_stop("the block has ended")
                with trio.CancelScope(shield=True):
                    await pool.wait_stopped()
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        alone = group.exceptions[0]
    else:
        return
    raise alone from alone.__cause__


def _checked(
    listeners: Iterable[Listener], signals: object, random: object
) -> tuple[Listener, ...]:
    """The listeners; what would break a tree that runs, at the first event or the first restart, is refused before."""
    every = tuple(listeners) if isinstance(listeners, Iterable) else ()
    if not isinstance(listeners, Iterable) or not all(map(callable, every)):
        raise SpecError(
            f"listeners is a list of functions of one event, [fn], not {listeners!r}",
            where="serve()",
            option="listeners",
        )
    if signals is not None and not isinstance(signals, bool):
        raise SpecError(
            f"signals is True, False or None, not {signals!r}", where="serve()", option="signals"
        )
    if random is not None and not callable(getattr(random, "uniform", None)):
        raise SpecError(
            f"random is a source such as random.Random(1), not {random!r}",
            where="serve()",
            option="random",
        )
    return every


async def _open_observer(pool: Pool, observer: object) -> Host | None:
    if observer is None or observer is False:
        return None
    from supervision.observer.host import open_host
    from supervision.observer.spec import observer_of

    return await open_host(pool, observer_of(observer))


async def _seen(
    tree: Tree, host: Host, *, task_status: trio.TaskStatus[Pool] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep the observer alive, whatever happens in it: the tree that it shows must not hear of it."""
    try:
        async with running(
            host.tree(),
            stop_timeout=OBSERVER_GRACE,
            signals=False,
            telemetry=False,
            log=False,
            listeners=[_log_trouble],
        ) as seen:
            task_status.started(seen)
            await seen.wait_stopped()
    except trio.Cancelled:
        raise
    except Exception:
        with suppress(Exception):  # logging may fail as well
            logger.exception("the observer of %s has ended; the tree goes on", tree.root.name)
    except BaseException as fatal:  # Ctrl-C, an exit: as from a run, and in order
        if _is_cancelled(fatal):
            raise
        tree.abort(fatal)


def _is_cancelled(error: BaseException) -> bool:
    """True of a cancellation, also if nurseries have put it into groups."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(_is_cancelled, group.exceptions))
    return isinstance(error, trio.Cancelled)


def _log_trouble(event: Event) -> None:
    """Of an observer only what goes wrong is of interest."""
    if event.level in ("warning", "error"):
        log_event(event)


async def _end_observer(seen: Pool | None) -> None:
    if seen is not None:
        seen.request_stop("the tree has ended")
        with trio.move_on_after(OBSERVER_GRACE):
            await seen.wait_stopped()


async def _notice_cancellation(tree: Tree) -> None:
    try:
        await trio.sleep_forever()
    finally:
        tree.request_stop("cancelled from outside")


async def _through_interrupts(tree: Tree, event: trio.Event) -> None:
    """Wait for `event`; what is raised into this task meanwhile (Ctrl-C) becomes an ordered stop."""
    while not event.is_set():
        try:
            await event.wait()
        except (trio.Cancelled, GeneratorExit):
            # The shield keeps others' cancellations out: the library itself has failed, and the nursery says how. Nor is there
            # anything to wait for where the run was given up and this is only thrown away: to wait again would never end.
            raise
        except BaseException as exc:  # serve raises it at the end
            tree.abort(exc)
            event = tree.done


async def _obey_signals(
    tree: Tree, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        task_status.started()
        asked = False
        async for number in received:
            name = signal.Signals(number).name
            if asked:
                tree.force(f"{name}, the second signal")
            else:
                tree.request_stop(name)
            asked = True


def _is_main() -> bool:
    """True in the main task of a run in the main thread: the tree is the program."""
    if threading.current_thread() is not threading.main_thread():
        return False
    nursery = trio.lowlevel.current_task().parent_nursery
    return nursery is not None and nursery.parent_task is trio.lowlevel.current_root_task()


class _Listening:
    """One listener, its queue, and the event it has in hand."""

    def __init__(self, tree: Tree, fn: Listener) -> None:
        self.queue: Subscription = tree.events.subscribe(LISTENER_BUFFER)
        self.done = trio.Event()
        self.busy_since: float = inf
        self._tree = tree
        self._fn = fn

    async def run(self) -> None:
        async for event in self.queue:
            self.busy_since = trio.current_time()
            try:
                result = self._fn(event)
                if isinstance(result, Awaitable):
                    await result
            except trio.Cancelled:
                raise
            except Exception:
                self._tree.events.failed(self._fn)
            except BaseException as fatal:  # Ctrl-C, an exit: as from a run, and in order
                self._tree.abort(fatal)
            self.busy_since = inf
        self.done.set()


async def _finish_listening(queues: list[_Listening]) -> None:
    """Let listeners take what is queued; one that has been stuck on an event for long is not waited for."""
    now = trio.current_time()
    with trio.move_on_after(LISTENER_GRACE):
        for queue in queues:
            if now - queue.busy_since < LISTENER_GRACE:
                await queue.done.wait()
