"""Sphinx configuration. Neither the build nor the pages use the network."""

import inspect
import re
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

import unikat
from unikat.datasets import write_examples
from unikat.spec.kinds import KINDS
from unikat.spec.option import options_of, rare_options_of
from unikat.spec.policy import template, templates

sys.path.insert(0, str(Path(__file__).parent))
from executed_pages import execute, notebook_of, with_answers

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
python_maximum_signature_line_length = 88  # else one parameter a line
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


def escaped(text: str) -> str:
    """Write a text for a cell of a table."""
    return text.replace("|", r"\|")


def options_table(name: str) -> str:
    """Write the options of a kind of run as a table: those with a flag, then those of `set`."""
    asks = KINDS[name].specification
    flags = [(f"`{one.flag}`", one) for one in options_of(asks)]
    rare = [(f"`{one.flag}=`", one) for one in rare_options_of(asks)]
    rows = [
        f"| {flag} | `{escaped(one.accepted)}` | {one.shown_default} | {escaped(one.option.help)} |"
        for flag, one in (*flags, *rare)
    ]
    return "\n".join(["| option | Python | default | |", "|---|---|---|---|", *rows])


def list_options(app: Any, page: str, text: list[str]) -> None:
    """Put the options of a kind of run where a page asks for them."""
    text[0] = re.sub(r"<!-- options: (\w+) -->", lambda found: options_table(found[1]), text[0])
    text[0] = re.sub(r"<!-- names -->", lambda _: names_table(), text[0])
    text[0] = re.sub(r"<!-- policies -->", lambda _: policies_list(), text[0])


def names_table() -> str:
    """Write all public names of the library as a table, with their first sentence."""
    lines = ["| name | what it is | |", "|---|---|---|"]
    for name in sorted(set(unikat.__all__) - {"__version__"}, key=str.lower):
        one = getattr(unikat, name)
        kind = "function" if inspect.isfunction(one) else "class" if inspect.isclass(one) else ""
        first = (inspect.getdoc(one) or "").split("\n\n")[0].replace("\n", " ")
        first = re.sub(r":\w+:`~?\.?([^`<]+)`", r"`\1`", first).replace("``", "`")
        lines.append(f"| {{py:obj}}`unikat.{name}` | {kind} | {escaped(first)} |")
    return "\n".join(lines)


def policies_list() -> str:
    """Write the sources of all templates of policies, and their limits."""
    lines = []
    for name, title in templates().items():
        found = tomllib.loads(template(name))
        limits = [f"`{limit}`" for one in found.get("scenario", ()) for limit in one["target"]]
        lines += [
            f"**{title}** (`unikat policy {name}`): {', '.join(limits) or 'no limit of risk'}.",
            "",
        ]
        lines += [*(f"- {source}" for source in found["sources"]), ""]
    return "\n".join(lines)


def answer(app: Any, page: str, text: list[str]) -> None:
    """Execute a notebook, put its answers into the page, and lay the notebook beside it."""
    if not page.startswith("notebooks/") or page.endswith("/index") or app.builder.format != "html":
        return
    app.env.note_dependency(str(Path(app.srcdir, "executed_pages.py")), docname=page)
    notebook = notebook_of(text[0])
    execute(notebook)
    target = Path(app.outdir) / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    title, _, rest = with_answers(text[0], notebook).partition("\n")
    link = f'<p><a href="{target.name}" download>Download this notebook</a> (.ipynb)</p>'
    text[0] = f"{title}\n\n````{{raw}} html\n{link}\n````\n{rest}"


@cache
def example_files() -> tuple[str, ...]:
    """Return the names of the files that commands of the pages read."""
    with tempfile.TemporaryDirectory() as folder:
        write_examples(folder)
        return tuple(path.name for path in Path(folder).iterdir())


def name_example_files(app: Any, page: str, text: list[str]) -> None:
    """Say above the first command that reads an example's file how the file is made."""
    block = re.compile(r"(?:^<!-- [^\n]*-->\n)?^```(?:sh|python)\n(.*?)^```", re.M | re.S)
    for found in block.finditer(text[0]):
        if page.startswith("design/") or not any(name in found[1] for name in example_files()):
            continue
        say = (
            "```{tip}\nTo paste the commands, make their files first, in an empty folder:\n"
            '`python -c "from unikat.datasets import write_examples; write_examples()"`. '
            "All are simulated.\n```\n\n"
        )
        text[0] = text[0][: found.start()] + say + text[0][found.start() :]
        return


def setup(app: Any) -> None:
    """Register what this documentation adds to Sphinx."""
    app.connect("source-read", answer)
    app.connect("source-read", name_example_files)
    app.connect("source-read", follow)
    app.connect("source-read", list_options)
