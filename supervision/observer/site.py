"""Site: what is answered at which path.

Floor: above all of this room but what carries it. The rule: an answer is made of the tree as it is now; what may be asked at all is
decided before, in one place, by `access`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import trio

from actors.errors import NoSuchActor
from supervision import report
from supervision.errors import SupervisionError
from supervision.events import LoopStuck
from supervision.health import health
from supervision.member import Member
from supervision.metrics import TreeMeter
from supervision.observer import guards, jobs, probes
from supervision.observer.access import Level, is_probe, level, strange
from supervision.observer.detail import detail, told, wall
from supervision.observer.exposition import TYPE, exposition
from supervision.observer.files import file_at
from supervision.observer.frame import Sight
from supervision.observer.hands import Hands
from supervision.observer.hub import Hub
from supervision.observer.messages import JSON, Request, Response, Trouble, as_bytes, as_json
from supervision.observer.pieces import Look, one_line
from supervision.observer.pulse import Pulse, Still
from supervision.observer.queues import Queues
from supervision.observer.recent import Recent
from supervision.observer.spec import Observer
from supervision.observer.verbs import understand
from supervision.pool import Pool
from supervision.states import Phase, State
from supervision.tree import Tree

__all__ = ["Site"]

logger: Final = logging.getLogger("supervision")

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
MOST_EVENTS: Final = 500
MOST_VIEWERS: Final = 100
"""Viewers at once: fewer than connections, so that they keep no probe out."""
SHOWN: Final = 60.0
"""Seconds for which a standstill of the loop that is over needs a look."""

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
        self.pulse: Pulse | None = None
        self.recent = Recent()
        self.queues = Queues(self.tree.office)
        self.sight = Sight(
            self.tree,
            self.recent,
            queues=self.queues.lines,
            alarms=self._alarms,
            actions=options.actions,
            token=options.guarded,
        )
        self.hub = Hub(self.sight, self.queues.wish)
        self._meter = TreeMeter(self.tree)
        self._hands = Hands(pool, self.tree, self.queues)
        self._running = trio.Lock()
        self._routes: dict[tuple[str, str], Answer] = {
            ("GET", "/livez"): self._livez,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/startupz"): self._startupz,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/api/snapshot"): self._snapshot,
            ("GET", "/api/detail"): self._detail,
            ("GET", "/api/events"): self._events,
            ("GET", "/api/letters"): self._letters,
            ("GET", "/api/poison"): self._poison,
            ("GET", "/api/jobs"): self._jobs,
            ("POST", "/api/do"): self._do,
        }

    async def run(self) -> None:
        """Keep frames coming while somebody looks, until the tree has ended. One at a time does it, whoever calls."""
        async with self._running, trio.open_nursery() as nursery:
            nursery.start_soon(self.hub.run)
            nursery.start_soon(self.queues.run)
            await self.tree.done.wait()
            await self.hub.close()
            nursery.cancel_scope.cancel(reason="the tree has ended")

    def stood_still(self, still: Still) -> None:
        """The loop turns again after a standstill."""
        self.tree.emit(
            LoopStuck, self.tree.root.path, seconds=still.seconds, at=still.at, stack=still.stack
        )

    def _alarms(self) -> list[Look]:
        last = self.pulse.last if self.pulse is not None else None
        if last is None or self.pulse is None or self.pulse.ago(last) > SHOWN:
            return []
        text = (
            f"the event loop stood still for {last.seconds:.1f} s, {self.pulse.ago(last):.0f} s ago"
        )
        where = f" at {last.at}" if last.at else ""
        return [{"path": self.tree.root.path, "kind": "loop", "text": text + where, "actions": []}]

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

    def admit_viewer(self, request: Request) -> None:
        """Whether this request may become a WebSocket.

        Raises:
            Trouble: it may not.
        """
        if request.path != "/ws":
            raise Trouble("not_found", "the only WebSocket is at /ws")
        self.admit(request)
        if len(self.hub.viewers) >= MOST_VIEWERS:
            raise Trouble("unavailable", f"{MOST_VIEWERS} viewers look already, which is the most")

    def _open(self, path: str) -> bool:
        return is_probe(path) or path == "/metrics" or file_at(path) is not None

    def _route(self, request: Request) -> Answer:
        method = "GET" if request.method == "HEAD" else request.method
        found = self._routes.get((method, request.path))
        if found is not None:
            return found
        page = file_at(request.path) if method == "GET" else None
        if page is not None:
            return _always(page)
        if method == "GET" and request.path.startswith("/readyz/"):
            return self._readyz_of
        known = [verb for verb, path in self._routes if path == request.path]
        if known:
            raise Trouble("not_allowed", f"{request.path[:100]} takes {', '.join(known)}")
        raise Trouble("not_found", f"there is nothing at {request.path[:100]!r}")

    # -- probes ----------------------------------------------------------------------------------

    async def _livez(self, request: Request) -> Response:
        still = self.pulse.still if self.pulse is not None else None
        checks = probes.livez(health(self.tree), "" if still is None else str(still))
        return probes.answer(checks, verbose="verbose" in request.query)

    async def _startupz(self, request: Request) -> Response:
        return probes.answer(probes.startupz(health(self.tree)), verbose="verbose" in request.query)

    async def _readyz(self, request: Request) -> Response:
        now, verbose = health(self.tree), "verbose" in request.query
        waiting = set(now.waiting_for)
        bad = {
            member.path
            for member in report.walk(self.tree.root)
            if member.path in waiting or member.state is State.FAILED
        }
        members = [
            (member.path, member.path not in bad, _how(member))
            for member in report.walk(self.tree.root)
            if verbose or member.path in bad
        ]
        states = {each.name: each.state.name.lower() for each in guards.breakers(self.tree.office)}
        breakers = [(name, states.get(name, "closed")) for name in self.options.required]
        checks = probes.readyz(now, members, stopping=self.tree.final, breakers=breakers)
        return probes.answer(checks, verbose=verbose)

    async def _readyz_of(self, request: Request) -> Response:
        path = request.path.removeprefix("/readyz/")
        members = self._members(path)
        checks = [probes.Check(each.path, "" if _well(each) else _how(each)) for each in members]
        return probes.answer(checks, verbose="verbose" in request.query)

    # -- the api ---------------------------------------------------------------------------------

    async def _metrics(self, _: Request) -> Response:
        text = exposition(self._meter.read(), dict(self.tree.office.durations))
        return Response(body=as_bytes(text), type=TYPE)

    async def _snapshot(self, _: Request) -> Response:
        await self.queues.ask()
        return Response(body=(await self.hub.current()).text.encode(), type=JSON)

    async def _events(self, request: Request) -> Response:
        after = _whole(request, "after", 0, most=10**15)
        most = _whole(request, "most", 100, most=MOST_EVENTS)
        events, missed = self.recent.after(after, most)
        return as_json({"events": events, "missed": missed, **self.sight.identity()})

    async def _detail(self, request: Request) -> Response:
        member = self._members(_needed(request, "path"))[0]
        now = self.tree.now()
        busy = self.sight.busy_for(member, now)
        return as_json(detail(member, now, busy, show_messages=self.options.show_messages))

    async def _letters(self, request: Request) -> Response:
        most, now = _whole(request, "most", 100, most=1000), self.tree.now()
        letters = list(self.tree.letters)[-most:] if most else []
        shown = [
            {
                "when": wall(letter.time, now),
                "path": letter.path,
                "kind": type(letter.message).__name__,
                "reason": letter.reason,
                "run": letter.run,
                "deliveries": letter.deliveries,
                "error": one_line(letter.error),
                **({"message": told(letter.message)} if self.options.show_messages else {}),
            }
            for letter in letters
        ]
        return as_json({"letters": shown, "total": self.tree.letters.total})

    async def _poison(self, request: Request) -> Response:
        kind, most = request.query.get("type") or None, _whole(request, "most", 100, most=1000)
        shown: list[dict[str, Any]] = []
        for engine, job in await jobs.set_aside(self.queues.engines(), kind, most):
            line = {
                "engine": engine.name,
                "type": job.type,
                "key": job.key,
                "when": job.at if job.at > 1e8 else wall(job.at, self.tree.now()),
                "reason": job.reason,
                "deliveries": job.deliveries,
                "worker": job.worker,
                **({"variables": job.variables} if self.options.show_messages else {}),
            }
            shown.append(line)
        return as_json({"poison": shown})

    async def _jobs(self, request: Request) -> Response:
        key, state = (request.query.get(name) or "" for name in ("key", "state"))
        if bool(key) == bool(state):
            raise Trouble("bad_request", f"{request.path} needs ?key=... or ?state=...")
        wanted, show = request.query.get("engine") or "", self.options.show_messages
        if key:
            engines = [each for each in self.queues.engines() if wanted in ("", each.name)]
            return as_json({"jobs": await jobs.by_key(engines, key, show=show)})
        engines = self.queues.named(wanted) if wanted else self.queues.engines()
        kind, most = request.query.get("type") or None, _whole(request, "most", 100, most=1000)
        return as_json(await jobs.in_state(engines, state, kind, most, show=show))

    # -- acting ----------------------------------------------------------------------------------

    async def _do(self, request: Request) -> Response:
        if self.admit(request) is not Level.ACT:
            logger.warning("refused: %s at %s asked for an action", request.peer.name, request.path)
            raise Trouble("refused", self._why_not())
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            raise Trouble("bad_request", f"a command is sent as {JSON}")
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            raise Trouble("bad_request", "the body is no JSON") from None
        command = understand(body)
        try:
            return as_json(await self._hands.do(command, who(request, body)))
        except SupervisionError as error:
            raise Trouble("conflict", str(error)) from None

    def _why_not(self) -> str:
        if not self.options.actions:
            return "this tree is read-only from outside: it was served without actions=True"
        if not self.options.guarded:
            return (
                "this tree was served without a token, so nobody can act over the network: use its unix"
                " socket, from its machine, or serve it with token=..."
            )
        return "acting needs the token: Authorization: Bearer TOKEN"

    def _members(self, path: str) -> list[Member]:
        try:
            return self.pool._members(path)
        except NoSuchActor as error:
            raise Trouble("not_found", str(error)) from None

    def __repr__(self) -> str:
        return f"<Site of {self.tree.root.name}>"


def who(request: Request, body: Mapping[str, Any]) -> str:
    """Who asks: what the connection proves, and what was said beside that."""
    proved = request.peer.name or request.peer.kind
    said = body.get("who")
    if not isinstance(said, str):
        return proved
    name = "".join(sign for sign in said if sign.isprintable())[:60].strip()
    return f"{name} ({proved})" if name and name != proved else proved


def _needed(request: Request, name: str) -> str:
    value = request.query.get(name)
    if not value:
        raise Trouble("bad_request", f"{request.path} needs ?{name}=...")
    return value


def _always(response: Response) -> Answer:
    async def answer(_: Request) -> Response:
        return response

    return answer


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
