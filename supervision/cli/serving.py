"""Serving: `serve`, a tree as a process: signals, control socket, observer, process manager.

Floor: above target and sockets. The rule: what watches the tree may be missing or fail, and is said; the tree runs all the same.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import trio

from supervision.cli import sockets
from supervision.cli.target import services_of, tree_of
from supervision.cli.words import DONE, INTERRUPTED, Ended, words_of
from supervision.errors import MissingExtra
from supervision.notify import Notifier, notifier, notify
from supervision.otlp import exporting
from supervision.pool import Pool
from supervision.signals import Guard, Hand, handling, say
from supervision.specs import Supervisor
from supervision.states import Phase, State
from supervision.supervisor import running

__all__ = ["LEVELS", "narrate", "serve"]

LEVELS = ("debug", "info", "warning", "error")
PATIENCE = 10.0
"""Seconds between two lines about what is waited for."""
_NEEDED = ("h11", "trio_websocket")


def serve(args: argparse.Namespace) -> int:
    """Run a tree until it is done, is asked to stop, or fails."""
    tree = tree_of(args)
    services = services_of(args)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("supervision").setLevel(args.log_level.upper())
    options: dict[str, Any] = {
        "start": args.start,
        "stop_timeout": args.stop_timeout,
        # The hand on the tree is needed before it is ready: a start, too, can be interrupted.
        "wait_ready": False,
        "signals": False,
        "services": services,
    }
    control = _control(args, tree)
    if control is not None or args.observer:
        options["observer"] = _observer(args, control)
    guard = Guard(tree.name, args.kill_after)
    try:
        with exporting(tree.name):
            return trio.run(_serve, tree, options, guard, notifier())
    finally:
        guard.stand_down()
        if control is not None:
            control.unlink(missing_ok=True)


async def _serve(
    tree: Supervisor, options: dict[str, Any], guard: Guard, manager: Notifier | None
) -> int:
    token = trio.lowlevel.current_trio_token()
    hand = Hand(token, guard, options["stop_timeout"])
    with handling(hand.on_signal, signal.SIGTERM, signal.SIGINT):
        async with running(tree, listeners=[guard.notice], **options) as pool:
            guard.pool = pool
            hand.take(pool)
            async with trio.open_nursery() as nursery:
                if manager is not None:
                    nursery.start_soon(notify, pool, manager)
                await narrate(pool, stop_timeout=options["stop_timeout"])
    return INTERRUPTED if hand.insisted else DONE


async def narrate(pool: Pool, *, stop_timeout: float, every: float = PATIENCE) -> None:
    """Wait for the end of the tree; say from time to time what a start or a stop waits for."""
    since: float | None = None
    while pool.stop_report is None:
        with trio.move_on_after(every):
            await pool.wait_stopped()
            return
        health = pool.health()
        if pool.supervisors()[0].phase == Phase.STOPPING:
            since = trio.current_time() - every if since is None else since
            still = [info.path for info in pool.workers() if info.state == State.RUNNING]
            left = since + stop_timeout - trio.current_time()
            rest = (
                "" if left == inf else f", {max(0.0, left):.0f} s left" if left > 0 else ", overdue"
            )
            say(f"stopping: waiting for {_named(still)}{rest}; a second signal cancels")
        elif not health.started and health.waiting_for:
            workers = len(pool.workers())
            done = workers - len(health.waiting_for)
            say(f"started {done} of {workers}, waiting for {_named(health.waiting_for)}")


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{', '.join(paths[:3]) or 'what is left'}{more}"


def _control(args: argparse.Namespace, tree: Supervisor) -> Path | None:
    """Where the control socket is to be; None for none."""
    if args.no_control:
        return None
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing and args.socket:
        raise Ended(str(MissingExtra("a control socket", "observer", missing[0])))
    if missing or not hasattr(trio.socket, "AF_UNIX"):
        return None
    if args.socket:
        return Path(args.socket)
    try:
        return sockets.path_for(tree.name, sockets.make_folder(sockets.folder()))
    except Ended as error:  # nobody has asked for it
        say(f"there is no control socket: {error}")
        return None


def _observer(args: argparse.Namespace, control: Path | None) -> Any:
    from supervision.observer import Observer

    addresses = [
        *([f"unix:{control}"] if control else []),
        *([args.observer] if args.observer else []),
    ]
    # Whoever can open the socket is the user; over TCP only the token lets anybody act.
    actions = control is not None or bool(args.token)
    return Observer(
        addresses,
        actions=actions,
        token=args.token or None,
        required=words_of(args.require),
        allowed_hosts=words_of(args.allow_host),
        show_messages=args.show_messages,
    )
