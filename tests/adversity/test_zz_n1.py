from __future__ import annotations
from random import Random
from contextvars import ContextVar
import pytest, trio
from actors import Actor, ActorStopped, AskTimeout, HandlerFailed, MailboxSpec, MailboxFull, Down, NoSuchActor
from supervision import RestartPolicy, Supervisor, Worker, SupervisorFailed, TreeFailed, NotRunning, IllegalTransition, StartFailed
from supervision.errors import AlreadyPresent
from tests.adversity.helpers import AT_ONCE, account, idle, running, kinds, starts, serve

pytestmark = []

# 1 stale unfinished
async def test_stale_unfinished(autojump_clock):
    """x."""
    gate = {}
    def job(name):
        async def run(ctx):
            await gate.setdefault((name, ctx.run), trio.Event()).wait()
        return run
    async def go(ctx):
        await trio.sleep(1)
    async def long(ctx):
        await trio.sleep(100)
    inner = Supervisor("svc", [Worker("a", go)])
    async with running(Supervisor("t", [inner, Worker("idle", idle)])) as pool:
        await pool.start_child("svc", Worker("b", long))
        await trio.sleep(2)   # a ended; b unfinished and remembered
        await pool.restart("svc")
        await pool.start_child("svc", Worker("b", go))
        await trio.sleep(5)
        assert pool.info("svc").state == "stopped"

# 2 ticks and waiting sender
async def test_ticks_room(autojump_clock):
    """x."""
    seen, times = [], {}
    class Slow(Actor):
        async def started(self, ctx):
            for n in range(3):
                ctx.after(0.5, f"tick{n}")
        async def handle(self, m):
            seen.append(m)
            await trio.sleep(1)
    async with running(Supervisor("t", [Worker("w", Slow, mailbox=MailboxSpec(capacity=1))])) as pool:
        ref = pool.ref("w")
        await ref.tell("m0")
        await trio.sleep(0.1)
        await ref.tell("m1")
        await trio.sleep(0.5)
        async with trio.open_nursery() as n:
            async def late():
                await ref.tell("m2")
                times["m2"] = trio.current_time()
            n.start_soon(late)
            await trio.sleep(0.9)
            with pytest.raises(MailboxFull):
                ref.tell_nowait("m3")
        await trio.sleep(10)
    assert times["m2"] < 1.2
    assert seen == ["m0", "m1", "tick0", "tick1", "tick2", "m2"]

# 3 nasty exceptions
class Evil(Exception):
    def __str__(self): raise RuntimeError("str")
    def __repr__(self): raise RuntimeError("repr")
    def add_note(self, note): raise RuntimeError("note")
class EvilHash(Exception):
    __hash__ = None
    def __eq__(self, o): raise RuntimeError("eq")
class EvilSlots(Exception):
    @property
    def __notes__(self): raise RuntimeError("notes")
class EvilBool(Exception):
    def __bool__(self): raise RuntimeError("bool")
    def __len__(self): raise RuntimeError
class EvilGroup(ExceptionGroup):
    def split(self, *a): raise RuntimeError("split")
    def derive(self, x): raise RuntimeError("derive")
@pytest.mark.parametrize("kind", [Evil, EvilHash, EvilSlots, EvilBool, lambda: EvilGroup("x", [ValueError()])])
@pytest.mark.parametrize("how", ["fn", "handle", "started", "stopped"])
@pytest.mark.parametrize("log", [False, True])
async def test_evil(kind, how, log, autojump_clock, caplog):
    """x."""
    class A(Actor):
        async def started(self, ctx):
            if how == "started": raise kind()
        async def handle(self, m):
            if how == "handle": raise kind()
            if how == "stopped": raise ValueError("a")
        async def stopped(self, ctx):
            if how == "stopped": raise kind()
    async def fn(ctx):
        raise kind()
    w = Worker("w", fn if how == "fn" else A, restart=RestartPolicy(max_restarts=2, initial_backoff=0.1, on=(Exception, OSError)), mailbox=MailboxSpec(redeliver=0))
    events = []
    with pytest.raises(TreeFailed) as info:
        async with running(Supervisor("t", [w]), log=log, listeners=[events.append]) as pool:
            for _ in range(3):
                try:
                    await pool.ref("w").ask("m")
                except (HandlerFailed, ActorStopped) as e:
                    str(e)
                pool.snapshot().to_dict(); str(pool.health()); repr(pool)
            await trio.sleep(10)
    str(info.value), repr(info.value)
    for e in events: e.sentence(), e.to_dict()

# 4 contextvars
var = ContextVar("var", default="clean")
@pytest.mark.parametrize("backoff", [0, 1])
async def test_contextvars(backoff, autojump_clock):
    """x."""
    seen = []
    async def w(ctx):
        seen.append(var.get())
        var.set(f"dirty {ctx.run}")
        await trio.sleep(0.1)
        seen.append(var.get())
        raise ValueError
    tok = var.set("tree")
    with pytest.raises(TreeFailed):
        async with running(Supervisor("t", [Worker("w", w, restart=RestartPolicy(max_restarts=2, initial_backoff=backoff))])) as pool:
            var.set("caller")
            await trio.sleep(100)
    var.reset(tok)
    assert seen == ["tree", "dirty 1", "tree", "dirty 2", "tree", "dirty 3"]

# 5 intensity at both levels in one tick
@pytest.mark.parametrize("outer", ["one_for_one", "one_for_all", "rest_for_one"])
@pytest.mark.parametrize("inner", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_both_levels(outer, inner, autojump_clock):
    """x."""
    async def bomb(ctx):
        await trio.sleep(1)
        raise OSError(ctx.path)
    def sub(name):
        return Supervisor(name, [Worker(f"{name}{n}", bomb, restart=AT_ONCE) for n in range(2)], strategy=inner, intensity=1, period=10, restart=RestartPolicy(max_restarts=0, initial_backoff=0))
    tree = Supervisor("t", [sub("x"), sub("y"), Worker("z", bomb, restart=AT_ONCE)], strategy=outer, intensity=3, period=1000)
    events = []
    with pytest.raises(TreeFailed) as e:
        async with running(tree, listeners=[events.append]) as pool:
            with trio.fail_after(100):
                await trio.sleep(1000)
    assert e.value.failures

# 6 strict nested slow
@pytest.mark.parametrize("where", ["root", "mid", "leaf", "serve"])
async def test_strict_nested(where, autojump_clock):
    """x."""
    log = []
    async def slow(ctx):
        log.append(("start", ctx.name))
        try:
            await trio.sleep(3)
            ctx.started()
            await trio.sleep_forever()
        finally:
            log.append(("end", ctx.name))
    async def bad(ctx):
        await trio.sleep(1)
        raise OSError("no")
    leaf = Supervisor("leaf", [Worker("s2", slow, ready="signal"), Worker("bad", bad, ready="signal"), Worker("s3", slow, ready="signal")], start="strict" if where == "leaf" else "restart")
    mid = Supervisor("mid", [Worker("s1", slow, ready="signal"), leaf], start="strict" if where == "mid" else "restart")
    root = Supervisor("t", [Worker("s0", slow, ready="signal"), mid, Worker("s4", slow, ready="signal")], start="strict" if where == "root" else "restart")
    err = None
    with trio.move_on_after(60) as scope:
        try:
            await serve(root, start="strict" if where == "serve" else None)
        except (StartFailed, TreeFailed) as e:
            err = e
    print(where, scope.cancelled_caught, repr(err), trio.current_time(), log)
