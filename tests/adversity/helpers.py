"""Small things that the tests of this folder share."""

from __future__ import annotations

import trio

from supervision import RestartPolicy, supervisor
from supervision.events import Started

ONCE = RestartPolicy(max_restarts=1, initial_backoff=1, jitter=0)
AT_ONCE = RestartPolicy(max_restarts=0, initial_backoff=0)


async def idle(ctx) -> None:
    """Waits to be stopped."""
    await trio.sleep_forever()


def running(tree, **options):
    """The tree, without its log."""
    return supervisor.running(tree, **{"log": False, **options})


async def serve(tree, **options) -> None:
    """The same, for a test that waits for its end."""
    await supervisor.serve(tree, **{"log": False, "signals": False, **options})


def kinds(events, kind) -> list:
    """Those events that are of one kind."""
    return [event for event in events if type(event) is kind]


def starts(events, path: str) -> list[float]:
    """When runs of `path` began."""
    return [event.time for event in kinds(events, Started) if event.path == path]


def account(ref) -> tuple[int, int]:
    """What a mailbox was sent, and what became of that: equal, always."""
    mail = ref.mailbox.statistics()
    fates = mail.handled + mail.rejected + mail.dropped + mail.dead_lettered
    return mail.sent, fates + mail.queued + mail.in_hand
