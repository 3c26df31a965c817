"""Running: a real tree in a process of its own, started by the command line as anybody would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import tests

ROOT = Path(tests.__file__).parent.parent
TOKEN = "open-sesame"
SEEN_AT = re.compile(r"can be seen at .*?(http://[\d.]+:(\d+))")
LONG = 60.0
"""Seconds that a process may take on a busy machine."""


class Running:
    """`treewarden serve tests.browser.shop:NAME` with an observer; leaving the block ends it.

    Args:
        folder: where its troubles are made.
        name: which tree of the module.
        port: of the observer; any free one by default.
        actions: whether it takes actions, with `TOKEN`.
        control: whether it has a control socket as well.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "tree",
        *,
        port: int = 0,
        actions: bool = True,
        control: bool = False,
    ) -> None:
        self.folder = folder
        self.url = ""
        self.log: list[str] = []
        self._seen = threading.Event()
        environment = {
            **{key: text for key, text in os.environ.items() if not key.startswith("TREEWARDEN_")},
            "SHOP_TROUBLES": str(folder),
            "PYTHONPATH": str(ROOT),
        }
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "supervision", "serve", f"tests.browser.shop:{name}"),
                *("--observer", f"127.0.0.1:{port}"),
                *(("--socket", str(folder / "control.sock")) if control else ("--no-control",)),
                *(("--token", TOKEN) if actions else ()),
            ],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._seen.wait(LONG) or not self.url:
            self.end()
            raise AssertionError(f"the tree did not come up: {''.join(self.log)}")

    @property
    def port(self) -> int:
        """Where it is seen."""
        return int(self.url.rpartition(":")[2])

    def trouble(self, name: str) -> None:
        """Begin a trouble."""
        (self.folder / name).touch()

    def relief(self, name: str) -> None:
        """End it."""
        (self.folder / name).unlink()

    def kill(self) -> None:
        """End the process without a word."""
        self.process.kill()
        self.process.wait(LONG)

    def stop(self) -> None:
        """Ask it to stop in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LONG)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LONG)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(LONG)
        self._reader.join(LONG)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = SEEN_AT.search(line)
            if found:
                self.url = found[1]
                self._seen.set()
        self._seen.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
