"""What the payments example exports while it runs is what the pages, the alerts and the dashboard speak of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import partial

import httpx2
import pytest
import trio

from supervision.metrics import FAMILIES, HISTOGRAMS
from tests.examples.kit import ROOT

PAGE = re.compile(rb"office 0: shows its tree at (http://[\d.:]+)")

pytestmark = pytest.mark.slow


async def scraped(*options: str) -> str:
    """Run the example and return what its first process exported when it was asked for the last time."""
    command = [sys.executable, "-u", "-m", "examples.payments", "--fast", "--plain", *options]
    text = ""
    start = partial(
        trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT
    )

    async def ask(url: str) -> None:
        nonlocal text
        async with httpx2.AsyncClient(base_url=url) as http:
            while True:
                try:
                    text = (await http.get("/metrics")).raise_for_status().text
                except httpx2.TransportError:
                    pass  # it does not listen yet, or it was killed and comes again
                await trio.sleep(0.1)

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(start)
            assert process.stdout is not None
            output, asking = b"", False
            async for chunk in process.stdout:
                output += chunk
                found = PAGE.search(output)
                if found and not asking:
                    asking = True
                    nursery.start_soon(ask, found[1].decode())
            nursery.cancel_scope.cancel()
    return text


async def test_the_metrics_are_those_that_are_documented(tmp_path):
    """A worker at real work exports each documented metric under its name, with its labels, and no other."""
    text = await scraped("--orders", "300", "--dir", str(tmp_path))

    exported = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    documented = {family.name: set(family.labels) for family in (*FAMILIES, *HISTOGRAMS)}
    assert set(exported) == set(documented)
    for name, labels in re.findall(
        r"^(\w+?)(?:_bucket|_sum|_count)?\{(.*)\} \S+$", text, re.MULTILINE
    ):
        assert set(re.findall(r'(\w+)="', labels)) - {"le"} == documented[name], name
    for part in ("jobs_handled_total{", "job_duration_seconds_count{", "circuit_breaker_state{"):
        assert f"wf_worker_{part}" in text


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_prometheus_takes_what_is_exported(tmp_path):
    """Prometheus' own linter has nothing to say about it."""
    text = await scraped("--orders", "80", "--no-chaos", "--dir", str(tmp_path))

    done = await trio.run_process(
        ["promtool", "check", "metrics"],
        stdin=text.encode(),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )

    assert (done.returncode, done.stderr.decode()) == (0, "")
