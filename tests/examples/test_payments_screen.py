"""The payments example's screen: what is drawn, and what is left out where there is little room."""

from __future__ import annotations

import io

from rich.console import Console

from examples.payments.board import Board
from examples.payments.books import Numbers
from examples.payments.screen import LiveScreen
from supervision import RestartPolicy, Supervisor, Worker, supervisor

INSIDE = [
    {"path": "office/scores/0", "state": "restarting", "restarts": 2, "error": "ModelCrashed: oh"},
    {"path": "office/charges/0", "state": "ready", "restarts": 0, "error": ""},
]


async def idle(ctx):
    await ctx.sleep(3600)


async def died(ctx):
    raise ConnectionError("exit code 70")


async def drawn(rows: int) -> str:
    """One frame of a demonstration whose provider has died, as text."""
    slow = RestartPolicy(initial_backoff=20, jitter=0)
    tree = Supervisor(
        "demo", [Worker("provider", died, restart=slow), Worker("office", idle, replicas=2)]
    )
    board = Board(orders=1200, numbers=Numbers(booked=400, poison=4))
    paper = Console(file=io.StringIO(), width=110)
    async with supervisor.running(tree, log=False, wait_ready=False) as pool:
        await pool.wait_state("provider", "restarting")
        for number in range(2):
            path = f"demo/office/{number}"
            board.began(path, 4000 + number)
            board.rows[path], board.breakers[path] = INSIDE, {"provider": "open"}
        board.happened("demo/office/1", "is killed with SIGKILL")
        paper.print(LiveScreen(paper, board).frame(pool, rows=rows))
    return paper.file.getvalue()


async def test_the_screen_shows_processes_and_who_is_inside(autojump_clock):
    """How far it is, each process with its workers and breakers, and the latest that happened."""
    text = await drawn(40)

    assert "404 of 1,200 orders" in text
    assert "restarting in 20.0 s" in text
    assert "exit code 70" in text
    assert "office 1  (pid 4001)" in text
    assert text.count("charges") == text.count("breaker provider") == 2
    assert "is killed with SIGKILL" in text


async def test_in_a_small_window_the_healthy_are_left_out(autojump_clock):
    """Who is in trouble is still there, and so is what happened."""
    text = await drawn(16)

    assert "charges" not in text
    assert text.count("ModelCrashed: oh") == text.count("● open") == 2
    assert "is killed with SIGKILL" in text
