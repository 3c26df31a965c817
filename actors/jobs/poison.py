"""Poison: jobs set aside because they can never succeed, or kill whoever takes them.

Floor: the lowest of this room. The rule: a poison job is an incident of which a copy stands in `poison_jobs`, written in the
same step, so that it is never in both places to be run, and never in none (alanxz/rabbitmq-c#743, apache/pulsar#4426).
"""

from __future__ import annotations

from actors.records import Record, record

__all__ = ["PoisonJob"]


@record
class PoisonJob(Record):
    """One job that was set aside."""

    key: str
    type: str
    reason: str
    """What it said, or how often it was handed out without a word."""
    deliveries: int
    worker: str
    """Who had it last."""
    variables: str
    """As they are stored: JSON text, unless it is this that is wrong with it."""
    at: float
    """When, by the engine's clock."""
