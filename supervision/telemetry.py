"""OpenTelemetry (placeholder being written)."""

from __future__ import annotations

import sys


def in_use() -> bool:
    """True if the program has imported OpenTelemetry's API."""
    return False
