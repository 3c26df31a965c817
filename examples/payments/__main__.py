"""`python -m examples.payments`: thousands of orders, charged once each, whatever fails on the way."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import attrs
import trio

from actors import ActorError
from supervision import Pool, TreeFailed, supervisor
from supervision.events import StopReport

if os.name != "posix":
    sys.exit("this example kills processes by signals: it needs Linux, macOS or the like")
try:
    import h11  # noqa: F401
    import httpx2  # noqa: F401
    from rich.console import Console
except ModuleNotFoundError:
    sys.exit("this example draws with rich and speaks HTTP by httpx2: pip install rich httpx2")

from examples.payments.board import Board
from examples.payments.demo import Demo
from examples.payments.orders import read, write
from examples.payments.proof import Proof, gather, prove, read_faults
from examples.payments.report import report
from examples.payments.screen import LiveScreen, PlainScreen, Screen
from examples.payments.server import NoServer, with_server
from examples.payments.settings import Settings
from examples.payments.store import open_books

EXIT_CODES: Final = {"SIGINT": 130, "SIGTERM": 143}


def arguments() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(prog="python -m examples.payments", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="finish within seconds")
    parser.add_argument("--orders", type=_some, metavar="N", help="how many orders there are")
    parser.add_argument("--seed", type=int, metavar="S", help="of the orders and of the faults")
    parser.add_argument("--processes", type=_some, metavar="N", help="that work on payments")
    parser.add_argument(
        "--engine",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where jobs and books are",
    )
    parser.add_argument(
        "--dsn", default="", help="of PostgreSQL; without, a server is started that goes afterwards"
    )
    parser.add_argument("--no-chaos", action="store_true", help="nothing is made to fail")
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="PATH",
        help="keep everything here, and go on with what is there",
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of a live screen")
    parser.add_argument(
        "--svg", type=Path, metavar="PATH", help="save the busiest screen as a picture"
    )
    return parser


def _some(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of 1 or more, not {text!r}")
    return int(text)


def settings(options: argparse.Namespace, folder: Path) -> Settings:
    """The options as settings."""
    chosen = {name: getattr(options, name) for name in ("orders", "seed", "processes")}
    changes = {name: value for name, value in chosen.items() if value is not None}
    changes |= {"folder": str(folder), "engine": options.engine, "dsn": options.dsn}
    if options.no_chaos:
        changes["chaos"] = False
    return Settings.fast(**changes) if options.fast else Settings(**changes)


@attrs.frozen(kw_only=True)
class Ending:
    """How a run of the program ended."""

    proof: Proof
    faults: dict[str, int]
    stop: StopReport | None
    failure: TreeFailed | None


async def main(given: Settings, board: Board, screen: Screen) -> Ending:
    """Run the tree until all is settled or somebody stops it; then look at what is on disk."""
    pool: Pool | None = None
    failure: TreeFailed | None = None
    async with with_server(given, board) as chosen, open_books(chosen) as books:
        await books.open()
        board.numbers = await books.numbers()
        demo = Demo(chosen, books, board)
        async with trio.open_nursery() as nursery:
            try:
                # `signals`: Ctrl-C and SIGTERM ask the tree to stop in order; a second one does not wait.
                async with supervisor.running(
                    demo.tree(),
                    stop_timeout=20,
                    signals=True,
                    listeners=[board.listen],
                    wait_ready=False,
                ) as pool:
                    # It goes on until the tree has ended, and so shows the stop as well.
                    nursery.start_soon(screen.show, pool)  # noqa: ASYNC111
                    await pool.wait_stopped()
            except TreeFailed as failed:
                failure = failed
        proof = prove(await gather(chosen.csv, chosen.ledger, books))
    return Ending(
        proof=proof,
        faults=await trio.to_thread.run_sync(read_faults, chosen.ledger),
        stop=pool.stop_report if pool else None,
        failure=failure,
    )


def command(options: argparse.Namespace) -> int:
    """Run, print, and return the exit code: 0 only if the proof holds."""
    console = Console(highlight=False)
    folder = options.dir or Path(tempfile.mkdtemp(prefix="payments-"))
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = settings(options, folder)
    if chosen.csv.exists():
        console.print(f"{folder} is there already: going on with its orders", soft_wrap=True)
    else:
        write(chosen.csv, orders=chosen.orders, seed=chosen.seed)
    board = Board(orders=len({line.ref for line in read(chosen.csv)}))
    try:
        with ExitStack() as stack:
            # The screen shows what matters; the whole story, with tracebacks, goes to a file.
            logging.basicConfig(
                filename=chosen.log, level=logging.INFO, format="%(asctime)s demo: %(message)s"
            )
            stack.callback(logging.shutdown)
            ending = trio.run(watched, chosen, board, console, options)
    except (NoServer, ActorError, TreeFailed) as reason:  # there is no such database, or no driver
        console.print(str(reason), style="red", soft_wrap=True)
        code = 2
    else:
        console.print(report(ending.proof, board, ending.faults))
        code = verdict(console, ending, board)
    if code in (0, 2) and options.dir is None:
        shutil.rmtree(folder)
    elif code in EXIT_CODES.values():
        where = "".join(
            f" --{name} {value}"
            for name, value in (("engine", options.engine), ("dsn", options.dsn), ("dir", folder))
            if value not in ("", "sqlite")
        )
        console.print(f"To go on, run it again with{where}", soft_wrap=True)
    else:
        console.print(f"Everything is kept in {folder}", soft_wrap=True)
    return code


async def watched(
    chosen: Settings, board: Board, console: Console, options: argparse.Namespace
) -> Ending:
    """`main` with a screen."""
    screen: Screen = PlainScreen(console, board)
    if options.svg or (console.is_terminal and not options.plain):
        screen = LiveScreen(console, board, keep=options.svg is not None)
    ending = await main(chosen, board, screen)
    if options.svg and isinstance(screen, LiveScreen):
        screen.save_svg(options.svg)
    return ending


def verdict(console: Console, ending: Ending, board: Board) -> int:
    """Say how it ended, and return the exit code."""
    proof, stop = ending.proof, ending.stop
    if stop is not None:
        forced = f"; forced: {', '.join(stop.forced)}" if stop.forced else ""
        console.print(
            f"stopped in {stop.seconds:.2f} s, in order: {len(stop.orderly)} workers{forced}"
        )
    if ending.failure is not None:
        console.print(str(ending.failure), style="red", soft_wrap=True)
        return 1
    charged, orders = len(proof.evidence.charges), len(proof.evidence.ordered)
    if proof.holds:
        console.print(
            f"The proof holds: {orders:,} orders, {charged:,} of them charged, each exactly once; nothing is open.",
            style="bold green",
            soft_wrap=True,
        )
        return 0
    if proof.sound and board.stopped_by in EXIT_CODES:
        console.print(
            f"{board.stopped_by} came first. The proof is partial, and sound: of {charged:,} charges"
            " none is double, wrong or unasked for.",
            style="bold yellow",
            soft_wrap=True,
        )
        return EXIT_CODES[board.stopped_by]
    console.print("The proof does not hold.", style="bold red")
    return 1


if __name__ == "__main__":
    sys.exit(command(arguments().parse_args()))
