"""What the checklist looks at, what it tells, and how a finding is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from actors import Actor
from actors.jobs import JobWorker
from actors.options import OptionError
from actors.resilience import Dependency
from supervision import Supervisor, Worker
from supervision.checklist import Severity, accept, examine
from supervision.testing import trees
from tests.checklist import downstreams as to, kit, module
from tests.checklist.kit import codes, one, some


def test_a_dependency_is_one_finding_for_all_its_users() -> None:
    """Two workers that use one dependency are named in one finding."""
    tree = some(Worker("a", kit.names_it), Worker("b", kit.Till))
    (finding,) = [f for f in examine(tree).findings if f.code == "TW301"]

    assert finding.paths == ("shop/a", "shop/b")
    assert finding.place == "shop/a and 1 more, dependency 'timeless'"


def test_it_says_what_it_looked_at() -> None:
    """Workers, dependencies with their users, and workers of whose code nothing can be read are told."""
    unreadable = eval("lambda: kit.Till()", {"kit": kit})
    seen = examine(some(Worker("a", kit.with_key), Worker("b", unreadable)))

    assert seen.workers == ("shop/a", "shop/b")
    assert seen.dependencies["repeating"] == ("shop/a",)
    assert seen.unread == ("shop/b",)


def test_a_dependency_that_only_its_module_names_belongs_to_the_tree() -> None:
    """What is declared beside a worker's code is looked at even if nothing shows who uses it."""
    seen = examine(one(module.run))
    (finding,) = seen.findings

    assert seen.dependencies == {"beside": ()}
    assert (finding.code, finding.path) == ("TW301", "shop")


def test_code_of_other_packages_is_not_followed() -> None:
    """A worker whose function is somebody else's is told as unread."""
    import trio

    async def foreign(ctx):
        await trio.sleep_forever()

    foreign.__module__ = "elsewhere"
    assert examine(one(foreign)).unread == ("shop/work",)


def test_a_property_is_not_run() -> None:
    """Looking at a worker calls nothing of it."""

    class Trap(Actor):
        @property
        def bank(self):
            raise AssertionError("it was run")

    assert codes(one(Trap)) == []


def test_a_blocking_call_has_its_line() -> None:
    """The finding says in which file, on which line, and in which function."""
    (finding,) = examine(one(kit.by_helper)).findings

    assert finding.about == "helper"
    assert finding.source.startswith("kit.py:")
    line = int(finding.source.partition(":")[2])
    assert "subprocess.run" in Path(kit.__file__).read_text().splitlines()[line - 1]


def test_a_watchdog_changes_the_words() -> None:
    """With a watchdog nobody is told to set one."""
    (without,), (with_,) = (
        examine(one(kit.sleeps, **options)).findings for options in ({}, {"watchdog": 5})
    )

    assert "no watchdog would tell" in without.text
    assert "watchdog" not in with_.text + with_.way_out


def test_the_worst_comes_first() -> None:
    """Errors stand before warnings and those before notes."""
    tree = some(
        Worker("a", kit.idle, ready="signal"),
        Worker("b", kit.names_it),
        Worker("c", kit.jobs(fetch_variables=None)),
    )
    seen = examine(tree)

    assert [f.severity for f in seen.findings] == list(Severity)
    assert seen.worst() is Severity.ERROR
    assert examine(one(kit.idle)).worst() is None


def test_a_finding_is_accepted_where_it_is() -> None:
    """A function, an actor class or a handler can say that a finding is meant so; it stays listed."""

    @accept("TW601", why="the file is small")
    async def run(ctx):
        kit.helper()

    @accept("TW402", why="the handler passes everything on")
    async def handler(job, ctx):
        pass

    seen = examine(some(Worker("a", run), Worker("b", JobWorker("x", handler))))

    assert seen.findings == ()
    assert [(f.code, why) for f, why in seen.accepted] == [
        ("TW601", "the file is small"),
        ("TW402", "the handler passes everything on"),
    ]


def test_all_users_have_to_accept() -> None:
    """A finding about two workers is accepted only if both say so."""

    @accept("TW301", why="it cannot hang")
    async def run(ctx):
        await to.timeless.call(kit.charge, 1)

    assert codes(one(run)) == []
    assert codes(some(Worker("a", run), Worker("b", kit.names_it))) == ["TW301"]


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ([], ["TW107", "TW107"]),
        (["TW107"], []),
        (["TW107:shop/a"], ["TW107"]),
        (["TW107:shop/*"], []),
        (["TW301"], ["TW107", "TW107"]),
    ],
)
def test_the_caller_ignores_by_code_and_path(ignore: list[str], left: list[str]) -> None:
    """A code alone is ignored everywhere, with a path only there."""
    tree = some(Worker("a", kit.idle, ready="signal"), Worker("b", kit.idle, ready="signal"))

    assert codes(tree, ignore=ignore) == left


def test_a_code_that_does_not_exist_is_refused() -> None:
    """A misspelt code ignores nothing, so it is an error, with the nearest one."""
    with pytest.raises(OptionError, match=r"no finding 'TW31'\. Did you mean 'TW301'"):
        examine(one(kit.idle), ignore=["TW31"])
    with pytest.raises(OptionError, match="code is one such as"):
        accept("301", why="x")
    with pytest.raises(OptionError, match="say why"):
        accept("TW301", why=" ")


def test_a_huge_object_does_not_hold_it_up() -> None:
    """What a worker carries is not searched to its end, and circles are no trouble."""

    class Node:
        def __init__(self, other):
            self.other = other
            self.many = list(range(100_000))

        async def run(self, ctx):
            pass

    first = Node(None)
    first.other = Node(first)

    assert codes(one(first.run)) == []


def test_a_line_that_workers_share_is_one_finding() -> None:
    """Two workers with the same function are named in one finding about its line."""
    (finding,) = examine(some(Worker("a", kit.sleeps), Worker("b", kit.sleeps))).findings

    assert finding.paths == ("shop/a", "shop/b")


def test_what_cannot_be_looked_at_is_left_out() -> None:
    """A stand-in that raises whatever is asked of it hides nothing else."""
    assert codes(one(kit.leans_on_nothing)) == ["TW301"]


@given(trees(), st.floats(0, 100))
def test_any_tree_can_be_looked_at(tree: Supervisor, stop_timeout: float) -> None:
    """Whatever options a tree has, each rule ends, and its findings lead to specs of the tree."""
    seen = examine(tree, stop_timeout=stop_timeout)
    paths = {path for path, _ in tree.walk()}

    assert {path for finding in seen.findings for path in finding.paths} <= paths


def test_guards_in_lists_are_found() -> None:
    """A worker that holds several dependencies in a list is seen to use them."""
    clerk = kit.Clerk([Dependency("one"), Dependency("two", timeout=1)])
    seen = examine(one(clerk))

    assert set(seen.dependencies) == {"one", "two"}
    assert {f.about for f in seen.findings if f.path == "shop/work"} == {"dependency 'one'"}


def test_a_nested_tree_is_looked_at_to_its_leaves() -> None:
    """The path of a finding leads to its worker."""
    tree = some(Supervisor("a", [Supervisor("b", [Worker("c", kit.sleeps)])]))

    assert "shop/a/b/c" in [f.path for f in examine(tree).findings if f.code == "TW601"]
