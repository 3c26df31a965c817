"""`top` without a terminal: frames and keys in, lines out."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from supervision.cli.detail import shown_detail
from supervision.cli.screen import KEYS, Ask, Screen
from supervision.cli.top import keys_in

COLUMNS = [
    "path",
    "kind",
    "state",
    "phase",
    "run",
    "restarts",
    "failures",
    "limit",
    "queued",
    "capacity",
    "handled",
    "since",
    "next_restart",
    "busy",
    "error",
]


def row(path: str, state: str = "running", **more) -> list[object]:
    kind = "worker" if path[-1].isdigit() else "supervisor"
    phase = "ready" if state == "running" else None
    box = {"queued": 0, "capacity": 16, "handled": 0} if kind == "worker" else {}
    values = {"path": path, "kind": kind, "state": state, "phase": phase, "run": 1, "restarts": 0, "failures": 0, "since": 61.0, **box, **more}  # fmt: skip
    return [values.get(name) for name in COLUMNS]


def frame(*rows: list[object], **more) -> dict[str, object]:
    states = [r[2] for r in rows if r[1] == "worker"]
    good = {"ok": True, "why": []}
    return {
        "v": 1,
        "tree": "shop",
        "pid": 7,
        "uptime": 100.0,
        "time": 50.0,
        "mode": "live",
        "health": {"live": good, "ready": good, "started": good},
        "counts": {s: states.count(s) for s in ("pending", "running", "restarting", "stopped", "failed", "disabled")},
        "totals": {"handled": 0, "queued": 0, "restarts": 0, "failures": 0, "dead_letters": 0, "poison": 0},
        "columns": COLUMNS,
        "rows": list(rows),
        "look": [],
        **more,
    }  # fmt: skip


SHOP = [
    row("shop"),
    *(row(f"shop/fetch/{n}", queued=n, restarts=n) for n in range(4)),
    row("shop/store/0"),
    row("shop/mail"),
    row("shop/mail/smtp/0", "failed", error="ConnectError: refused", queued=16),
    row("shop/mail/templates/0"),
]


def looking(*rows: list[object], **more) -> Screen:
    screen = Screen()
    screen.take(frame(*(rows or SHOP), **more))
    return screen


def shown(screen: Screen, width: int = 80, height: int = 30) -> list[str]:
    return screen.text(width, height, bright=False)


def body(screen: Screen, **size: int) -> list[str]:
    text = shown(screen, **size)
    start = next(n for n, line in enumerate(text) if line.startswith("NAME"))
    return [line[:24].rstrip() for line in text[start + 1 : -1]]


def press(screen: Screen, *keys: str) -> list[Ask]:
    return [ask for key in keys if (ask := screen.key(key)) is not None]


def test_the_tree_is_drawn() -> None:
    """Supervisors, workers with several replicas, and replicas are lines of a tree."""
    assert body(looking()) == [
        "shop",
        "├─ fetch x4",
        "│  ├─ fetch/0",
        "│  ├─ fetch/1",
        "│  ├─ fetch/2",
        "│  └─ fetch/3",
        "├─ store",
        "└─ mail",
        "   ├─ smtp",
        "   └─ templates",
    ]


def test_it_fits_into_80_columns() -> None:
    """No line is longer than the terminal is wide, and there are no more than it is high."""
    look = [{"path": "shop/mail/smtp/0", "kind": "failed", "text": "x" * 200, "actions": []}]
    for width in (20, 40, 80, 81, 120, 200):
        for height in (4, 10, 24):
            text = shown(looking(look=look), width, height)
            assert max(map(len, text)) <= width
            assert len(text) <= height


def test_a_wide_terminal_shows_errors() -> None:
    """Beyond 100 columns the last error has a column of its own."""
    assert any("ConnectError: refused" in line for line in shown(looking(), 140))
    assert not any("ConnectError" in line for line in shown(looking(), 80))


def test_what_needs_a_look_comes_first() -> None:
    """It stands above the tree; what has no room is counted."""
    look = [
        {"path": f"shop/{n}", "kind": "failed", "text": "failed", "actions": []} for n in range(9)
    ]
    text = shown(looking(look=look), height=24)

    assert [line for line in text if line.startswith("!")] == [
        *(f"! shop/{n} failed" for n in range(4)),
        "! and 5 more that need a look",
    ]


def test_rates_come_from_two_frames() -> None:
    """Messages per second are counted between frames, for each replica and in all."""
    screen = Screen()
    screen.take(frame(row("shop"), row("shop/a/0", handled=100), time=10.0))
    assert "msg/s" not in shown(screen)[0]
    screen.take(frame(row("shop"), row("shop/a/0", handled=150), time=12.0, uptime=102.0))

    assert "25 msg/s" in " ".join(shown(screen)[:2])
    assert any("25 █" in line for line in shown(screen))


def test_a_new_process_begins_the_rates_again() -> None:
    """If the process began again no rate is negative, and it is said."""
    screen = Screen()
    screen.take(frame(row("shop"), row("shop/a/0", handled=100), time=10.0))
    screen.take(frame(row("shop"), row("shop/a/0", handled=1), time=1.0, pid=8, uptime=1.0))

    assert shown(screen)[-1] == "the process began again: pid 8"
    assert not any("msg/s" in line for line in shown(screen)[:2])


def test_moving_and_folding() -> None:
    """The chosen line folds and unfolds; folded, it says how many run."""
    screen = looking()
    press(screen, "j", " ")
    assert body(screen)[:3] == ["shop", "├─ + fetch x4", "├─ store"]
    press(screen, "G" if False else "j", "j", " ")
    assert body(screen)[-1] == "└─ + mail"
    assert "running 1/2" in shown(screen)[-2]
    press(screen, " ", "k", "k", " ")
    assert len(body(screen)) == 10


def test_the_chosen_line_stays_in_sight() -> None:
    """A long tree scrolls with the choice, in both directions."""
    screen = looking(row("shop"), *(row(f"shop/w{n}/0") for n in range(100)))
    press(screen, *["page down"] * 5)
    assert any("w49" in line for line in body(screen, height=12))
    press(screen, *["up"] * 30)
    assert any("w19" in line for line in body(screen, height=12))
    press(screen, *["page up"] * 20)
    assert body(screen, height=12)[0] == "shop"


def test_filter() -> None:
    """Only what has the text in its path is shown; an empty one, or escape, shows all."""
    screen = looking()
    press(screen, "/", *"smt")
    assert shown(screen)[-1] == "/smt_"
    press(screen, "enter")
    assert body(screen) == ["shop", "└─ mail", "   └─ smtp"]
    press(screen, "/", "enter")
    assert len(body(screen)) == 10
    press(screen, "/", *"x", "backspace", *"st", "escape")
    assert len(body(screen)) == 10


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("n", "shop/fetch/0"),
        ("s", "shop/mail/smtp/0"),
        ("m", "shop/mail/smtp/0"),
        ("r", "shop/fetch/3"),
    ],
)
def test_sorting(key: str, first: str) -> None:
    """Sorted, the replicas are a flat list; `t` is the tree again."""
    screen = looking()
    press(screen, key)
    assert body(screen)[0] == first
    press(screen, "t")
    assert body(screen)[0] == "shop"


def test_a_verb_asks_first() -> None:
    """A key for a verb asks, and only y does it, to the line that was chosen."""
    screen = looking()
    press(screen, "j", "R")
    assert shown(screen)[-1] == "restart shop/fetch? y/n"
    assert press(screen, "n") == []
    assert shown(screen)[-1] == "nothing was done"
    assert press(screen, "j", "S", "y") == [Ask(what="do", verb="stop", path="shop/fetch/0")]


def test_inspecting() -> None:
    """Enter asks for the detail of the line, which then fills the screen until q."""
    screen = looking()
    assert press(screen, "j", "enter") == [Ask(what="detail", path="shop/fetch/0")]
    screen.detail([f"line {n}" for n in range(100)])
    assert "line 0" in shown(screen)
    press(screen, "page down", "j")
    assert "line 0" not in shown(screen)
    assert "line 11" in shown(screen)
    assert shown(screen)[-1] == "j/k scroll  q back"
    press(screen, *["down"] * 200)
    assert "line 99" in shown(screen)
    press(screen, "q")
    assert body(screen)[0] == "shop"


def test_a_detail_has_the_errors_first() -> None:
    """How it is, the newest error with its traceback, where it waits; what is not known here comes last."""
    errors = [
        {"when": 1.0, "run": 1, "error": "E: old", "traceback": "Traceback\n  old"},
        {"when": 2.0, "run": 2, "error": "E: new", "traceback": "Traceback\n  new"},
    ]
    text = shown_detail(
        {
            "path": "shop/fetch/0",
            "state": "running",
            "since": 61.0,
            "busy": None,
            "policy": {"replicas": 4, "restart.on": ["Exception"]},
            "errors": errors,
            "stack": ["here", "there"],
            "news": 3,
            "nothing": {},
        }
    )

    assert text[:2] == ["shop/fetch/0", "state=running  since=1m01s"]
    assert [line[:12] for line in text if line.startswith("run ")] == [
        "run 2 failed",
        "run 1 failed",
    ]
    assert (
        text.index("    new")
        < text.index("    old")
        < text.index("waits at")
        < text.index("policy")
    )
    assert '  replicas=4  restart.on=["Exception"]' in text
    assert text[-1] == "news  3"


def test_pausing_holds_the_picture() -> None:
    """A paused screen shows what it showed, and the newest when it goes on."""
    screen = looking()
    press(screen, "p")
    screen.take(frame(row("shop"), row("shop/new/0"), time=51.0, uptime=101.0))
    assert "├─ store" in body(screen)
    assert shown(screen)[-1].startswith("PAUSED")
    press(screen, "p")
    assert body(screen) == ["shop", "└─ new"]


def test_help_lists_the_keys() -> None:
    """`?` shows what `KEYS` has, and leaves by q."""
    screen = looking()
    press(screen, "?")
    text = "\n".join(shown(screen, height=40))
    assert [meaning for _, meaning in KEYS if meaning not in text] == []
    press(screen, "?")
    assert body(screen)[0] == "shop"


def test_a_lost_connection_is_said() -> None:
    """The last line tells since when the picture is frozen."""
    screen = looking()
    screen.lost = 12.0

    assert shown(screen)[-1] == "lost the connection 12s ago, the picture is frozen"


def test_colour_is_only_there_if_wanted() -> None:
    """Without it there is no escape sequence; with it the words are the same."""
    screen = looking()
    plain, bright = (screen.text(80, 30, bright=b) for b in (False, True))

    assert "\x1b" not in "".join(plain)
    assert "\x1b[31;1mfailed\x1b[0m" in "".join(bright)


@given(st.lists(st.sampled_from([*"jk /nsmgrtRSDXEAp+-?yqx", "enter", "escape", "up", "down", "page up", "page down", "backspace"]), max_size=40), st.integers(20, 150), st.integers(4, 40))  # fmt: skip
def test_no_keys_break_it(keys: list[str], width: int, height: int) -> None:
    """Whatever is pressed, there is a screen, and it fits."""
    screen = looking()
    for key in keys:
        ask = screen.key(key)
        if ask is not None and ask.what == "detail":
            screen.detail(["something"])
        text = screen.text(width, height, bright=False)
        assert len(text) <= height
        assert max(map(len, text)) <= width


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[Bj", ["up", "down", "j"]),
        ("\r", ["enter"]),
        ("\x1b", ["escape"]),
        ("\x1b[1;5Cx", ["x"]),
        ("\x1b[5~\x1b[6~", ["page up", "page down"]),
        ("\x7fab", ["backspace", "a", "b"]),
    ],
)
def test_keys_of_a_terminal(sent: str, keys: list[str]) -> None:
    """What a terminal sends is told apart into keys; what means nothing is left out."""
    assert keys_in(sent) == keys
