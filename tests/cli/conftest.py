"""A folder with the small application in it."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.kit import APP


@pytest.fixture
def app(tmp_path: Path, monkeypatch) -> Path:
    """The folder of the application, which is also where the test works."""
    (tmp_path / "app.py").write_text(APP, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    for name in ("app", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in list(os.environ):
        if name.startswith("TREEWARDEN_") or name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            monkeypatch.delenv(name)
    # Control sockets go where no other test looks; the path of one has to be short.
    with tempfile.TemporaryDirectory(prefix="tw-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield tmp_path
    for name in ("app", "other"):
        sys.modules.pop(name, None)
