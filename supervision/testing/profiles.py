"""Hypothesis profiles that suit runs in virtual time."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

__all__ = ["NIGHTLY", "PROFILE", "register_profiles"]

PROFILE = "supervision"
NIGHTLY = "supervision-nightly"


def register_profiles() -> None:
    """Make `supervision` and `supervision-nightly` known to Hypothesis. Importing the kit does it."""
    settings.register_profile(
        PROFILE,
        # Virtual time says nothing about how long an example takes.
        deadline=None,
        # To explain a failure takes several times as long as to find and shrink it, and says little about interleavings.
        phases=[phase for phase in Phase if phase is not Phase.explain],
        report_multiple_bugs=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.register_profile(
        NIGHTLY,
        settings.get_profile(PROFILE),
        max_examples=20_000,
        stateful_step_count=60,
        suppress_health_check=list(HealthCheck),
    )
