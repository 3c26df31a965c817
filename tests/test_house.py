"""The walls of the house: who may import whom, how long a file may be, and where code may live.

The floors are data, lowest first. Files on one floor stand side by side and do not import each other.
A name that ends in ``/`` is a room: the files of that folder may import one another, in no circle.
``__init__`` is the package's own front door.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent

FLOORS: dict[str, list[list[str]]] = {
    "actors": [
        ["errors", "letters", "options", "records"],
        ["mailbox_spec"],
        ["events", "clock"],
        ["deadletters", "impairment"],
        ["office"],
        ["mailbox"],
        ["ref", "timers"],
        ["registry", "routing", "watching"],
        ["context"],
        ["actor"],
        ["resilience/"],
        ["jobs/"],
        ["__init__"],
    ],
    "supervision": [
        ["errors", "faults", "stacks"],
        ["kinds", "states", "restart"],
        ["specs"],
        ["events", "schema"],
        ["commons", "logs", "plan", "settings"],
        ["config", "member"],
        ["child", "sweep"],
        ["slot"],
        ["branch"],
        ["tree"],
        ["metrics", "report", "services", "tracing"],
        ["board", "health"],
        ["telemetry"],
        ["view"],
        ["pool"],
        ["signals", "supervisor"],
        ["checklist"],
        ["observer/"],
        ["testing/"],
        ["pytest_plugin"],
        ["__init__"],
        ["__main__"],
    ],
}
# A package may import those that stand before it, and no other of ours.
PACKAGES = list(FLOORS)
FOLDERS = [*PACKAGES, "tests", "examples", "docs"]
LONGEST_FILE = 500


class Arrow(NamedTuple):
    """One import: `source` (a module) imports `target` on `line`."""

    source: str
    target: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def sources(root: Path, folders: Iterable[str] = FOLDERS) -> list[Path]:
    """Return every Python file of the folders."""
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def module_name(root: Path, path: Path) -> str:
    """Return the dotted name; a package keeps its `__init__`, so that it is a file like others."""
    return ".".join(path.relative_to(root).with_suffix("").parts)


def imports(root: Path) -> list[Arrow]:
    """Return every import of one of our modules by another."""
    files = {module_name(root, path): path for path in sources(root, PACKAGES)}
    return [
        Arrow(source, target, line, typing_only)
        for source, path in files.items()
        for names, line, typing_only in _imported(ast.parse(path.read_text("utf-8")), source)
        for target in _targets(names, files)
        if target != source
    ]


def _imported(
    tree: ast.AST, source: str, *, typing_only: bool = False
) -> Iterator[tuple[list[str], int, bool]]:
    """Yield for each imported name: what it may stand for, the most specific first."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield [alias.name], node.lineno, typing_only
        elif isinstance(node, ast.ImportFrom):
            package = source.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            for alias in node.names:
                yield [f"{base}.{alias.name}", base], node.lineno, typing_only
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            body = ast.Module(node.body, [])
            yield from _imported(body, source, typing_only=True)
            rest = ast.Module(node.orelse, [])
            yield from _imported(rest, source, typing_only=typing_only)
        else:
            yield from _imported(node, source, typing_only=typing_only)


def _targets(names: list[str], files: dict[str, Path]) -> Iterator[str]:
    """Yield the one file that an import means, if it is one of ours (present or not)."""
    for name in names:
        for candidate in (name, f"{name}.__init__"):
            if candidate in files:
                yield candidate
                return
    if names[-1].partition(".")[0] in PACKAGES:
        # Not there (yet): the wall between the packages holds all the same.
        yield names[-1]


def floor(module: str) -> int | None:
    """Return the floor of a module, counted from the lowest of its package; None if unlisted."""
    package, _, rest = module.partition(".")
    first, inside, _ = rest.partition(".")
    wanted = f"{first}/" if inside else first
    return next((n for n, names in enumerate(FLOORS[package]) if wanted in names), None)


def same_room(one: str, other: str) -> bool:
    """Return whether both are files of one folder below the package."""
    return one.count(".") > 1 and one.split(".")[:2] == other.split(".")[:2]


def unlisted(root: Path) -> list[str]:
    """Return the modules that stand on no floor."""
    names = (module_name(root, path) for path in sources(root, PACKAGES))
    return [name for name in names if floor(name) is None]


def banned(root: Path) -> list[str]:
    """Return the imports of a package that stands later, even those for types only."""
    return [
        str(arrow)
        for arrow in imports(root)
        if PACKAGES.index(arrow.target.partition(".")[0])
        > PACKAGES.index(arrow.source.partition(".")[0])
    ]


def not_downward(root: Path) -> list[str]:
    """Return the imports at run time that stay on a floor or climb, within one package."""
    return [
        str(arrow)
        for arrow in imports(root)
        if arrow.source.partition(".")[0] == arrow.target.partition(".")[0]
        and not arrow.typing_only
        and not same_room(arrow.source, arrow.target)
        and None not in (here := floor(arrow.source), there := floor(arrow.target))
        and there >= here
    ]


