"""Armour for a call: schedules of waiting so far."""

from __future__ import annotations

from actors.resilience.backoff import Backoff

__all__ = ["Backoff"]
