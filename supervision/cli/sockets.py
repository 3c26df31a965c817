"""Sockets: where running trees leave their control sockets, and which one is meant.

Floor: above words. Theory: the folder belongs to one user alone (mode 0700), so whoever can open a socket in it may act. `serve` puts
`TREE-PID.sock` there; the newest that answers is the one that is meant when nothing is said.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from supervision.cli.words import Ended

__all__ = ["folder", "live", "make_folder", "newest", "path_for"]

LONGEST = 100
"""Bytes of a socket's path that every system takes."""


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The run folder: `$XDG_RUNTIME_DIR/treewarden`, else one of this user in the temporary folder."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_absolute() and Path(runtime).is_dir():
        return Path(runtime) / "treewarden"
    return Path(tempfile.gettempdir()) / f"treewarden-{_user()}"


def make_folder(where: Path) -> Path:
    """Make the run folder, for this user alone.

    Raises:
        Ended: somebody else has it, or could write there.
    """
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = where.lstat()
    except OSError as error:
        raise Ended(f"the folder for control sockets cannot be made: {error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != _user():
        raise Ended(
            f"{where} is not a folder of this user, so a control socket there could be another's:"
            " remove it, or give --socket PATH"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        where.chmod(0o700)
    return where


def path_for(tree: str, where: Path) -> Path:
    """The socket of this process for a tree."""
    name = re.sub(r"[^\w.-]", "_", tree)
    tail = f"-{os.getpid()}.sock"
    room = LONGEST - len(os.fsencode(where)) - len(tail) - 1
    if room < 1:
        raise Ended(
            f"{where} is too long for a unix socket; give --socket PATH, of {LONGEST} bytes"
        )
    return where / f"{name.encode()[:room].decode(errors='ignore')}{tail}"


def live(where: Path) -> list[Path]:
    """The sockets in `where` at which somebody listens, newest first."""
    try:
        found = [path for path in where.iterdir() if path.suffix == ".sock"]
        found.sort(key=lambda path: path.lstat().st_mtime_ns, reverse=True)
    except OSError:
        return []
    return [path for path in found if _answers(path)]


def newest(where: Path) -> Path:
    """The socket that is meant when nothing is said.

    Raises:
        Ended: there is none.
    """
    found = live(where)
    if not found:
        raise Ended(
            f"no running tree was found: there is no socket in {where} at which one listens."
            " Start one with 'treewarden serve' (which opens one if treewarden[observer] is installed), or say"
            " --socket PATH or --url URL; a program that serves its tree itself opens what it says in"
            " serve(tree, observer='unix:PATH')",
            4,
        )
    return found[0]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
