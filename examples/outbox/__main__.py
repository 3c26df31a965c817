"""`python -m examples.outbox`: watch a tree at work, and see the proof that nothing was lost."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import attrs
import trio

from examples.outbox.shop import Settings, Shop, open_shop
from supervision import Pool, TreeFailed, supervisor
from supervision.events import StopReport

try:
    from rich.console import Console
except ModuleNotFoundError:
    sys.exit("this example draws with rich: pip install 'treewarden[cli]'")

from examples.outbox.journal import Journal
from examples.outbox.proof import Proof, prove, report
from examples.outbox.screen import LiveScreen, PlainScreen, Screen

EXIT_CODES: Final = {"SIGINT": 130, "SIGTERM": 143}


def arguments() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(prog="python -m examples.outbox", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="finish within seconds")
    parser.add_argument("--orders", type=int, metavar="N", help="how many orders there are")
    parser.add_argument("--seed", type=int, metavar="S", help="of the orders and of the faults")
    parser.add_argument("--no-chaos", action="store_true", help="nothing is made to fail")
    parser.add_argument(
        "--db", type=Path, metavar="PATH", help="keep the outbox here, and go on with it"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of a live screen")
    parser.add_argument(
        "--svg", type=Path, metavar="PATH", help="save the busiest screen as a picture"
    )
    return parser


def settings(options: argparse.Namespace) -> Settings:
    """The options as settings."""
    chosen = {name: getattr(options, name) for name in ("orders", "seed")}
    changes = {name: value for name, value in chosen.items() if value is not None}
    if options.no_chaos:
        changes["chaos"] = False
    return Settings.fast(**changes) if options.fast else Settings(**changes)


async def delivered(shop: Shop, pool: Pool) -> None:
    """Wait until every order is sent and the auditors have no more to do, or the tree has ended before."""
    while pool.stop_report is None:
        stored = await shop.outbox.last_number()
        if stored >= shop.settings.orders and not await shop.outbox.unsent() and idle(pool):
            return
        with trio.move_on_after(0.2):
            await pool.wait_stopped()


def idle(pool: Pool) -> bool:
    """True if no auditor has a message left. A stop lets a running one drain; one in backoff it does not wake."""
    boxes = [worker.mailbox for worker in pool.workers() if worker.name == "audit"]
    return not any(box.queued or box.in_hand for box in boxes)


@attrs.frozen(kw_only=True)
class Ending:
    """How a run of the program ended."""

    proof: Proof
    stop: StopReport | None
    failure: TreeFailed | None


async def main(shop: Shop, screen: Screen) -> Ending:
    """Run the tree until all is delivered or somebody stops it; then look at what is on disk."""
    pool: Pool | None = None
    failure: TreeFailed | None = None
    await shop.outbox.release_all()
    # What an earlier run of the program has sent is not audited again, only compared in the proof.
    shop.audited.update(order.number for order in await shop.outbox.all() if order.sent)
    async with trio.open_nursery() as nursery:
        try:
            # `signals`: Ctrl-C and SIGTERM ask the tree to stop in order; a second one does not wait.
            async with supervisor.running(shop.tree(), stop_timeout=5, signals=True) as pool:
                # Both go on until the tree has ended, and so see the stop as well: looking is allowed after.
                nursery.start_soon(screen.journal.follow, pool.events(4096))  # noqa: ASYNC111
                nursery.start_soon(screen.show, pool)  # noqa: ASYNC111
                await delivered(shop, pool)
        except TreeFailed as failed:
            failure = failed
    deliveries, bookings = await shop.ledger.all()
    outbox = await shop.outbox.all()
    proof = prove(shop.settings.orders, outbox, deliveries, bookings, shop.audited)
    return Ending(proof=proof, stop=pool.stop_report if pool else None, failure=failure)


def command(options: argparse.Namespace) -> int:
    """Run, print, and return the exit code: 0 only if the proof holds."""
    console = Console(highlight=False)
    with ExitStack() as stack:
        if options.db is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="outbox-"))
            path = Path(folder) / "outbox.sqlite"
        else:
            path = options.db.absolute()
            console.print(f"outbox: {path}, log: {path.with_suffix('.log')}", soft_wrap=True)
        # The screen shows what matters; the whole story, with tracebacks, goes to a file.
        logging.basicConfig(
            filename=path.with_suffix(".log"),
            level=logging.INFO,
            format="%(asctime)s %(levelname)-7s %(message)s",
        )
        stack.callback(logging.shutdown)
        shop = stack.enter_context(open_shop(settings(options), path))
        journal = Journal()
        screen: Screen = PlainScreen(console, shop, journal)
        if options.svg or (console.is_terminal and not options.plain):
            screen = LiveScreen(console, shop, journal, keep=options.svg is not None)
        journal.tell = screen.say
        ending = trio.run(main, shop, screen)
        if options.svg and isinstance(screen, LiveScreen):
            screen.save_svg(options.svg)
    console.print(report(ending.proof, shop, journal))
    return verdict(console, ending, journal.stopped_by)


def verdict(console: Console, ending: Ending, stopped_by: str) -> int:
    """Say how it ended, and return the exit code."""
    proof, stop = ending.proof, ending.stop
    if stop is not None:
        forced = f"; forced: {', '.join(stop.forced)}" if stop.forced else ""
        many = f"{len(stop.orderly)} replicas"
        console.print(f"stopped in {stop.seconds:.2f} s, in order: {many}{forced}")
    if ending.failure is not None:
        console.print(str(ending.failure), style="red")
        return 1
    if proof.holds:
        all_ = f"{proof.received} of {proof.wanted} orders received, each applied once"
        console.print(f"The proof holds: {all_}.", style="bold green")
        return 0
    if proof.sound and stopped_by in EXIT_CODES:
        console.print(
            f"{stopped_by} came first. The proof is partial, and sound: of {proof.sent} orders"
            " marked as sent none is lost, and none was applied twice.",
            style="bold yellow",
        )
        return EXIT_CODES[stopped_by]
    console.print("The proof does not hold.", style="bold red")
    return 1


if __name__ == "__main__":
    sys.exit(command(arguments().parse_args()))
