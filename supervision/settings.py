"""Settings: what a TOML text, a mapping and the environment say, and where they say it.

Floor: above schema. The rule: nothing is judged by the tree here; every setting keeps its place, so that whoever
finds fault with it can point there. The line of a key is not in what `tomllib` returns: `lines` parses the text again,
one statement at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path as FilePath
from typing import Any, Final, TypeGuard

import attrs

from actors.options import nearest
from supervision.errors import ConfigError
from supervision.schema import GROUPS, PREFIX, fields

__all__ = [
    "Document",
    "Setting",
    "from_document",
    "from_environment",
    "lines",
    "load",
    "read",
    "slug",
]

_ROOT: Final = "worker"
_MISPLACED: Final = (*GROUPS, "supervisor", "treewarden")
_HALF_PREFIXED: Final = tuple(f"TREEWARDEN_{group.upper()}__" for group in GROUPS)
"""Tables at the top that can only be meant for us."""


@attrs.frozen(kw_only=True)
class Setting:
    """One value that was given for one option of one worker or supervisor."""

    group: str
    """`workers` or `supervisors`."""
    name: str
    """As written: a bare name, a path, or in a variable the `slug` of either."""
    path: tuple[str, ...]
    """The option, such as `("restart", "max_restarts")`; empty for a table that says nothing."""
    value: object
    place: str
    """File and line, or the variable."""
    key: str
    """The whole key as people write it."""
    is_text: bool = False
    """True for a variable, whose value is still to be parsed."""


@attrs.frozen(kw_only=True)
class Document:
    """A configuration that was read: its data, and the text for the lines."""

    data: Mapping[str, Any]
    name: str
    """What its problems are attributed to."""
    lines: Mapping[tuple[str, ...], int] = attrs.field(repr=False)

    def place(self, keys: tuple[str, ...]) -> str:
        """File and line of a key; of the nearest one above it if that is all that is known."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return f"{self.name}:{self.lines[keys[:length]]}"
        return self.name


def read(text: str, name: str) -> Document:
    """Parse a TOML text.

    Raises:
        ConfigError: it is not TOML; the problem names the line.
    """
    import tomllib  # costs more to import than the rest of this file

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else len(text.rstrip().split("\n"))
        what = re.sub(r" \(at (line \d+, )?.*\)$", "", str(error))
        raise ConfigError([f"{name}:{line}: this is not TOML: {what}"]) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits, a thousand brackets
        raise ConfigError([f"{name}: this is too much for a configuration: {error}"]) from error
    return Document(data=data, name=name, lines=lines(text))


def load(path: str | FilePath) -> Document:
    """Read a TOML file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    path = FilePath(path)
    try:
        text = path.read_text("utf-8-sig")  # some editors mark what they write
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError([f"{path}: it cannot be read: {why}"]) from error
    return read(text, str(path))


def lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, on which each key and table of a valid TOML text is first written.

    A statement is a line, and those after it until all that it opens is closed: values delimit themselves in TOML.
    """
    import tomllib

    opened = _Opened()

    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            first = number
        statement += line + "\n"
        if opened.after(line):
            continue
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:  # pragma: no cover - what is closed is a statement
            continue
        is_table = statement.lstrip().startswith("[")
        statement = ""
        for keys in _keys(parsed):
            if is_table:
                table = keys
            found.setdefault(keys if is_table else (*table, *keys), first)
    return found


_SIGNS: Final = re.compile(r'''"""|\'\'\'|"(?:\\.|[^"\\])*"|'[^']*'|\#.*|[\[\]{}]''')
"""What opens, closes, or hides what would."""
_ENDS: Final = {
    '"""': re.compile(r'(?:\\.|[^\\])*?"{3,5}'),
    "'''": re.compile(r".*?'{3,5}"),
}


class _Opened:
    """What the lines so far have opened and not closed. To parse them again after each would take hours for a long list."""

    def __init__(self) -> None:
        self._depth = 0
        self._text: str | None = None  # the quotes of a text over several lines

    def after(self, line: str) -> bool:
        """True if the statement goes on after `line`."""
        at = 0
        while True:
            pattern = _SIGNS.search if self._text is None else _ENDS[self._text].match
            found = pattern(line, at)
            if found is None:
                return self._text is not None or self._depth > 0
            at, sign = found.end(), found[0]
            if self._text is not None:
                self._text = None
            elif sign in _ENDS:
                self._text = sign
            elif sign in ("[", "{"):
                self._depth += 1
            elif sign in ("]", "}"):
                self._depth -= 1


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _keys(value: Any) -> Iterator[tuple[str, ...]]:
    """The paths of all keys in what one statement says, the deepest of a chain last."""
    if _is_list(value):
        value = value[0] if value else None
    if _is_mapping(value):
        for key, inner in value.items():
            yield (key,)
            for below in _keys(inner):
                yield (key, *below)


