"""Sweep: a plan on its way.

Floor: above member. The rule: it only notes how far the plan is; `branch.py` takes the steps.
"""

from __future__ import annotations

from collections import deque

from actors.clock import Timer
from supervision.member import Member
from supervision.plan import Plan

__all__ = ["Sweep"]


class Sweep:
    """Which waves of a plan are left, and whom the present one waits for."""

    __slots__ = ("plan", "starts", "stops", "timer", "to_start", "to_stop", "waiting")

    def __init__(self, plan: Plan[Member]) -> None:
        self.plan = plan
        self.stops = deque(plan.stop)
        self.starts = deque(plan.start)
        self.to_stop: set[Member] = {member for wave in plan.stop for member in wave}
        """Whose turn to stop has not come yet."""
        self.to_start: set[Member] = {member for wave in plan.start for member in wave}
        """Whose turn to start has not come yet."""
        self.waiting: set[Member] = set()
        self.timer: Timer | None = None
        """The one that ends the wait before the first start."""
