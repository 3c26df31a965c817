"""The payments example: killed workers, and every payment booked once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_payment_is_booked_once():
    """The example kills its workers and proves that no payment is missing or double."""
    done = subprocess.run(
        [sys.executable, "-u", "-m", "examples.payments", "--fast"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "60 orders placed, each in one transaction with its job"
    assert len([line for line in lines if "killed after" in line]) == 3
    assert lines[-1] == "60 payments booked for 60 orders, 0 of them missing or double"
