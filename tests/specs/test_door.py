"""Bad input at the door: refused where it is declared, with what, where, the value and a way out."""

from __future__ import annotations

import functools
import math

import pytest
import trio

from actors import Actor
from supervision import (
    MailboxSpec,
    RestartPolicy,
    SpecError,
    StartFailed,
    Supervisor,
    Worker,
    supervisor,
)


async def run(ctx):
    """Return at once."""


async def two(ctx, other):
    """Want too much."""


async def nothing():
    """Want too little."""


async def stream(ctx):
    """Yield instead of working."""
    yield ctx


def sync(ctx):
    """Block."""


class Plain:
    """No actor."""


class Handler(Actor):
    """An actor without needs."""


def refused(make, *says: str, where: str = "", option: str | None = None) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    text = str(caught.value)
    assert [part for part in says if part not in text] == [], text
    assert text.startswith(where), text
    if option is not None:
        assert caught.value.option == option  # type: ignore[attr-defined]


NAMES = ["", "a/b", "a b", " a", "a\n", "a*", "a?", "[a]", "7", None, 7, b"a", ["a"]]


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("kind", [Worker, Supervisor])
def test_a_name_that_no_path_can_have_is_refused(kind, name) -> None:
    """A name is text, not empty, and means one thing in a path."""
    refused(lambda: kind(name, run if kind is Worker else []), repr(name), option="name")


def test_two_children_of_one_name_are_refused() -> None:
    """Siblings have different names; cousins may share one."""
    twins = [Worker("a", run), Supervisor("a", [Worker("b", run)])]

    refused(lambda: Supervisor("s", twins), "'a'", where="supervisor 's': ", option="children")
    assert Supervisor("s", [Worker("a", run), Supervisor("t", [Worker("a", run)])])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: run(None), "pass the function, run, not what calling it returned, run(...)"),
        (lambda: stream, "async generator"),
        (lambda: stream(None), "async generator"),
        (lambda: sync, "sync function that takes arguments"),
        (lambda: two, "write 'async def run(ctx)'"),
        (lambda: nothing, "write 'async def run(ctx)'"),
        (lambda: Plain, "derive it from actors.Actor"),
        (lambda: Handler(), "pass the class itself"),
        (lambda: "run", "must be callable, not 'run'"),
        (lambda: None, "must be callable, not None"),
        (lambda: 3, "must be callable, not 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_that_cannot_run_is_refused(made, says: str) -> None:
    """Each usual mistake has its own sentence, and no coroutine is left that was never awaited."""
    refused(lambda: Worker("a", made()), says, where="worker 'a': ", option="run")


@pytest.mark.parametrize(
    "value",
    [run, functools.partial(two, other=1), Handler, lambda: Handler(), functools.partial(Handler)],
    ids=["function", "partial", "actor", "lambda", "partial of an actor"],
)
def test_what_can_run_is_accepted(value) -> None:
    """Functions of a context, actors, and factories that need nothing pass."""
    assert Worker("a", value).run is value


BAD_NUMBERS = [-1, -0.5, math.nan, -math.inf, True, False, "3", b"3", [3], object]
SECONDS = ["shutdown", "start_timeout", "watchdog"]


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("option", [*SECONDS, "replicas"])
def test_a_worker_has_no_number_that_makes_no_sense(option: str, value: object) -> None:
    """Negative, infinite downwards, not a number, switches and texts are refused with name, place and value."""
    refused(
        lambda: Worker("a", run, **{"ready": "signal", option: value}),
        f"{option} must be",
        repr(value),
        where="worker 'a': ",
        option=option,
    )


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("option", ["intensity", "period", "max_children"])
def test_a_supervisor_has_no_number_that_makes_no_sense(option: str, value: object) -> None:
    """The limits of a supervisor are checked like those of a worker."""
    refused(
        lambda: Supervisor("s", [Worker("a", run)], **{option: value}),
        f"{option} must be",
        repr(value),
        where="supervisor 's': ",
        option=option,
    )


NUMBERS = ["max_restarts", "initial_backoff", "factor", "max_backoff", "jitter", "reset_after"]


@pytest.mark.parametrize("value", [*BAD_NUMBERS, math.inf, None], ids=repr)
@pytest.mark.parametrize("option", NUMBERS)
def test_a_policy_has_no_number_that_makes_no_sense(option: str, value: object) -> None:
    """Every number of a restart policy is finite and in range."""
    refused(
        lambda: RestartPolicy(**{option: value}),  # type: ignore[arg-type]
        f"{option} must be",
        repr(value),
        where="RestartPolicy: ",
        option=option,
    )


@pytest.mark.parametrize("value", [*BAD_NUMBERS, 1.5, None], ids=repr)
@pytest.mark.parametrize("option", ["capacity", "redeliver"])
def test_a_mailbox_has_no_number_that_makes_no_sense(option: str, value: object) -> None:
    """A mailbox counts in whole messages."""
    refused(
        lambda: MailboxSpec(**{option: value}),  # type: ignore[arg-type]
        f"{option} must be",
        repr(value),
        where="MailboxSpec: ",
        option=option,
    )


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: Worker("a", run, replicas=math.inf), "replicas"),
        (lambda: Worker("a", run, replicas=1.0), "replicas"),
        (lambda: Worker("a", run, watchdog=math.inf), "watchdog"),
        (lambda: Worker("a", run, watchdog=0), "watchdog"),
        (lambda: Worker("a", run, start_timeout=math.inf, ready="signal"), "start_timeout"),
        (lambda: Worker("a", run, shutdown=None), "shutdown"),
        (lambda: Supervisor("s", period=0), "period"),
        (lambda: Supervisor("s", period=None), "period"),
        (lambda: Supervisor("s", period=math.inf), "period"),
        (lambda: Supervisor("s", intensity=1.5), "intensity"),
        (lambda: RestartPolicy(factor=0.9), "factor"),
        (lambda: RestartPolicy(jitter=1), "jitter"),
    ],
)
def test_limits_of_a_range_are_refused(make, option: str) -> None:
    """Zero, none and infinity are refused where they have no meaning."""
    refused(make, f"{option} must be", option=option)


