"""How hard hypothesis looks in this folder: as hard as the profile says, within what a developer waits for."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

NIGHT = 20_000
"""Examples of every state machine in the profile that looks longest: `nox -s nightly`, where no test is taken for a hang."""
MOST = 6
"""How many times longer than every day: pytest takes a test of more than `faulthandler_timeout` seconds for a hang."""


def looking(examples: int, steps: int | None = None) -> settings:
    """Settings for `examples` in the everyday profiles; a profile that looks longer looks longer here too.

    With `steps` they are for a state machine, which is what the longest look is for.

    Explaining a failure (`Phase.explain`) costs several times what finding it does, and says little about interleavings.
    """
    share = min(settings.default.max_examples / 100, MOST)
    night = steps is not None and settings.default.max_examples >= NIGHT
    return settings(
        max_examples=NIGHT if night else max(1, round(examples * share)),
        stateful_step_count=50 if steps is None else steps,
        deadline=None,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
