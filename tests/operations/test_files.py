"""The alerts and the dashboard speak of metrics that there are, with labels that they have, and do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from supervision.metrics import FAMILIES, HISTOGRAMS

FOLDER = Path(__file__).parent.parent.parent / "docs" / "operations"
ALERTS = (FOLDER / "alerts.yml").read_text("utf-8")
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
LABELS = {family.name: set(family.labels) for family in (*FAMILIES, *HISTOGRAMS)}
NAME = re.compile(r"\b((?:wf_worker|supervision)_\w+?)(_bucket)?\b(?:\{([^}]*)\})?")


def used(text: str) -> list[tuple[str, set[str]]]:
    """Return each metric that is asked for, and the labels it is chosen by."""
    return [
        (name, set(re.findall(r"(\w+)\s*=", labels or "")))
        for name, _, labels in NAME.findall(text)
    ]


@pytest.mark.parametrize("text", [ALERTS, *QUERIES], ids=lambda text: text[:40])
def test_only_metrics_that_exist_are_asked_for(text: str) -> None:
    """A query for a name or a label that is not exported would be silent for ever."""
    found = used(text)
    assert found
    for name, labels in found:
        assert labels <= LABELS[name], name


@pytest.mark.parametrize("query", QUERIES)
def test_a_sum_keeps_labels_that_there_are(query: str) -> None:
    """What a panel groups by is a label of what it shows."""
    (kept,) = re.findall(r"by \(([^)]*)\)", query) or [""]
    names = {label.strip() for label in kept.split(",") if label.strip()} - {"le"}
    for name, _ in used(query):
        assert names <= LABELS[name]


def test_the_dashboard_shows_every_metric() -> None:
    """Whatever a tree exports can be seen."""
    assert {name for query in QUERIES for name, _ in used(query)} == set(LABELS)


def test_panels_do_not_lie_on_each_other() -> None:
    """Each panel has a place of its own on a grid of 24 columns, and an id of its own."""
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [["check", "alerts.yml"], ["test", "alerts_test.yml"]])
def test_prometheus_agrees(command: list[str]) -> None:
    """Prometheus' own tool takes the rules, and each fires when it should and not otherwise."""
    verb, file = command
    done = subprocess.run(
        ["promtool", verb, "rules", file], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
