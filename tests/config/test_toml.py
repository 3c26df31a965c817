"""TOML over the code: what it changes, and what it leaves alone."""

from __future__ import annotations

from math import inf

import pytest

from supervision import (
    MailboxSpec,
    OnFailed,
    Overflow,
    Ready,
    RestartPolicy,
    RestartType,
    Strategy,
    Supervisor,
    Worker,
    supervisor,
)
from supervision.config import configure, load
from supervision.specs import Spec


async def idle(ctx):
    """Do nothing until asked to stop."""
    await ctx.sleep(inf)


def shop() -> Supervisor:
    return Supervisor(
        "shop",
        [
            Worker("outbox", idle, restart=RestartPolicy(max_restarts=7, jitter=0.0)),
            Supervisor("billing", [Worker("invoices", idle), Worker("mail", idle)]),
            Supervisor("eu", [Worker("mail", idle)]),
        ],
    )


def at(tree: Supervisor, path: str) -> Spec:
    return dict(tree.walk())[path]


def worker(tree: Supervisor, path: str) -> Worker:
    found = at(tree, path)
    assert isinstance(found, Worker)
    return found


EVERYTHING = """
title = "shop"

[database]
url = "sqlite://"

[worker.workers.outbox]
replicas = 4
shutdown = 2.5
ready = "signal"
start_timeout = 3
watchdog = 9
on_failed = "hold"
enabled = false

[worker.workers.outbox.restart]
type = "permanent"
max_restarts = 0
initial_backoff = 0.5
factor = 3
max_backoff = 20
jitter = 0.2
reset_after = 10

[worker.workers.outbox.mailbox]
capacity = "inf"
overflow = "reject"
redeliver = 2
drain = true
"""


def test_every_option_of_a_worker_can_be_set() -> None:
    """All options but the code itself come from the file."""
    outbox = worker(configure(shop(), text=EVERYTHING, environ={}), "shop/outbox")

    assert (outbox.replicas, outbox.shutdown, outbox.enabled) == (4, 2.5, False)
    assert (outbox.ready, outbox.start_timeout, outbox.watchdog) == (Ready.SIGNAL, 3, 9)
    assert outbox.on_failed is OnFailed.HOLD
    assert outbox.restart == RestartPolicy(
        type=RestartType.PERMANENT,
        max_restarts=0,
        initial_backoff=0.5,
        factor=3,
        max_backoff=20,
        jitter=0.2,
        reset_after=10,
    )
    assert outbox.mailbox == MailboxSpec(
        capacity=inf, overflow=Overflow.REJECT, redeliver=2, drain=True
    )


def test_what_is_not_configured_stays_as_in_code() -> None:
    """Options that the file does not name keep the value of the code, not the default."""
    text = "[worker.workers.outbox.restart]\nfactor = 4\n"
    outbox = worker(configure(shop(), text=text, environ={}), "shop/outbox")

    assert outbox.restart == RestartPolicy(max_restarts=7, jitter=0.0, factor=4)


def test_the_tree_in_code_is_never_changed() -> None:
    """Configuring returns a new tree; the old one and untouched branches are the same as before."""
    tree = shop()
    changed = configure(tree, text=EVERYTHING, environ={})

    assert tree == shop()
    assert changed != tree
    assert at(changed, "shop/billing") is at(tree, "shop/billing")


def test_no_configuration_changes_nothing() -> None:
    """Without a file and variables the very same tree comes back."""
    tree = shop()

    assert configure(tree, environ={}) is tree


def test_supervisors_are_configured_the_same_way() -> None:
    """The root and nested supervisors have their own tables."""
    text = """
    [worker.supervisors.shop]
    strategy = "rest_for_one"
    [worker.supervisors.billing]
    intensity = 3
    period = 60
    max_children = 5
    auto_shutdown = "never"
    restart.max_restarts = 1
    """
    tree = configure(shop(), text=text, environ={})
    billing = at(tree, "shop/billing")

    assert isinstance(billing, Supervisor)
    assert tree.strategy is Strategy.REST_FOR_ONE
    assert (billing.intensity, billing.period, billing.max_children) == (3, 60, 5)
    assert (str(billing.auto_shutdown), billing.restart.max_restarts) == ("never", 1)


def test_a_path_in_quotes_says_which() -> None:
    """Where two workers share a name, the path picks one of them."""
    text = '[worker.workers."shop/eu/mail"]\nreplicas = 3\n'
    tree = configure(shop(), text=text, environ={})

    assert worker(tree, "shop/eu/mail").replicas == 3
    assert worker(tree, "shop/billing/mail").replicas == 1


def test_none_takes_a_limit_away() -> None:
    """TOML has no null: the word none stands for it where an option may be none."""
    tree = Supervisor("shop", [Worker("a", idle, watchdog=5)], intensity=3)
    text = '[worker.supervisors.shop]\nintensity = "none"\n[worker.workers.a]\nwatchdog = "none"\n'
    changed = configure(tree, text=text, environ={})

    assert (changed.intensity, worker(changed, "shop/a").watchdog) == (None, None)


@pytest.mark.parametrize("written", ["inf", '"inf"'])
def test_infinity_may_be_written_both_ways(written: str) -> None:
    """TOML's own infinity and the word for it mean the same."""
    text = f"[worker.workers.outbox]\nshutdown = {written}\nmailbox.capacity = {written}\n"
    outbox = worker(configure(shop(), text=text, environ={}), "shop/outbox")

    assert (outbox.shutdown, outbox.mailbox.capacity) == (inf, inf)


def test_a_file_and_a_mapping_say_the_same(tmp_path) -> None:
    """The same settings from a file, a text and a mapping give equal trees."""
    path = tmp_path / "app.toml"
    path.write_text(EVERYTHING, "utf-8")
    mapping = load(path).data

    trees = [
        configure(shop(), file=path, environ={}),
        configure(shop(), file=str(path), environ={}),
        configure(shop(), text=EVERYTHING, environ={}),
        configure(shop(), mapping=mapping, environ={}),
    ]

    assert all(tree == trees[0] for tree in trees)


def test_only_one_source_at_a_time() -> None:
    """A file and a text together are a mistake of the caller."""
    with pytest.raises(TypeError, match="one of file, text and mapping"):
        configure(shop(), file="app.toml", text="", environ={})


async def test_what_is_not_enabled_is_disabled_and_does_not_run(autojump_clock) -> None:
    """Setting enabled to false gives the state disabled; an operator can enable it later."""
    text = "[worker.workers.outbox]\nenabled = false\n"
    tree = configure(shop(), text=text, environ={})

    async with supervisor.running(tree, log=False) as pool:
        assert pool.info("outbox").state == "disabled"
        assert pool.info("invoices").state == "running"
        await pool.enable("outbox")
        await pool.wait_state("outbox", "running")