def circle(root: Path) -> list[str]:
    """Return the modules of one circle of imports at run time, or nothing."""
    graph: dict[str, set[str]] = {}
    for arrow in imports(root):
        if not arrow.typing_only:
            graph.setdefault(arrow.source, set()).add(arrow.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def strangers(root: Path) -> list[str]:
    """Return the visible folders with Python files that are none of ours, environments aside."""
    return [
        folder.name
        for folder in sorted(root.iterdir())
        if folder.is_dir()
        and not folder.name.startswith(".")
        and folder.name not in {*FOLDERS, "build", "dist"}
        and not (folder / "pyvenv.cfg").exists()
        and any(folder.rglob("*.py"))
    ]


def test_actors_never_import_supervision() -> None:
    """The arrow between the packages points one way, for types too."""
    assert banned(ROOT) == []


def test_every_file_stands_on_a_floor() -> None:
    """A new file says in this table whom it may import."""
    assert unlisted(ROOT) == []


def test_no_import_runs_up() -> None:
    """A file imports only from floors below it."""
    assert not_downward(ROOT) == []


def test_no_import_runs_in_a_circle() -> None:
    """No module needs, by any way round, itself."""
    assert circle(ROOT) == []


def test_no_file_is_too_long() -> None:
    """Every file can be read in one sitting."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in sources(ROOT)}

    assert {str(path): n for path, n in lengths.items() if n > LONGEST_FILE} == {}


def test_every_module_says_what_it_is() -> None:
    """Every file opens with a docstring."""
    silent = [p for p in sources(ROOT) if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]

    assert silent == []


def test_every_test_states_a_promise() -> None:
    """Every test opens with a docstring of one line."""
    tests = [
        (f"{path.name}:{node.name}", ast.get_docstring(node) or "")
        for path in sources(ROOT, ["tests"])
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and path.name.startswith("test_")
    ]

    assert [name for name, promise in tests if len(promise.splitlines()) != 1] == []


def test_code_lives_in_known_folders_only() -> None:
    """No folder at the root but ours holds Python files."""
    assert strangers(ROOT) == []


def test_the_wheel_is_the_two_packages() -> None:
    """The distribution installs `actors` and `supervision`, nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES


FAULTS = {
    "unlisted": (unlisted, {"actors/gossip.py": ""}),
    "unlisted room": (unlisted, {"supervision/cellar/wine.py": ""}),
    "other package": (banned, {"actors/ref.py": "import supervision"}),
    "other package, lazily": (banned, {"actors/ref.py": "def f():\n import supervision.pool"}),
    "other package, for types": (
        banned,
        {"actors/ref.py": "if TYPE_CHECKING:\n from supervision.pool import Pool"},
    ),
    "up": (not_downward, {"actors/ref.py": "from actors.actor import A", "actors/actor.py": ""}),
    "up, relative": (
        not_downward,
        {"actors/ref.py": "from .actor import A", "actors/actor.py": ""},
    ),
    "up, by package": (
        not_downward,
        {"actors/ref.py": "from actors import actor", "actors/actor.py": ""},
    ),
    "front door": (
        not_downward,
        {"actors/ref.py": "from actors import Actor", "actors/__init__.py": ""},
    ),
    "up, into a room": (
        not_downward,
        {"actors/ref.py": "import actors.jobs.job", "actors/jobs/job.py": ""},
    ),
    "circle in a room": (
        circle,
        {
            "actors/jobs/job.py": "from actors.jobs import engine",
            "actors/jobs/engine.py": "from .job import Job",
        },
    ),
    "stranger": (strangers, {"utils/helpers.py": ""}),
}


@pytest.mark.parametrize(("check", "files"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(check, files: dict[str, str], tmp_path: Path) -> None:
    """Each wall is really there: what would break it is reported."""
    build(tmp_path, files)

    assert check(tmp_path) != []


def test_a_sound_house_passes(tmp_path: Path) -> None:
    """Looking down, across to the lower package, up for types only, or round a room is allowed."""
    build(
        tmp_path,
        {
            "actors/errors.py": "",
            "actors/ref.py": "import trio\nif TYPE_CHECKING:\n from actors.actor import A",
            "actors/actor.py": "from actors import errors\nfrom .ref import Ref",
            "actors/jobs/job.py": "from ..actor import A",
            "actors/jobs/engine.py": "from .job import Job",
            "actors/jobs/__init__.py": "from .engine import Engine",
            "actors/__init__.py": "from actors.jobs import Job",
            "supervision/plan.py": "import actors\nfrom actors.jobs import job",
            "supervision/__main__.py": "from supervision import plan",
        },
    )

    assert [f(tmp_path) for f in (unlisted, banned, not_downward, circle, strangers)] == [[]] * 5


def build(root: Path, files: dict[str, str]) -> None:
    """Write a small house."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