def test_infinity_is_kept_where_it_means_something() -> None:
    """Waiting for ever for a stop and an unbounded mailbox are legal."""
    spec = Worker("a", run, shutdown=math.inf, mailbox=MailboxSpec(capacity=math.inf))

    assert spec.shutdown == spec.mailbox.capacity == math.inf


@pytest.mark.parametrize("value", [0, 1, "yes", None, []], ids=repr)
@pytest.mark.parametrize("option", ["enabled", "significant"])
def test_a_switch_is_true_or_false(option: str, value: object) -> None:
    """What merely counts as true is refused."""
    refused(
        lambda: Worker("a", run, **{option: value}),
        f"{option} must be True or False",
        option=option,
    )
    refused(
        lambda: Supervisor("s", **{option: value}), f"{option} must be True or False", option=option
    )


@pytest.mark.parametrize(
    ("make", "option", "near"),
    [
        (lambda: Supervisor("s", strategy="one_for_al"), "strategy", "'one_for_all'"),
        (lambda: Supervisor("s", auto_shutdown="newer"), "auto_shutdown", "'never'"),
        (lambda: Supervisor("s", start="strickt"), "start", "'strict'"),
        (lambda: Supervisor("s", on_failed="holt"), "on_failed", "'hold'"),
        (lambda: Worker("a", run, ready="sigal"), "ready", "'signal'"),
        (lambda: Worker("a", run, on_failed="esclate"), "on_failed", "'escalate'"),
        (lambda: RestartPolicy(type="permanet"), "type", "'permanent'"),
        (lambda: MailboxSpec(overflow="drop_old"), "overflow", "'drop_oldest'"),
    ],
)
def test_an_unknown_choice_names_the_nearest(make, option: str, near: str) -> None:
    """A word that is none of the choices lists them and says which was meant."""
    refused(make, f"{option} must be one of", f"Did you mean {near}?", option=option)


@pytest.mark.parametrize("value", [None, 3, True, ["one_for_all"], {}], ids=repr)
def test_a_choice_is_a_word(value: object) -> None:
    """What is no word at all is refused like an unknown one."""
    refused(lambda: Supervisor("s", strategy=value), "strategy must be one of", repr(value))


