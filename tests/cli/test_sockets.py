"""Control sockets: whose they are, and which one is meant."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from supervision.cli import sockets
from supervision.cli.words import Ended
from tests.cli.kit import ask, served, shop


@pytest.fixture
def folder(app) -> Path:
    """The run folder of the test's user."""
    return sockets.make_folder(sockets.folder())


def listen(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_the_folder_is_for_the_user_alone(folder) -> None:
    """Mode 0700, also when it was there and open before."""
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert sockets.make_folder(folder).stat().st_mode & 0o777 == 0o700


def test_without_a_runtime_folder_it_is_a_temporary_one() -> None:
    """It has the user's number in its name; a runtime folder that is not there counts as none."""
    for environment in ({}, {"XDG_RUNTIME_DIR": "/nowhere"}, {"XDG_RUNTIME_DIR": "here"}):
        assert sockets.folder(environment).name == f"treewarden-{os.getuid()}"


def test_a_folder_of_somebody_else_is_refused(app) -> None:
    """A link or a file in its place is not used: what lies there may be another's."""
    (app / "real").mkdir()
    (app / "link").symlink_to(app / "real")
    (app / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(Ended, match=r"not a folder of this user|cannot be made"):
            sockets.make_folder(app / name)


def test_the_newest_that_answers_is_meant(folder) -> None:
    """Sockets of processes that are gone do not count."""
    with closing(listen(folder / "a.sock")), closing(listen(folder / "b.sock")) as second:
        os.utime(folder / "a.sock", (1, 1))
        assert sockets.newest(folder) == folder / "b.sock"
        second.close()
        assert sockets.newest(folder) == folder / "a.sock"
        assert sockets.live(folder) == [folder / "a.sock"]
    with pytest.raises(
        Ended, match=r"no running tree was found.*serve\(tree, observer='unix:PATH'\)"
    ) as caught:
        sockets.newest(folder)
    assert caught.value.code == 4


@pytest.mark.parametrize("name", ["shop", "a.b:c/d", "ü" * 80, "x" * 300])
def test_a_path_fits_a_socket(folder, name: str) -> None:
    """However a tree is called, its socket can be opened, and lies in the folder."""
    path = sockets.path_for(name, folder)

    assert path.parent == folder
    assert len(os.fsencode(path)) <= sockets.LONGEST
    listen(path).close()


def test_a_folder_that_is_too_deep_is_told(app) -> None:
    """Where no socket fits, the way out is named."""
    with pytest.raises(Ended, match="give --socket PATH"):
        sockets.path_for("shop", Path("/" + "x" * 100))


async def test_commands_find_the_socket_by_themselves(folder, capfd) -> None:
    """With nothing said, a command asks the newest tree of this user."""
    async with served(shop(), f"unix:{sockets.path_for('shop', folder)}"):
        assert await ask("status") == 0
    assert capfd.readouterr().out.startswith("shop  pid ")
