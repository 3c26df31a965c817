"""Site: what is answered at which path.

Floor: above all of this room but what carries it. The rule: an answer is made of the tree as it is now; what may be asked at all is
decided before, in one place, by `access`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from actors.errors import NoSuchActor
from supervision import report
from supervision.health import health
from supervision.member import Member
from supervision.observer import probes
from supervision.observer.access import Level, is_probe, level, strange
from supervision.observer.frame import Sight, guards_of
from supervision.observer.hub import Hub
from supervision.observer.messages import JSON, Request, Response, Trouble, as_json
from supervision.observer.recent import Recent
from supervision.observer.spec import Observer
from supervision.pool import Pool
from supervision.states import Phase, State
from supervision.tree import Tree

__all__ = ["Site"]

logger: Final = logging.getLogger("supervision")

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
MOST_EVENTS: Final = 500

SAFE: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer."""


class Site:
    """What one tree shows. Made before the tree starts."""

    def __init__(self, pool: Pool, options: Observer) -> None:
        self.pool = pool
        self.options = options
        self.tree: Tree = pool._tree
        self.recent = Recent()
        self.sight = Sight(self.tree, self.recent)
        self.hub = Hub(self.sight)
        self._routes: dict[tuple[str, str], Answer] = {
            ("GET", "/livez"): self._livez,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/startupz"): self._startupz,
            ("GET", "/api/snapshot"): self._snapshot,
            ("GET", "/api/events"): self._events,
        }

    # -- asking ----------------------------------------------------------------------------------

    async def respond(self, request: Request) -> Response:
        """The answer to a request that is no WebSocket's."""
        try:
            self.admit(request)
            answer = self._route(request)
            return await answer(request)
        except Trouble as trouble:
            return trouble.response()
        except Exception:
            logger.exception("the observer failed to answer %s %s", request.method, request.path)
            return as_json(
                {"error": "the observer failed; its log says how", "code": "unavailable"},
                status=500,
            )

    def admit(self, request: Request) -> Level:
        """What this request may do.

        Raises:
            Trouble: nothing of what it asks for.
        """
        why = strange(request, self.options)
        if why:
            raise Trouble("refused", why)
        allowed = level(request, self.options)
        if allowed is Level.NONE and not self._open(request.path):
            raise Trouble("refused", "looking needs the token: Authorization: Bearer TOKEN")
        return allowed

    def _open(self, path: str) -> bool:
        return is_probe(path) or path == "/metrics"

    def _route(self, request: Request) -> Answer:
        method = "GET" if request.method == "HEAD" else request.method
        found = self._routes.get((method, request.path))
        if found is not None:
            return found
        if method == "GET" and request.path.startswith("/readyz/"):
            return self._readyz_of
        known = [verb for verb, path in self._routes if path == request.path]
        if known:
            raise Trouble("not_allowed", f"{request.path[:100]} takes {', '.join(known)}")
        raise Trouble("not_found", f"there is nothing at {request.path[:100]!r}")

    # -- probes ----------------------------------------------------------------------------------

    async def _livez(self, request: Request) -> Response:
        return probes.answer(probes.livez(health(self.tree)), verbose="verbose" in request.query)

    async def _startupz(self, request: Request) -> Response:
        return probes.answer(probes.startupz(health(self.tree)), verbose="verbose" in request.query)

    async def _readyz(self, request: Request) -> Response:
        now, verbose = health(self.tree), "verbose" in request.query
        waiting = set(now.waiting_for)
        members = [
            (member.path, member.path not in waiting, _how(member))
            for member in report.walk(self.tree.root)
            if verbose or member.path in waiting
        ]
        states = {each["name"]: each["state"] for each in guards_of(self.tree)[0]}
        breakers = [(name, states.get(name, "closed")) for name in self.options.required]
        checks = probes.readyz(now, members, stopping=self.tree.final, breakers=breakers)
        return probes.answer(checks, verbose=verbose)

    async def _readyz_of(self, request: Request) -> Response:
        path = request.path.removeprefix("/readyz/")
        members = self._members(path)
        checks = [probes.Check(each.path, "" if _well(each) else _how(each)) for each in members]
        return probes.answer(checks, verbose="verbose" in request.query)

    # -- the api ---------------------------------------------------------------------------------

    async def _snapshot(self, _: Request) -> Response:
        return Response(body=(await self.hub.current()).text.encode(), type=JSON)

    async def _events(self, request: Request) -> Response:
        after = _whole(request, "after", 0, most=10**15)
        most = _whole(request, "most", 100, most=MOST_EVENTS)
        events, missed = self.recent.after(after, most)
        return as_json({"events": events, "missed": missed})

    def _members(self, path: str) -> list[Member]:
        try:
            return self.pool._members(path)
        except NoSuchActor as error:
            raise Trouble("not_found", str(error)) from None


def _well(member: Member) -> bool:
    return member.state is State.RUNNING and member.phase is Phase.READY


def _how(member: Member) -> str:
    phase = f", {member.phase}" if member.phase else ""
    return f"is {member.state}{phase}"


def _whole(request: Request, name: str, default: int, *, most: int) -> int:
    """A whole number from the query, not more than `most`."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise Trouble("bad_request", f"{name} is a whole number, not {text[:40]!r}")
    return min(int(text), most)


def plain_level(allowed: Level) -> dict[str, Any]:
    """What a viewer may do, in terms of JSON."""
    return {"actions": allowed is Level.ACT}