@pytest.mark.parametrize(
    ("make", "option", "says"),
    [
        (
            lambda: Worker("a", run, max_restarts=3),
            "max_restarts",
            "restart=RestartPolicy(max_restarts=...)",
        ),
        (lambda: Worker("a", run, capacity=3), "capacity", "mailbox=MailboxSpec(capacity=...)"),
        (lambda: Worker("a", run, strategy="one_for_all"), "strategy", "belongs to a Supervisor"),
        (lambda: Supervisor("s", replicas=3), "replicas", "belongs to a Worker"),
        (lambda: Supervisor("s", max_restarts=3), "max_restarts", "restart=RestartPolicy("),
        (lambda: Worker("a", run, retart=3), "retart", "Did you mean 'restart'?"),
        (lambda: Worker("a", run, kind="actor"), "kind", "no option 'kind'"),
        (lambda: RestartPolicy(max_restart=3), "max_restart", "Did you mean 'max_restarts'?"),
        (lambda: MailboxSpec(size=3), "size", "no option 'size'"),
        (
            lambda: Worker("a", run, 3),
            "",
            "too many positional arguments; write Worker(name, run, ",
        ),
        (lambda: Worker("a"), "", "missing a required argument: 'run'"),
        (lambda: Worker(), "", "missing a required argument"),
        (lambda: RestartPolicy(3), "", "too many positional arguments"),
    ],
)
def test_an_option_in_the_wrong_place_is_shown_the_right_one(make, option, says) -> None:
    """An option that does not exist here says where it belongs, or which one is near."""
    refused(make, says, option=option)


@pytest.mark.parametrize("value", [None, 3, {"max_restarts": 3}, RestartPolicy], ids=repr)
def test_a_policy_is_a_policy(value: object) -> None:
    """A dict or a number in place of a policy is refused."""
    refused(
        lambda: Worker("a", run, restart=value), "restart is a RestartPolicy(...)", option="restart"
    )
    refused(
        lambda: Worker("a", run, mailbox=value), "mailbox is a MailboxSpec(...)", option="mailbox"
    )


@pytest.mark.parametrize(
    "on", [ValueError(), "ValueError", BaseException, KeyboardInterrupt, None], ids=repr
)
def test_what_restarts_cure_are_exception_classes(on: object) -> None:
    """Only classes of ordinary exceptions can be listed."""
    for given in ((on,), on):
        wanted = f"on lists exception classes (of Exception), not {on!r}"
        refused(lambda given=given: RestartPolicy(on=given), wanted, option="on")


@pytest.mark.parametrize(
    "value", [run, None, 3, Worker("a", run)], ids=["fn", "none", "3", "worker"]
)
def test_children_are_a_list(value: object) -> None:
    """One child without its brackets is refused."""
    refused(lambda: Supervisor("s", value), "list of Worker and Supervisor", option="children")


@pytest.mark.parametrize("made", [lambda: run, lambda: run(None), lambda: "a", lambda: Worker])
def test_a_child_is_a_spec(made) -> None:
    """A function or a coroutine in the list is refused with the way to wrap it, and nothing is left unawaited."""
    refused(
        lambda: Supervisor("s", [made()]),
        "wrap it: Worker('name', run)",
        where="supervisor 's': ",
        option="children",
    )


def test_a_significant_child_must_be_able_to_end() -> None:
    """Significant and permanent exclude each other, for workers and supervisors."""
    forever = RestartPolicy(type="permanent")

    refused(
        lambda: Worker("a", run, significant=True, restart=forever),
        "make it transient or temporary",
        where="worker 'a': ",
        option="significant",
    )
    refused(
        lambda: Supervisor("s", significant=True, restart=forever),
        "cannot be significant",
        where="supervisor 's': ",
        option="significant",
    )


@pytest.mark.parametrize("mode", ["all_done", "never"])
def test_significant_without_effect_is_refused(mode: str) -> None:
    """A significant child under a supervisor that does not look at it says which modes do."""
    child = Worker("a", run, significant=True)

    refused(
        lambda: Supervisor("s", [child], auto_shutdown=mode),
        "child 'a' is significant",
        "'any_significant' or 'all_significant'",
        where="supervisor 's': ",
        option="significant",
    )
    assert Supervisor("s", [child], auto_shutdown="any_significant")


def test_more_children_than_allowed_are_refused() -> None:
    """A limit below the declared children is a contradiction, at the limit it is none."""
    children = [Worker("a", run), Worker("b", run)]

    refused(
        lambda: Supervisor("s", children, max_children=1),
        "it has 2 children",
        option="max_children",
    )
    assert Supervisor("s", children, max_children=2)


