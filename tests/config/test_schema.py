"""One schema: what can be configured is read from the fields of the specs."""

from __future__ import annotations

import attrs
import pytest

from supervision import MailboxSpec, RestartPolicy, Supervisor, Worker
from supervision.config import configure, options
from supervision.schema import changed


async def idle(ctx):
    """Return at once."""


def test_every_documented_option_is_there_and_no_other() -> None:
    """The options are exactly the documented fields, but for those that only code can express."""
    only_code = {"on"}
    inner = {"restart": RestartPolicy, "mailbox": MailboxSpec}
    wanted = {
        (group, *([] if home is outer else [section]), field.name)
        for group, outer in (("workers", Worker), ("supervisors", Supervisor))
        for section, home in ({"": outer} | inner).items()
        if home is outer or section in attrs.fields_dict(outer)
        for field in attrs.fields(home)
        if "doc" in field.metadata and field.name not in inner and field.name not in only_code
    }

    assert {(option.group, *option.path) for option in options()} == wanted


def test_every_option_says_what_it_does() -> None:
    """Each has a text, a default and a way to write it in TOML and in the environment."""
    for option in options():
        assert option.doc
        assert option.key.startswith(f"worker.{option.group}.<name>.")
        assert option.variable.startswith(f"TREEWARDEN_WORKER_{option.group.upper()}__<NAME>__")
        assert option.values


@pytest.mark.parametrize("option", options(), ids=lambda option: f"{option.group}.{option.name}")
def test_the_default_may_be_configured(option) -> None:
    """Writing down a default, in TOML or in a variable, changes nothing."""
    default = option.default
    text = "none" if default is None else str(default)
    tree = Supervisor("shop", [Worker("a", idle)])
    name = {"workers": "a", "supervisors": "shop"}[option.group]
    value: object = "none" if default is None else default
    for part in reversed(("worker", option.group, name, *option.path)):
        value = {part: value}
    variable = option.variable.replace("<NAME>", name.upper())

    assert configure(tree, mapping=value, environ={}) == tree  # type: ignore[arg-type]
    assert configure(tree, environ={variable: text}) == tree


def test_what_differs_from_the_default_can_be_listed() -> None:
    """A spec tells which of its options were set, by the names that configuration uses."""
    spec = Worker("a", idle, replicas=3, restart=RestartPolicy(max_restarts=9), shutdown=15)

    assert changed(spec) == {"replicas": 3, "restart.max_restarts": 9}
    assert changed(Supervisor("s", strategy="one_for_all")) == {"strategy": "one_for_all"}
