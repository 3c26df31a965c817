"""Constructor parameters from a registry: a fresh container for each run, closed at its end."""

from __future__ import annotations

import functools
from math import inf
from typing import Protocol

import attrs
import pytest
import svcs
import trio

from actors import Actor, Context
from supervision import RestartPolicy, ServiceMissing, Supervisor, TreeFailed, Worker, supervisor

ONCE = RestartPolicy(max_restarts=1, initial_backoff=0, jitter=0)


class Settings:
    """A plain service."""


class Database:
    """A service that is opened and closed, and notes both."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.open = True
        log.append("open")

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self.open = False
        self.log.append("close")


class Clock(Protocol):
    """A service known by its protocol."""

    def now(self) -> float: ...


class Relay(Actor):
    """An actor that needs services."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings

    async def handle(self, message: object) -> object:
        if message == "fail":
            raise ValueError("as asked")
        return self.database.open


@attrs.define
class Generated(Actor):
    """An actor whose constructor is generated."""

    database: Database
    limit: int = 3

    async def handle(self, message: object) -> object:
        return self.database.open


class Keywords(Actor):
    """An actor with keyword-only parameters."""

    def __init__(self, *, clock: Clock, settings: Settings, **rest: object) -> None:
        self.clock = clock

    async def handle(self, message: object) -> object:
        return self.clock.now()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def registry(log):
    registry = svcs.Registry()

    async def database():
        made = Database(log)
        yield made
        await made.close()

    registry.register_factory(Database, database)
    registry.register_value(Settings, Settings())
    with registry:
        yield registry


def tree(*workers: Worker) -> Supervisor:
    return Supervisor("shop", workers)


async def test_a_constructor_gets_its_services(registry, log, autojump_clock) -> None:
    """Each parameter gets the service of its type, open while the run lives and closed after."""
    one = tree(Worker("relay", Relay))

    async with supervisor.running(one, services=registry, log=False) as pool:
        assert await pool.ref("relay").ask("open?") is True
        assert log == ["open"]

    assert log == ["open", "close"]


async def test_every_run_has_a_container_of_its_own(registry, log, autojump_clock) -> None:
    """A run that fails closes its services before the next run opens its own; replicas share nothing."""
    one = tree(Worker("relay", Relay, restart=ONCE))

    async with supervisor.running(one, services=registry, log=False) as pool:
        await pool.ref("relay").tell("fail")
        assert await pool.ref("relay").ask("open?") is True
        assert log == ["open", "close", "open"]
        await pool.scale("relay", 3)
        assert log == ["open", "close", "open", "open", "open"]

    assert log.count("close") == 4


async def test_services_are_closed_when_the_constructor_fails(
    registry, log, autojump_clock
) -> None:
    """What was opened for a constructor that raises is closed all the same."""

    def broken(database: Database) -> Actor:
        raise ValueError("no")

    with pytest.raises(TreeFailed):
        await supervisor.serve(
            tree(Worker("relay", broken, restart=ONCE)), services=registry, log=False
        )

    assert log == ["open", "close", "open", "close"]


async def test_services_are_closed_when_the_run_is_cancelled(registry, log, autojump_clock) -> None:
    """A run that has to be cancelled closes its services, although its deadline has passed."""

    def stubborn(database: Database):
        async def run(ctx):
            with ctx.busy():
                await trio.sleep_forever()

        return run

    one = tree(Worker("relay", stubborn, shutdown=2))

    async with supervisor.running(one, services=registry, log=False):
        pass

    assert log == ["open", "close"]
    assert trio.current_time() == 2


async def test_closing_is_bounded(autojump_clock, caplog) -> None:
    """A service that never closes is given up after the deadline, and the log says so."""
    registry = svcs.Registry()
    registry.register_factory(Sticky, Sticky)

    def factory(connection: Sticky):
        async def run(ctx):
            await ctx.sleep(inf)

        return run

    with pytest.warns(ResourceWarning, match="pending cleanups"):
        async with supervisor.running(
            tree(Worker("relay", factory, shutdown=3)), services=registry, log=False
        ):
            pass

    assert trio.current_time() == 3
    assert "shop/relay/0: closing its services was cancelled after 3 s" in caplog.text


