"""Doctor: is everything there that this installation needs?

Floor: above sockets. The rule: each check is a function that returns one line; it never raises, and a line that is not good says the
way out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from actors.records import Record, record
from supervision.cli import sockets
from supervision.cli.words import DONE, FAILED, put

__all__ = ["EXTRAS", "Check", "database", "distributions", "doctor", "examined"]

EXTRAS: Final[dict[str, tuple[str, str]]] = {
    "observer": ("the page, probes, metrics and the control socket", "h11 trio_websocket"),
    "otel": ("tracing and metrics by OpenTelemetry", "opentelemetry.sdk"),
    "postgres": ("jobs in PostgreSQL", "psycopg"),
    "services": ("constructors that get services", "svcs"),
    "testing": ("property-based tests of trees", "hypothesis pytest"),
    "cli": ("live screens of the examples", "rich"),
}
"""Extras of the distribution: what each is for, and the modules it brings."""
OLDEST_PYTHON: Final = (3, 11)
OLDEST_TRIO: Final = (0, 34)
OLDEST_SERVER: Final = 130000


@record
class Check(Record):
    """One line: `+` is good, `!` worth knowing, `-` wrong."""

    sign: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"[{self.sign}] {self.name}: {self.text}"


def doctor(args: argparse.Namespace) -> int:
    """Run every check and print it. Exit code 1 if one is bad."""
    checks = list(examined(dsn=args.dsn))
    if args.json:
        put(
            json.dumps([{"sign": c.sign, "name": c.name, "text": c.text} for c in checks], indent=2)
        )
    else:
        for check in checks:
            put(str(check))
    return FAILED if any(check.sign == "-" for check in checks) else DONE


def examined(*, dsn: str | None = None, environment: Mapping[str, str] = os.environ) -> Iterator[Check]:  # fmt: skip
    """Every check, in the order in which one leans on another."""
    yield _python()
    yield _trio()
    yield from distributions(metadata.packages_distributions())
    yield from _extras()
    yield _folder(environment)
    yield _telemetry(environment)
    if dsn:
        yield database(dsn)


def _good(name: str, text: str) -> Check:
    return Check(sign="+", name=name, text=text)


def _note(name: str, text: str) -> Check:
    return Check(sign="!", name=name, text=text)


def _bad(name: str, text: str) -> Check:
    return Check(sign="-", name=name, text=text)


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return _bad("python", f"{version} is too old: 3.11 or newer is needed")
    return _good("python", f"{platform.python_implementation()} {version}")


def _trio() -> Check:
    version = metadata.version("trio")
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if parts < OLDEST_TRIO:
        return _bad("trio", f"{version} is too old: pip install 'trio>=0.34'")
    return _good("trio", version)


def distributions(owners: Mapping[str, list[str]]) -> Iterator[Check]:
    """Who has installed the two packages: another distribution also brings a module named `supervision`."""
    for package in ("actors", "supervision"):
        others = sorted({name for name in owners.get(package, []) if name.lower() != "treewarden"})
        if others:
            names = " and ".join(others)
            yield _bad(
                f"package {package}",
                f"the distribution {names} installs a package of this name too, and its files lie among those of"
                f" treewarden: pip uninstall {' '.join(others)}, then pip install --force-reinstall treewarden;"
                " or give each an environment of its own",
            )
        elif package not in owners:
            yield _note(
                f"package {package}", "runs from its source, not from an installed distribution"
            )
        else:
            yield _good(f"package {package}", "belongs to treewarden alone")


def _extras() -> Iterator[Check]:
    for extra, (what, modules) in EXTRAS.items():
        missing = [name for name in modules.split() if not _there(name)]
        if missing:
            yield _note(
                f"extra {extra}",
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, so without {what}: pip install 'treewarden[{extra}]'",
            )
        else:
            yield _good(f"extra {extra}", what)


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _folder(environment: Mapping[str, str]) -> Check:
    where = sockets.folder(environment)
    try:
        found = where.lstat()
    except FileNotFoundError:
        return _good("sockets", f"{where} is made when a tree is served")
    except OSError as error:
        return _bad(
            "sockets", f"{where}: {error.strerror}; set XDG_RUNTIME_DIR or give --socket PATH"
        )
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return _bad(
            "sockets", f"{where} is not a folder of this user; remove it, or give --socket PATH"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        return _bad("sockets", f"{where} can be opened by others: chmod 700 {where}")
    running = len(sockets.live(where))
    trees = "1 tree runs" if running == 1 else f"{running or 'no'} trees run"
    return _good("sockets", f"{where}, {trees}")


def _telemetry(environment: Mapping[str, str]) -> Check:
    wanted = {key: value for key, value in environment.items() if key.startswith("OTEL_")}
    if not wanted:
        return _good("opentelemetry", "not asked for: no OTEL_ variable is set")
    if wanted.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return _note("opentelemetry", "OTEL_SDK_DISABLED=true switches it off")
    if not _there("opentelemetry.sdk"):
        return _bad(
            "opentelemetry",
            f"{', '.join(sorted(wanted))} is set, and there is no SDK: pip install 'treewarden[otel]'",
        )
    exporters = [
        n for n in ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER") if wanted.get(n) == "none"
    ]
    if len(exporters) == 2:
        return _note("opentelemetry", "both exporters are none: nothing leaves the process")
    target = wanted.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if target and not urlsplit(target).scheme:
        return _bad("opentelemetry", f"OTEL_EXPORTER_OTLP_ENDPOINT is a URL, not {target!r}")
    if not _there("opentelemetry.exporter.otlp"):
        return _note(
            "opentelemetry",
            "an SDK is there, and no OTLP exporter: pip install opentelemetry-exporter-otlp, or set a provider"
            " in the program",
        )
    return _good("opentelemetry", f"exports to {target or 'the default endpoint'}")


# -- databases -------------------------------------------------------------------------------------


def database(dsn: str) -> Check:
    """Can it be reached, and are its tables those of this version?"""
    scheme = urlsplit(dsn).scheme if "://" in dsn else ""
    if scheme in ("postgres", "postgresql"):
        return _postgres(dsn)
    if scheme in ("", "sqlite"):
        return _sqlite(Path(dsn.removeprefix("sqlite:///")))
    return _bad(
        "database", f"a database is a file of SQLite or a postgresql:// URL, not {scheme}://"
    )


def _sqlite(path: Path) -> Check:
    if not path.exists():
        parent = path.absolute().parent
        if not os.access(parent, os.W_OK):
            return _bad("database", f"{path} is not there, and {parent} cannot be written")
        return _note("database", f"{path} is not there; it is made when it is opened first")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            there = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs_schema'").fetchone()
            found = (
                db.execute("SELECT version FROM jobs_schema WHERE one = 1").fetchone()
                if there
                else None
            )
    except sqlite3.Error as error:
        return _bad("database", f"{path} cannot be read as SQLite: {error}")
    return _schema(str(path), "actors.jobs.sqlite.schema", found and int(found[0]))


def _schema(name: str, module: str, version: int | None) -> Check:
    """What the version of the tables means for this version of the library."""
    if not version:
        return _note(
            "database", f"{name} has no tables of jobs; they are made when it is opened first"
        )
    try:
        known = int(import_module(module).VERSION)
    except ImportError:
        return _note(
            "database", f"{name} has schema {version}, which this version has no engine for"
        )
    if version > known:
        return _bad(
            "database",
            f"{name} has schema {version}, and this version knows {known}: install a newer treewarden",
        )
    if version < known:
        return _note(
            "database", f"{name} has schema {version}; it is brought to {known} when it is opened"
        )
    return _good("database", f"{name} has schema {version}")


def _postgres(dsn: str) -> Check:
    shown = _without_password(dsn)
    if not _there("psycopg"):
        return _bad("database", f"{shown} needs psycopg: pip install 'treewarden[postgres]'")
    import psycopg

    try:
        with closing(psycopg.connect(dsn, connect_timeout=5)) as db:
            server = db.info.server_version
            homes = db.execute(_HOMES).fetchall()
            # The name of a schema comes from the server's own catalogue, quoted by it.
            query = "SELECT version FROM {}.jobs_schema WHERE one = 1"
            found = [
                (str(home[0]), db.execute(query.format(home[0]).encode()).fetchone())
                for home in homes
            ]
    except psycopg.Error as error:
        reason = " ".join(str(error).replace(dsn, shown).split())
        return _bad("database", f"{shown} cannot be reached: {reason}")
    release = f"PostgreSQL {server // 10000}"
    if server < OLDEST_SERVER:
        return _bad(
            "database", f"{shown} is {release}: {OLDEST_SERVER // 10000} or newer is needed"
        )
    if not found:
        return _schema(f"{shown}, {release},", "actors.jobs.postgres.schema", None)
    home, row = found[0]
    name = f"{shown}, {release}, schema {home},"
    return _schema(name, "actors.jobs.postgres.schema", None if row is None else int(row[0]))


_HOMES: Final = (
    "SELECT quote_ident(n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname = 'jobs_schema' AND c.relkind = 'r' ORDER BY 1"
)


def _without_password(dsn: str) -> str:
    parts = urlsplit(dsn)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
