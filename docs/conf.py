"""Sphinx configuration. Neither the build nor the pages use the network."""

import re
from typing import Any

import unikat

project = "unikat"
author = "The unikat developers"
copyright = "The unikat developers"
version = release = unikat.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # design notes and the changelog have their own levels
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
napoleon_use_rtype = False

html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_theme = "pydata_sphinx_theme"
html_title = "unikat"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

MOVED = {
    "auto.md": "explanation/auto.md",
    "classics.md": "how-to/classic-measures.md",
    "codebooks.md": "how-to/write-a-codebook.md",
    "compare.md": "how-to/compare-models.md",
    "designs.md": "explanation/designs.md",
    "evaluate.md": "how-to/evaluate-models.md",
    "files.md": "reference/data.md",
    "getting-started.md": "tutorial/first-assessment.md",
    "log-linear.md": "explanation/log-linear.md",
    "zeros.md": "explanation/structural-zeros.md",
}
"""Pages that were moved into folders: links to their old names keep working."""


def follow(app: Any, page: str, text: list[str]) -> None:
    """Lead the links of pages outside the folders to where a page has moved."""
    if "/" not in page:
        names = "|".join(map(re.escape, MOVED))
        text[0] = re.sub(
            rf"\]\(({names})(#[^)]*)?\)", lambda m: f"]({MOVED[m[1]]}{m[2] or ''})", text[0]
        )


def setup(app: Any) -> None:
    """Register what this documentation adds to Sphinx."""
    app.connect("source-read", follow)
