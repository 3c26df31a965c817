"""Pulse: an event loop that stands still is noticed, named, and answered for."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest
import trio

from supervision import Supervisor, Worker, supervisor
from supervision.events import LoopStuck
from supervision.observer import Observer
from supervision.observer.pulse import Pulse
from tests.observer.kit import get, seen, shop

SECONDS = 30


def ask(url):
    """Status and text of a probe, asked by a thread of its own."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def block_until(condition: threading.Event):
    """Hold up the event loop, as a slow call of something synchronous would."""
    assert condition.wait(SECONDS)  # this line blocks


async def test_a_stuck_loop_is_answered_for(caplog):
    """While the loop stands still liveness fails with the line that blocks, then all is well again and told."""
    answers, asked = [], threading.Event()

    def probe(url):
        answers.append(ask(f"{url}/livez"))
        asked.set()

    async def blocks(ctx):
        thread = threading.Thread(target=probe, args=pools[0].seen_at)
        await go.wait()
        thread.start()
        block_until(asked)
        thread.join()
        done.set()
        await ctx.sleep(1000)

    go, done, pools = trio.Event(), trio.Event(), []
    options = Observer(":0", stuck_after=0.2)
    with trio.fail_after(SECONDS):
        tree = Supervisor("shop", [Worker("blocks", blocks)])
        async with supervisor.running(tree, observer=options, log=False, wait_ready=False) as pool:
            pools.append(pool)
            events = pool.events()
            # So that only the thread can answer, the loop is asked when it is blocked already.
            go.set()
            await done.wait()
            async for event in events:
                if isinstance(event, LoopStuck):
                    break
            url = pool.seen_at[0]
            assert await trio.to_thread.run_sync(ask, f"{url}/livez") == (200, "ok\n")

    # The loop may have taken the connection just before it stood still; then it answers when it turns again.
    assert answers[0][0] == 503
    assert "the event loop has not turned for" in answers[0][1]
    assert "this line blocks" in answers[0][1]
    # The last look before the loop went on may have found it at the next line already.
    assert "test_pulse.py" in event.at
    assert event.at in event.stack
    assert event.seconds >= 0.2
    assert "this line blocks" in caplog.text


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


async def test_when_it_counts_as_stuck():
    """It is stuck from `stuck_after` seconds without a sign of life, until there is one; the rest is remembered for a while."""
    clock, turned = Hand(), []
    pulse = Pulse(5.0, (), turned.append, clock)
    pulse._token = trio.lowlevel.current_trio_token()
    pulse._loop_thread = threading.get_ident()

    def look():
        """One look of the thread."""
        pulse._ask()
        if clock.now - pulse._beat < 5:
            pulse._over()
        else:
            pulse._found(clock.now, 0.0)

    for seconds, alive in ((1, True), (3.9, True), (0.2, False), (10, False)):
        clock.now += seconds
        look()
        assert pulse.alive() is alive
    assert str(pulse.still).startswith("the event loop has not turned for 15.1 s: ")
    await trio.testing.wait_all_tasks_blocked()
    look()
    assert pulse.alive()
    assert pulse.last.seconds == pytest.approx(15.1)
    await trio.testing.wait_all_tasks_blocked()
    assert turned == [pulse.last]
    clock.now += 7
    assert pulse.ago(pulse.last) == pytest.approx(7)


async def test_a_standstill_needs_a_look(autojump_clock):
    """After it is over it stands at the top of what needs a look for a minute, and liveness is well."""
    clock = Hand()
    async with seen(shop()) as server:
        pulse = server.site.pulse = Pulse(5.0, (), server.site.stood_still, clock)
        pulse._token = trio.lowlevel.current_trio_token()
        pulse._loop_thread = threading.get_ident()
        clock.now += 8
        pulse._found(clock.now, 0.0)
        assert (await get(server, "/livez"))[0] == 503
        pulse._beat = clock.now
        pulse._over()
        await trio.sleep(1)
        assert (await get(server, "/livez"))[0] == 200
        _, frame = await get(server, "/api/snapshot")
        assert frame["look"][0]["kind"] == "loop"
        assert "stood still for 8.0 s" in frame["look"][0]["text"]
        assert frame["events"][-1]["kind"] == "LoopStuck"
        clock.now += 61
        await trio.sleep(61)
        assert (await get(server, "/api/snapshot"))[1]["look"] == []


async def test_it_ends_with_the_observer():
    """No thread is left when the tree has ended."""
    before = threading.active_count()
    with trio.fail_after(SECONDS):
        for _ in range(3):
            async with supervisor.running(shop(), observer=":0", log=False):
                assert any("pulse" in thread.name for thread in threading.enumerate())
    assert not any("pulse" in thread.name for thread in threading.enumerate())
    assert threading.active_count() <= before


async def test_it_answers_however_many_files_are_open(monkeypatch):
    """Descriptors above 1023, as a busy process has them, are watched like others."""
    fcntl, resource = pytest.importorskip("fcntl"), pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2000:
        pytest.skip("this machine allows no such descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2000, before[0]), before[1]))
    try:
        monkeypatch.setattr("os.dup", lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 1100))
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        with Pulse(0.1, [listener.socket]) as pulse:
            assert pulse._listeners[0].fileno() >= 1100
            status, text = ask(
                f"http://127.0.0.1:{port}/"
            )  # blocks the loop until the thread answers
        await listener.aclose()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert (status, pulse.answered) == (503, 1)
    assert "the event loop has not turned" in text
