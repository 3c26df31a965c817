"""The README's first program is a file that runs, and does what the README shows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
QUICKSTART = ROOT / "examples" / "quickstart.py"


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_first_program_is_the_file():
    """What the README shows is `examples/quickstart.py`, without its docstring."""
    source = QUICKSTART.read_text("utf-8")
    docstring = ast.parse(source).body[0]

    assert block("python").strip() == "\n".join(source.splitlines()[docstring.end_lineno :]).strip()


@pytest.mark.slow
def test_the_first_program_does_what_is_shown():
    """Its output and its log are the lines of the README, in order, but for tracebacks and exact times."""
    done = subprocess.run(
        [sys.executable, "-u", "-m", "examples.quickstart"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    shown = set(levelled(block("text")))

    assert [line for line in levelled(done.stdout) if line in shown] == levelled(block("text"))
    others = [line for line in levelled(done.stdout) if line not in shown]
    assert [line for line in others if line.startswith(("WARNING", "INFO"))] == []


def levelled(text: str) -> list[str]:
    """Lines with times and the numbers of equal replicas made alike."""
    alike = re.sub(r"in [\d.e-]+ s", "in T s", text)
    return re.sub(r"greeter/\d", "greeter/N", alike).splitlines()