class Sticky:
    """A connection that does not close."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.sleep_forever()


async def test_a_factory_of_a_function_can_have_services(registry, autojump_clock) -> None:
    """A factory gets its services and may return an async function of the context."""
    seen: list[object] = []

    def factory(database: Database, settings: Settings):
        async def run(ctx: Context) -> None:
            seen.append((database.open, type(settings)))

        return run

    await supervisor.serve(tree(Worker("relay", factory)), services=registry, log=False)

    assert seen == [(True, Settings)]


async def test_a_default_is_kept_without_a_service(registry, autojump_clock) -> None:
    """A parameter with a default gets the service if there is one, and else keeps the default."""
    seen: list[object] = []

    def factory(limit: int = 5, clock: Clock | None = None, settings: Settings | None = None):
        async def run(ctx: Context) -> None:
            seen.append((limit, clock, type(settings)))

        return run

    await supervisor.serve(tree(Worker("relay", factory)), services=registry, log=False)

    assert seen == [(5, None, Settings)]


async def test_other_ways_to_write_a_constructor(registry, autojump_clock) -> None:
    """Generated constructors, keyword-only parameters, partials and protocols work, too."""

    class Wall:
        def now(self) -> float:
            return 42.0

    registry.register_value(Clock, Wall())
    given = functools.partial(Keywords, settings=Settings())
    three = tree(Worker("attrs", Generated), Worker("keywords", Keywords), Worker("partial", given))

    async with supervisor.running(three, services=registry, log=False) as pool:
        assert await pool.ref("attrs").ask("?") is True
        assert await pool.ref("keywords").ask("?") == 42.0
        assert await pool.ref("partial").ask("?") == 42.0


def needs_a_clock(container: svcs.Container) -> Database:
    container.get(Clock)
    return Database([])


@pytest.mark.parametrize("missing", ["relay", "nested"])
async def test_a_missing_service_names_parameter_and_type(missing: str, autojump_clock) -> None:
    """The failure says who needs which parameter of which type, and whether something else lacks it."""
    registry = svcs.Registry()
    registry.register_value(Settings, Settings())
    if missing == "nested":
        registry.register_factory(Database, needs_a_clock)

    with pytest.raises(TreeFailed) as caught:
        await supervisor.serve(
            tree(Worker("relay", Relay, restart=ONCE)), services=registry, log=False
        )

    failure = caught.value.failures[-1]
    assert isinstance(failure, ServiceMissing)
    assert (failure.parameter, failure.kind) == ("database", Database)
    wanted = "Clock, which that needs in turn" if missing == "nested" else "Database;"
    assert str(failure).startswith(
        "Relay (worker 'relay') needs database: Database, but the registry has no service of type"
        f" {wanted}"
    )


async def test_a_service_that_cannot_be_made_says_for_whom(registry, autojump_clock) -> None:
    """The error of a service's own factory comes out as itself, with a note."""

    def broken() -> Database:
        raise OSError("no route")

    registry.register_factory(Database, broken)

    with pytest.raises(TreeFailed) as caught:
        await supervisor.serve(
            tree(Worker("relay", Relay, restart=ONCE)), services=registry, log=False
        )

    failure = caught.value.failures[-1]
    assert isinstance(failure, OSError)
    assert "while making database: Database for Relay (worker 'relay')" in failure.__notes__


async def test_an_annotation_that_cannot_be_resolved_is_explained(registry, autojump_clock) -> None:
    """A type that exists for type checkers only is named, with what to do."""

    class Local(Actor):
        def __init__(self, database: NotImported) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TreeFailed) as caught:
        await supervisor.serve(
            tree(Worker("relay", Local, restart=ONCE)), services=registry, log=False
        )

    assert "database: NotImported" in str(caught.value.failures[-1])
    assert "not under TYPE_CHECKING" in str(caught.value.failures[-1])


async def test_a_child_added_later_gets_services(registry, log, autojump_clock) -> None:
    """A child that start_child adds is made with services as those that serve started."""
    async with supervisor.running(Supervisor("s"), services=registry, log=False) as pool:
        await pool.start_child("s", Worker("relay", Relay))
        assert log == ["open"]

    assert log == ["open", "close"]
