"""Access: who may look and who may act, as one pure decision about a request.

Floor: above spec. The rules:

* Browsers are the danger on loopback: any page may send requests to it. So a request that says it comes from another site is
  refused, and so is one under a name that is not ours, which is how a page gets round that (DNS rebinding). An address in
  numbers cannot be rebound.
* A token is compared in constant time, and nothing tells a wrong one from a missing one.
* The probes say little and are asked by machines that bring nothing along: they are open. So are the metrics, except to names
  that are not ours on loopback.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from enum import IntEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from supervision.observer.address import is_loopback
from supervision.observer.messages import Request
from supervision.observer.spec import Observer

__all__ = ["PROBES", "SUBPROTOCOL", "Level", "is_probe", "level", "proposed_token", "strange"]

logger: Final = logging.getLogger("supervision")

PROBES: Final = ("/livez", "/readyz", "/startupz")
SUBPROTOCOL: Final = "treewarden.v1"
_BEARER: Final = "bearer."


class Level(IntEnum):
    """What somebody may do."""

    NONE = 0
    READ = 1
    ACT = 2


def strange(request: Request, options: Observer) -> str:
    """Why a request is refused whoever sends it, or nothing."""
    if is_probe(request.path) or request.peer.kind == "unix":
        return ""
    if request.path == "/metrics" and not request.peer.local:
        return ""
    host = request.headers.get("host", "")
    name = _name(host)
    if not _own(name, options):
        return (
            f"this is not {name[:100]!r}: ask under an address in numbers or as localhost, or give"
            " allowed_hosts"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin not in options.allowed_origins and not _same(origin, host):
        return "another site's page may not ask here: give allowed_origins if it should"
    return ""


def level(request: Request, options: Observer) -> Level:
    """What this request may do, once it is not `strange`."""
    found = _asked(request, options) if options.access is not None else _by_rule(request, options)
    return min(found, Level.ACT if options.actions else Level.READ)


def is_probe(path: str) -> bool:
    """True for the paths of probes."""
    return path in PROBES or path.startswith("/readyz/")


def proposed_token(request: Request) -> str:
    """The token that a request brings: in `Authorization`, or, where a browser can set no header, as a subprotocol."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    for word in map(str.strip, request.headers.get("sec-websocket-protocol", "").split(",")):
        if word.startswith(_BEARER):
            text = word.removeprefix(_BEARER)
            try:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            except (binascii.Error, ValueError):
                return ""
    return ""


def _by_rule(request: Request, options: Observer) -> Level:
    if request.peer.kind == "unix":
        return Level.ACT
    if options.token is not None and _equal(proposed_token(request), options.token):
        return Level.ACT
    return Level.READ if request.peer.local and not _passed_on(request) else Level.NONE


def _passed_on(request: Request) -> bool:
    """True if a proxy on this machine asks for somebody else."""
    return any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via"))


def _asked(request: Request, options: Observer) -> Level:
    assert options.access is not None
    try:
        word = str(options.access(request))
        return Level[word.upper()]
    except Exception:
        logger.exception("access= of the observer failed for %s; refused", request.path)
        return Level.NONE


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _name(host: str) -> str:
    """The name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _own(name: str, options: Observer) -> bool:
    if is_loopback(name) or name in {allowed.lower() for allowed in options.allowed_hosts}:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