def from_document(document: Document, problems: list[str]) -> list[Setting]:
    """Every setting under `worker`; what has no meaning there goes to `problems`. Other tables are the application's own."""
    for key in document.data:
        if key in _MISPLACED or (key != _ROOT and SequenceMatcher(None, key, _ROOT).ratio() > 0.8):
            wanted = f"worker.{key}" if key in GROUPS else _ROOT
            problems.append(
                f"{document.place((key,))}: {key} has no meaning. Did you mean {wanted!r}?"
            )
    settings: list[Setting] = []
    for group, names in _tables(document, (_ROOT,), GROUPS, problems):
        for name in names:
            keys = (_ROOT, group, name)
            if _is_table(document, keys, names[name], problems):
                settings.extend(_settings(document, group, keys, names[name]))
                if not names[name]:
                    settings.append(_setting_of(document, group, keys, None))
    return settings


def _tables(
    document: Document, keys: tuple[str, ...], known: Iterable[str], problems: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    root = document.data.get(_ROOT, {})
    if not _is_table(document, keys, root, problems):
        return
    for group, names in root.items():
        below = (*keys, group)
        if group not in known:
            hint = nearest(group, known) or f" What may be here: {', '.join(known)}."
            problems.append(f"{document.place(below)}: {dotted(below)} is not known.{hint}")
        elif _is_table(document, below, names, problems):
            yield group, names


def _is_table(
    document: Document, keys: tuple[str, ...], value: object, problems: list[str]
) -> bool:
    if _is_mapping(value):
        return True
    problems.append(f"{document.place(keys)}: {dotted(keys)} must be a table, not {value!r}")
    return False


def _settings(
    document: Document, group: str, keys: tuple[str, ...], table: Mapping[str, Any]
) -> Iterator[Setting]:
    sections = {path[:-1] for path in fields(group)}
    path = keys[3:]
    for key, value in table.items():
        below = (*keys, key)
        if (*path, key) in sections and _is_mapping(value):
            yield from _settings(document, group, below, value)
        else:
            yield _setting_of(document, group, below, value)


def _setting_of(document: Document, group: str, keys: tuple[str, ...], value: object) -> Setting:
    return Setting(
        group=group,
        name=keys[2],
        path=keys[3:],
        value=value,
        place=document.place(keys),
        key=dotted(keys),
    )


def dotted(keys: Iterable[str]) -> str:
    """A key as TOML writes it."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"' for key in keys)


def slug(name: str) -> str:
    """How a name or a path is written in a variable: capitals, `__` for `/`, `_` for anything but letters and digits."""
    return "__".join(re.sub(r"[^A-Z0-9]", "_", part.upper()) for part in name.split("/"))


def from_environment(environ: Mapping[str, str], problems: list[str]) -> list[Setting]:
    """Every setting in the environment.

    Ours are the variables that begin with `TREEWARDEN_WORKER_` and have a double underscore, or go on with the name of a
    group: container platforms make others with that beginning by themselves. One that leaves out the `WORKER_` is a mistake.
    """
    settings: list[Setting] = []
    for variable in sorted(environ):
        if variable.startswith(_HALF_PREFIXED):
            wanted = PREFIX + variable.removeprefix("TREEWARDEN_")
            problems.append(f"variable {variable}: it has no meaning. Did you mean {wanted!r}?")
        if not variable.startswith(PREFIX):
            continue
        first, _, rest = variable.removeprefix(PREFIX).partition("__")
        group = first.lower()
        if group in GROUPS and rest:
            found = _setting(variable, group, rest, environ[variable], problems)
            settings.extend(found)
        elif rest or first.startswith(tuple(name.upper() for name in GROUPS)):
            known = [f"{PREFIX}{name.upper()}__NAME__OPTION" for name in GROUPS]
            problems.append(
                f"variable {variable}: it is not known; such a variable is {' or '.join(known)}"
            )
    return settings


def _setting(
    variable: str, group: str, rest: str, text: str, problems: list[str]
) -> Iterator[Setting]:
    by_suffix = {option.suffix: path for path, option in fields(group).items()}
    # The longest end that is an option: a name may have a double underscore in it, an option has none.
    fits = [suffix for suffix in by_suffix if rest.endswith(f"__{suffix}")]
    if not fits:
        _, _, written = rest.partition("__")
        hint = nearest(written, by_suffix) or f" Options are: {', '.join(by_suffix)}."
        problems.append(
            f"variable {variable}: {written or 'nothing after the name'!r} is not an option.{hint}"
        )
        return
    suffix = max(fits, key=len)
    name = rest.removesuffix(f"__{suffix}")
    yield Setting(
        group=group,
        name=name,
        path=by_suffix[suffix],
        value=text,
        place=f"variable {variable}",
        key=dotted(("worker", group, name, *by_suffix[suffix])),
        is_text=True,
    )
