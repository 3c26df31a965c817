"""The command line's and the checklist's part of the reference, made from their own tables; and how a table is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from supervision.checklist import RULES
from supervision.checklist.rules import AT_THE_DOOR
from supervision.cli.parser import commands
from supervision.cli.screen import KEYS
from supervision.cli.words import EXIT_CODES

# What every command takes, or every one that asks a running tree, is told once.
EVERYWHERE = ("--verbose",)
REACH = ("--socket", "--url", "--token", "--timeout", "--json")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {' | '.join(head)} |"]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def first_line(obj: object) -> str:
    return (inspect.getdoc(obj) or "").partition("\n")[0].replace("`", "`")


def serve_flags() -> str:
    """The options of `treewarden serve`, as its own parser has them."""
    return _flags(commands()["serve"], EVERYWHERE)


def reach_flags() -> str:
    """The options of every command that asks a running tree."""
    status = commands()["status"]
    return _flags(status, [flag for flag in status.flags() if flag not in REACH])


def _flags(parser: Any, but: Iterable[str]) -> str:
    rows = []
    for action in parser._actions:
        flag = action.option_strings[-1] if action.option_strings else ""
        if flag and flag not in but and action.dest != "help":
            text, _, variable = (action.help or "").rstrip("]").partition(" [")
            flag = " ".join(filter(None, [action.option_strings[-1], action.metavar]))
            rows.append([f"`{flag}`", f"`{variable}`" if variable else "", text])
    return table(["option", "or the variable", "meaning"], rows)


def command_line() -> str:
    """Every command: how it is written, what it does, its options."""
    out = []
    for name, parser in commands().items():
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        positional = [
            a for a in parser._actions if not a.option_strings and a.help and not a.choices
        ]
        words = " ".join(_word(a) for a in parser._actions if not a.option_strings)
        assert usage.startswith("treewarden")
        out += [f"## `{name}`", "", f"```console\n$ treewarden {name} {words}".rstrip(), "```", ""]
        out += [" ".join(str(parser.description).split()), ""]
        out += [f"* `{a.metavar}`: {a.help}" for a in positional]
        reaches = "--url" in parser.flags()
        if (
            set(parser.flags())
            - {*EVERYWHERE, "-v", "-h", "--help"}
            - set(REACH if reaches else ())
        ):
            out += ["", _flags(parser, (*EVERYWHERE, *(REACH if reaches else ()))), ""]
    return "\n".join(out)


def _word(action: Any) -> str:
    word = "|".join(action.choices) if action.choices else str(action.metavar)
    many = {"+": f"{word}...", "*": f"[{word}...]", "?": f"[{word}]"}
    return many.get(action.nargs, f"[{word}]" if action.choices else word)


def exit_codes() -> str:
    """What the exit codes of the command line mean."""
    return table(["code", "meaning"], [[str(code), text] for code, text in EXIT_CODES.items()])


def top_keys() -> str:
    """The keys of `top`."""
    return table(["key", "what it does"], [[f"`{keys}`", text] for keys, text in KEYS])


def checklist() -> str:
    """Every rule of the checklist, and why it is one."""
    rows = [
        [f"`{rule.code}`", str(rule.severity), rule.title, first_line(rule.check)] for rule in RULES
    ]
    return table(["code", "severity", "what it finds", "why"], rows)


def at_the_door() -> str:
    """What needs no checklist."""
    return table(["what", "refused by"], AT_THE_DOOR)


GENERATED = {
    "serve-flags": serve_flags,
    "reach-flags": reach_flags,
    "command-line": command_line,
    "exit-codes": exit_codes,
    "top-keys": top_keys,
    "checklist": checklist,
    "at-the-door": at_the_door,
}