def test_a_start_timeout_without_effect_is_refused() -> None:
    """A function that is ready as soon as it runs cannot be late; an actor and a signal can."""
    refused(
        lambda: Worker("a", run, start_timeout=3),
        "ready='signal'",
        where="worker 'a': ",
        option="start_timeout",
    )
    assert Worker("a", Handler, start_timeout=3)
    assert Worker("a", run, start_timeout=3, ready="signal")


def test_everything_at_the_door_is_one_kind_of_error() -> None:
    """A program that builds its tree from outside can catch one class for all of it."""
    for make in (
        lambda: Worker("", run),
        lambda: Worker("a", sync),
        lambda: Worker("a", run, shutdown=-1),
        lambda: Worker("a", run, ready="x"),
        lambda: RestartPolicy(jitter=2),
        lambda: Supervisor("s", [run]),
        lambda: Supervisor("s", nothing=1),
    ):
        with pytest.raises(SpecError):
            make()


@pytest.mark.parametrize(
    ("tree", "options", "says"),
    [
        (Worker("a", run), {}, "serve() runs a Supervisor"),
        ([Worker("a", run)], {}, "serve() runs a Supervisor"),
        (Supervisor("s", enabled=False), {}, "the root of a tree cannot be disabled"),
        (Supervisor("s", significant=True), {}, "cannot be significant"),
        (Supervisor("s"), {"stop_timeout": -1}, "stop_timeout must be"),
        (Supervisor("s"), {"stop_timeout": math.nan}, "stop_timeout must be"),
        (Supervisor("s"), {"stop_timeout": "3"}, "stop_timeout must be"),
        (Supervisor("s"), {"stop_timeout": True}, "stop_timeout must be"),
        (Supervisor("s"), {"start": "strickt"}, "Did you mean 'strict'?"),
        (Supervisor("s"), {"listeners": print}, "listeners is a list of functions of one event"),
        (Supervisor("s"), {"listeners": [3]}, "listeners is a list of functions of one event"),
        (Supervisor("s"), {"signals": "yes"}, "signals is True, False or None"),
        (Supervisor("s"), {"random": 3}, "random is a source such as random.Random(1)"),
    ],
)
async def test_serve_refuses_what_it_cannot_run(tree, options, says: str) -> None:
    """Nothing starts if the root or an option of serve is wrong."""
    with pytest.raises(ValueError) as caught:
        await supervisor.serve(tree, log=False, **options)

    assert says in str(caught.value)


async def test_a_factory_that_returns_a_coroutine_fails_clearly(autojump_clock) -> None:
    """What a factory returns is checked for each run, and no coroutine is left that was never awaited."""
    tree = Supervisor(
        "s", [Worker("a", lambda: run(None), restart=RestartPolicy(type="temporary"))]
    )
    events: list[str] = []

    await supervisor.serve(
        tree, log=False, listeners=[lambda event: events.append(event.sentence())]
    )

    assert any("its factory returned <coroutine" in text for text in events)


async def test_a_strict_start_can_be_looked_at_while_it_goes_on(autojump_clock) -> None:
    """Without waiting, the pool of a strict start comes at once, and a failing first start ends serve."""

    async def late(ctx):
        await trio.sleep(5)
        raise ValueError("not today")

    tree = Supervisor("s", [Worker("a", late, ready="signal")])

    with pytest.raises(StartFailed, match="not today"):
        async with supervisor.running(tree, start="strict", wait_ready=False, log=False) as pool:
            assert trio.current_time() == 0
            await pool.wait_stopped()

    assert trio.current_time() == 5


INVISIBLE = ["a\0b", "a\udce9", "a\u202eb", "a\u200bb", ".", ".."]


@pytest.mark.parametrize("name", INVISIBLE, ids=ascii)
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    """Control and invisible characters, half characters, and what an address would resolve have no place in a path."""
    refused(lambda: Worker(name, run), repr(name), "cannot be shown", option="name")
    assert Worker("größe.v2", run)


def test_a_number_too_large_for_a_clock_is_refused() -> None:
    """An int that cannot be added to a time is refused where it is written, not when the tree stops."""
    refused(lambda: Worker("a", run, shutdown=10**400), "shutdown must be", option="shutdown")
    assert Worker("a", run, shutdown=2**60 + 1)
