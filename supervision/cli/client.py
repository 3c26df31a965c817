"""Client: asking a running tree over its unix socket or a URL, with nothing but the standard library.

Floor: above sockets. The rule: it blocks, it needs no Trio, and every way in which asking can go wrong is one sentence and an exit code.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from supervision.cli import sockets
from supervision.cli.words import FAILED, LATE, NO_ACCESS, REFUSED, UNKNOWN, Ended

__all__ = ["Client", "client"]

_CODES = {
    "bad_request": REFUSED,
    "not_allowed": REFUSED,
    "too_large": REFUSED,
    "not_found": UNKNOWN,
    "refused": NO_ACCESS,
    "conflict": FAILED,
    "unavailable": FAILED,
}
LARGEST = 256 * 1024 * 1024


class _Unix(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """One running tree.

    Args:
        where: `unix:PATH`, `http://host:port` or `https://host`.
        token: for what needs one.
        timeout: seconds that one answer may take.
    """

    def __init__(self, where: str, *, token: str = "", timeout: float = 10.0) -> None:
        self.where = where
        # An observer that is mounted in another server lies below a path of that.
        self._below = "" if where.startswith("unix:") else urlsplit(where).path
        self._token = token
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, /, **query: object) -> Any:
        """JSON from the tree.

        Raises:
            Ended: there is none; its code says whose turn it is.
        """
        given = {key: value for key, value in query.items() if value is not None}
        # What a terminal gave that is no text is passed on as the bytes that it was.
        asked = urlencode(given, errors="surrogateescape")
        target = f"{quote(path)}?{asked}" if given else quote(path)
        return self._json(*self._ask("GET", target))

    def text(self, path: str) -> tuple[int, str]:
        """Status and text of a probe."""
        status, body = self._ask("GET", path)
        return status, body.decode(errors="replace")

    def do(self, verb: str, /, **what: object) -> dict[str, Any]:
        """Have something done; returns what is said about it, what was done and what failed."""
        given = {key: value for key, value in what.items() if value is not None}
        body = json.dumps({"verb": verb, **given}).encode()
        answer: dict[str, Any] = self._json(*self._ask("POST", "/api/do", body))
        return answer

    def _ask(self, method: str, target: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        for fresh in (False, True):
            reused = self._connection is not None
            try:
                return self._once(method, target, body, headers)
            except TimeoutError:
                self.close()
                raise Ended(
                    f"{self.where} did not answer within {self._timeout:g} s; its event loop may be held up."
                    " A longer --timeout may help",
                    LATE,
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # A connection that was kept may have been closed meanwhile; a request that acts is not sent twice.
                if reused and not fresh and method == "GET":
                    continue
                raise self._unreachable(error) from error
        raise AssertionError

    def _once(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = _connection(self.where, self._timeout)
        self._connection.request(method, f"{self._below}{target}", body, headers)
        response = self._connection.getresponse()
        return response.status, response.read(LARGEST)

    def _unreachable(self, error: Exception) -> Ended:
        if isinstance(error, PermissionError):
            return Ended(
                f"{self.where} belongs to another user, who alone may ask there", NO_ACCESS
            )
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError, socket.gaierror)):
            why = "nobody listens there; the process may have ended"
        else:
            why = str(error) or type(error).__name__
        return Ended(f"{self.where} cannot be reached: {why}", UNKNOWN)

    def _json(self, status: int, body: bytes) -> Any:
        try:
            answer: Any = json.loads(body)
        except ValueError:
            raise Ended(
                f"{self.where} answered with status {status} and no JSON: is it a treewarden observer?",
                UNKNOWN,
            ) from None
        if status < 400:
            return answer
        told = cast("dict[str, str]", answer) if isinstance(answer, dict) else {}
        code, text = told.get("code", ""), told.get("error", "")
        if code == "refused" and "token" in text and not self._token:
            text = f"{text.rstrip('.')}. Give --token, or TREEWARDEN_TOKEN"
        raise Ended(text or f"{self.where} answered with status {status}", _CODES.get(code, FAILED))

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __repr__(self) -> str:
        return f"<Client of {self.where}>"


def _connection(where: str, timeout: float) -> http.client.HTTPConnection:
    if where.startswith("unix:"):
        return _Unix(where.removeprefix("unix:"), timeout)
    parts = urlsplit(where)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def client(args: argparse.Namespace) -> Client:
    """The running tree that was meant; let go when the command ends (`args.closing`).

    Raises:
        Ended: none is to be found, or the URL is none.
    """
    if args.url:
        parts = urlsplit(args.url if "//" in args.url else f"http://{args.url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Ended(f"--url is such as http://127.0.0.1:8023, not {args.url!r}")
        where = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    elif args.socket:
        where = f"unix:{args.socket}"
    else:
        if not hasattr(socket, "AF_UNIX"):
            raise Ended("this system has no unix sockets: give --url", UNKNOWN)
        where = f"unix:{sockets.newest(sockets.folder())}"
    made = Client(where, token=args.token or "", timeout=args.timeout)
    args.closing.callback(made.close)
    return made
