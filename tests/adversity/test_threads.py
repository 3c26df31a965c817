"""Calls from a thread without Trio: they work, or they are refused and have changed nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio

from actors import Actor, MailboxSpec
from supervision import Supervisor, Worker
from tests.adversity.helpers import idle, running


def in_a_thread(fn: Callable[[], object]) -> BaseException | None:
    """Call `fn` in a thread that Trio knows nothing of; what it raised."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            fn()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return raised[0] if raised else None


class Echo(Actor):
    async def handle(self, message):
        return message


@pytest.mark.parametrize("verb", ["request_stop", "cancel"])
async def test_a_thread_may_stop_the_tree(verb, autojump_clock) -> None:
    """A stop asked for by another thread is a stop like any other, and the tree can still be stopped afterwards."""
    async with running(Supervisor("t", [Worker("w", idle)])) as pool:
        assert in_a_thread(getattr(pool, verb)) is None
        with trio.fail_after(5):
            await pool.wait_stopped()

    assert in_a_thread(pool.request_stop) is None


async def test_another_run_of_trio_may_stop_the_tree(autojump_clock) -> None:
    """A program with a Trio loop in each of two threads may stop the tree of one from the other."""

    async def elsewhere(pool) -> None:
        pool.request_stop("from the other loop")

    async with running(Supervisor("t", [Worker("w", idle)])) as pool:
        assert in_a_thread(lambda: trio.run(elsewhere, pool)) is None
        with trio.fail_after(5):
            await pool.wait_stopped()


async def test_a_thread_may_ask_for_the_end_of_its_run(autojump_clock) -> None:
    """`ctx.stop()` from a thread ends that run."""
    contexts = []

    async def run(ctx) -> None:
        contexts.append(ctx)
        await trio.sleep_forever()

    tree = Supervisor("t", [Worker("w", run)], auto_shutdown="never")
    async with running(tree) as pool:
        assert in_a_thread(contexts[0].stop) is None
        with trio.fail_after(5):
            await pool.wait_state("w", "stopped")


@pytest.mark.parametrize("capacity", [0, 5])
async def test_a_message_from_a_thread_does_not_deafen_an_actor(capacity, autojump_clock) -> None:
    """A `tell_nowait` that is refused since there is no Trio has sent nothing, and the actor hears the next message."""
    tree = Supervisor("t", [Worker("w", Echo, mailbox=MailboxSpec(capacity=capacity))])
    async with running(tree) as pool:
        await trio.sleep(1)
        ref = pool.ref("w")
        assert isinstance(in_a_thread(lambda: ref.tell_nowait("lost")), RuntimeError)
        assert ref.mailbox.statistics().sent == 0
        assert await ref.ask("heard") == "heard"
        assert ref.mailbox.statistics().handled == 1


@pytest.mark.parametrize("how", ["send", "fail"])
async def test_an_answer_from_a_thread_does_not_lose_the_caller(how, autojump_clock) -> None:
    """An answer that is refused since there is no Trio leaves the ask as it was: it can be answered, or times out."""
    answers = []

    class Later(Actor):
        async def handle(self, message):
            answer = self.ctx.answer_later()
            value = 1 if how == "send" else ValueError("no")
            answers.append(in_a_thread(lambda: getattr(answer, how)(value)))
            assert answer.wanted
            self.ctx.mailbox.office.timers.call_at(trio.current_time() + 1, lambda: answer.send(2))

    async with running(Supervisor("t", [Worker("w", Later)])) as pool:
        assert await pool.ref("w").ask("x") == 2

    assert [type(error) for error in answers] == [RuntimeError]


async def test_what_is_no_exception_does_not_lose_the_caller(autojump_clock) -> None:
    """`fail(ValueError)` without the brackets is refused with the way out, and the caller's timeout still counts."""

    class Later(Actor):
        async def handle(self, message):
            with pytest.raises(TypeError, match=r"such as ValueError\('why'\)"):
                self.ctx.answer_later().fail(ValueError)

    async with running(Supervisor("t", [Worker("w", Later)])) as pool:
        with pytest.raises(trio.TooSlowError, match=r"took it over with answer_later\(\)"):
            await pool.ref("w").ask("x", timeout=3)
