"""Services: constructor parameters of actors and factories, found by type in a `svcs.Registry`.

Floor: above tree. Theory: every run is made anew, so every run has a container of its own; what it had made is closed
when the run ends, however it ends, and before anybody is told of the end. Nothing is shared between runs but what the
registry itself shares.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from actors.context import Context
from supervision.errors import ServiceMissing, SpecError
from supervision.kinds import Need, needs
from supervision.specs import Worker

if TYPE_CHECKING:
    from supervision.tree import Tree

__all__ = ["install"]

logger: Final = logging.getLogger("supervision")

CLOSE_GRACE: Final = 1.0
"""Seconds that closing gets at least, even if the stop deadline has passed: a connection left open outlives the run."""


def install(tree: Tree, registry: Any) -> None:
    """Make every run of `tree` with services of `registry`.

    A parameter with an annotation gets the service of that type (`X | None` that of X); one with a default keeps it if
    there is no such service.

    Raises:
        SpecError: `svcs` is not installed, or this is not one of its registries.
    """
    try:
        import svcs
    except ImportError as error:
        raise SpecError(
            "services need the package svcs: pip install 'treewarden[services]'",
            where="serve()",
            option="services",
        ) from error
    if not isinstance(registry, svcs.Registry):
        raise SpecError(
            f"services is a svcs.Registry, not {registry!r}", where="serve()", option="services"
        )

    def build(spec: Worker, ctx: Context) -> AbstractAsyncContextManager[object]:
        return _made(spec, ctx, svcs.Container(registry))

    tree.services = registry
    tree.builder = build


@asynccontextmanager
async def _made(spec: Worker, ctx: Context, container: Any) -> AsyncGenerator[object]:
    """What a run of `spec` executes, and in the end its services closed."""
    make: Any = spec.run
    maker = f"{getattr(make, '__qualname__', repr(make))} (worker {spec.name!r})"
    try:
        services = {
            need.parameter: await _service(container, need, maker)
            for need in needs(make)
            if need.required or need.kind in container.registry
        }
        yield make(**services)
    finally:
        now = trio.current_time()
        deadline = max(ctx.host.stop_deadline(), now + CLOSE_GRACE)
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            await container.aclose()
        if scope.cancelled_caught:
            logger.warning(
                "%s: closing its services was cancelled after %.3g s",
                ctx.path,
                trio.current_time() - now,
            )


async def _service(container: Any, need: Need, maker: str) -> object:
    from svcs.exceptions import ServiceNotFoundError

    if isinstance(need.kind, str):
        why = (
            "that annotation cannot be resolved at run time; import the type at the top of the module,"
            " not under TYPE_CHECKING"
        )
        raise ServiceMissing(maker, need.parameter, need.kind, why)
    try:
        return await container.aget(need.kind)
    except ServiceNotFoundError as error:
        missing = error.args[0] if error.args else need.kind
        name = getattr(missing, "__qualname__", missing)
        other = "" if missing is need.kind else ", which that needs in turn"
        why = f"the registry has no service of type {name}{other}; register one"
        raise ServiceMissing(maker, need.parameter, need.kind, why) from error
    except Exception as error:
        error.add_note(f"while making {need} for {maker}")
        raise
