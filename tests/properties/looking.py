"""How hard hypothesis looks in this folder: as hard as the profile says, within what a developer waits for."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

MOST = 6
"""How many times longer than every day: pytest takes a test of more than `faulthandler_timeout` seconds for a hang."""


def looking(examples: int, steps: int = 50) -> settings:
    """Settings for `examples` in the everyday profiles; a profile that looks longer looks longer here too.

    Explaining a failure (`Phase.explain`) costs several times what finding it does, and says little about interleavings.
    """
    share = min(settings.default.max_examples / 100, MOST)
    return settings(
        max_examples=max(1, round(examples * share)),
        stateful_step_count=steps,
        deadline=None,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
