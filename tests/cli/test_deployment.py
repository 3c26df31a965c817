"""The sample unit for systemd and the sample manifest for Kubernetes fit the code."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervision.cli.parser import understand
from supervision.cli.reading import PROBES
from supervision.cli.words import REFUSED
from supervision.notify import CALM
from supervision.observer import Observer
from supervision.observer.spec import DEFAULT_ADDRESS
from tests.cli.kit import ROOT

OPERATIONS = ROOT / "docs" / "operations"
UNIT = OPERATIONS / "treewarden.service"
PORT = int(DEFAULT_ADDRESS.rpartition(":")[2])


def unit() -> dict[str, str]:
    """The settings of the unit; of one that stands there more often the last."""
    lines = UNIT.read_text("utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if re.match(r"\w+=", line)]
    return {key: value for key, _, value in pairs}


def command(words: list[str], monkeypatch) -> argparse.Namespace:
    """What our own parser makes of a command line."""
    for name in ("TOKEN", "SOCKET", "OBSERVER"):
        monkeypatch.delenv(f"TREEWARDEN_{name}", raising=False)
    assert words[0].rpartition("/")[2] == "treewarden"
    return understand(words[1:])


def manifest() -> dict[str, Any]:
    """The one document of the manifest."""
    yaml = pytest.importorskip("yaml")
    (document,) = yaml.safe_load_all((OPERATIONS / "kubernetes.yaml").read_text("utf-8"))
    return document


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say about it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = UNIT.read_text("utf-8")
    here = tmp_path / "shop.service"
    # The program has to be there for the check.
    here.write_text(text.replace(unit()["ExecStart"].split()[0], sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in done.stderr.splitlines() if "shop.service" in line]

    assert about_us == []


def test_the_unit_is_of_the_kind_that_is_told() -> None:
    """It waits for READY from the main process, and wants pings not oftener than they come."""
    settings = unit()

    assert settings["Type"] == "notify"
    assert settings["NotifyAccess"] == "main"
    assert float(settings["WatchdogSec"]) > 3 * CALM


def test_the_deadlines_of_the_unit_fit(monkeypatch) -> None:
    """Systemd waits longer than the tree may take, with the flags that the unit itself gives."""
    args = command(shlex.split(unit()["ExecStart"]), monkeypatch)

    assert float(unit()["TimeoutStopSec"]) > args.stop_timeout + args.kill_after
    assert unit()["KillMode"] == "mixed"


def test_the_unit_knows_our_exit_codes() -> None:
    """A failure is followed by another try, a mistake in the configuration is not."""
    assert unit()["Restart"] == "on-failure"
    assert int(unit()["RestartPreventExitStatus"]) == REFUSED


def test_the_manifest_asks_the_probes_that_there_are(monkeypatch) -> None:
    """Each probe has its own path, at the port at which the tree is served."""
    (container,) = manifest()["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    asked = {
        kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }

    assert {kind: get["path"] for kind, get in asked.items()} == {
        "startup": PROBES["started"],
        "liveness": PROBES["live"],
        "readiness": PROBES["ready"],
    }
    assert {get["port"] for get in asked.values()} == {port["name"]}
    args = command([*container["command"], *container["args"]], monkeypatch)
    (place,) = Observer(args.observer).places
    assert port["containerPort"] == place.port == PORT
    assert not place.local  # the kubelet comes from another address


def test_the_manifest_is_scraped_where_the_metrics_are() -> None:
    """The annotations name the port and the path."""
    notes = manifest()["spec"]["template"]["metadata"]["annotations"]

    assert (notes["prometheus.io/path"], int(notes["prometheus.io/port"])) == ("/metrics", PORT)


def test_the_deadlines_of_the_manifest_fit(monkeypatch) -> None:
    """Kubernetes waits longer than the tree may take."""
    spec = manifest()["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    args = command([*container["command"], *container["args"]], monkeypatch)

    assert spec["terminationGracePeriodSeconds"] > args.stop_timeout + args.kill_after


def test_the_manifest_can_write_its_control_socket() -> None:
    """The run folder is a volume, since the file system is read-only."""
    spec = manifest()["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    values = {item["name"]: item.get("value") for item in container["env"]}

    assert values["XDG_RUNTIME_DIR"] in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "TREEWARDEN_TOKEN" in values


def test_the_labels_of_the_manifest_agree() -> None:
    """What is selected is what is made."""
    spec = manifest()["spec"]

    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
