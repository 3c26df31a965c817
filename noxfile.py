"""The project's gates, one session each.

``nox`` alone runs all that must be green before a change lands, cheapest first. Every session
installs into its own virtual environment, takes its dependencies from ``pyproject.toml`` and its
versions from ``constraints.txt``, and passes on what follows ``--``.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import nox
import nox.project

ROOT = Path(__file__).parent
CONSTRAINTS = ROOT / "constraints.txt"
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PYTHONS = nox.project.python_versions(PYPROJECT)
PACKAGES = ("actors", "supervision")
CODE = (*PACKAGES, "tests", "examples", "docs", "noxfile.py")
# An example shows its point in seconds; one that takes longer than this hangs.
EXAMPLE_SECONDS = 120

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.stop_on_first_error = True
nox.options.sessions = ["lint", "typing", "docs", "wheel", "examples", "tests"]


def prepare(session: nox.Session, *groups: str, extras: str = "") -> None:
    """Install the project in place, with dependency groups and extras, at the pinned versions."""
    compile_bytecode(session)
    wanted = nox.project.dependency_groups(PYPROJECT, *groups) if groups else ()
    session.install("-c", str(CONSTRAINTS), "-e", f".{extras}", *wanted)


def compile_bytecode(session: nox.Session) -> None:
    """Let the session write bytecode, whatever the machine's default is.

    Without it every process compiles all of its imports again: pytest, the import budget and the
    benchmarks would measure the compiler.
    """
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    session.env["UV_COMPILE_BYTECODE"] = "1"


def present(*paths: str) -> list[str]:
    return [path for path in paths if (ROOT / path).exists()]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, likely bugs, format, and what only flake8-async knows about Trio code."""
    compile_bytecode(session)
    session.install("-c", str(CONSTRAINTS), *nox.project.dependency_groups(PYPROJECT, "lint"))
    code = present(*CODE)
    session.run("ruff", "check", *code)
    session.run("ruff", "format", "--check", *code)
    session.run("flake8", *present(*PACKAGES, "examples"))


@nox.session
def typing(session: nox.Session) -> None:
    """Both type checkers, strict, on both packages and on the examples of their public use."""
    prepare(session, "test", "typing")
    # The pinned checker is the one to use; do not ask the network for a newer one.
    session.env["PYRIGHT_PYTHON_IGNORE_WARNINGS"] = "1"
    code = [*PACKAGES, *present("tests/typing/api.py")]
    session.run("mypy", *code)
    session.run("pyright", *code)


@nox.session
def tests(session: nox.Session) -> None:
    """The test suite with branch coverage. Paths and options of pytest may follow ``--``."""
    prepare(session, "test")
    session.run("pytest", "--cov", "--cov-report=term", *session.posargs)


@nox.session(default=False)
def nightly(session: nox.Session) -> None:
    """Twenty thousand examples of every state machine, then every planted bug with ten seeds: hours."""
    prepare(session, "test")
    session.env["HYPOTHESIS_PROFILE"] = "nightly"
    # A machine that is looked at for an hour is no hang. Hypothesis calls the test of each of them `runTest`.
    session.run("pytest", "-k", "runTest", "-o", "faulthandler_timeout=21600", *session.posargs)
    session.run("python", "-m", "tests.planted")


@nox.session(python=PYTHONS, default=False)
def matrix(session: nox.Session) -> None:
    """The test suite on every Python that the project says it runs on."""
    prepare(session, "test")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation; a warning or a reference that leads nowhere is an error."""
    prepare(session, "docs", extras="[cli,otel,services,testing]")
    session.run(
        "sphinx-build", "-W", "-n", "--keep-going", "-q", "-b", "html",
        *session.posargs, "docs", "docs/_build/html",
    )  # fmt: skip


@nox.session
def demo(session: nox.Session) -> None:
    """The worked example, as someone runs it who has just installed the package."""
    prepare(session, "examples", extras="[cli,observer,postgres]")
    # Ctrl-C reaches the example itself: give it the time to stop in order and to print its proof.
    session.run(
        "python", "-m", "examples.payments", *session.posargs,
        interrupt_timeout=30, terminate_timeout=10,
    )  # fmt: skip


@nox.session
def examples(session: nox.Session) -> None:
    """Every example, run to its end in its short form."""
    prepare(session, "test", extras="[cli,observer,otel,services]")
    names = sorted(
        {path.parent.name for path in ROOT.glob("examples/*/__main__.py")}
        | {path.stem for path in ROOT.glob("examples/[!_]*.py")}
    )
    if not names:
        session.skip("no example yet")
    python = str(Path(session.bin) / "python")
    env = {**os.environ, **{key: value or "" for key, value in session.env.items()}}
    for name in names:
        command = [python, "-m", f"examples.{name}", *(session.posargs or ["--fast"])]
        session.log(" ".join(["python", *command[1:]]))
        try:
            subprocess.run(command, check=True, env=env, cwd=ROOT, timeout=EXAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            session.error(f"example {name} still ran after {EXAMPLE_SECONDS} s")
        except subprocess.CalledProcessError as error:
            session.error(f"example {name} ended with exit code {error.returncode}")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """The benchmarks, compiled; ``-- --quick`` only shows that they still run."""
    prepare(session, "test")
    session.run("python", "-m", "compileall", "-q", *present(*PACKAGES, "tests"))
    session.run("python", "-m", "tests.bench", *session.posargs)


SMOKE = """
import trio, actors, supervision
from supervision import Supervisor, Worker, supervisor

for package in (actors, supervision):
    assert "site-packages" in package.__file__, package.__file__

async def hello(ctx):
    print("hello from", ctx.path)

async def main():
    with trio.fail_after(30):
        await supervisor.serve(Supervisor("smoke", [Worker("hello", hello)]))

trio.run(main)
"""


@nox.session
def wheel(session: nox.Session) -> None:
    """The wheel holds what it should and works alone, away from the source."""
    compile_bytecode(session)
    session.install("-c", str(CONSTRAINTS), *nox.project.dependency_groups(PYPROJECT, "build"))
    with tempfile.TemporaryDirectory(prefix="treewarden-wheel-") as folder:
        away = Path(folder)
        session.run("python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(away))
        (built,) = away.glob("*.whl")
        check_contents(session, built)

        session.run("python", "-m", "venv", str(away / "venv"))
        python = str(away / "venv" / "bin" / "python")
        script = away / "smoke.py"
        script.write_text(SMOKE)
        with session.chdir(away):
            # Only the wheel may answer for the two packages.
            session.env["PYTHONPATH"] = ""
            run = {"external": True}
            session.run(
                python, "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS), str(built), **run
            )
            session.run(python, str(script), **run)
            # Help must not need the `cli` extra, which is not installed here.
            session.run(str(away / "venv" / "bin" / "treewarden"), "--help", **run, silent=True)


def check_contents(session: nox.Session, built: Path) -> None:
    """Fail unless the wheel is exactly the two packages, both typed, and the licences."""
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    info = f"{PYPROJECT['project']['name']}-{PYPROJECT['project']['version']}.dist-info"
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected |= {f"{package}/py.typed" for package in PACKAGES}
    expected |= {f"{info}/licenses/{name}" for name in PYPROJECT["project"]["license-files"]}
    expected |= {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    if names != expected:
        session.error(
            f"the wheel lacks {sorted(expected - names)} and should not have {sorted(names - expected)}"
        )
