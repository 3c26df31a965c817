"""OTLP: what the standard environment variables ask for is sent, and nothing else."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from supervision.otlp import wanted

ROOT = Path(__file__).parent.parent.parent
TREE = """
from supervision import Supervisor, Worker

async def run(ctx):
    await ctx.sleep(0.05)

tree = Supervisor("shop", [Worker("fetch", run)])
"""
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "sent"),
    [
        ({}, set()),
        ({ENDPOINT: ""}, set()),
        ({ENDPOINT: "http://x"}, {"traces", "metrics"}),
        ({ENDPOINT: "http://x", "OTEL_SDK_DISABLED": "true"}, set()),
        ({ENDPOINT: "http://x", "OTEL_TRACES_EXPORTER": "none"}, {"metrics"}),
        ({ENDPOINT: "http://x", "OTEL_METRICS_EXPORTER": "console"}, {"traces"}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, {"metrics"}),
    ],
)
def test_what_is_wanted(environ, sent):
    """Only what an endpoint is named for is sent, and nothing of what is switched off."""
    assert wanted(environ) == sent


@pytest.fixture
def collector():
    """An OTLP collector that notes the paths and bodies that it was sent."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def serve(folder, **environ):
    """Run `treewarden serve` on a small tree to its end."""
    (folder / "shop.py").write_text(TREE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    env = {**kept, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", **environ}
    command = [sys.executable, "-m", "supervision", "serve", "shop:tree", "--no-control"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_served_tree_is_sent(collector, tmp_path):
    """`treewarden serve` sends spans and metrics under the tree's name, the last of them before it ends."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    url, got = collector
    serve(tmp_path, **{ENDPOINT: url})

    sent = dict(got)
    assert set(sent) == {"/v1/traces", "/v1/metrics"}
    assert b"supervision_restarts_total" in sent["/v1/metrics"]
    assert all(b"service.name" in body and b"shop" in body for body in sent.values())


def test_nothing_is_loaded_without_an_endpoint(tmp_path):
    """Without an endpoint the SDK is not even imported."""
    assert "nothing is sent" not in serve(tmp_path)


def test_a_wrong_protocol_is_said(tmp_path):
    """What cannot be set up is told in the log, and the tree runs without."""
    told = serve(
        tmp_path,
        **{ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier pigeon"},
    )

    assert "'carrier pigeon'" in told
