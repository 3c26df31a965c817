"""The code in the docs is code: every Python block compiles, and every block that says so runs.

A fenced block is marked by an HTML comment on the line before it, which no reader sees:

* `<!-- run -->`: executed in virtual time. The marked blocks of one page share their names, and may
  use `await` at the top, as in a Trio program's main function.
* `<!-- output of examples/x.py -->`: the text block below is what that file prints; `...` stands for any text.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import trio
import trio.testing

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<language>python|text)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block of a page; `line` is that of its first line of text."""

    page: Path
    line: int
    mark: str
    language: str
    text: str

    def compiled(self) -> object:
        # Empty lines before it make tracebacks point at the page.
        source = "\n" * (self.line - 1) + self.text
        return compile(source, str(self.page), "exec", flags=TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced Python and text blocks of a page."""
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["mark"] or "", found["language"], found["text"])


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


ALL = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in ALL if block.language == "python"]
RUNNABLE = [page for page in PAGES if any(b.page == page and b.mark == "run" for b in PYTHON)]
OUTPUTS = [block for block in ALL if block.mark.startswith("output of ")]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_python_blocks_compile(page: Path) -> None:
    """Every Python block in the docs is valid Python."""
    for block in blocks(page):
        if block.language == "python":
            block.compiled()


@pytest.mark.parametrize("page", RUNNABLE, ids=label)
def test_marked_blocks_run(page: Path) -> None:
    """The marked blocks of a page run, one after the other, in one Trio program."""

    async def program() -> None:
        names: dict[str, object] = {"__name__": "page"}
        for block in blocks(page):
            if block.mark == "run":
                result = eval(block.compiled(), names)  # type: ignore[arg-type]
                if inspect.isawaitable(result):
                    await result

    trio.run(program, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("block", OUTPUTS, ids=lambda block: block.mark.rpartition("/")[2])
def test_shown_output_is_what_the_example_prints(block: Block, capsys) -> None:
    """What a page shows as the output of an example is what that example prints."""
    module = example(block.mark.removeprefix("output of "))
    try:
        trio.run(module.main, clock=trio.testing.MockClock(autojump_threshold=0))
    except Exception as error:
        print(f"{type(error).__qualname__}: {error}")
    printed = capsys.readouterr().out

    same = doctest.OutputChecker().check_output(block.text, printed, doctest.ELLIPSIS)
    assert same, f"the page shows:\n{block.text}\nbut it prints:\n{printed}"


def example(path: str) -> ModuleType:
    """Import an example by its path in the repository."""
    return import_module(path.removesuffix(".py").replace("/", "."))


def test_marks_are_spelled_right() -> None:
    """A mark that no test understands is reported, not skipped."""
    marks = {block.mark for block in ALL if block.mark}

    assert {m for m in marks if m != "run" and not m.startswith("output of examples/")} == set()


def test_there_is_something_to_run() -> None:
    """The search finds blocks: a changed way of writing them cannot switch the tests off."""
    assert len(RUNNABLE) >= 8
    assert len(OUTPUTS) >= 4


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_included_files_exist(page: Path) -> None:
    """A page includes only files that are there."""
    included = INCLUDED.findall(page.read_text("utf-8"))

    assert [name for name in included if not (page.parent / name).is_file()] == []
