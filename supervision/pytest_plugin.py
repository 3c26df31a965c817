"""The pytest plugin, an entry point: profiles, fixtures and options of the test kit.

Floor: above testing. The rule: a session that does not use the kit pays nothing: Hypothesis and the kit are imported on use,
and without them the plugin does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from supervision.testing.sim import Sim

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("supervision", "supervision trees in virtual time")
    group.addoption(
        "--supervision-schedule",
        metavar="TEXT",
        help="run ready tasks in this order, as printed by a failure: 'fifo', or 'fifo except 12:1, 30:2'",
    )
    group.addoption(
        "--supervision-check-determinism",
        action="store_true",
        help="run each simulate(), and each example of a state machine, twice and compare what was reported",
    )


def _wants_kit(config: pytest.Config) -> bool:
    profile = config.getoption("--hypothesis-profile", None)
    return bool(
        config.getoption("--supervision-schedule")
        or config.getoption("--supervision-check-determinism")
        or (profile or "").startswith("supervision")
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before Hypothesis' own plugin loads a profile, ours have to be known."""
    if not _wants_kit(config):
        return
    if find_spec("hypothesis") is None:
        raise pytest.UsageError(
            "the options of supervision.testing need Hypothesis: pip install 'treewarden[testing]'"
        )
    from supervision.testing.schedule import replay
    from supervision.testing.sim import Sim
    from supervision.testing.simulate import Twice

    text = config.getoption("--supervision-schedule")
    if text is not None:
        try:
            replay(text)
        except ValueError as error:
            raise pytest.UsageError(f"--supervision-schedule: {error}") from None
        Sim.override = text
    profile = config.getoption("--hypothesis-profile", None) or ""
    Sim.profile = profile if profile.startswith("supervision") else ""
    Twice.on = bool(config.getoption("--supervision-check-determinism"))


def pytest_unconfigure() -> None:
    """Leave nothing behind for another session in this process."""
    kit = sys.modules.get("supervision.testing")
    if kit is not None:
        from supervision.testing.sim import Sim
        from supervision.testing.simulate import Twice

        Sim.override = None
        Sim.profile = ""
        Twice.on = False


@pytest.fixture
def sim() -> Iterator[Sim]:
    """A `Sim`, closed after the test; then all invariants are asked once more."""
    from supervision.testing.sim import Sim

    made = Sim()
    try:
        yield made
    finally:
        made.close()
    made.judge()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A failure of a test with the fixture `sim`, or after a `simulate`, gets its timeline; what differed in a second run is its own."""
    _last_run(forget=True)
    try:
        yield
    except KeyboardInterrupt as stop:
        different = getattr(stop, "error", None)  # see `simulate.Different`
        if isinstance(different, Exception):
            raise different from None
        raise
    except Exception as error:
        made: Sim | None = getattr(item, "funcargs", {}).get("sim") or _last_run()
        if made is not None and hasattr(
            made, "explain"
        ):  # a fixture of that name may be the user's
            made.explain(error)
        raise
    finally:
        _last_run(forget=True)


def _last_run(*, forget: bool = False) -> Sim | None:
    """That of the last `simulate` in this test, if there was one."""
    kit = sys.modules.get("supervision.testing.simulate")
    if kit is None:
        return None
    if forget:
        kit.Last.sim = None
    found: Sim | None = kit.Last.sim
    return found


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """What should have been seen sometimes and never was fails a session in which nothing else did."""
    yield
    names = _never_held(session)
    if names and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was never seen."""
    names = _never_held(terminalreporter._session)
    if names:
        terminalreporter.section("sometimes() that never held", red=True)
        for name, where in names.items():
            terminalreporter.write_line(f"{name} ({where})")


def _never_held(session: pytest.Session | None) -> dict[str, str]:
    kit = sys.modules.get("supervision.testing.sometimes")
    # A session that was stopped early, or chose some tests, says nothing about what was never seen.
    whole = session is not None and not session.shouldstop and not session.shouldfail
    return dict(kit.never_held()) if kit is not None and whole else {}
