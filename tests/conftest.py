"""What every test gets: Trio, virtual time through `autojump_clock`, and hypothesis profiles.

pytest-trio runs async tests (`trio_mode`); its `autojump_clock` fixture makes a wait of an hour take
no time at all. No test sleeps for real.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

ROOT = Path(__file__).parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts its background jobs so. Tests interrupt themselves and would wait for it for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "dev",
    # Virtual time says nothing about how long an example takes on a busy machine.
    deadline=None,
    # Examples differ from run to run on purpose: a suite that always tries the same learns nothing.
    derandomize=False,
    print_blob=True,
    # To explain a failure takes several times as long as to find and shrink it, and says little about interleavings.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples"),
    # `autojump_clock` is made once for all examples of a test. Each example is a Trio run of its own
    # and reads the clock relative to its start, so nothing leaks from one into the next.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=100,
)
settings.register_profile(
    "ci",
    settings.get_profile("dev"),
    # A shared machine may be slow; that is no fault of the test.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=20_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)
