"""Constructors that need something: refused at the door if nobody can give it."""

from __future__ import annotations

import sys

import attrs
import pytest
import svcs

from actors import Actor, Context
from supervision import SpecError, Supervisor, Worker, supervisor


class Settings:
    """A service."""


class Relay(Actor):
    """An actor that needs it."""

    def __init__(self, settings: Settings, limit: int = 3) -> None: ...


@attrs.define
class Generated(Actor):
    """An actor with a generated constructor."""

    settings: Settings


def factory(settings: Settings) -> Actor:
    return Relay(settings)


def tree(run) -> Supervisor:
    return Supervisor("s", [Supervisor("t", [Worker("relay", run)])])


@pytest.mark.parametrize("run", [Relay, Generated, factory], ids=["class", "attrs", "factory"])
async def test_without_services_a_needy_constructor_is_refused(run) -> None:
    """A tree served without services says at once which parameters nobody will give, deep in the tree too."""
    with pytest.raises(SpecError, match="needs settings: Settings") as caught:
        await supervisor.serve(tree(run), log=False)

    assert (caught.value.where, caught.value.option) == ("worker 'relay'", "run")
    assert "serve(services=registry)" in caught.value.text


async def test_without_services_a_needy_child_is_refused(autojump_clock) -> None:
    """A child that start_child cannot make is refused, and the tree goes on."""
    async with supervisor.running(Supervisor("s"), log=False) as pool:
        with pytest.raises(SpecError, match="settings: Settings"):
            await pool.start_child("s", Worker("relay", Relay))
        assert pool.workers() == []


def test_a_parameter_that_no_service_can_fill_is_refused_at_declaration() -> None:
    """A parameter without annotation, one that has no name to outside, or a context can never be injected."""

    class Bare(Actor):
        def __init__(self, settings) -> None: ...

    class Positional(Actor):
        def __init__(self, settings: Settings, /) -> None: ...

    class Contextual(Actor):
        def __init__(self, settings: Context) -> None: ...

    for run in (Bare, Positional, Contextual):
        with pytest.raises(SpecError, match="needs settings") as caught:
            Worker("relay", run)
        assert (caught.value.where, caught.value.option) == ("worker 'relay'", "run")
        assert f"lambda: {run.__qualname__}(...)" in caught.value.text


@pytest.mark.parametrize(
    "value", [{}, object(), svcs.Container(svcs.Registry())], ids=["dict", "object", "container"]
)
async def test_services_must_be_a_registry(value: object) -> None:
    """Anything but a registry is refused at the door."""
    with pytest.raises(SpecError, match=r"services is a svcs\.Registry"):
        await supervisor.serve(tree(Relay), services=value, log=False)


async def test_without_svcs_the_extra_is_named(monkeypatch) -> None:
    """If the package is not installed the error says how to get it."""
    monkeypatch.setitem(sys.modules, "svcs", None)

    with pytest.raises(SpecError, match=r"treewarden\[services\]"):
        await supervisor.serve(tree(Relay), services=object(), log=False)
