"""How the documentation is built: `nox -s docs`."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

# `tables.py`, beside this file, makes parts of the reference from the code.
sys.path.insert(0, str(Path(__file__).parent))

project = "treewarden"
author = "The treewarden authors"
copyright = "2026, The treewarden authors"
release = metadata.version("treewarden")
version = release.rpartition(".")[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "tables",
]

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = True

# No inventory of another project is fetched: the build needs no network and cannot break by it.
# So a reference is checked where it points into this house, and let through where it leaves it.
# What `ctx.busy()` returns is for a `with` statement only, what the parts of a tree share is nobody else's, and what `enter` hands
# out is to be given back: none has a public name.
nitpick_ignore = [
    ("py:class", "actors.context.Busy"),
    ("py:class", "actors.office.Office"),
    ("py:class", "actors.resilience.bulkhead._Timed"),
]
# Nor have the variables that stand for any type.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!(actors|supervision)\b).*"),
    (r"py:.*", r"(actors|supervision)\.(checklist|jobs|resilience|testing)\.[\w.]+\.[FKPT]"),
]

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "smartquotes"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "treewarden"
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
