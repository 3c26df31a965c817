"""Address: where the observer listens: what a text means, and opening it.

Floor: the lowest of this room. The rules: loopback unless another host is written out; a unix socket belongs to its user alone
(mode 0600), one that a dead process left behind is taken over, one that is in use never.
"""

from __future__ import annotations

import errno
import os
import socket as stdlib
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from actors.records import Record
from supervision.errors import ObserverUnavailable, SpecError

__all__ = ["Address", "bound", "is_loopback", "open_address", "parse", "url"]

BACKLOG: Final = 128
_FORMS: Final = "'127.0.0.1:8023', ':0' for any free port of this machine, or 'unix:/run/app.sock'"

_SAME_MACHINE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked up, not bound


@attrs.frozen(kw_only=True, eq=False)
class Address(Record):
    """One place to listen at."""

    host: str = ""
    port: int = 0
    path: str = ""
    """Of a unix socket; empty for TCP."""

    @property
    def local(self) -> bool:
        """False if other machines may reach it."""
        return bool(self.path) or is_loopback(self.host)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """True for names and addresses of this machine alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse(text: str) -> Address:
    """What `text` means.

    Raises:
        SpecError: nothing.
    """
    if not isinstance(text, str) or not text:
        raise _refused(text)
    kind, _, path = text.partition(":")
    if kind == "unix":
        if not path or "\0" in path:
            raise _refused(text)
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or (not colon and not host and not port):
        raise _refused(text)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _refused(text)
    return Address(host=host or "127.0.0.1", port=int(port))


def _refused(text: object) -> SpecError:
    return SpecError(f"an address is {_FORMS}, not {text!r}", where="Observer", option="address")


async def open_address(address: Address) -> list[trio.SocketListener]:
    """Listen there.

    Raises:
        ObserverUnavailable: that cannot be; it says why and what to do.
    """
    try:
        if address.path:
            return [_open_unix(Path(address.path))]
        return list(await trio.open_tcp_listeners(address.port, host=address.host, backlog=BACKLOG))
    except OSError as error:
        raise ObserverUnavailable(str(address), _reason(error)) from error
    except BaseExceptionGroup as group:
        errors = [error for error in group.exceptions if isinstance(error, OSError)]
        if not errors:
            raise
        raise ObserverUnavailable(str(address), _reason(errors[0])) from errors[0]


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "it is in use, perhaps by an older process of this program"
    if error.errno == errno.EACCES:
        return "this user may not"
    return error.strerror or str(error)


def _open_unix(path: Path) -> trio.SocketListener:
    _make_way(path)
    raw = stdlib.socket(stdlib.AF_UNIX, stdlib.SOCK_STREAM)
    try:
        before = os.umask(0o177)  # between bind and chmod anybody could connect
        try:
            raw.bind(str(path))
        finally:
            os.umask(before)
        raw.listen(BACKLOG)
        return trio.SocketListener(trio.socket.from_stdlib_socket(raw))
    except BaseException:
        raw.close()
        raise


def _make_way(path: Path) -> None:
    """Remove a socket that nobody listens at; leave everything else alone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.EEXIST, "there is a file that is no socket")
    with stdlib.socket(stdlib.AF_UNIX, stdlib.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OSError(errno.EADDRINUSE, "in use") from error
        else:
            raise OSError(errno.EADDRINUSE, "in use")


def bound(listener: trio.SocketListener) -> Address:
    """Where `listener` really listens."""
    name: Any = listener.socket.getsockname()
    if listener.socket.family == stdlib.AF_UNIX:
        return Address(path=str(name))
    return Address(host=str(name[0]), port=int(name[1]))


def url(address: Address) -> str:
    """How it is reached from this machine."""
    if address.path:
        return f"unix:{address.path}"
    host = _SAME_MACHINE.get(address.host, address.host)
    return f"http://{Address(host=host, port=address.port)}"
