"""The thread that listens, at its end."""

from __future__ import annotations

import os
import threading

from actors.jobs.errors import EngineUnreachable
from actors.jobs.postgres import listener


async def test_a_listener_that_ends_by_itself_at_that_moment(monkeypatch):
    """Closing it works, however quick its thread is to see that it should end."""
    held, close = threading.Event(), os.close

    def connect():
        held.wait(30)
        raise EngineUnreachable("here", "there is no server")

    def slow_close(fd):
        if not held.is_set():
            held.set()
            one._thread.join(0.1)  # as if another thread had its turn just now
        close(fd)

    one = listener.Listener(connect, "jobs", "me", lambda job_type: None)
    monkeypatch.setattr(listener.os, "close", slow_close)
    await one.aclose()
    one._thread.join(30)
    assert not one._thread.is_alive()
