"""What `import supervision` brings along, and what waits until somebody uses it.

A worker process pays for its imports at every start, and a command line at every call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHOW = "import json, sys, supervision, actors; print(json.dumps(sorted(sys.modules)))"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a fresh interpreter that has imported both packages."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "name",
    [
        "opentelemetry",
        "hypothesis",
        "pytest",
        "h11",
        "wsproto",
        "trio_websocket",
        "sqlite3",
        "psycopg",
        "svcs",
        "rich",
        "tomllib",
        "argparse",
        "asyncio",
        "http.server",
    ],
)
def test_what_not_everybody_needs_is_loaded_on_use(loaded: set[str], name: str) -> None:
    """Telemetry, test tools, the web stack, database drivers and the command line load on use."""
    assert not {module for module in loaded if module == name or module.startswith(f"{name}.")}


def test_the_two_packages_are_loaded(loaded: set[str]) -> None:
    """The look at a fresh interpreter sees what it is meant to see."""
    assert {"actors", "supervision", "trio"} <= loaded


def test_what_a_handler_raises_is_at_the_door() -> None:
    """Every exception that a job's handler speaks with comes from `actors.jobs`, and that for messages from `actors`, too."""
    import actors
    from actors import errors, jobs

    for name in ("BpmnError", "FailWithRetry", "IncidentError", "PoisonMessage"):
        assert name in jobs.__all__
        assert getattr(jobs, name) is getattr(errors, name)
    assert actors.PoisonMessage is errors.PoisonMessage
