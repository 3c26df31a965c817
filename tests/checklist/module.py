"""A worker beside a dependency that nothing of it names."""

from __future__ import annotations

from actors.resilience import Dependency

beside = Dependency("beside")


async def run(ctx):
    pass
